//! Removing what keyspaces held that are gone: dropped, or emptied. By one edit a partition in
//! whose range no keyspace is there gets a successor of the same range that lists nothing.
//!
//! Invariants: files that nobody else lists go with it; of shared ones, the part that was listed
//! here is garbage from then on. Ids are never used twice, so a flush that was placed for the old
//! partition is placed again: what it brings is removed in its turn. A table with large values
//! keeps them as long as any partition lists it, so partitions that share one are merged soon.
//! Empty partitions are joined to their neighbours only when nothing more can come to them
//! ([`CatalogState::gone_until`]).

use crate::base::keys::{FileNumber, PartitionId};
use crate::engine::background::scheduler::Ask;
use crate::engine::background::{Background, Ended, Job, JobKind};
use crate::engine::catalog::{CatalogState, Indexes};
use crate::engine::health::JobName;
use crate::error::Result;
use crate::version::edit::{PartitionMeta, VersionEdit};
use crate::version::{Generation, Partition};
use std::collections::HashSet;
use std::sync::Arc;

const CLEAR: JobName = "clear";

/// Empties the partitions of keyspaces that are gone.
pub(crate) struct Clearings;

impl JobKind for Clearings {
    fn name(&self) -> JobName {
        CLEAR
    }

    fn find(&self, _: &Background, ask: &Ask<'_>) -> Option<Job> {
        let catalog = ask.catalog;
        if catalog.version.counters.last_keyspace == 0 {
            return None;
        }
        let partitions = catalog.version.partitions().iter();
        let mut due = partitions.filter(|p| {
            is_to_be_cleared(catalog, p) && ask.is_free(p.id) && ask.allows(CLEAR, Some(p.id))
        });
        let id = due.next()?.id;
        Some(Job::new([id], move |background| background.clear(id)))
    }
}

fn is_to_be_cleared(catalog: &CatalogState, partition: &Partition) -> bool {
    !partition.is_empty() && catalog.version.keyspaces.count_in(partition.range()) == 0
}

/// Freezes the generations of other partitions that share a table with large values with one that
/// has been cleared: these values go when nobody lists the table any more.
fn freeze_beside(catalog: &mut CatalogState, cleared: &Partition) {
    let tables = |partition: &Partition| -> HashSet<FileNumber> {
        let generations = partition.generations.iter();
        let tables = generations.flat_map(Generation::tables);
        let with_large = tables.filter(|(_, table)| !table.meta().refs.is_empty());
        with_large.map(|(_, table)| table.meta().number).collect()
    };
    let shared = tables(cleared);
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
    /// Empties a partition whose lease is held.
    fn clear(&self, id: PartitionId) -> Result<Ended> {
        let mut catalog = self.catalog.lock();
        let found = catalog.version.partition(id).cloned();
        let Some(partition) = found.filter(|p| is_to_be_cleared(&catalog, p)) else {
            return Ok(Ended::Nothing);
        };
        let next = catalog.version.counters.next_partition;
        let edit = VersionEdit {
            next_partition: Some(next + 1),
            dropped_partitions: vec![id],
            partitions: vec![PartitionMeta {
                id: PartitionId(next),
                start: partition.start.clone(),
                end: partition.end.clone(),
            }],
            ..VersionEdit::default()
        };
        self.catalog
            .commit_edit(&mut catalog, edit, &Indexes::new(), |_| ())?;
        catalog.targets.remove(&id);
        freeze_beside(&mut catalog, &partition);
        Ok(Ended::Done)
    }
}
