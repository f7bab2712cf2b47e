//! Which neighbours are joined next.

use crate::base::keys::PartitionId;
use crate::engine::catalog::CatalogState;
use crate::engine::health::Job;
use crate::engine::schedule::Scheduler;
use crate::jobs::partitioning::join;
use crate::version::Partition;
use std::sync::Arc;
use std::time::Duration;

/// How long a pair is left alone after that.
const REST: Duration = Duration::from_secs(3);

/// The ids of two neighbours, in key order.
pub(crate) type Sides = [PartitionId; 2];

/// What a join may cost.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Effort {
    /// Its edit.
    Edit,
    /// Merges, too.
    Merges,
}

impl Scheduler {
    pub(crate) fn lease_for_join(&self, effort: Effort) -> Option<Sides> {
        let now = self.core.now();
        let mut catalog = self.catalog.lock();
        self.forget_settled(&catalog);
        catalog.given_up_joins.retain(|_, until| *until > now);
        let limits = self.space.generation_limits(&catalog.version);
        if catalog.flush_is_blocked(limits) {
            return None;
        }
        let sides = self.plan_join(&catalog, effort, Some(now))?;
        catalog.merging.extend(sides);
        Some(sides)
    }

    /// The neighbours to be joined next: those that need no merge before others, and the smallest
    /// first, so that many grow together evenly. Only those whose leases are free and whose merges
    /// have not failed come into question and, where `now` is given, that do not rest.
    pub(crate) fn plan_join(
        &self,
        catalog: &CatalogState,
        effort: Effort,
        now: Option<Duration>,
    ) -> Option<Sides> {
        if self.space.full.is_full() {
            return None;
        }
        let is_free = |p: &Partition| {
            let failed = || self.core.health.failure(Job::Merge, Some(p.id)).is_some();
            !catalog.merging.contains(&p.id) && !failed()
        };
        let in_backoff = |left: &Partition| {
            now.is_some_and(|now| {
                let given_up = catalog.given_up_joins.get(&left.id);
                given_up.is_some_and(|until| *until > now)
                    || self.core.health.is_in_backoff(Job::Join, left.id, now)
            })
        };
        let due = self.due_joins(catalog).filter(|(left, right)| {
            let affordable = effort == Effort::Merges || join::is_merged(left, right);
            affordable && is_free(left) && is_free(right) && !in_backoff(left)
        });
        let order = |left: &Partition, right: &Partition| {
            (!join::is_merged(left, right), join::sum(left, right))
        };
        let (left, right) = due.min_by_key(|(left, right)| order(left, right))?;
        Some([left.id, right.id])
    }

    /// All neighbours that are to be joined.
    pub(crate) fn due_joins<'a>(
        &self,
        catalog: &'a CatalogState,
    ) -> impl Iterator<Item = (&'a Arc<Partition>, &'a Arc<Partition>)> {
        let limits = self.space.partition_limits();
        let partitions = catalog.version.partitions();
        let pairs = partitions.iter().zip(partitions.iter().skip(1));
        pairs.filter(move |(left, right)| join::is_due(left, right, limits))
    }

    /// Whether a partition is to be joined with the one behind it.
    pub(crate) fn is_to_be_joined(&self, catalog: &CatalogState, left: PartitionId) -> bool {
        self.due_joins(catalog)
            .any(|(partition, _)| partition.id == left)
    }

    /// How long from `now` until a join that was given up may be tried again.
    pub(crate) fn join_rest_left(&self, now: Duration) -> Option<Duration> {
        let catalog = self.catalog.lock();
        let first = catalog.given_up_joins.values().min()?;
        // Never at once: the worker that forgets such a backoff may be at work on something else.
        Some(first.saturating_sub(now).max(REST / 100))
    }
}
