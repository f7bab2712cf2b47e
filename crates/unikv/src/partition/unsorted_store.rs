//! Point lookups in a partition's UnsortedStore (paper §III-B).
//!
//! Newest wins by construction: generations newest first, and within one the highest slot first. A
//! key has one index entry per table, at its newest version there; older versions that a snapshot
//! needs stand right after it in the file. The tables of an ingest are searched by their fences,
//! and so are those whose keys could not all be entered into the index.

use super::counters::ReadCounters;
use crate::base::keys::{SeqNo, Slot};
use crate::base::seeded::seeded;
use crate::base::sync::atomic::Ordering;
use crate::error::{Error, Result};
use crate::hash_index::Candidate;
use crate::key_table::{OwnedEntry, OwnedValue, RecordPointer};
use crate::record::{KeyVersion, RecordFile};
use crate::version::{Generation, Partition};

/// A version of a key and the table that holds it.
type Found<'a> = (&'a RecordFile, KeyVersion);
/// What a table's key section says of a version of a key.
type Listed<'a> = (&'a RecordFile, OwnedEntry, RecordPointer);

/// A key that is looked for, as of a snapshot.
#[derive(Clone, Copy)]
struct Wanted<'k> {
    key: &'k [u8],
    hash: u64,
    snapshot: SeqNo,
}

/// The newest version of `key` at or below `snapshot`, and its table. A hit is one read of the
/// record.
#[inline]
pub(crate) fn get<'a>(
    partition: &'a Partition,
    key: &[u8],
    hash: u64,
    snapshot: SeqNo,
    counters: &ReadCounters,
) -> Result<Option<Found<'a>>> {
    let wanted = Wanted {
        key,
        hash,
        snapshot,
    };
    let at = |table: &'a RecordFile, place: Candidate| {
        let Some(newest) = table.version_at(place.offset, place.read_len, key)? else {
            let failed = &counters.index_failed_comparisons;
            failed.fetch_add(1, Ordering::Relaxed);
            return Ok(None);
        };
        let visible = newest_visible(table, newest, key, snapshot, place.read_len)?;
        Ok(visible.map(|found| (table, found)))
    };
    let by_fences = |table| get_by_fences(table, key, snapshot);
    search(partition, wanted, at, by_fences)
}

/// As [`get`], of what the key sections say: no record is read.
pub(super) fn find<'a>(
    partition: &'a Partition,
    key: &[u8],
    hash: u64,
    snapshot: SeqNo,
) -> Result<Option<Listed<'a>>> {
    let wanted = Wanted {
        key,
        hash,
        snapshot,
    };
    let by_fences = |table| find_by_fences(table, key, snapshot);
    search(partition, wanted, |table, _| by_fences(table), by_fences)
}

/// Asks the tables that may have the key, newest first: those that the index leads to `at` the
/// record, others `by_fences`.
#[inline]
fn search<'a, T>(
    partition: &'a Partition,
    wanted: Wanted<'_>,
    at: impl Fn(&'a RecordFile, Candidate) -> Result<Option<T>>,
    by_fences: impl Fn(&'a RecordFile) -> Result<Option<T>>,
) -> Result<Option<T>> {
    for generation in &partition.generations {
        let found = if generation.is_ingested() {
            let table = generation.ingested_table_for(wanted.key);
            table.map_or(Ok(None), |table| by_fences(table))?
        } else {
            search_by_index(generation, wanted, &at, &by_fences)?
        };
        if found.is_some() {
            return Ok(found);
        }
    }
    Ok(None)
}

#[inline]
fn search_by_index<'a, T>(
    generation: &'a Generation,
    wanted: Wanted<'_>,
    at: &impl Fn(&'a RecordFile, Candidate) -> Result<Option<T>>,
    by_fences: &impl Fn(&'a RecordFile) -> Result<Option<T>>,
) -> Result<Option<T>> {
    let mut unindexed = generation.index.unindexed_slots();
    let high_water = generation.high_water();
    for candidate in generation.index.lookup(wanted.hash, high_water).iter() {
        if !unindexed.is_empty() {
            let newer = unindexed.partition_point(|slot| *slot > candidate.slot);
            let (first, rest) = unindexed.split_at(newer);
            let found = search_unindexed(generation, first, wanted, by_fences)?;
            if found.is_some() {
                return Ok(found);
            }
            unindexed = rest;
        }
        // A slot without a table belongs to a flush that was aborted.
        let Some(table) = generation.table(candidate.slot) else {
            continue;
        };
        if table.meta().min_seq > wanted.snapshot
            || (seeded!(SkipTableWithNewer) && table.meta().max_seq > wanted.snapshot)
        {
            continue;
        }
        let found = at(table, candidate)?;
        if found.is_some() {
            return Ok(found);
        }
    }
    search_unindexed(generation, unindexed, wanted, by_fences)
}

/// Searches tables whose keys the index may not have, newest first: by their sections, as far as
/// they can be read.
#[cold]
fn search_unindexed<'a, T>(
    generation: &'a Generation,
    slots: &[Slot],
    wanted: Wanted<'_>,
    by_fences: &impl Fn(&'a RecordFile) -> Result<Option<T>>,
) -> Result<Option<T>> {
    for table in slots.iter().filter_map(|slot| generation.table(*slot)) {
        let meta = table.meta();
        let key = wanted.key;
        let may_hold = meta.min_key.as_slice() <= key && key <= meta.max_key.as_slice();
        if may_hold && meta.min_seq <= wanted.snapshot {
            let found = by_fences(table)?;
            if found.is_some() {
                return Ok(found);
            }
        }
    }
    Ok(None)
}

/// What the key section of `table` says of the newest version of `key` at or below `snapshot`.
fn find_by_fences<'a>(
    table: &'a RecordFile,
    key: &[u8],
    snapshot: SeqNo,
) -> Result<Option<Listed<'a>>> {
    let Some(entry) = table.section()?.get(key, snapshot)? else {
        return Ok(None);
    };
    let OwnedValue::Pointer(pointer) = entry.value else {
        let what = "a table's key has no pointer";
        return Err(Error::corruption(table.path(), 0, what));
    };
    Ok(Some((table, entry, pointer)))
}

/// The newest record of `key` at or below `snapshot` in `table`, by its key section.
fn get_by_fences<'a>(
    table: &'a RecordFile,
    key: &[u8],
    snapshot: SeqNo,
) -> Result<Option<Found<'a>>> {
    let listed = find_by_fences(table, key, snapshot)?;
    listed.map(|listed| read_listed(listed, key)).transpose()
}

/// The record of a key that its table's key section has.
pub(super) fn read_listed<'a>(
    (table, entry, pointer): Listed<'a>,
    key: &[u8],
) -> Result<Found<'a>> {
    let found = table.get(pointer)?.of_key(key);
    let found = found.filter(|found| (found.seq(), found.kind()) == (entry.seq, entry.kind));
    let found = found.ok_or_else(|| {
        let what = "the record is not the one its pointer was made for";
        Error::corruption(table.path(), pointer.offset, what)
    })?;
    Ok((table, found))
}

/// Walks from the newest version of a key to the older ones after it.
fn newest_visible(
    table: &RecordFile,
    newest: KeyVersion,
    key: &[u8],
    snapshot: SeqNo,
    read_len: usize,
) -> Result<Option<KeyVersion>> {
    let mut version = newest;
    while version.seq() > snapshot {
        if !version.older_follows() || seeded!(NewestVersionAlone) {
            return Ok(None);
        }
        let offset = version.end_offset();
        version = table.version_at(offset, read_len, key)?.ok_or_else(|| {
            let what = "a record says that an older version of its key follows, and none does";
            Error::corruption(table.path(), offset, what)
        })?;
    }
    Ok(Some(version))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::base::keys::{DatabaseId, FileNumber, Kind};
    use crate::error::ErrorKind;
    use crate::key_table::ReadCache;
    use crate::record::{RecordRef, RecordWriter};
    use crate::vfs::Env;
    use crate::vfs::file_store::FileStore;
    use crate::vfs::sim::{SimRuntime, SimVfs};
    use std::path::{Path, PathBuf};
    use std::sync::Arc;

    const KEY: &[u8] = b"\0\0\0\x01key";

    /// What somebody sees at 5 of a key with a version at 9, if `behind` is the record after that
    /// one.
    fn seen_at_5(behind: Option<(&[u8], u64)>) -> Result<Option<Vec<u8>>> {
        let env = Env {
            vfs: Arc::new(SimVfs::new()),
            runtime: SimRuntime::new(1),
        };
        env.vfs.create_dir_all(Path::new("db")).unwrap();
        let store = FileStore::new(env, PathBuf::from("db"), DatabaseId([1; 16]), 16);
        let mut writer = RecordWriter::create(&store, FileNumber(1), 0).unwrap();
        let mut append = |key, seq, older_follows| {
            let record = RecordRef {
                key,
                seq: SeqNo(seq),
                kind: Kind::Put,
                value: b"value",
                expiry_ms: None,
                host_type: 0,
                older_follows,
            };
            writer.append(&record).unwrap()
        };
        let newest = append(KEY, 9, true);
        if let Some((key, seq)) = behind {
            append(key, seq, false);
        }
        let meta = writer.finish(None).unwrap();
        let table = RecordFile::open(&store, meta, &ReadCache::new(1 << 20));
        let found = table.version_at(newest.offset, 128, KEY).unwrap().unwrap();
        let visible = newest_visible(&table, found, KEY, SeqNo(5), 128)?;
        Ok(visible.map(|version| version.into_value().to_vec()))
    }

    #[test]
    fn an_older_version_is_the_next_record_or_the_file_is_damaged() {
        let value = seen_at_5(Some((KEY, 4))).unwrap();
        assert_eq!(value.as_deref(), Some(&b"value"[..]));
        assert_eq!(seen_at_5(Some((KEY, 6))).unwrap(), None);
        // Another key, one with the same beginning, and the end of the file.
        for behind in [Some(&b"\0\0\0\x01kez"[..]), Some(b"\0\0\0\x01key2"), None] {
            let error = seen_at_5(behind.map(|key| (key, 4))).unwrap_err();
            assert_eq!(error.kind(), ErrorKind::Corruption, "{error}");
        }
    }
}
