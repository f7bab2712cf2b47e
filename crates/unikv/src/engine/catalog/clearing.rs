//! What keyspaces held that are gone: dropped, or emptied. A partition in whose range no keyspace
//! is there gets a successor of the same range that lists nothing; many do by one edit. Neighbours
//! that are empty so become one, by one edit as well, when nothing more can come to them.
//!
//! Invariants: files that nobody else lists go with it; of shared ones, the part that was listed
//! here is garbage from then on. Ids are never used twice, so a flush that was placed for the old
//! partition is placed again: what it brings is removed in its turn. A table with large values
//! keeps them as long as any partition lists it, so partitions that share one are merged soon.
//! Kept under the catalog's lock.

use super::CatalogState;
use crate::base::keys::{FileNumber, PartitionId};
use crate::jobs::partitioning::join;
use crate::jobs::partitioning::split::PartitionLimits;
use crate::jobs::plan::partitions::JoinFacts;
use crate::version::edit::{PartitionMeta, VersionEdit};
use crate::version::{Generation, KeyRange, Partition};
use std::collections::HashSet;
use std::sync::Arc;

impl CatalogState {
    /// The edit that empties partitions, as far as they belong to nobody and hold anything.
    pub(crate) fn clearing(&self, ids: &[PartitionId]) -> VersionEdit {
        let found = ids.iter().filter_map(|id| self.version.partition(*id));
        let is_gone = |p: &Partition| self.version.keyspaces.count_in(p.range()) == 0;
        let cleared: Vec<_> = found.filter(|p| !p.is_empty() && is_gone(p)).collect();
        let next = self.version.counters.next_partition;
        let successors = (next..).zip(&cleared).map(|(id, partition)| PartitionMeta {
            id: PartitionId(id),
            start: partition.start.clone(),
            end: partition.end.clone(),
        });
        VersionEdit {
            next_partition: Some(next + cleared.len() as u64),
            dropped_partitions: cleared.iter().map(|partition| partition.id).collect(),
            partitions: successors.collect(),
            ..VersionEdit::default()
        }
    }

    /// The edit that puts one partition in the place of neighbours, if these list nothing, and
    /// nothing can come to them.
    pub(crate) fn joining_gone(&self, ids: &[PartitionId]) -> Option<VersionEdit> {
        let all = ids.iter().map(|id| self.version.partition(*id));
        let all: Vec<_> = all.collect::<Option<_>>()?;
        let (first, last) = (all.first()?, all.last()?);
        let next = self.version.counters.next_partition;
        let are_vacant = all.iter().all(|p| self.is_vacant(p));
        are_vacant.then(|| VersionEdit {
            next_partition: Some(next + 1),
            dropped_partitions: ids.to_vec(),
            partitions: vec![PartitionMeta {
                id: PartitionId(next),
                start: first.start.clone(),
                end: last.end.clone(),
            }],
            ..VersionEdit::default()
        })
    }

    /// Freezes the generations of other partitions that share a table with large values with one of
    /// those that have been cleared: these values go when nobody lists the table any more.
    pub(crate) fn freeze_beside(&mut self, cleared: &[Arc<Partition>]) {
        let tables = |partition: &Partition| -> HashSet<FileNumber> {
            let generations = partition.generations.iter();
            let tables = generations.flat_map(Generation::tables);
            let with_large = tables.filter(|(_, table)| !table.meta().refs.is_empty());
            with_large.map(|(_, table)| table.meta().number).collect()
        };
        let shared: HashSet<_> = cleared.iter().flat_map(|p| tables(p)).collect();
        if shared.is_empty() {
            return;
        }
        let version = Arc::clone(&self.version);
        for partition in version.partitions().iter() {
            if !tables(partition).is_disjoint(&shared) {
                self.freeze(partition);
            }
        }
    }

    /// The joins that are due of which one side is vacant: it belongs to a keyspace that is gone.
    pub(crate) fn joins_of_gone(&self, limits: PartitionLimits) -> Vec<(PartitionId, JoinFacts)> {
        let version = &self.version;
        let gone = version.gone_partitions().filter(|p| self.is_vacant(p));
        let pairs = gone.flat_map(|gone| {
            let left = version.partition_before(gone).map(|left| (left, gone));
            let right = version.partition_after(gone).map(|right| (gone, right));
            left.into_iter().chain(right)
        });
        let may_be = pairs.filter(|(left, right)| self.may_be_joined(left, right));
        let due = may_be.filter_map(|(left, right)| {
            let facts = join::facts(left, right, limits)?;
            Some((left.id, facts))
        });
        due.collect()
    }

    /// Whether neighbours belong to one keyspace at most. The range of one that is gone may go to
    /// another as soon as it has been emptied, and no memtable holds anything of it: afterwards
    /// nobody would know what is gone.
    pub(crate) fn may_be_joined(&self, left: &Partition, right: &Partition) -> bool {
        let version = &self.version;
        if version.counters.last_keyspace == 0 {
            return true;
        }
        let both = KeyRange {
            start: &left.start,
            end: right.end.as_deref(),
        };
        let keyspaces = &version.keyspaces;
        let is_gone = |side: &&Partition| keyspaces.count_in(side.range()) == 0;
        let mut gone = [left, right].into_iter().filter(is_gone);
        keyspaces.count_in(both) <= 1 && gone.all(|side| self.is_vacant(side))
    }
}
