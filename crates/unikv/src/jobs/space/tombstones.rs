//! How much of an UnsortedStore is tombstones: each costs a scan the steps over it and over what it
//! hides, until a merge drops both.

use crate::base::keys::{Kind, SeqNo};
use crate::error::Result;
use crate::jobs::Cancel;
use crate::version::{Generation, Partition, Version};
use std::sync::Arc;

/// Fewer cost a scan less than a millisecond.
pub(crate) const MANY: u64 = 2048;
/// Of this many entries that a merge writes again, one is a tombstone, or it is not worth it.
const ENTRIES_FOR_ONE: u64 = 16;
/// Between two looks at whether the database is being closed.
const ENTRIES_AT_ONCE: u64 = 1 << 16;

/// Whether the generation may have many tombstones.
pub(crate) fn may_be_many(generation: &Generation) -> bool {
    generation.records() >= MANY && !generation.is_ingested()
}

/// Partitions among which are all whose newest generation may have many tombstones.
pub(crate) fn perhaps_many(version: &Version) -> impl Iterator<Item = &Arc<Partition>> {
    version.partitions_where(|sums| sums.most_open_records >= MANY)
}

/// Whether scans gain more from a merge of a generation of `partition` than it writes, because many
/// of the entries are tombstones. Reads its keys.
pub(crate) fn are_worth_a_merge(
    partition: &Partition,
    generation: &Generation,
    cancel: Cancel<'_>,
) -> Result<bool> {
    let (mut tombstones, mut entries) = (0, 0_u64);
    let mut bounds: Option<(Vec<u8>, Vec<u8>)> = None;
    for (_, table) in generation.shares() {
        let mut keys = table.job_keys()?;
        keys.seek(&partition.start, SeqNo::MAX)?;
        while let Some(entry) = keys.entry() {
            if !partition.range().is_before_end(entry.key) {
                break;
            }
            entries += 1;
            if entries.is_multiple_of(ENTRIES_AT_ONCE) {
                cancel.check()?;
            }
            if entry.kind == Kind::Delete {
                tombstones += 1;
                extend(&mut bounds, entry.key);
            }
            keys.next()?;
        }
    }
    let Some((first, last)) = bounds.filter(|_| tombstones >= MANY) else {
        return Ok(false);
    };
    let tables = partition.key_tables.iter().map(|table| table.meta());
    let met = tables.filter(|table| table.min_key <= last && first <= table.max_key);
    let written: u64 = met.map(|table| table.count).sum();
    Ok(tombstones * ENTRIES_FOR_ONE >= written.saturating_add(entries))
}

/// Makes the bounds take in a key.
fn extend(bounds: &mut Option<(Vec<u8>, Vec<u8>)>, key: &[u8]) {
    let Some((first, last)) = bounds else {
        *bounds = Some((key.to_vec(), key.to_vec()));
        return;
    };
    if key > last.as_slice() {
        last.clear();
        last.extend_from_slice(key);
    } else if key < first.as_slice() {
        first.clear();
        first.extend_from_slice(key);
    }
}
