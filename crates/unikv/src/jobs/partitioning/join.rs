//! Join: two neighbours that have become small are one partition again, the mirror image of the
//! split (the paper has none). Deletes leave partitions that hold next to nothing, each with
//! an open generation and an index of its own; so does another `partition_bytes`.
//!
//! A join moves no byte either: one edit drops both sides and adds one partition with a new id,
//! which lists the key tables of both. They lie in one side whole, so they are in order and
//! disjoint.
//!
//! # Neither side has an UnsortedStore when it is joined
//!
//! A table is shared by the partitions that own its keys, and each reads its own range of it. What
//! one of them has merged is in its SortedStore, and may have been overwritten or deleted there
//! since; the other may list the same table still. A partition of both ranges that listed it would
//! find the merged part again: old values before newer ones, and deleted keys. So both sides
//! are merged first, and the edit is made only of a version in which neither has a generation
//! ([`edit`] refuses otherwise). Then all that there is of the keys stands in key tables; nothing
//! is left to be clipped, indexed or put in order, and no scan run, snapshot or half-merged table
//! needs a rule of its own.
//!
//! The leases of both sides keep their SortedStores as they are. Flushes and ingests go on
//! meanwhile and may begin generations, which is seen under the catalog's lock under which the edit
//! is committed. One that was placed for a side and commits after the join is placed again: ids are
//! never used twice, and the new partition has no open generation.
//!
//! # When
//!
//! Sides are measured as for a split ([`PartitionLimits`]). After a split they exceed one of the
//! limits together; they are joined below a quarter of each. So what a split has made is joined
//! only after three quarters of it are gone, and what was joined is split only after it has grown
//! to four times its size. A side that holds nothing adds nothing: it goes to a neighbour of any
//! size, but only if nothing needs to be merged for it.

use crate::base::keys::PartitionId;
use crate::base::seeded::{seeded, slip};
use crate::jobs::partitioning::split::PartitionLimits;
use crate::version::Partition;
use crate::version::edit::{PartitionMeta, VersionEdit};

/// Sides are joined when both together are smaller than this part of each limit of a partition.
const JOINED_PART: u64 = 4;

/// Whether two neighbours are to be joined.
pub(crate) fn is_due(left: &Partition, right: &Partition, limits: PartitionLimits) -> bool {
    let key_table_bytes = left
        .key_table_bytes()
        .saturating_add(right.key_table_bytes());
    let are_small = sum(left, right) < limits.data_bytes / JOINED_PART
        && key_table_bytes < limits.key_table_bytes / JOINED_PART;
    are_small || (is_merged(left, right) && (left.is_empty() || right.is_empty()))
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
