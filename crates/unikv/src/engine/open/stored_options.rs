//! The options that a database keeps, and what becomes of them when it is opened.
//!
//! They stand in the manifest's snapshot of each opening (`docs/format.md`, "Options"), as fields
//! that a reader must know. What the caller sets holds and is stored; what the caller leaves open
//! is as it is stored, or else the default, which is not stored; what the caller unsets is
//! forgotten. All of them may change from one opening to the next, as files say themselves how they
//! were written; only the memory budget may not fall below what the indexes at hand need.
//!
//! No locks.

use crate::codec::Compression;
use crate::error::{Error, Result};
use crate::memtable::Lifetime;
use crate::options::{Clustering, DEFAULT_BUDGET, EffectiveOptions, Options, StoredOptions};
use crate::version::Version;
use crate::version::manifest::RecoveredManifest;
use crate::version::tagged::{FieldWriter, Fields, Place};
use std::collections::HashSet;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

/// The tags. The numbers are in the files and never change.
mod tag {
    pub(crate) const MEMORY_BUDGET: u16 = 1;
    pub(crate) const MEMTABLE_BYTES: u16 = 2;
    pub(crate) const UNSORTED_BYTES: u16 = 3;
    pub(crate) const PARTITION_BYTES: u16 = 4;
    pub(crate) const INLINE_VALUE_BYTES: u16 = 5;
    pub(crate) const MAX_SPACE_AMP: u16 = 6;
    pub(crate) const CLUSTERING: u16 = 7;
    pub(crate) const KEY_TABLE_BYTES: u16 = 8;
    pub(crate) const BLOCK_BYTES: u16 = 9;
    pub(crate) const SCAN_MERGE_LIMIT: u16 = 10;
    pub(crate) const COMPRESSION: u16 = 11;
    pub(crate) const DEFAULT_TTL_MS: u16 = 12;
    pub(crate) const CHANGE_WINDOW_BYTES: u16 = 13;
    pub(crate) const LAST: u16 = CHANGE_WINDOW_BYTES;
}

/// Never, at every merge, by what scans had lost, and when idle, in releases that asked.
const SETTINGS_OF_OLD: std::ops::RangeInclusive<u64> = 0..=3;
const AUTOMATIC: u64 = 4;
const LEAST_WRITING: u64 = 5;

/// The part of the memory budget that the hash indexes of the stored UnsortedStores may take at
/// most when the budget is lowered.
const INDEX_PART: u64 = 2;

/// The bytes that go into the manifest: what is set.
pub(crate) fn encode(options: &StoredOptions) -> Vec<u8> {
    let mut out = FieldWriter::default();
    let clustering = options.clustering.map(|clustering| match clustering {
        Clustering::Automatic => AUTOMATIC,
        Clustering::LeastWriting => LEAST_WRITING,
    });
    // A release that does not know it reads databases that do without.
    let compression = options
        .compression
        .filter(|compression| *compression != Compression::None);
    // Releases that know of no expiry refuse it.
    let ttl_ms = match options.default_ttl.map(Lifetime::of) {
        Some(Ok(Lifetime::For(ms))) => Some(ms),
        _ => None,
    };
    // Releases without a change feed refuse it: they would recycle the log.
    let window = options.change_window_bytes.filter(|bytes| *bytes > 0);
    for (tag, value) in [
        (tag::MEMORY_BUDGET, options.memory_budget),
        (tag::MEMTABLE_BYTES, options.memtable_bytes),
        (tag::UNSORTED_BYTES, options.unsorted_bytes),
        (tag::PARTITION_BYTES, options.partition_bytes),
        (
            tag::INLINE_VALUE_BYTES,
            options.inline_value_bytes.map(u64::from),
        ),
        (tag::MAX_SPACE_AMP, options.max_space_amp.map(f64::to_bits)),
        (tag::CLUSTERING, clustering),
        (tag::KEY_TABLE_BYTES, options.key_table_bytes),
        (tag::BLOCK_BYTES, options.block_bytes.map(u64::from)),
        (
            tag::SCAN_MERGE_LIMIT,
            options.scan_merge_limit.map(u64::from),
        ),
        (tag::COMPRESSION, compression.map(Compression::number)),
        (tag::DEFAULT_TTL_MS, ttl_ms),
        (tag::CHANGE_WINDOW_BYTES, window),
    ] {
        if let Some(value) = value {
            out.put_u64(tag, value);
        }
    }
    out.finish()
}

/// Decodes what stands in the manifest at `path`; nothing in a database that has stored none.
pub(crate) fn decode(bytes: &[u8], path: &Path) -> Result<StoredOptions> {
    let place = Place { path, offset: 0 };
    let fields = Fields::read(bytes, "options", 1..=tag::LAST, place)?;
    let small = |tag| {
        let value = fields.u64(tag)?.map(u32::try_from).transpose();
        value.map_err(|_| fields.corrupt(tag, "is out of range"))
    };
    Ok(StoredOptions {
        memory_budget: fields.u64(tag::MEMORY_BUDGET)?,
        memtable_bytes: fields.u64(tag::MEMTABLE_BYTES)?,
        unsorted_bytes: fields.u64(tag::UNSORTED_BYTES)?,
        partition_bytes: fields.u64(tag::PARTITION_BYTES)?,
        inline_value_bytes: small(tag::INLINE_VALUE_BYTES)?,
        max_space_amp: fields.u64(tag::MAX_SPACE_AMP)?.map(f64::from_bits),
        clustering: match fields.u64(tag::CLUSTERING)? {
            None => None,
            Some(code) if SETTINGS_OF_OLD.contains(&code) => Some(Clustering::Automatic),
            Some(AUTOMATIC) => Some(Clustering::Automatic),
            Some(LEAST_WRITING) => Some(Clustering::LeastWriting),
            Some(other) => {
                let what = format!("option `clustering` has the unknown value {other}");
                let remedy = "open it with the newer release that wrote it";
                return Err(Error::incompatible(path, what, remedy));
            }
        },
        key_table_bytes: fields.u64(tag::KEY_TABLE_BYTES)?,
        block_bytes: small(tag::BLOCK_BYTES)?,
        scan_merge_limit: small(tag::SCAN_MERGE_LIMIT)?,
        compression: match fields.u64(tag::COMPRESSION)? {
            Some(number) => Some(Compression::of_number(number, path)?),
            None => None,
        },
        default_ttl: fields.u64(tag::DEFAULT_TTL_MS)?.map(Duration::from_millis),
        change_window_bytes: fields.u64(tag::CHANGE_WINDOW_BYTES)?,
    })
}

/// The options that a manifest stores; none where there is no database yet. They stand in its first
/// edit, and nowhere else.
pub(crate) fn of(manifest: Option<&RecoveredManifest>) -> Result<StoredOptions> {
    let Some(manifest) = manifest else {
        return Ok(StoredOptions::default());
    };
    let snapshot = manifest.edits.iter(&manifest.path).next().transpose()?;
    match snapshot.and_then(|edit| edit.options) {
        Some(bytes) => decode(&bytes, &manifest.path),
        None => Ok(StoredOptions::default()),
    }
}

/// The options with what another database has stored, where nothing is set.
pub(crate) fn carry_over(options: Options, stored: &StoredOptions) -> Options {
    Options {
        asked: options.to_store(stored),
        unset: Vec::new(),
        ..options
    }
}

/// Refuses a memory budget that was lowered below what the indexes of the UnsortedStores need,
/// which stay until merges have emptied these.
pub(crate) fn check_budget(
    version: &Version,
    stored: &StoredOptions,
    options: &EffectiveOptions,
) -> Result<()> {
    let before = stored.memory_budget.unwrap_or(DEFAULT_BUDGET);
    if options.memory_budget >= before {
        return Ok(());
    }
    let generations = version.partitions().iter().flat_map(|p| &p.generations);
    // After a split, both sides share one index.
    let mut seen = HashSet::new();
    let indexes = generations.filter(|g| seen.insert(Arc::as_ptr(&g.index)));
    let index_bytes: u64 = indexes.map(|g| g.index.memory_bytes() as u64).sum();
    let least = index_bytes.saturating_mul(INDEX_PART);
    let asked = options.memory_budget;
    if asked >= least.min(before) {
        return Ok(());
    }
    let what = format!(
        "option `memory_budget` cannot change from {before} to {asked}: the hash indexes of the \
         UnsortedStore take {index_bytes} bytes, and may take half of the budget"
    );
    let least = least.min(before);
    let remedy = format!(
        "set `memory_budget` to {least} or more, or open with {before}, compact, and open again"
    );
    Err(Error::invalid(what, remedy))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::engine::tests::common::rewrite_manifest;
    use crate::engine::tests::{Machine, small};
    use crate::testing::golden;
    use crate::{Db, ErrorKind, Tuning};

    fn effective(options: &Options) -> EffectiveOptions {
        options.resolve(&StoredOptions::default()).unwrap()
    }

    #[test]
    fn options_survive_encoding() {
        let path = Path::new("MANIFEST-000001");
        let options = Options::default()
            .memory_budget(1 << 20)
            .tuning(
                Tuning::default()
                    .memtable_bytes(2 << 20)
                    .unsorted_bytes(3 << 20)
                    .partition_bytes(4 << 20)
                    .key_table_bytes(6 << 20)
                    .block_bytes(7 << 10)
                    .scan_merge_limit(9),
            )
            .inline_value_bytes(5)
            .max_space_amp(1.75)
            .clustering(Clustering::LeastWriting);
        let bytes = encode(&options.asked);
        // Without compression the bytes are those of releases that had none.
        golden::check("options", &bytes);
        if let Some(compression) = crate::codec::tests::built_in().pop() {
            let options = options.clone().compression(compression);
            let stored = decode(&encode(&options.asked), path).unwrap();
            assert_eq!(stored.compression, Some(compression));
        }
        let stored = decode(&bytes, path).unwrap();
        assert_eq!(
            Options::default().resolve(&stored).unwrap(),
            effective(&options)
        );
        assert_eq!(decode(&[], path).unwrap(), StoredOptions::default());
        for len in 1..bytes.len() {
            // Cut within a field it is damaged, between fields it stores fewer.
            if let Ok(fewer) = decode(&bytes[..len], path) {
                assert_ne!(fewer, stored);
            }
        }
    }

    #[test]
    fn each_kind_of_clustering_has_its_number() {
        let path = Path::new("MANIFEST-000001");
        for clustering in [Clustering::Automatic, Clustering::LeastWriting] {
            let bytes = encode(&Options::default().clustering(clustering).asked);
            let stored = decode(&bytes, path).unwrap();
            assert_eq!(stored.clustering, Some(clustering));
        }
        // Written by releases that clustered at every merge, and by what scans had lost.
        for name in ["options_every_merge", "options_by_scans"] {
            let stored = decode(&golden::load(name), path).unwrap();
            assert_eq!(stored.clustering, Some(Clustering::Automatic), "{name}");
        }
    }

    #[test]
    fn databases_with_the_settings_of_old_are_clustered_by_themselves() {
        for code in SETTINGS_OF_OLD {
            let machine = Machine::new(6);
            let (db, _) = machine.open(small());
            db.put("key", "value").unwrap();
            db.close().unwrap();
            rewrite_manifest(&machine, |edit| {
                if edit.options.is_some() {
                    let mut out = FieldWriter::default();
                    out.put_u64(tag::MEMTABLE_BYTES, 5 << 10);
                    out.put_u64(tag::CLUSTERING, code);
                    edit.options = Some(out.finish());
                }
            });
            let (db, _) = machine.open(Options::default());
            let options = db.options();
            assert_eq!(options.clustering, Clustering::Automatic, "{code}");
            assert_eq!(options.memtable_bytes, 5 << 10);
            assert_eq!(db.get("key").unwrap().as_deref(), Some(&b"value"[..]));
        }
    }

    #[test]
    fn a_database_that_has_stored_none_takes_those_of_its_opening() {
        let machine = Machine::new(5);
        let (db, _) = machine.open(small().tuning(Tuning::default().block_bytes(1024)));
        db.close().unwrap();
        rewrite_manifest(&machine, |edit| edit.options = None);
        let (db, _) = machine.open(small().memory_budget(8 << 20));
        assert_eq!(db.options(), effective(&small().memory_budget(8 << 20)));
    }

    #[test]
    fn what_a_newer_release_stores_is_refused() {
        let path = Path::new("MANIFEST-000001");
        for (tag, value) in [(tag::LAST + 1, 1), (tag::CLUSTERING, 77)] {
            let mut out = FieldWriter::default();
            out.put_u64(tag, value);
            let error = decode(&out.finish(), path).unwrap_err();
            assert_eq!(error.kind(), ErrorKind::Incompatible);
        }
        let mut out = FieldWriter::default();
        out.put_u64(tag::BLOCK_BYTES, 1 << 32);
        let error = decode(&out.finish(), path).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Corruption);
    }

    #[test]
    fn what_is_not_set_stays_and_what_is_set_holds() {
        let machine = Machine::new(3);
        let opened = |options: Options| {
            let (db, _) = machine.open(options);
            let options = db.options();
            db.close().unwrap();
            options
        };
        let first = opened(
            small()
                .max_space_amp(1.25)
                .tuning(Tuning::default().scan_merge_limit(3)),
        );
        assert_eq!((first.block_bytes, first.max_space_amp), (512, 1.25));
        assert_eq!(opened(Options::default()), first);
        let changed = opened(
            Options::default().tuning(Tuning::default().block_bytes(1024).background_threads(4)),
        );
        assert_eq!((changed.block_bytes, changed.background_threads), (1024, 4));
        // What belongs to the process is not stored, the rest is as it was.
        let last = opened(Options::default());
        let expected = EffectiveOptions {
            block_bytes: 1024,
            ..first
        };
        assert_eq!(last, expected);
        // A refused opening changes nothing.
        let env = machine.env();
        let refused = Db::open(
            "/db",
            Options::default()
                .tuning(Tuning::default().block_bytes(7))
                .env(env),
        )
        .unwrap_err();
        assert_eq!(refused.kind(), ErrorKind::InvalidArgument);
        assert_eq!(opened(Options::default()), expected);
    }

    #[test]
    fn only_what_is_set_is_stored_and_it_can_be_made_the_default_again() {
        let machine = Machine::new(7);
        let opened = |options: Options| {
            let (db, _) = machine.open(options);
            let options = db.options();
            db.close().unwrap();
            let (_, listed) = crate::engine::tests::common::listed_by_manifest(&machine);
            (
                options,
                decode(&listed.options.unwrap(), Path::new("")).unwrap(),
            )
        };
        let (first, stored) = opened(Options::default());
        assert_eq!(stored, StoredOptions::default());
        assert_eq!(first, effective(&Options::default()));
        let set = Options::default()
            .tuning(Tuning::default().block_bytes(1024))
            .memory_budget(1 << 30);
        let (roomy, stored) = opened(set.clone());
        assert_eq!(stored, set.asked);
        // What is not set follows the budget.
        assert!(roomy.memtable_bytes > first.memtable_bytes);
        assert_eq!(opened(Options::default()).0, roomy);
        // Set afterwards, it holds, and unset afterwards, it does not.
        let both = set
            .clone()
            .unset(crate::StoredOption::BlockBytes)
            .tuning(Tuning::default().block_bytes(2048));
        assert_eq!(opened(both).0.block_bytes, 2048);
        let neither = Options::default()
            .tuning(Tuning::default().block_bytes(512))
            .unset(crate::StoredOption::BlockBytes);
        let (now, stored) = opened(neither);
        assert_eq!((now.block_bytes, stored.block_bytes), (4096, None));
        assert_eq!(stored.memory_budget, Some(1 << 30));
        // For all of them there is a name, and none for what is not stored.
        let names = "memory_budget memtable_bytes unsorted_bytes partition_bytes \
                     inline_value_bytes max_space_amp clustering key_table_bytes block_bytes \
                     scan_merge_limit compression default_ttl change_window_bytes";
        let mut all = small().max_space_amp(2.0).change_window_bytes(1 << 20);
        all = all.default_ttl(Duration::from_secs(9));
        opened(all);
        let mut none = Options::default();
        for name in names.split_whitespace() {
            none = none.unset(name.parse().unwrap());
        }
        let (last, stored) = opened(none);
        assert_eq!((last, stored), (first, StoredOptions::default()));
        for name in ["durability", "in_memory", "Block_bytes", ""] {
            let error = name.parse::<crate::StoredOption>().unwrap_err();
            assert_eq!(error.kind(), ErrorKind::InvalidArgument);
            assert!(error.remedy().contains("scan_merge_limit"), "{error}");
        }
        // A secondary has indexes like the writer's, whatever its own memory.
        opened(Options::default().memory_budget(1 << 30));
        let followed = crate::SecondaryOptions::default().memory_budget(8 << 20);
        let (_, stored) = opened(Options::default());
        let followed = followed.resolve(&stored).unwrap();
        assert_eq!(followed.memory_budget, 8 << 20);
        assert_eq!(followed.unsorted_bytes, roomy.unsorted_bytes);
    }

    #[test]
    fn the_budget_cannot_fall_below_what_the_indexes_need() {
        let machine = Machine::new(4);
        let roomy = small()
            .tuning(Tuning::default().unsorted_bytes(8 << 20))
            .memory_budget(16 << 20);
        let roomy = roomy.tuning(Tuning::default().memtable_bytes(256 << 10));
        let (db, _) = machine.open(roomy);
        for i in 0..20_000_u32 {
            db.put(i.to_be_bytes(), b"value").unwrap();
        }
        db.flush().unwrap();
        db.close().unwrap();
        let open = |budget| {
            let options = Options::default().memory_budget(budget);
            Db::open("/db", options.env(machine.env()))
        };
        let asked = 64 << 10;
        let error = open(asked).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::InvalidArgument);
        for words in ["memory_budget", &(16 << 20).to_string(), &asked.to_string()] {
            assert!(error.to_string().contains(words), "{words}: {error}");
        }
        // The remedy names the least value, which is enough.
        let words = error.remedy().split_whitespace();
        let least: u64 = words.filter_map(|word| word.parse().ok()).next().unwrap();
        assert!(least > 20_000 * 8, "{least}");
        let db = open(least).unwrap();
        assert_eq!(db.options().memory_budget, least);
        let value = db.get(7_u32.to_be_bytes()).unwrap();
        assert_eq!(value.as_deref(), Some(&b"value"[..]));
        // Merging makes room for less, and a budget that is small already can be kept.
        db.compact().unwrap();
        db.close().unwrap();
        for budget in [asked, asked] {
            let db = open(budget).unwrap();
            assert_eq!(db.options().memory_budget, asked);
            db.close().unwrap();
        }
    }
}
