//! What records of an UnsortedStore hide ([`Partition::hidden_by`]): older versions in the
//! SortedStore that only their merge shows to be garbage.
//!
//! A record that is about as large as what it supersedes does no harm beyond its own bytes, which
//! `unsorted_bytes` bounds; so only what it may hide *beyond* its own size counts. That is
//! estimated, as if each record, tombstones above all, hid one of mean size. Where records are much
//! longer than the mean ([`crate::key_table::Outliers`]), a flush knows which of them it
//! supersedes: these count exactly.

use crate::base::range_tombstones::RangeTombstones;
use crate::jobs::flush::FlushedTable;
use crate::key_table::{KeyTable, KeyTableMeta};
use crate::version::{KeyRange, Partition};
use std::ops::Range;
use std::sync::Arc;

/// Of more covered pieces of a key table, this many stand for all.
const SAMPLED_PIECES: usize = 32;

/// Bytes of the partition's SortedStore that range tombstones delete, about.
pub(crate) fn deleted_bytes(ranges: &RangeTombstones, partition: &Partition) -> u64 {
    let of_table = |table: &Arc<KeyTable>| {
        let meta = table.meta();
        let (first, last) = (meta.min_key.as_slice(), meta.max_key.as_slice());
        if ranges.covering_all(first, last).is_some() {
            return meta.newest_bytes();
        }
        let pieces = ranges.covered(first, last).count();
        let sample = ranges.covered(first, last).take(SAMPLED_PIECES);
        // What cannot be read counts as nothing: it is an estimate, and the merge will see.
        let part = |(start, end): (&[u8], &[u8])| {
            let before = |key| table.part_before(key).unwrap_or(0.0);
            (before(end) - before(start)).max(0.0)
        };
        let sampled: f64 = sample.map(part).sum();
        let all = sampled * pieces as f64 / pieces.clamp(1, SAMPLED_PIECES) as f64;
        (meta.newest_bytes() as f64 * all.min(1.0)) as u64
    };
    if ranges.is_empty() {
        0
    } else {
        partition.key_tables.iter().map(of_table).sum()
    }
}

/// Bytes of long records in the partition's SortedStore that the entries `own` of a table
/// supersede, beyond their own. What cannot be read counts as nothing: it is an estimate, and the
/// merge will see.
pub(crate) fn known_of(table: &FlushedTable, own: &Range<usize>, partition: &Partition) -> u64 {
    let long = partition.key_tables.iter();
    let long = long.filter(|table| table.meta().outliers().count > 0);
    long.map(|sorted| known_in(table, own, sorted)).sum()
}

fn known_in(table: &FlushedTable, own: &Range<usize>, sorted: &Arc<KeyTable>) -> u64 {
    let KeyTableMeta {
        min_key, max_key, ..
    } = sorted.meta();
    let from_min = KeyRange {
        start: min_key,
        end: None,
    };
    let near = table.keys.within(from_min);
    let near = near.start.max(own.start)..own.end;
    if near.is_empty() {
        return 0;
    }
    let Ok(outliers) = sorted.outliers() else {
        return 0;
    };
    let mut bytes = 0;
    for (key, entry) in table.keys.with_keys(near) {
        if key > max_key.as_slice() {
            break;
        }
        let superseded = outliers.len_of(key).unwrap_or(0);
        bytes += superseded.saturating_sub(u64::from(entry.len));
    }
    bytes
}
