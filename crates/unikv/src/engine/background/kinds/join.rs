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
use crate::engine::background::{Background, Ended};
use crate::engine::catalog::{CatalogState, Indexes};
use crate::error::{ErrorKind, Result};
use crate::jobs::flush::placing::MAX_GENERATIONS;
use crate::jobs::partitioning::join;
use crate::jobs::plan::MERGE;
use crate::jobs::plan::partitions::JoinFacts;
use crate::version::{KeyRange, Partition};

/// How often both sides are merged before a join is given up.
const ROUNDS: usize = 3;

/// What an attempt to commit a join came to.
enum Attempt {
    Joined,
    /// Its open generations are frozen.
    ToBeMerged,
    GivenUp,
}

/// The ids of two neighbours, in key order.
pub(crate) type Sides = [PartitionId; 2];

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
    /// The joins that are due of which one side is vacant: it belongs to a keyspace that is gone.
    pub(crate) fn joins_of_gone(&self, catalog: &CatalogState) -> Vec<(PartitionId, JoinFacts)> {
        let version = &catalog.version;
        let limits = self.space.partition_limits();
        let gone = version.gone_partitions().filter(|p| catalog.is_vacant(p));
        let pairs = gone.flat_map(|gone| {
            let left = version.partition_before(gone).map(|left| (left, gone));
            let right = version.partition_after(gone).map(|right| (gone, right));
            left.into_iter().chain(right)
        });
        let may_be = pairs.filter(|(left, right)| may_be_joined(catalog, left, right));
        let due = may_be.filter_map(|(left, right)| {
            let facts = join::facts(left, right, limits)?;
            Some((left.id, facts))
        });
        due.collect()
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
