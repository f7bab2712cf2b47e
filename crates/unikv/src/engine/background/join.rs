//! Joining partitions: choosing neighbours, merging what they have in UnsortedStores, and
//! committing the edit (see [`crate::jobs::partitioning::join`]).
//!
//! Nobody waits for a join, so there is none while flushes wait for merges. One that needs no merge
//! costs no more than its edit, and is made beside each merge; another comes after splits and after
//! the merges that are due, or takes its turn among these. It holds the leases of both sides from
//! the first merge on. A flush that reaches a side meanwhile begins another generation there, which
//! is merged as well; after some rounds, or when flushes wait for a merge, the join is given up and
//! the pair left alone for a while. So writers that keep two small neighbours busy cost merges now
//! and then, and never wait.
//!
//! While the disk is full nothing is joined: partitions are split then so that their merges fit.

use crate::base::keys::PartitionId;
use crate::engine::Engine;
use crate::engine::catalog::{Catalog, Indexes, MAX_GENERATIONS};
use crate::engine::health::Job;
use crate::error::Result;
use crate::jobs::partitioning::join;
use crate::version::Partition;
use std::sync::Arc;
use std::time::Duration;

/// How often both sides are merged before a join is given up.
const ROUNDS: usize = 3;
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

/// What an attempt to commit a join came to.
enum Attempt {
    Joined,
    /// Its open generations are frozen.
    ToBeMerged,
    GivenUp,
}

impl Engine {
    /// Joins the smallest neighbours that are to be joined, if there are any.
    pub(crate) fn join_one(&self, effort: Effort) -> Result<bool> {
        self.health.check_fatal()?;
        let Some(sides) = self.lease_for_join(effort) else {
            return Ok(false);
        };
        let joined = self.join_leased(sides);
        let mut catalog = self.catalog.lock();
        sides.iter().for_each(|side| {
            catalog.merging.remove(side);
        });
        if let Ok(false) = joined {
            let until = self.now().saturating_add(REST);
            catalog.given_up_joins.insert(sides[0], until);
        }
        drop(catalog);
        self.note(Job::Join, sides[0], joined.map(drop))
    }

    fn lease_for_join(&self, effort: Effort) -> Option<Sides> {
        let now = self.now();
        let mut catalog = self.catalog.lock();
        self.forget_settled(&catalog);
        catalog.given_up_joins.retain(|_, until| *until > now);
        let limits = self.generation_limits(&catalog.version);
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
        catalog: &Catalog,
        effort: Effort,
        now: Option<Duration>,
    ) -> Option<Sides> {
        if self.space.is_full() {
            return None;
        }
        let is_free = |p: &Partition| {
            let failed = || self.health.failure(Job::Merge, Some(p.id)).is_some();
            !catalog.merging.contains(&p.id) && !failed()
        };
        let in_backoff = |left: &Partition| {
            now.is_some_and(|now| {
                let given_up = catalog.given_up_joins.get(&left.id);
                given_up.is_some_and(|until| *until > now)
                    || self.health.is_in_backoff(Job::Join, left.id, now)
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
    fn due_joins<'a>(
        &self,
        catalog: &'a Catalog,
    ) -> impl Iterator<Item = (&'a Arc<Partition>, &'a Arc<Partition>)> {
        let limits = self.partition_limits();
        let partitions = catalog.version.partitions();
        let pairs = partitions.iter().zip(partitions.iter().skip(1));
        pairs.filter(move |(left, right)| join::is_due(left, right, limits))
    }

    /// Whether a partition is to be joined with the one behind it.
    pub(crate) fn is_to_be_joined(&self, catalog: &Catalog, left: PartitionId) -> bool {
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

    /// Joins neighbours whose leases are held. False: it was given up.
    pub(crate) fn join_leased(&self, sides: Sides) -> Result<bool> {
        for round in 0..=ROUNDS {
            match self.try_to_join(sides)? {
                Attempt::Joined => return Ok(true),
                Attempt::GivenUp => return Ok(false),
                Attempt::ToBeMerged if round == ROUNDS => return Ok(false),
                Attempt::ToBeMerged => {}
            }
            for side in sides {
                if !self.merge_frozen(side)? {
                    return Ok(false);
                }
            }
        }
        Ok(false)
    }

    /// Commits the join if neither side has an UnsortedStore, or else freezes what they have.
    fn try_to_join(&self, sides: Sides) -> Result<Attempt> {
        let mut catalog = self.catalog.lock();
        let [left, right] = sides.map(|id| catalog.version.partition(id).cloned());
        let Some((left, right)) = left.zip(right) else {
            return Ok(Attempt::GivenUp);
        };
        // What came meanwhile may be too much for one partition.
        if !join::is_due(&left, &right, self.partition_limits()) {
            return Ok(Attempt::GivenUp);
        }
        let id = PartitionId(catalog.version.counters.next_partition);
        let Some(edit) = join::edit(&left, &right, id) else {
            let limits = self.generation_limits(&catalog.version);
            if catalog.flush_is_blocked(limits) {
                return Ok(Attempt::GivenUp);
            }
            catalog.freeze(&left);
            catalog.freeze(&right);
            return Ok(Attempt::ToBeMerged);
        };
        self.commit_edit(&mut catalog, edit, &Indexes::new(), |_| ())?;
        for side in sides {
            catalog.targets.remove(&side);
        }
        self.counters.count_join(sides);
        Ok(Attempt::Joined)
    }

    /// Merges what is frozen of a partition whose lease is held. False: a merge has failed.
    fn merge_frozen(&self, side: PartitionId) -> Result<bool> {
        for _ in 0..MAX_GENERATIONS {
            match self.merge_leased(side) {
                Ok(true) => {}
                Ok(false) => break,
                Err(error) => {
                    self.note(Job::Merge, side, Err(error))?;
                    return Ok(false);
                }
            }
        }
        Ok(true)
    }
}

#[cfg(test)]
mod tests;
