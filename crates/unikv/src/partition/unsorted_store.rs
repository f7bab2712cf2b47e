//! Point lookups in a partition's UnsortedStore (paper §III-B).
//!
//! Newest wins by construction: generations newest first, and within one the highest slot first. A
//! key has one index entry per table, at its newest version there; older versions that a snapshot
//! needs stand right behind it in the file. The tables of an ingest are searched by their fences.

use super::view::ReadCounters;
use crate::base::keys::SeqNo;
use crate::base::seeded::seeded;
use crate::base::sync::atomic::Ordering;
use crate::error::{Error, Result};
use crate::key_table::OwnedValue;
use crate::record::{Record, RecordFile};
use crate::version::{Generation, Partition};

/// The newest record of `key` at or below `snapshot`, and its table. A hit is one read of the record.
pub(crate) fn get<'a>(
    partition: &'a Partition,
    key: &[u8],
    hash: u64,
    snapshot: SeqNo,
    counters: &ReadCounters,
) -> Result<Option<(&'a RecordFile, Record)>> {
    for generation in &partition.generations {
        if generation.is_ingested() {
            let found = get_ingested(generation, key, snapshot)?;
            if found.is_some() {
                return Ok(found);
            }
            continue;
        }
        for candidate in generation
            .index
            .lookup(hash, generation.high_water())
            .iter()
        {
            // A slot without a table belongs to a flush that was aborted.
            let Some(table) = generation.table(candidate.slot) else {
                continue;
            };
            if table.meta().min_seq > snapshot
                || (seeded!(SkipTableWithNewer) && table.meta().max_seq > snapshot)
            {
                continue;
            }
            let record = table.get_hinted(candidate.offset, candidate.read_len)?;
            if record.key() != key && !seeded!(TrustTag) {
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

/// The record of `key` in what was ingested at one moment: at most one.
fn get_ingested<'a>(
    generation: &'a Generation,
    key: &[u8],
    snapshot: SeqNo,
) -> Result<Option<(&'a RecordFile, Record)>> {
    let Some(table) = generation.ingested_table_for(key) else {
        return Ok(None);
    };
    let Some(entry) = table.section()?.get(key, snapshot)? else {
        return Ok(None);
    };
    let OwnedValue::Pointer(pointer) = entry.value else {
        let what = "a table's key has no pointer";
        return Err(Error::corruption(table.path(), 0, what));
    };
    let record = table.get(pointer)?;
    if (record.key(), record.seq(), record.kind()) != (key, entry.seq, entry.kind) {
        let what = "the record is not the one its pointer was made for";
        return Err(Error::corruption(table.path(), pointer.offset, what));
    }
    Ok(Some((table, record)))
}

/// Walks from the newest version of a key to the older ones behind it.
fn newest_visible(
    table: &RecordFile,
    mut record: Record,
    snapshot: SeqNo,
    read_len: usize,
) -> Result<Option<Record>> {
    while record.seq() > snapshot {
        if !record.older_follows() || seeded!(NewestVersionAlone) {
            return Ok(None);
        }
        record = table.get_hinted(record.end_offset(), read_len)?;
    }
    Ok(Some(record))
}
