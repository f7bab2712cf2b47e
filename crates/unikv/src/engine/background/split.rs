//! Splitting partitions: choosing one, and committing the edit (see
//! [`crate::jobs::partitioning::split`]).

use crate::base::keys::PartitionId;
use crate::base::seeded::seeded;
use crate::engine::Engine;
use crate::engine::catalog::{Catalog, Indexes};
use crate::engine::health::Job;
use crate::error::{ErrorKind, Result};
use crate::jobs::partitioning::split::Split;
use crate::version::Partition;
use std::sync::Arc;

impl Engine {
    /// Splits the largest partition that has outgrown its size, or the space there is, if there is
    /// one.
    pub(crate) fn split_one(&self) -> Result<bool> {
        self.health.check_fatal()?;
        let Some(partition) = self.lease_for_split() else {
            return Ok(false);
        };
        let split = self.split_leased(&partition);
        self.catalog.lock().merging.remove(&partition.id);
        match split {
            Ok(false) => {
                self.job_ended(Job::Split, Some(partition.id), None);
                Ok(false)
            }
            split => self.note(Job::Split, partition.id, split.map(drop)),
        }
    }

    fn lease_for_split(&self) -> Option<Arc<Partition>> {
        let (limits, now) = (self.partition_limits(), self.now());
        let mut catalog = self.catalog.lock();
        self.forget_settled(&catalog);
        let version = Arc::clone(&catalog.version);
        let in_backoff = |id| self.health.is_in_backoff(Job::Split, id, now);
        let free = version
            .partitions()
            .iter()
            .filter(|p| !catalog.merging.contains(&p.id) && !in_backoff(p.id));
        let partition = free
            .filter(|p| Catalog::is_to_be_split(p, limits) || self.is_too_large_for_space(p))
            .max_by_key(|p| p.data_bytes())?;
        catalog.merging.insert(partition.id);
        Some(Arc::clone(partition))
    }

    /// Whether a job of the partition has failed because the disk is full and would need less space
    /// in a part of it: a split needs next to none, and a merge writes only its own key tables
    /// anew.
    pub(crate) fn is_too_large_for_space(&self, partition: &Partition) -> bool {
        let starved = |job| {
            let failure = self.health.failure(job, Some(partition.id));
            failure.is_some_and(|failure| failure.error.kind() == ErrorKind::DiskFull)
        };
        self.space.is_full()
            && partition.key_tables.len() >= 2
            && (starved(Job::Merge) || starved(Job::Gc))
    }

    pub(crate) fn split_leased(&self, leased: &Partition) -> Result<bool> {
        let Some(mut split) = Split::choose(leased) else {
            return Ok(false);
        };
        split.divide_tables(leased)?;
        loop {
            let mut catalog = self.catalog.lock();
            let Some(partition) = catalog.version.partition(leased.id).cloned() else {
                return Ok(false);
            };
            if !split.is_complete(&partition) && !seeded!(SplitForgetsNewTables) {
                // A flush has added tables, which are looked at without the lock.
                drop(catalog);
                split.divide_tables(&partition)?;
                continue;
            }
            let next = catalog.version.counters.next_partition;
            let ids = [PartitionId(next), PartitionId(next + 1)];
            let edit = split.edit(&partition, ids);
            let generations = partition.generations.iter();
            let indexes: Indexes = generations
                .flat_map(|g| ids.map(|id| ((id, g.id), Arc::clone(&g.index))))
                .collect();
            self.commit_edit(&mut catalog, edit, &indexes, |_| ())?;
            // The sides share their parent's indexes, so nothing more is entered there.
            catalog.targets.remove(&partition.id);
            self.counters.count_split(leased.id);
            return Ok(true);
        }
    }
}

#[cfg(test)]
mod tests;
