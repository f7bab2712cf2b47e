//! What decisions go by: plain data, made in one place (`engine/background/facts.rs`). No version,
//! handle or lock is in it.

use crate::base::keys::PartitionId;
use crate::base::seeded::{seeded, slip};
use crate::jobs::plan::partitions::{JoinFacts, Partitions};
use crate::jobs::plan::{JobName, Pass};
use std::collections::BTreeSet;
use std::time::Duration;

/// How long nobody must have written before work for idle times begins.
pub(crate) const IDLE: Duration = Duration::from_secs(1);
/// How long until what serves scans alone is merged early: a writer who pauses is not to wait
/// for it.
pub(crate) const IDLE_FOR_SCANS: Duration = Duration::from_secs(5);

/// What is known when something is to be decided. Times are on the runtime's clock.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Facts<'a> {
    pub(crate) now: Duration,
    pub(crate) partitions: &'a Partitions,
    /// Bytes of data that a partition may have.
    pub(crate) most_partition_bytes: u64,
    /// A partition whose open generation is too large for more by the limits of the moment, so that
    /// flushes wait for its merge.
    pub(crate) blocking: Option<PartitionId>,
    pub(crate) gone: Gone,
    /// The partitions that jobs hold.
    pub(crate) leased: BTreeSet<PartitionId>,
    /// Jobs that merge and have begun since a join that needs merges did.
    pub(crate) merges_since_join: u64,
    pub(crate) memtables: Memtables,
    pub(crate) disk: Disk,
    pub(crate) unsettled: Unsettled,
    /// When the cache is to be lent the memory of jobs; `None`: it is.
    pub(crate) lend_at: Option<Duration>,
    /// When the job clock is to be noted; `None`: nothing expires.
    pub(crate) note_clock_at: Option<Duration>,
    pub(crate) hints: Hints,
    pub(crate) idle: Idle,
    /// Bytes that one job reads of several partitions.
    pub(crate) most_together_bytes: u64,
    pub(crate) garbage: Garbage,
    pub(crate) wishes: TableWishes,
    pub(crate) scans: Scans,
    pub(crate) held_back: Vec<HeldBack>,
    /// How often work of no use is to be done.
    #[cfg(test)]
    pub(crate) chores: usize,
}

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Idle {
    /// How long it is known that nobody writes.
    pub(crate) time: Duration,
    /// A caller waits for the background: work for idle times begins at once.
    pub(crate) is_asked_for: bool,
}

/// What there is to reclaim.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Garbage {
    pub(crate) bytes: u64,
    /// Collection begins at this many.
    pub(crate) begins_at: u64,
    /// Of the present choice of files, the part that can be reclaimed now.
    pub(crate) next: Option<Pass>,
    /// In what time more may have expired; `None`: nothing expires.
    pub(crate) look_again_in: Option<Duration>,
}

/// What would make scans cheaper, beside the figures of the partitions.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Scans {
    /// The options let values be copied for scans.
    pub(crate) may_cluster: bool,
    /// How long slices give way to look-ups; `None`: they do not.
    pub(crate) give_way_for: Option<Duration>,
    /// Of the present choice of files, the slice that can be copied now.
    pub(crate) next_slice: Option<Pass>,
    /// Partitions with an open generation of which much may be tombstones. Nobody has counted them.
    pub(crate) tombstones: Vec<PartitionId>,
    /// Some tables have no pointer index, and there is room for those of all.
    pub(crate) lack_indexes: bool,
}

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Memtables {
    /// Of all memtables.
    pub(crate) bytes: u64,
    pub(crate) sealed: usize,
    /// A flush has to wait for a merge.
    pub(crate) are_blocked: bool,
}

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Disk {
    pub(crate) is_full: bool,
    /// All generations are to be frozen once no memtable is sealed.
    pub(crate) wants_freeze: bool,
    /// When the space is to be looked after; `None`: the disk is not full, and the ballast has its
    /// size.
    pub(crate) look_at: Option<Duration>,
}

/// What writers have left that is to be reclaimed once they are idle.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Unsettled {
    /// Writes in the open memtable may hide more than there may be when idle.
    pub(crate) memtable_hides: bool,
    /// Scans gain from a flush of the deletes in the open memtable.
    pub(crate) has_many_deletes: bool,
    /// The open memtable is not empty, no other is sealed, and there is a log.
    pub(crate) may_seal: bool,
    /// Generations may hide more than there may be when idle.
    pub(crate) generations_hide: bool,
    /// If they do: an open one may be frozen.
    pub(crate) may_freeze: bool,
    /// Memtables may hold something of keyspaces that are gone.
    pub(crate) gone_await_flush: bool,
}

/// What the cache held, as hints for the next opening.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Hints {
    /// Some of the process before are to be read back.
    pub(crate) are_left: bool,
    /// Reading back has had its turn, and no merge since.
    pub(crate) had_turn: bool,
    /// When they are to be noted again; `None`: too little has changed.
    pub(crate) note_at: Option<Duration>,
}

/// What reads have made worth its cost.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct TableWishes {
    /// A table is worth a pointer index.
    pub(crate) index: bool,
    /// A table is worth reading all its key blocks.
    pub(crate) blocks: bool,
}

/// Partitions of keyspaces that are gone, in key order.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Gone {
    /// Those that hold anything.
    pub(crate) full: Vec<PartitionId>,
    /// Those that hold nothing, and to which nothing can come.
    pub(crate) vacant: Vec<Vacant>,
    /// The joins of which one side is vacant, by their left sides.
    pub(crate) joins: Vec<(PartitionId, JoinFacts)>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Vacant {
    pub(crate) id: PartitionId,
    /// It begins where the one before it in the list ends.
    pub(crate) follows: bool,
}

/// Why a job is held back.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Cause {
    GivenUp,
    Failed,
    /// It has failed for want of space.
    DiskFull,
}

/// A job that has failed or was given up, and until when it is left alone.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct HeldBack {
    pub(crate) cause: Cause,
    pub(crate) job: JobName,
    pub(crate) partition: Option<PartitionId>,
    pub(crate) until: Duration,
}

impl Facts<'_> {
    /// Whether no job holds the partition, or only its failure is in question.
    pub(crate) fn is_free(&self, id: PartitionId, filter: Filter) -> bool {
        matches!(filter, Filter::Failure(_)) || !self.leased.contains(&id)
    }

    /// In what time writers will have been idle for `wait` if they stay so; `None`: they have.
    pub(crate) fn idle_in(&self, wait: Duration) -> Option<Duration> {
        let left = wait.saturating_sub(self.idle.time);
        (!left.is_zero()).then_some(left)
    }

    /// In what time values may be copied as nobody writes; `None`: they may, or never may.
    pub(crate) fn clusters_in(&self) -> Option<Duration> {
        if !self.scans.may_cluster || self.idle.is_asked_for {
            return None;
        }
        self.idle_in(IDLE)
    }

    /// Whether values may be copied for scans.
    pub(crate) fn may_cluster(&self) -> bool {
        self.scans.may_cluster && !self.disk.is_full
    }

    /// Whether writers are idle and values may be copied. Writers that wait for a flush are not.
    pub(crate) fn clusters_when_idle(&self) -> bool {
        let is_idle = self.clusters_in().is_none() || seeded!(ClusterUncharged);
        self.may_cluster() && is_idle && self.memtables.sealed == 0
    }

    /// Whether a job has failed there and has not succeeded since.
    pub(crate) fn has_failed(&self, name: JobName, id: PartitionId) -> bool {
        let mut all = self.held_back.iter();
        all.any(|held| {
            (held.job, held.partition) == (name, Some(id)) && held.cause != Cause::GivenUp
        })
    }
}

/// For whom a decision is made.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Filter {
    /// A worker: nothing that is held back.
    Worker,
    /// A caller that waits until nothing is due, whatever is held back.
    Waiter,
    /// A list of what is due, for a person: whatever is held back.
    Listing,
    /// The account of failures: only what concerns this partition.
    Failure(Option<PartitionId>),
}

impl Filter {
    /// Whether a job of `name` that works on `partition` is in question.
    pub(crate) fn allows(
        self,
        facts: &Facts<'_>,
        name: JobName,
        partition: Option<PartitionId>,
    ) -> bool {
        match self {
            Filter::Worker => !facts.held_back.iter().any(|held| {
                let until = slip!(BackoffIgnored, Duration::ZERO, held.until);
                (held.job, held.partition) == (name, partition) && until > facts.now
            }),
            Filter::Waiter | Filter::Listing => true,
            Filter::Failure(of) => partition == of,
        }
    }
    /// Whether such a job could be taken: it is in question, and the partition is free.
    pub(crate) fn may_take(self, facts: &Facts<'_>, name: JobName, id: PartitionId) -> bool {
        facts.is_free(id, self) && self.allows(facts, name, Some(id))
    }
}
