//! Point lookups in a partition's UnsortedStore (paper §III-B).
//!
//! Newest wins by construction: generations newest first, and within one the highest slot first. A
//! key has one index entry per table, at its newest version there; older versions that a snapshot
//! needs stand right behind it in the file.

use super::view::ReadCounters;
use crate::base::keys::SeqNo;
use crate::error::Result;
use crate::record::{Record, RecordFile};
use crate::version::Partition;
use std::sync::atomic::Ordering;

/// The newest record of `key` at or below `snapshot`, and its table. A hit is one read of the record.
pub(crate) fn get<'a>(
    partition: &'a Partition,
    key: &[u8],
    hash: u64,
    snapshot: SeqNo,
    counters: &ReadCounters,
) -> Result<Option<(&'a RecordFile, Record)>> {
    for generation in &partition.generations {
        for candidate in generation
            .index
            .lookup(hash, generation.high_water())
            .iter()
        {
            // A slot without a table belongs to a flush that was aborted.
            let Some(table) = generation.table(candidate.slot) else {
                continue;
            };
            if table.meta().min_seq > snapshot {
                continue;
            }
            let record = table.get_hinted(candidate.offset, candidate.read_len)?;
            if record.key() != key {
                counters
                    .index_failed_comparisons
                    .fetch_add(1, Ordering::Relaxed);
                continue;
            }
            let visible = newest_visible(table, record, snapshot, candidate.read_len)?;
            if let Some(record) = visible {
                return Ok(Some((table, record)));
            }
        }
    }
    Ok(None)
}

/// Walks from the newest version of a key to the older ones behind it.
fn newest_visible(
    table: &RecordFile,
    mut record: Record,
    snapshot: SeqNo,
    read_len: usize,
) -> Result<Option<Record>> {
    while record.seq() > snapshot {
        if !record.older_follows() {
            return Ok(None);
        }
        record = table.get_hinted(record.end_offset(), read_len)?;
    }
    Ok(Some(record))
}
