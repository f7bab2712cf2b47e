//! What decisions go by: plain data, made in one place (`engine/background/facts.rs`). No version,
//! handle or lock is in it.

use crate::base::keys::PartitionId;
use crate::jobs::plan::JobName;
use crate::jobs::plan::partitions::{JoinFacts, Partitions};
use std::collections::BTreeSet;
use std::time::Duration;

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
    /// Merges that have run since the creation.
    pub(crate) merges: u64,
    pub(crate) memtables: Memtables,
    pub(crate) disk: Disk,
    /// When the job clock is to be noted; `None`: nothing expires.
    pub(crate) note_clock_at: Option<Duration>,
    pub(crate) hints: Hints,
    pub(crate) wishes: TableWishes,
    pub(crate) held_back: Vec<HeldBack>,
}

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Memtables {
    pub(crate) sealed: usize,
    /// A flush has to wait for a merge.
    pub(crate) are_blocked: bool,
}

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Disk {
    pub(crate) is_full: bool,
    /// All generations are to be frozen once no memtable is sealed.
    pub(crate) wants_freeze: bool,
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
                (held.job, held.partition) == (name, partition) && held.until > facts.now
            }),
            Filter::Waiter => true,
            Filter::Failure(of) => partition == of,
        }
    }
    /// Whether such a job could be taken: it is in question, and the partition is free.
    pub(crate) fn may_take(self, facts: &Facts<'_>, name: JobName, id: PartitionId) -> bool {
        facts.is_free(id, self) && self.allows(facts, name, Some(id))
    }
}
