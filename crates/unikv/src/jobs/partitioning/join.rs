//! Join: two small neighbours become one partition by one edit that moves no byte, the mirror image
//! of the split (the paper has none). See `docs/mechanisms.md`, "Join".
//!
//! Invariants:
//! - Neither side has an UnsortedStore when the edit is made ([`edit`] refuses otherwise). Both may
//!   list one table, of which one side has merged its part and overwritten it since: a partition of
//!   both ranges would find the merged part again.
//! - The caller holds the leases of both sides, and commits under the catalog's lock under which it
//!   has seen that no generation has begun meanwhile. The new partition has a new id, so a flush
//!   that was placed for a side is placed again.

use crate::base::keys::PartitionId;
use crate::base::seeded::{seeded, slip};
use crate::jobs::partitioning::split::PartitionLimits;
use crate::jobs::plan::partitions::JoinFacts;
use crate::version::Partition;
use crate::version::edit::{PartitionMeta, VersionEdit};

/// Sides are joined when both together are smaller than this part of each limit of a partition.
const JOINED_PART: u64 = 4;

/// Whether two neighbours are to be joined.
///
/// After a split the sides exceed one of the limits together; they are joined below a quarter of
/// each. So what a split has made is joined only after three quarters of it are gone, and what was
/// joined is split only after it has grown to four times its size. A side that holds nothing adds
/// nothing: it goes to a neighbour of any size, but only if nothing needs to be merged for it.
pub(crate) fn is_due(left: &Partition, right: &Partition, limits: PartitionLimits) -> bool {
    let key_table_bytes = left
        .key_table_bytes()
        .saturating_add(right.key_table_bytes());
    let are_small = sum(left, right) < most_bytes(limits)
        && key_table_bytes < limits.key_table_bytes / JOINED_PART;
    are_small || (is_merged(left, right) && (left.is_empty() || right.is_empty()))
}

/// The figures of the join of two neighbours, if it is due.
pub(crate) fn facts(
    left: &Partition,
    right: &Partition,
    limits: PartitionLimits,
) -> Option<JoinFacts> {
    is_due(left, right, limits).then(|| JoinFacts {
        needs_merge: !is_merged(left, right),
        bytes: sum(left, right),
        right: right.id,
    })
}

/// Bytes of both sides of which neither is empty, at most.
fn most_bytes(limits: PartitionLimits) -> u64 {
    limits.data_bytes / JOINED_PART
}

/// Bytes of both sides.
pub(crate) fn sum(left: &Partition, right: &Partition) -> u64 {
    left.data_bytes().saturating_add(right.data_bytes())
}

/// Whether neither side has an UnsortedStore.
pub(crate) fn is_merged(left: &Partition, right: &Partition) -> bool {
    left.generations.is_empty() && right.generations.is_empty()
}

/// The edit that puts `id` in the place of two neighbours; `None` if one of them has an
/// UnsortedStore, or they do not meet.
pub(crate) fn edit(left: &Partition, right: &Partition, id: PartitionId) -> Option<VersionEdit> {
    let they_meet = left.end.as_deref() == Some(right.start.as_slice());
    let left_alone = || left.generations.is_empty();
    if !they_meet || !slip!(JoinForgetsUnmerged, left_alone(), is_merged(left, right)) {
        return None;
    }
    let is_lost = |first: &[u8]| seeded!(JoinLosesBorderKey) && first == right.start;
    let of_right = right.key_tables.iter();
    let of_right = of_right.filter(|table| !is_lost(&table.meta().min_key));
    let key_tables = left.key_tables.iter().chain(of_right);
    Some(VersionEdit {
        next_partition: Some(id.0 + 1),
        dropped_partitions: vec![left.id, right.id],
        partitions: vec![PartitionMeta {
            id,
            start: left.start.clone(),
            end: right.end.clone(),
        }],
        key_tables: key_tables.map(|t| (id, t.meta().clone())).collect(),
        ..VersionEdit::default()
    })
}
