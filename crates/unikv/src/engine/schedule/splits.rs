//! Which partition is split next.

use crate::engine::catalog::CatalogState;
use crate::engine::health::Job;
use crate::engine::schedule::Scheduler;
use crate::error::ErrorKind;
use crate::version::Partition;
use std::sync::Arc;

impl Scheduler {
    pub(crate) fn lease_for_split(&self) -> Option<Arc<Partition>> {
        let (limits, now) = (self.space.partition_limits(), self.core.now());
        let mut catalog = self.catalog.lock();
        self.forget_settled(&catalog);
        let version = Arc::clone(&catalog.version);
        let in_backoff = |id| self.core.health.is_in_backoff(Job::Split, id, now);
        let free = version
            .partitions()
            .iter()
            .filter(|p| !catalog.merging.contains(&p.id) && !in_backoff(p.id));
        let partition = free
            .filter(|p| CatalogState::is_to_be_split(p, limits) || self.is_too_large_for_space(p))
            .max_by_key(|p| p.data_bytes())?;
        catalog.merging.insert(partition.id);
        Some(Arc::clone(partition))
    }

    /// Whether a job of the partition has failed because the disk is full and would need less space
    /// in a part of it: a split needs next to none, and a merge writes only its own key tables
    /// anew.
    pub(crate) fn is_too_large_for_space(&self, partition: &Partition) -> bool {
        let starved = |job| {
            let failure = self.core.health.failure(job, Some(partition.id));
            failure.is_some_and(|failure| failure.error.kind() == ErrorKind::DiskFull)
        };
        self.space.full.is_full()
            && partition.key_tables.len() >= 2
            && (starved(Job::Merge) || starved(Job::Gc))
    }
}
