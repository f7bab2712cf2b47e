//! What is due, decided from facts alone: `Facts` → `Rule` → a [`Job`], and [`Why`].
//!
//! Invariants: a rule is a function of [`Facts`] and [`Filter`]: the same facts give the same job.
//! Nothing here takes a lock, looks at a clock, or reads a file (`tests/layers.rs`).
//!
//! Rules whose facts are not plain data yet stand in `engine/background/kinds`, whose list has the
//! order of all.

pub(crate) mod facts;
mod job;
pub(crate) mod partitions;
pub(crate) mod rules;
mod why;

pub(crate) use facts::{Facts, Filter};
#[cfg(test)]
pub(crate) use job::Chores;
pub(crate) use job::Job;
use std::time::Duration;
pub(crate) use why::Why;

/// What a person calls a kind of job; its failures go by that.
pub(crate) type JobName = &'static str;

/// The kinds that others look for failures of.
pub(crate) const FLUSH: JobName = "flush";
pub(crate) const MERGE: JobName = "merge";
pub(crate) const COLLECT: JobName = "garbage collection";

/// What a rule goes by of the catalog: it is looked up for that rule alone.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum OfCatalog {
    Nothing,
    /// Whether flushes wait for merges.
    BlockedFlushes,
    /// The partitions of keyspaces that are gone.
    Gone,
    /// Whether flushes wait for merges, and the joins of partitions of keyspaces that are gone.
    Joins,
}

/// When one kind of job is due.
pub(crate) struct Rule {
    pub(crate) name: JobName,
    pub(crate) of_catalog: OfCatalog,
    /// Whether it serves reads alone: it may become due without anybody's knowing.
    pub(crate) is_for_reads: bool,
    /// The most urgent job among those that the filter lets through, and why it is due.
    pub(crate) find: fn(&Facts<'_>, Filter) -> Option<(Job, Why)>,
    /// In what time it may become due without a notification; `None`: time alone makes no
    /// difference.
    pub(crate) due_in: fn(&Facts<'_>) -> Option<Duration>,
}

#[cfg(test)]
mod tests;
