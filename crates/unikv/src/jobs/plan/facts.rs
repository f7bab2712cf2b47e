//! What decisions go by: plain data, made in one place (`engine/background/facts.rs`). No version,
//! handle or lock is in it.

use crate::base::keys::PartitionId;
use crate::jobs::plan::JobName;
use std::time::Duration;

/// What is known when something is to be decided. Times are on the runtime's clock.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Facts {
    pub(crate) now: Duration,
    pub(crate) memtables: Memtables,
    pub(crate) disk: Disk,
    /// When the job clock is to be noted; `None`: nothing expires.
    pub(crate) note_clock_at: Option<Duration>,
    pub(crate) hints: Hints,
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
    /// A merge could begin.
    pub(crate) is_merge_ready: bool,
    /// When they are to be noted again; `None`: too little has changed.
    pub(crate) note_at: Option<Duration>,
}

/// A job that has failed or was given up, and until when it is left alone.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct HeldBack {
    pub(crate) job: JobName,
    pub(crate) partition: Option<PartitionId>,
    pub(crate) until: Duration,
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
        facts: &Facts,
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
}
