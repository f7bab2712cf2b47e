//! Splitting partitions: choosing one, and committing the edit (see
//! [`crate::jobs::partitioning::split`]).

use crate::base::keys::PartitionId;
use crate::base::seeded::seeded;
use crate::engine::background::Background;
use crate::engine::catalog::Indexes;
use crate::engine::health::Job;
use crate::error::Result;
use crate::jobs::partitioning::split::Split;
use crate::version::Partition;
use std::sync::Arc;

impl Background {
    /// Splits the largest partition that has outgrown its size, or the space there is, if there is
    /// one.
    pub(crate) fn split_one(&self) -> Result<bool> {
        self.core.health.check_fatal()?;
        let Some(partition) = self.schedule.lease_for_split() else {
            return Ok(false);
        };
        let split = self.split_leased(&partition);
        self.catalog.lock().merging.remove(&partition.id);
        match split {
            Ok(false) => {
                self.core.job_ended(Job::Split, Some(partition.id), None);
                Ok(false)
            }
            split => self.note(Job::Split, partition.id, split.map(drop)),
        }
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
            self.catalog
                .commit_edit(&mut catalog, edit, &indexes, |_| ())?;
            // The sides share their parent's indexes, so nothing more is entered there.
            catalog.targets.remove(&partition.id);
            self.core.counters.count_split(leased.id);
            return Ok(true);
        }
    }
}

#[cfg(test)]
mod tests;
