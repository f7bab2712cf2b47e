//! Joining partitions: choosing neighbours, merging what they have in UnsortedStores, and
//! committing the edit (see [`crate::jobs::partitioning::join`]).
//!
//! Nobody waits for a join, so there is none while flushes wait for merges. One that needs no merge
//! costs no more than its edit, and comes before merges; another comes after splits and after the
//! merges that are due, or takes its turn among these. It holds the leases of both sides from the
//! first merge on. A flush that reaches a side meanwhile begins another generation there, which is
//! merged as well; after some rounds, or when flushes wait for a merge, the join is given up and
//! the pair left alone for a while. So writers that keep two small neighbours busy cost merges now
//! and then, and never wait.
//!
//! While the disk is full nothing is joined: partitions are split then so that their merges fit.

use crate::base::keys::PartitionId;
use crate::base::sync::atomic::Ordering;
use crate::engine::background::kinds::merge::Merges;
use crate::engine::background::scheduler::Ask;
use crate::engine::background::{Background, Ended, JobKind};
use crate::engine::catalog::{CatalogState, Indexes};
use crate::engine::health::{JobName, MERGE};
use crate::error::{ErrorKind, Result};
use crate::jobs::flush::placing::MAX_GENERATIONS;
use crate::jobs::partitioning::join;
use crate::jobs::plan::{Job, Why};
use crate::version::{KeyRange, Partition};
use std::sync::Arc;

const JOIN: JobName = "join";

/// How often both sides are merged before a join is given up.
const ROUNDS: usize = 3;

/// What an attempt to commit a join came to.
enum Attempt {
    Joined,
    /// Its open generations are frozen.
    ToBeMerged,
    GivenUp,
}

/// While merges are due all the time, once in this many of them a join that needs merges takes its
/// turn.
const MERGES_PER_JOIN: u64 = 4;

/// Joins the smallest neighbours that are to be joined, those that need no merge before others.
pub(crate) struct Joins {
    /// Whether it is for the joins that need merges, too: these come after merges that are due.
    pub(crate) with_merges: bool,
}

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

impl JobKind for Joins {
    fn name(&self) -> JobName {
        JOIN
    }

    fn find(&self, background: &Background, ask: &Ask<'_>) -> Option<(Job, Why)> {
        let merges = background.core.counters.merges.load(Ordering::Relaxed);
        let effort = if self.with_merges || merges.is_multiple_of(MERGES_PER_JOIN) {
            Effort::Merges
        } else {
            Effort::Edit
        };
        let sides = background.plan_join(ask, effort)?;
        let version = &ask.catalog.version;
        let both = sides.map(|id| version.partition(id).map_or(0, |p| p.data_bytes()));
        let why = Why::SmallNeighbours {
            bytes: both.iter().sum(),
        };
        Some((Job::Join(sides), why))
    }
}

/// Whether neighbours belong to one keyspace at most. The range of one that is gone may go to
/// another as soon as it has been emptied, and no memtable holds anything of it: afterwards nobody
/// would know what is gone.
pub(crate) fn may_be_joined(catalog: &CatalogState, left: &Partition, right: &Partition) -> bool {
    let version = &catalog.version;
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
    keyspaces.count_in(both) <= 1 && gone.all(|side| catalog.is_vacant(side))
}

impl Background {
    /// The neighbours to be joined next: those that need no merge before others, and the smallest
    /// first, so that many grow together evenly. Only those whose merges have not failed.
    pub(crate) fn plan_join(&self, ask: &Ask<'_>, effort: Effort) -> Option<Sides> {
        if self.space.full_disk.is_full() {
            return None;
        }
        if ask.is_by_worker() && self.catalog.flush_is_blocked(ask.catalog) {
            return None;
        }
        let is_free = |p: &Partition| {
            let failed = || self.core.health.failure(MERGE, Some(p.id)).is_some();
            ask.is_free(p.id) && !failed()
        };
        let due = self.due_joins(ask.catalog).filter(|(left, right)| {
            let affordable = effort == Effort::Merges || join::is_merged(left, right);
            affordable && is_free(left) && is_free(right) && ask.allows(JOIN, Some(left.id))
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
        let pairs = catalog.version.perhaps_joined(join::most_bytes(limits));
        pairs.filter(move |(left, right)| {
            join::is_due(left, right, limits) && may_be_joined(catalog, left, right)
        })
    }

    /// Joins neighbours whose leases are held.
    pub(crate) fn join_leased(&self, sides: Sides) -> Result<Ended> {
        for round in 0..=ROUNDS {
            match self.try_to_join(sides)? {
                Attempt::Joined => return Ok(Ended::Done),
                Attempt::GivenUp => return Ok(Ended::GivenUp),
                Attempt::ToBeMerged if round == ROUNDS => return Ok(Ended::GivenUp),
                Attempt::ToBeMerged => {}
            }
            for side in sides {
                if !self.merge_frozen(side)? {
                    return Ok(Ended::GivenUp);
                }
            }
        }
        Ok(Ended::GivenUp)
    }

    /// Commits the join if neither side has an UnsortedStore, or else freezes what they have.
    fn try_to_join(&self, sides: Sides) -> Result<Attempt> {
        let mut catalog = self.catalog.lock();
        let [left, right] = sides.map(|id| catalog.version.partition(id).cloned());
        let Some((left, right)) = left.zip(right) else {
            return Ok(Attempt::GivenUp);
        };
        // What came meanwhile may be too much for one partition.
        let limits = self.space.partition_limits();
        if !may_be_joined(&catalog, &left, &right) || !join::is_due(&left, &right, limits) {
            return Ok(Attempt::GivenUp);
        }
        let id = PartitionId(catalog.version.counters.next_partition);
        let Some(edit) = join::edit(&left, &right, id) else {
            if self.catalog.flush_is_blocked(&catalog) {
                return Ok(Attempt::GivenUp);
            }
            catalog.freeze(&left);
            catalog.freeze(&right);
            return Ok(Attempt::ToBeMerged);
        };
        self.catalog
            .commit_edit(&mut catalog, edit, &Indexes::new(), |_| ())?;
        for side in sides {
            catalog.end_target(side);
        }
        self.core.counters.count_join(&sides);
        Ok(Attempt::Joined)
    }

    /// Merges what is frozen of a partition whose lease is held. False: a merge has failed.
    fn merge_frozen(&self, side: PartitionId) -> Result<bool> {
        for _ in 0..MAX_GENERATIONS {
            match self.merge_leased(side) {
                Ok(true) => {}
                Ok(false) => break,
                Err(error) => {
                    self.space.note_full(&error);
                    if error.kind() == ErrorKind::Closed {
                        return Err(error);
                    }
                    self.job_failed(&Merges, Some(side), &error);
                    return Ok(false);
                }
            }
        }
        Ok(true)
    }
}

#[cfg(test)]
mod tests;
