//! Point lookups in a partition's SortedStore (paper §III-C).
//!
//! One key block finds or refutes a key; its value is in the block or one record read away. What a
//! pointer leads to is compared with the key and the sequence number that pointed there, so that a
//! wrong pointer is an error and never foreign bytes.
//!
//! Where a table has a pointer index (see `key_table::pointer_index`), the index leads to the
//! record of the newest version without a block. Whatever it does not lead to, the block says:
//! older versions, values and tombstones in the table, and what is wrong with a record that cannot
//! be read.

use super::counters::ReadCounters;
use super::hidden::Hidden;
use super::value_place::{Found, ValuePlace};
use super::{View, Visibility};
use crate::base::keys::{Kind, SeqNo};
use crate::base::sync::atomic::Ordering;
use crate::error::Result;
use crate::key_table::{Candidate, KeyTable, OwnedEntry, OwnedValue};
use crate::record::pointed::{check_pointed, dangling};
use crate::record::{KeyVersion, UNNUMBERED};
use crate::version::{Partition, Version};
use bytes::Bytes;

/// The value that the newest version of `key`, which has this hash, is for a read.
pub(crate) fn get(
    view: &View,
    partition: &Partition,
    key: &[u8],
    hash: u64,
    at: Visibility,
    counters: &ReadCounters,
) -> Result<Option<Bytes>> {
    let version = &view.version;
    let Some(table) = partition.key_table_for(key) else {
        return Ok(None);
    };
    if let Some(index) = &*table.index() {
        let mut candidates = index.candidates(hash).peekable();
        if candidates.peek().is_none() && index.is_complete() {
            return Ok(None);
        }
        // What has no number of its own is not newer than the table.
        let is_newest = at.seq >= table.meta().max_seq;
        if let Some(found) = pointed(version, candidates, key, at.seq, is_newest) {
            let is_shown = at.shows(found.kind(), found.expiry_ms(), &view.clock);
            return Ok(is_shown.then(|| found.into_value()));
        }
    } else if table.count_lookup() {
        counters.pointer_index_wanted.store(true, Ordering::Relaxed);
    }
    match table.get(key, at.seq)? {
        Some(entry) => value_of(view, table, key, at, entry),
        None => Ok(None),
    }
}

/// As [`get`], unless range tombstones hide that version. The number of its entry says so, so no
/// pointer index helps.
pub(crate) fn get_visible(
    view: &View,
    partition: &Partition,
    key: &[u8],
    at: Visibility,
    hidden: &Hidden,
) -> Result<Option<Bytes>> {
    let Some(table) = partition.key_table_for(key) else {
        return Ok(None);
    };
    if hidden.hides_all(table.meta().max_seq) {
        return Ok(None);
    }
    match table.get(key, at.seq)? {
        Some(entry) if !hidden.hides(entry.seq)? => value_of(view, table, key, at, entry),
        _ => Ok(None),
    }
}

/// The value that an entry of `table` is for a read.
#[inline(always)]
fn value_of(
    view: &View,
    table: &KeyTable,
    key: &[u8],
    at: Visibility,
    entry: OwnedEntry,
) -> Result<Option<Bytes>> {
    let version = &view.version;
    if !at.shows(entry.kind, entry.expiry_ms, &view.clock) {
        return Ok(None);
    }
    let value = match entry.value {
        OwnedValue::None => None,
        OwnedValue::Inline(value) => Some(value),
        OwnedValue::Pointer(pointer) => {
            let file = version.record_file(pointer.file);
            let file = file.ok_or_else(|| dangling(table.path(), pointer))?;
            let record = file.get(pointer)?;
            check_pointed(&record, (key, entry.seq, Kind::Put), file.path(), pointer)?;
            Some(record.into_value())
        }
    };
    debug_assert!(value.is_some());
    Ok(value)
}

/// As [`get`], without reading the value.
pub(super) fn find<'v>(
    view: &'v View,
    partition: &'v Partition,
    (key, hash): (&[u8], u64),
    at: Visibility,
    hidden: &Hidden,
) -> Result<Option<Found<'v>>> {
    let version = &view.version;
    let Some(table) = partition.key_table_for(key) else {
        return Ok(None);
    };
    if let Some(index) = &*table.index()
        && index.is_complete()
        && index.candidates(hash).next().is_none()
    {
        return Ok(None);
    }
    let Some(entry) = table.get(key, at.seq)? else {
        return Ok(None);
    };
    let (seq, expiry_ms) = (entry.seq, entry.expiry_ms);
    if hidden.hides(entry.seq)? || !at.shows(entry.kind, expiry_ms, &view.clock) {
        return Ok(None);
    }
    let place = match entry.value {
        OwnedValue::None => return Ok(None),
        OwnedValue::Inline(value) => ValuePlace::Inline(value),
        OwnedValue::Pointer(pointer) => {
            let file = version.record_file(pointer.file);
            let file = file.ok_or_else(|| dangling(table.path(), pointer))?;
            ValuePlace::Record(file, pointer)
        }
    };
    Ok(Some(Found {
        place,
        seq,
        expiry_ms,
    }))
}

/// The newest version of `key`, if one of the candidates is it. What cannot be read is not: the
/// block says.
fn pointed(
    version: &Version,
    mut candidates: impl Iterator<Item = Candidate>,
    key: &[u8],
    snapshot: SeqNo,
    takes_unnumbered: bool,
) -> Option<KeyVersion> {
    candidates.find_map(|candidate| {
        let file = version.record_file(candidate.file)?;
        let found = file.version_at(candidate.offset, candidate.read_len, key);
        let found = found.ok()??;
        let is_seen = match found.seq() {
            UNNUMBERED => takes_unnumbered,
            seq => candidate.may_be(seq) && seq <= snapshot,
        };
        (is_seen && found.kind() == Kind::Put).then_some(found)
    })
}
