//! Joining partitions: merging what neighbours have in UnsortedStores, and committing the edit (see
//! [`crate::jobs::partitioning::join`]).
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
use crate::engine::background::commit::Attempt;
use crate::engine::background::{Background, Ended};
use crate::error::{ErrorKind, Result};
use crate::jobs::flush::placing::MAX_GENERATIONS;
use crate::jobs::plan::MERGE;

/// How often both sides are merged before a join is given up.
const ROUNDS: usize = 3;

/// The ids of two neighbours, in key order.
pub(crate) type Sides = [PartitionId; 2];

impl Background {
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
                    self.job_failed(MERGE, Some(side), &error);
                    return Ok(false);
                }
            }
        }
        Ok(true)
    }
}

#[cfg(test)]
mod tests;
