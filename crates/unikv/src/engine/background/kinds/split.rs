//! Splitting partitions: choosing one, and committing the edit (see
//! [`crate::jobs::partitioning::split`]).

use crate::base::keys::PartitionId;
use crate::base::seeded::seeded;
use crate::engine::background::scheduler::Ask;
use crate::engine::background::{Background, Ended, JobKind};
use crate::engine::catalog::{CatalogState, Indexes};
use crate::engine::health::{COLLECT, JobName, MERGE};
use crate::error::{ErrorKind, Result};
use crate::jobs::partitioning::split::{PartitionLimits, Split};
use crate::jobs::plan::{Job, Why};
use crate::version::Partition;
use std::sync::Arc;

const SPLIT: JobName = "split";

/// Splits the largest partition that has outgrown its size, or the space there is.
pub(crate) struct Splits;

impl JobKind for Splits {
    fn name(&self) -> JobName {
        SPLIT
    }

    fn find(&self, background: &Background, ask: &Ask<'_>) -> Option<(Job, Why)> {
        let limits = background.space.partition_limits();
        // On a full disk a split may be due in a partition of any size.
        let limits_or_none = if background.space.full_disk.is_full() {
            PartitionLimits::default()
        } else {
            limits
        };
        let PartitionLimits {
            data_bytes,
            key_table_bytes,
        } = limits_or_none;
        let version = &ask.catalog.version;
        let perhaps = version.perhaps_larger(data_bytes, key_table_bytes);
        let is_due = |p: &Partition| {
            CatalogState::is_to_be_split(p, limits) || background.is_too_large_for_space(p)
        };
        let is_free = |p: &Partition| ask.is_free(p.id) && ask.allows(SPLIT, Some(p.id));
        let due = perhaps.filter(|p| is_due(p) && is_free(p));
        let largest = due.max_by_key(|p| p.data_bytes())?;
        let (bytes, most) = (largest.data_bytes(), limits.data_bytes);
        let why = if CatalogState::is_to_be_split(largest, limits) {
            Why::TooLarge { bytes, most }
        } else {
            Why::TooLargeForSpace { bytes }
        };
        Some((Job::Split(largest.id), why))
    }
}

impl Background {
    /// Whether a job of the partition has failed because the disk is full and would need less space
    /// in a part of it: a split needs next to none, and a merge writes only its own key tables
    /// again.
    pub(crate) fn is_too_large_for_space(&self, partition: &Partition) -> bool {
        let starved = |job| {
            let failure = self.core.health.failure(job, Some(partition.id));
            failure.is_some_and(|failure| failure.error.kind() == ErrorKind::DiskFull)
        };
        self.space.full_disk.is_full()
            && partition.key_tables.len() >= 2
            && (starved(MERGE) || starved(COLLECT))
    }

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
