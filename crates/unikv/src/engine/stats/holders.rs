//! What keeps old states of the database, and what runs in the background.

use crate::base::keys::PartitionId;
use crate::jobs::plan::{JobName, Why};
use std::time::Duration;

/// What keeps an old state.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
#[non_exhaustive]
pub enum HolderKind {
    /// A snapshot, with its clones and its iterators.
    #[default]
    Snapshot,
    /// An iterator or a cursor, of a snapshot, of a transaction or of its own moment.
    Iterator,
    /// A transaction, with its iterators.
    Transaction,
}

impl HolderKind {
    /// A name in lower case.
    pub fn name(self) -> &'static str {
        match self {
            HolderKind::Snapshot => "snapshot",
            HolderKind::Iterator => "iterator",
            HolderKind::Transaction => "transaction",
        }
    }
}

/// A snapshot, a transaction or an iterator that has not been dropped.
#[derive(Clone, Debug, Default, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
#[serde(default)]
#[non_exhaustive]
pub struct HolderStats {
    /// Which of them it is.
    pub kind: HolderKind,
    /// Of an iterator a number that no other one of this opening has; of a snapshot or transaction
    /// the sequence number that it shows.
    pub id: u64,
    /// How long ago it was made.
    pub age: Duration,
    /// The sequence number that it shows: of what was overwritten since, it keeps a version.
    pub seq: u64,
    /// How many operations have been committed since.
    pub behind: u64,
    /// Whether it holds a view, and with it files. Only iterators do.
    pub holds_view: bool,
    /// Bytes of files that no longer belong to the database and that it, maybe with others, keeps.
    /// [`Db::release_views`](crate::Db::release_views) makes iterators give them up.
    pub pinned_bytes: u64,
}

/// What [`Db::close`](crate::Db::close) has found open.
#[derive(Clone, Debug, Default, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
#[serde(default)]
#[non_exhaustive]
pub struct ClosingReport {
    /// Snapshots, transactions and iterators that had not been dropped, the oldest first. A
    /// snapshot and its clones are one; of a snapshot or transaction that is gone, the iterators
    /// that it has left are named alone. A cursor of a snapshot or transaction is named while it
    /// is on an entry.
    pub still_open: Vec<StillOpen>,
}

/// A snapshot, a transaction or an iterator that was there when the database was closed.
#[derive(Clone, Debug, Default, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
#[serde(default)]
#[non_exhaustive]
pub struct StillOpen {
    /// Which of them it is.
    pub kind: HolderKind,
    /// How long before the closing it was made.
    pub age: Duration,
}

/// A job of the background that is due.
#[derive(Clone, Debug, Default, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
#[serde(default)]
#[non_exhaustive]
pub struct DueJob {
    /// What it does, as [`RunningJob::job`].
    pub job: String,
    /// The partitions that it takes, in key order, the first hundred; none: it is of all, or of
    /// none.
    pub partitions: Vec<u64>,
    /// How many partitions it takes.
    pub partition_count: usize,
    /// Why it is due, with the figures that decide it, for a person to read.
    pub why: String,
    /// In what time it is tried again, if it has failed or was given up.
    pub retry_in: Option<Duration>,
}

impl DueJob {
    /// A person needs no more of them.
    const MOST_LISTED: usize = 100;

    pub(crate) fn new(job: JobName, of: &[PartitionId], why: Why) -> DueJob {
        let listed = of.iter().take(DueJob::MOST_LISTED);
        DueJob {
            job: job.to_owned(),
            partitions: listed.map(|id| id.0).collect(),
            partition_count: of.len(),
            why: why.to_string(),
            retry_in: None,
        }
    }
}

/// A job of the background that runs.
#[derive(Clone, Debug, Default, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
#[serde(default)]
#[non_exhaustive]
pub struct RunningJob {
    /// What it does: `flush`, `merge`, `garbage collection`, `split`, `join` or another.
    pub job: String,
    /// The partition that it works on, the first if it works on several; `None`: on all.
    pub partition: Option<u64>,
    /// Why it was due, with the figures that decided it, for a person to read.
    pub why: String,
    /// For how long it has been running.
    pub running_for: Duration,
}
