//! Removing what keyspaces held that are gone: dropped, or emptied. A partition in whose range no
//! keyspace is there gets a successor of the same range that lists nothing; many do by one edit.
//! Neighbours that are empty so become one, by one edit as well, when nothing more can come to them
//! ([`CatalogState::is_vacant`]).
//!
//! Invariants: files that nobody else lists go with it; of shared ones, the part that was listed
//! here is garbage from then on. Ids are never used twice, so a flush that was placed for the old
//! partition is placed again: what it brings is removed in its turn. A table with large values
//! keeps them as long as any partition lists it, so partitions that share one are merged soon.

use crate::base::keys::{FileNumber, PartitionId};
use crate::engine::background::{Background, Ended};
use crate::engine::catalog::{CatalogState, Indexes};
use crate::error::Result;
use crate::version::edit::{PartitionMeta, VersionEdit};
use crate::version::{Generation, Partition};
use std::collections::HashSet;
use std::sync::Arc;

fn is_to_be_cleared(catalog: &CatalogState, partition: &Partition) -> bool {
    !partition.is_empty() && catalog.version.keyspaces.count_in(partition.range()) == 0
}

/// Freezes the generations of other partitions that share a table with large values with one of
/// those that have been cleared: these values go when nobody lists the table any more.
fn freeze_beside(catalog: &mut CatalogState, cleared: &[Arc<Partition>]) {
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
    let version = Arc::clone(&catalog.version);
    for partition in version.partitions().iter() {
        if !tables(partition).is_disjoint(&shared) {
            catalog.freeze(partition);
        }
    }
}

impl Background {
    /// Empties partitions whose leases are held.
    pub(in crate::engine::background) fn clear(&self, ids: &[PartitionId]) -> Result<Ended> {
        let mut catalog = self.catalog.lock();
        let found = ids
            .iter()
            .filter_map(|id| catalog.version.partition(*id).cloned());
        let cleared: Vec<_> = found.filter(|p| is_to_be_cleared(&catalog, p)).collect();
        if cleared.is_empty() {
            return Ok(Ended::Nothing);
        }
        let next = catalog.version.counters.next_partition;
        let successors = (next..).zip(&cleared).map(|(id, partition)| PartitionMeta {
            id: PartitionId(id),
            start: partition.start.clone(),
            end: partition.end.clone(),
        });
        let edit = VersionEdit {
            next_partition: Some(next + cleared.len() as u64),
            dropped_partitions: cleared.iter().map(|partition| partition.id).collect(),
            partitions: successors.collect(),
            ..VersionEdit::default()
        };
        self.catalog
            .commit_edit(&mut catalog, edit, &Indexes::new(), |_| ())?;
        for partition in &cleared {
            catalog.end_target(partition.id);
        }
        freeze_beside(&mut catalog, &cleared);
        Ok(Ended::Done)
    }

    /// Puts one partition in the place of neighbours whose leases are held, if these still list
    /// nothing, and nothing can come to them.
    pub(in crate::engine::background) fn join_gone(&self, ids: &[PartitionId]) -> Result<Ended> {
        let mut catalog = self.catalog.lock();
        let all = ids.iter().map(|id| catalog.version.partition(*id));
        let all: Option<Vec<_>> = all.collect();
        let all = all.unwrap_or_default();
        let may_be_joined = all.iter().all(|p| catalog.is_vacant(p));
        let (Some(first), Some(last), true) = (all.first(), all.last(), may_be_joined) else {
            return Ok(Ended::Nothing);
        };
        let next = catalog.version.counters.next_partition;
        let edit = VersionEdit {
            next_partition: Some(next + 1),
            dropped_partitions: ids.to_vec(),
            partitions: vec![PartitionMeta {
                id: PartitionId(next),
                start: first.start.clone(),
                end: last.end.clone(),
            }],
            ..VersionEdit::default()
        };
        self.catalog
            .commit_edit(&mut catalog, edit, &Indexes::new(), |_| ())?;
        for id in ids {
            catalog.end_target(*id);
        }
        self.core.counters.count_join(ids);
        Ok(Ended::Done)
    }
}
