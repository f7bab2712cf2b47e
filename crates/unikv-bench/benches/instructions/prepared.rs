//! Databases that are ready to be measured, and what is asked of them.
//!
//! Everything follows from record numbers, so that each run does the same; only the seed of the
//! hash index differs. What is in files is written before the first case, by a process of its own,
//! and each case opens a copy: flushes and merges beside it would leave the heap in a state that
//! depends on how threads were scheduled, and with it what `malloc` does for the case. At the end
//! each case is looked at: that nothing was flushed meanwhile, and that files were read as often as
//! the case is meant to.

use std::fs;
use std::ops::RangeInclusive;
use std::path::{Path, PathBuf};
use tempfile::TempDir;
use unikv::{Clustering, Db, Options};
use unikv_bench::workload::keys::{Key, KeyOrder};
use unikv_bench::workload::values;

const VALUE_BYTES: usize = 1_000;
/// Records that are there before anything is measured. With those that are written then, they fit
/// into a memtable.
const RECORDS: u64 = 10_000;
/// Of an UnsortedStore: as many as scans may merge each time again, unless more is asked for.
const TABLES: u64 = 8;
/// Entries of a scan.
const ENTRIES: usize = 50;
/// Its memtable is a sixteenth of it.
const BUDGET: u64 = 512 << 20;
/// Where databases and their copies are.
const DIR: &str = concat!(env!("CARGO_TARGET_TMPDIR"), "/instructions");
/// Leaves the read cache less than the records take.
const SMALL_BUDGET: u64 = 8 << 20;

/// Where the records of a database lie.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Place {
    /// Not prepared, but written when it is asked for.
    Memtable,
    /// [`TABLES`] tables with one hash index.
    Unsorted,
    /// The values are where the flushes have put them.
    Sorted,
    /// As `Sorted`, with the values in key order.
    Clustered,
    /// The older half in the SortedStore, the newer in the UnsortedStore.
    Both,
}

/// What the read cache holds.
#[derive(Clone, Copy)]
pub(crate) enum Cache {
    /// All that is asked for.
    Warm,
    /// Key blocks and some records, none of those that are asked for. It is full, so that what is
    /// read once is not kept.
    Small,
}

/// A database to be written to.
pub(crate) struct Writing {
    base: Base,
    records: Vec<(Key, Vec<u8>)>,
}

/// A database to be read from.
pub(crate) struct Reading {
    base: Base,
    wanted: Vec<(Key, u64)>,
    /// How often files may be read.
    reads: RangeInclusive<u64>,
}

/// A database of which some is to be merged.
pub(crate) struct Merging(Base);

/// An open database in a directory of its own.
struct Base {
    db: Db,
    /// Reads of files and flushes before anything was measured.
    before: (u64, u64),
    dir: TempDir,
}

/// Writes the databases whose records lie in files.
pub(crate) fn make() {
    remove();
    for place in [
        Place::Unsorted,
        Place::Sorted,
        Place::Clustered,
        Place::Both,
    ] {
        load(&dir_of(place), place).close().unwrap();
    }
}

/// Removes what [`make`] has made, and what a case that was interrupted has left.
pub(crate) fn remove() {
    if Path::new(DIR).exists() {
        fs::remove_dir_all(DIR).unwrap();
    }
}

fn dir_of(place: Place) -> PathBuf {
    Path::new(DIR).join(format!("{place:?}"))
}

fn load(dir: &Path, place: Place) -> Db {
    fs::create_dir_all(dir).unwrap();
    let clustering = match place {
        Place::Clustered => Clustering::Automatic,
        _ => Clustering::LeastWriting,
    };
    let options = Options::default().memory_budget(BUDGET);
    let db = Db::open(dir, options.clustering(clustering)).unwrap();
    for record in 0..RECORDS {
        db.put(key(record), value(record)).unwrap();
        let loaded = record + 1;
        if place != Place::Memtable && loaded % (RECORDS / TABLES) == 0 {
            db.flush().unwrap();
        }
        if place == Place::Both && loaded == RECORDS / 2 {
            db.compact().unwrap();
        }
    }
    if matches!(place, Place::Sorted | Place::Clustered) {
        db.compact().unwrap();
    }
    db.wait_until_idle().unwrap();
    db
}

/// A memtable with records, and `count` others to be put.
pub(crate) fn writing(count: u64) -> Writing {
    let records = (RECORDS..RECORDS + count).map(|record| (key(record), value(record)));
    Writing {
        records: records.collect(),
        base: Base::open(Place::Memtable, BUDGET),
    }
}

/// The values of `count` keys, from all tables alike.
pub(crate) fn reading(place: Place, cache: Cache, count: u64) -> Reading {
    let every = RECORDS / count;
    let (wanted, others): (Vec<u64>, Vec<u64>) =
        (0..RECORDS).partition(|record| record % every == 0);
    let (budget, to_cache, reads) = match cache {
        Cache::Warm => (BUDGET, &wanted, 0..=0),
        // Now and then a key block, or a record that only has the hash of the one asked for.
        Cache::Small => (SMALL_BUDGET, &others, count..=count + count / 20),
    };
    let base = Base::open(place, budget);
    for record in to_cache {
        let found = base.db.get(key(*record)).unwrap().unwrap();
        verify(&found, *record);
    }
    let wanted = wanted.into_iter().map(|record| (key(record), record));
    Reading {
        wanted: wanted.collect(),
        base: base.settled(),
        reads,
    }
}

/// `count` keys that are nowhere, and have to be looked for in both stores.
pub(crate) fn asking_for_absent(count: u64) -> Reading {
    let base = Base::open(Place::Both, BUDGET);
    let wanted = (RECORDS..RECORDS + count).map(|record| (key(record), record));
    let wanted: Vec<(Key, u64)> = wanted.collect();
    for (key, _) in &wanted {
        assert!(base.db.get(key).unwrap().is_none());
    }
    Reading {
        wanted,
        base: base.settled(),
        reads: 0..=count / 20,
    }
}

/// The first keys of `count` scans.
pub(crate) fn scanning(place: Place, count: u64) -> Reading {
    let base = Base::open(place, BUDGET);
    let mut keys: Vec<(Key, u64)> = (0..RECORDS).map(|record| (key(record), record)).collect();
    keys.sort_unstable();
    // The last ones have not enough after them.
    keys.truncate(keys.len() - ENTRIES);
    keys.sort_unstable_by_key(|(_, record)| *record);
    keys.truncate(count as usize);
    for (key, _) in &keys {
        scan(&base.db, key);
    }
    let reads = match place {
        // Of each batch that an iterator gathers, one for each of the few files in which clustering
        // leaves the values of neighbours.
        Place::Clustered => count..=4 * 4 * count,
        // Each batch has records of all tables.
        _ => TABLES * count..=ENTRIES as u64 * count,
    };
    Reading {
        wanted: keys,
        base: base.settled(),
        reads,
    }
}

/// A database of which the newer half is to be merged into the older one.
pub(crate) fn merging() -> Merging {
    let base = Base::opened(Place::Both, BUDGET);
    assert!(base.db.stats().partitions[0].tables > 0);
    Merging(base)
}

/// Reads [`ENTRIES`] entries from `first` on.
pub(crate) fn scan(db: &Db, first: &Key) {
    let mut entries = 0;
    for entry in db.range(&first[..]..).take(ENTRIES) {
        let (key, value) = entry.unwrap();
        assert!(key.len() == first.len() && value.len() == VALUE_BYTES);
        entries += 1;
    }
    assert_eq!(entries, ENTRIES);
}

/// Looks at the length of a value and at its first bytes, which name its record: enough to see that
/// it is the right one, and next to nothing beside the work of getting it.
#[inline]
pub(crate) fn verify(value: &[u8], record: u64) {
    assert!(value.len() == VALUE_BYTES && value[..8] == record.to_le_bytes());
}

fn key(record: u64) -> Key {
    KeyOrder::Random.key(record)
}

fn value(record: u64) -> Vec<u8> {
    let mut value = vec![0; VALUE_BYTES];
    values::fill(&mut value, record, 0);
    value
}

impl Writing {
    pub(crate) fn db(&self) -> &Db {
        &self.base.db
    }

    pub(crate) fn records(&self) -> &[(Key, Vec<u8>)] {
        &self.records
    }

    /// Sees that all was written and nothing read.
    pub(crate) fn finish(self) {
        for (key, value) in &self.records {
            assert_eq!(self.base.db.get(key).unwrap().unwrap(), value);
        }
        self.base.finish(&(0..=0));
    }
}

impl Reading {
    pub(crate) fn db(&self) -> &Db {
        &self.base.db
    }

    pub(crate) fn wanted(&self) -> &[(Key, u64)] {
        &self.wanted
    }

    pub(crate) fn finish(self) {
        self.base.finish(&self.reads);
    }
}

impl Merging {
    pub(crate) fn merge(&self) {
        self.0.db.compact().unwrap();
    }

    /// Sees that all was merged and nothing is lost.
    pub(crate) fn finish(self) {
        let Base { db, dir, .. } = self.0;
        assert!(db.stats().partitions.iter().all(|p| p.tables == 0));
        for record in 0..RECORDS {
            verify(&db.get(key(record)).unwrap().unwrap(), record);
        }
        db.close().unwrap();
        dir.close().unwrap();
    }
}

impl Base {
    /// What is loaded stays as it lies: else a second without writes, which preparing takes on a
    /// busy machine, would have it merged or clustered.
    fn open(place: Place, budget: u64) -> Base {
        Base::opened(place, budget).settled()
    }

    fn opened(place: Place, budget: u64) -> Base {
        fs::create_dir_all(DIR).unwrap();
        let dir = tempfile::tempdir_in(DIR).unwrap();
        let db = if place == Place::Memtable {
            load(dir.path(), place)
        } else {
            for file in fs::read_dir(dir_of(place)).unwrap() {
                let file = file.unwrap();
                fs::copy(file.path(), dir.path().join(file.file_name())).unwrap();
            }
            let options = Options::default().memory_budget(budget);
            let options = options.clustering(Clustering::LeastWriting);
            Db::open_existing(dir.path(), options).unwrap()
        };
        let before = (0, 0);
        Base { db, before, dir }
    }

    /// Waits until the background is quiet; what comes next is measured.
    fn settled(mut self) -> Base {
        self.db.wait_until_idle().unwrap();
        self.before = self.counted();
        self
    }

    fn counted(&self) -> (u64, u64) {
        let stats = self.db.stats();
        (stats.reads, stats.flushes)
    }

    fn finish(self, reads: &RangeInclusive<u64>) {
        let (before, after) = (self.before, self.counted());
        let read = after.0 - before.0;
        assert!(reads.contains(&read), "{read} reads, not {reads:?}");
        assert_eq!(after.1, before.1, "a flush ran beside what was measured");
        self.db.close().unwrap();
        self.dir.close().unwrap();
    }
}
