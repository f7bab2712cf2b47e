//! What happens in an open database, for whoever wants to hear of it.
//!
//! The engine puts an [`Event`] where it happens into a [queue](queue) that holds a thousand; a
//! thread of its own calls the listener, so that no lock is held, no writer waits for it, and a
//! listener may call any method of the database. Without a listener there is neither.
//!
//! Invariants: events are delivered in the order in which they happened; what does not fit is
//! counted and reported as [`Event::Lost`]; everything that happened before a close is delivered
//! before that returns, unless a listener itself closes.

mod opening;
mod operation;
mod queue;
mod report;
mod stall_cause;
#[cfg(feature = "tracing")]
mod to_tracing;

pub(crate) use opening::OnProgress;
pub use opening::{OpeningPhase, OpeningProgress};
pub use operation::{SlowOperation, TimedOperation, Wait};
pub(crate) use queue::{Events, deliver};
pub use report::RecoveryReport;
pub use stall_cause::StallCause;
#[cfg(feature = "tracing")]
pub use to_tracing::TracingListener;

use crate::error::Error;
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

/// Something that happened in an open database; see
/// [`Options::listener`](crate::Options::listener).
///
/// Partitions are named by the ids of [`PartitionStats`](crate::PartitionStats), jobs by what
/// [`JobError::job`](crate::JobError) calls them.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub enum Event {
    /// The database has been opened. The first event.
    #[non_exhaustive]
    Opened {
        /// What that recovered, cut and swept.
        recovery: Box<RecoveryReport>,
    },
    /// A job of the background begins: `flush`, `merge`, `garbage collection`, `split`, `join` or
    /// another. [`Event::JobEnded`] or [`Event::JobFailed`] of the same job and partition follows.
    #[non_exhaustive]
    JobBegan {
        /// What it does.
        job: &'static str,
        /// The partition that it works on, the first if it works on several; `None`: on all.
        partition: Option<u64>,
        /// Why it was due, with the figures that decided it, for a person to read.
        why: String,
    },
    /// A job has ended: it is done, had nothing to do after all, or was ended by a close.
    #[non_exhaustive]
    JobEnded {
        /// What it did.
        job: &'static str,
        /// The partition that it worked on, as when it began.
        partition: Option<u64>,
        /// How long it took.
        elapsed: Duration,
        /// Bytes that it wrote to data files.
        bytes: u64,
    },
    /// A job has failed. It is tried again; other jobs go on.
    #[non_exhaustive]
    JobFailed {
        /// What it was to do.
        job: &'static str,
        /// The partition that it worked on.
        partition: Option<u64>,
        /// What is wrong, where, and what remedies it.
        error: Error,
        /// How often in a row it has failed.
        failures: u32,
        /// In what time it is tried again; `None`: when it is next due.
        retry_in: Option<Duration>,
    },
    /// A job that had failed has succeeded, or is no longer due.
    #[non_exhaustive]
    JobRecovered {
        /// What it does.
        job: &'static str,
        /// The partition that it works on.
        partition: Option<u64>,
        /// How often in a row it had failed.
        failures: u32,
    },
    /// From now on writers pause, because the background falls behind.
    #[non_exhaustive]
    SlowdownBegan {
        /// What fills up.
        cause: StallCause,
    },
    /// Writers run free again.
    #[non_exhaustive]
    SlowdownEnded {
        /// What filled up when the slowdown began.
        cause: StallCause,
        /// How long writers paused now and then.
        elapsed: Duration,
    },
    /// A writer waits, and all others with it, since every memtable is full.
    #[non_exhaustive]
    StallBegan {
        /// What it waits for.
        cause: StallCause,
    },
    /// Writers go on.
    #[non_exhaustive]
    StallEnded {
        /// What they waited for in the end.
        cause: StallCause,
        /// How long.
        elapsed: Duration,
    },
    /// The disk is full: puts are refused, reads and deletes go on.
    #[non_exhaustive]
    DiskFull {
        /// What was refused, or how much is free, and how much must be for writing to resume.
        error: Error,
    },
    /// There is room again, and puts are taken.
    #[non_exhaustive]
    DiskFreed {
        /// How long the disk was full.
        elapsed: Duration,
    },
    /// Writing is suspended: a write or sync of the log or the manifest has failed.
    #[non_exhaustive]
    WritesSuspended {
        /// What has failed.
        error: Error,
        /// Whether writing resumes only when the database is opened again; else it does by itself.
        until_reopened: bool,
    },
    /// Writing goes on in a new log.
    WritesResumed,
    /// A call took longer than [`Options::slow_after`](crate::Options::slow_after).
    SlowOperation(SlowOperation),
    /// The file of [`Options::publish_stats`](crate::Options::publish_stats) could not be written.
    /// It is tried again after the interval, and reported again only after a success.
    #[non_exhaustive]
    StatsNotPublished {
        /// What has failed.
        error: Error,
    },
    /// Events were dropped here, since the listener had not taken a thousand older ones.
    #[non_exhaustive]
    Lost {
        /// How many.
        count: u64,
    },
}

impl Event {
    /// A short name in lower case, for logs and metrics.
    pub fn name(&self) -> &'static str {
        match self {
            Event::Opened { .. } => "opened",
            Event::JobBegan { .. } => "job began",
            Event::JobEnded { .. } => "job ended",
            Event::JobFailed { .. } => "job failed",
            Event::JobRecovered { .. } => "job recovered",
            Event::SlowdownBegan { .. } => "slowdown began",
            Event::SlowdownEnded { .. } => "slowdown ended",
            Event::StallBegan { .. } => "stall began",
            Event::StallEnded { .. } => "stall ended",
            Event::DiskFull { .. } => "disk full",
            Event::DiskFreed { .. } => "disk freed",
            Event::WritesSuspended { .. } => "writes suspended",
            Event::WritesResumed => "writes resumed",
            Event::SlowOperation(_) => "slow operation",
            Event::StatsNotPublished { .. } => "stats not published",
            Event::Lost { .. } => "lost",
        }
    }
}

/// Who wants to hear of events: a type of the caller's, or a function of `&Event`.
pub trait EventListener: Send + Sync {
    /// Takes notice of an event. Called on a thread that does nothing else, for one event after the
    /// other, with no lock held: any method of the database may be called, [`Db::close`] too. A
    /// panic is caught and counted ([`Stats::listener_panics`]).
    ///
    /// [`Db::close`]: crate::Db::close
    /// [`Stats::listener_panics`]: crate::Stats::listener_panics
    fn on_event(&self, event: &Event);
}

impl<F: Fn(&Event) + Send + Sync> EventListener for F {
    fn on_event(&self, event: &Event) {
        self(event);
    }
}

/// A listener among the options.
#[derive(Clone)]
pub(crate) struct Listener(pub(crate) Arc<dyn EventListener>);

impl PartialEq for Listener {
    fn eq(&self, other: &Listener) -> bool {
        Arc::ptr_eq(&self.0, &other.0)
    }
}

impl fmt::Debug for Listener {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Listener")
    }
}
