//! What is due, decided from facts alone: `Facts` → `Rule` → a [`Job`], and [`Why`].
//!
//! Invariants: a rule is a function of [`Facts`] and [`Filter`]: the same facts give the same job.
//! Nothing here takes a lock, looks at a clock, or reads a file (`tests/layers.rs`).

pub(crate) mod facts;
mod job;
pub(crate) mod partitions;
pub(crate) mod rules;
mod why;

pub(crate) use facts::{Facts, Filter};
pub(crate) use job::{Job, Pass, Settling};
use std::time::Duration;
pub(crate) use why::Why;

/// What a person calls a kind of job; its failures go by that.
pub(crate) type JobName = &'static str;

/// The kinds that others look for failures of.
pub(crate) const FLUSH: JobName = "flush";
pub(crate) const MERGE: JobName = "merge";
pub(crate) const COLLECT: JobName = "garbage collection";
pub(crate) const CLUSTER: JobName = "clustering";
pub(crate) const SCAN_MERGE: JobName = "scan merge";

/// Partitions that one job takes, at most.
pub(crate) const MOST_TOGETHER: usize = 64;

/// What a rule goes by that is looked up for it alone: it is of the catalog, or costs more than a
/// few loads.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum OfCatalog {
    Nothing,
    /// Whether flushes wait for merges.
    BlockedFlushes,
    /// What idle writers have left in generations, and of keyspaces that are gone.
    Unsettled,
    /// When jobs have run. It is not of the catalog.
    Lending,
    /// The partitions of keyspaces that are gone.
    Gone,
    /// Whether flushes wait for merges, and the joins of partitions of keyspaces that are gone.
    Joins,
    /// The partition for whose merge flushes wait, and how much one job takes together.
    Merges,
    /// What of the present choice of files with garbage can be reclaimed now.
    Collections,
    /// The open generations of which much may be tombstones.
    Tombstones,
    /// What of the present choice of spread values can be copied now.
    Slices,
    /// Whether tables lack indexes.
    Indexes,
}

/// What a failure means.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum OnFailure {
    /// It is one of the database until the job has succeeded, which is tried again after a pause.
    Retried,
    /// It is counted: the job is for speed alone.
    Counted,
}

/// When one kind of job is due.
#[derive(Clone, Copy)]
pub(crate) struct Rule {
    pub(crate) name: JobName,
    pub(crate) of_catalog: OfCatalog,
    /// Whether it serves reads alone: it may become due without anybody's knowing.
    pub(crate) is_for_reads: bool,
    pub(crate) on_failure: OnFailure,
    /// For whom it is asked where what is due is only listed: a choice of files takes long, and
    /// workers keep theirs.
    pub(crate) listed_for: Filter,
    /// The most urgent job among those that the filter lets through, and why it is due.
    pub(crate) find: fn(&Facts<'_>, Filter) -> Option<(Job, Why)>,
    /// In what time it may become due without a notification; `None`: time alone makes no
    /// difference.
    pub(crate) due_in: fn(&Facts<'_>) -> Option<Duration>,
}

/// A job that a rule has found.
pub(crate) struct Planned {
    pub(crate) rule: Rule,
    pub(crate) job: Job,
    pub(crate) why: Why,
}

/// The most urgent job of these rules among those that the filter lets through. `look_up` adds to
/// the facts what a rule goes by of the catalog.
pub(crate) fn plan<'f>(
    rules: &[Rule],
    facts: &mut Facts<'f>,
    filter: Filter,
    mut look_up: impl FnMut(&mut Facts<'f>, OfCatalog),
) -> Option<Planned> {
    rules.iter().find_map(|rule| {
        look_up(facts, rule.of_catalog);
        let (job, why) = (rule.find)(facts, filter)?;
        let rule = *rule;
        Some(Planned { rule, job, why })
    })
}

#[cfg(test)]
mod tests;
