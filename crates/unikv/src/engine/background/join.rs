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
use crate::engine::background::Background;
use crate::engine::catalog::Indexes;
use crate::engine::health::Job;
use crate::engine::schedule::joins::{Effort, Sides};
use crate::error::Result;
use crate::jobs::flush::placing::MAX_GENERATIONS;
use crate::jobs::partitioning::join;
use std::time::Duration;

/// How often both sides are merged before a join is given up.
const ROUNDS: usize = 3;
/// How long a pair is left alone after that.
const REST: Duration = Duration::from_secs(3);

/// What an attempt to commit a join came to.
enum Attempt {
    Joined,
    /// Its open generations are frozen.
    ToBeMerged,
    GivenUp,
}

impl Background {
    /// Joins the smallest neighbours that are to be joined, if there are any.
    pub(crate) fn join_one(&self, effort: Effort) -> Result<bool> {
        self.core.health.check_fatal()?;
        let Some(sides) = self.schedule.lease_for_join(effort) else {
            return Ok(false);
        };
        let joined = self.join_leased(sides);
        let mut catalog = self.catalog.lock();
        sides.iter().for_each(|side| {
            catalog.merging.remove(side);
        });
        if let Ok(false) = joined {
            let until = self.core.now().saturating_add(REST);
            catalog.given_up_joins.insert(sides[0], until);
        }
        drop(catalog);
        self.note(Job::Join, sides[0], joined.map(drop))
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
        if !join::is_due(&left, &right, self.space.partition_limits()) {
            return Ok(Attempt::GivenUp);
        }
        let id = PartitionId(catalog.version.counters.next_partition);
        let Some(edit) = join::edit(&left, &right, id) else {
            let limits = self.space.generation_limits(&catalog.version);
            if catalog.flush_is_blocked(limits) {
                return Ok(Attempt::GivenUp);
            }
            catalog.freeze(&left);
            catalog.freeze(&right);
            return Ok(Attempt::ToBeMerged);
        };
        self.catalog
            .commit_edit(&mut catalog, edit, &Indexes::new(), |_| ())?;
        for side in sides {
            catalog.targets.remove(&side);
        }
        self.core.counters.count_join(sides);
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
