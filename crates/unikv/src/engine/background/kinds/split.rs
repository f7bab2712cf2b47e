//! Splitting partitions: committing the edit (see [`crate::jobs::partitioning::split`]).

use crate::base::keys::PartitionId;
use crate::base::seeded::seeded;
use crate::engine::background::{Background, Ended};
use crate::engine::catalog::Indexes;
use crate::error::Result;
use crate::jobs::partitioning::split::Split;
use crate::version::Partition;
use std::sync::Arc;

impl Background {
    /// Splits a partition whose lease is held.
    pub(in crate::engine::background) fn split(&self, id: PartitionId) -> Result<Ended> {
        let version = Arc::clone(&self.read.view.load().version);
        let leased = version.partition(id);
        leased.map_or(Ok(Ended::Nothing), |leased| self.split_leased(leased))
    }

    /// The same, `leased` being what it was some time ago.
    pub(crate) fn split_leased(&self, leased: &Partition) -> Result<Ended> {
        let Some(mut split) = Split::choose(leased) else {
            return Ok(Ended::Nothing);
        };
        split.divide_tables(leased)?;
        loop {
            let mut catalog = self.catalog.lock();
            let Some(partition) = catalog.version.partition(leased.id).cloned() else {
                return Ok(Ended::Nothing);
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
            catalog.end_target(partition.id);
            self.core.counters.count_split(leased.id);
            return Ok(Ended::Done);
        }
    }
}

#[cfg(test)]
mod tests;
