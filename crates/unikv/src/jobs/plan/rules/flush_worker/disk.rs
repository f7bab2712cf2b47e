//! Space on disk.

use crate::jobs::plan::{Filter, Job, OfCatalog, OnFailure, Rule, Why};

/// Looks after a full disk until it is full no longer, and makes a ballast of the right size. What
/// was looked after in vain has its time in the facts. No caller waits for it: room is made by
/// others, perhaps never.
pub(crate) const DISK_SPACE: Rule = Rule {
    name: "disk space",
    of_catalog: OfCatalog::Nothing,
    is_for_reads: false,
    on_failure: OnFailure::Retried,
    listed_for: Filter::Listing,
    find: |facts, filter| {
        let disk = &facts.disk;
        let is_due = match filter {
            Filter::Worker => disk.look_at.is_some_and(|at| at <= facts.now),
            Filter::Listing => disk.is_full,
            Filter::Waiter | Filter::Failure(_) => false,
        };
        let why = if disk.is_full {
            Why::DiskFull
        } else {
            Why::WrongBallast
        };
        is_due.then_some((Job::LookAfterDisk, why))
    },
    due_in: |facts| Some(facts.disk.look_at?.saturating_sub(facts.now)),
};
