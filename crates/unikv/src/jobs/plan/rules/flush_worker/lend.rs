//! Lending memory.

use crate::jobs::plan::{Facts, Filter, Job, OfCatalog, OnFailure, Rule, Why};
use std::time::Duration;

/// Lends the cache the memory of jobs once none has run for a while. No caller waits for it.
pub(crate) const LEND_MEMORY: Rule = Rule {
    name: "lend memory",
    of_catalog: OfCatalog::Lending,
    is_for_reads: true,
    on_failure: OnFailure::Retried,
    listed_for: Filter::Worker,
    find: |facts, filter| {
        let is_time = lend_at(facts).is_some_and(|at| at <= facts.now);
        let is_due = is_time && filter == Filter::Worker;
        is_due.then_some((Job::LendMemory, Why::JobsIdle))
    },
    due_in: |facts| Some(lend_at(facts)?.saturating_sub(facts.now)),
};

/// A memtable that is sealed is about to need a job, which would take the memory back.
fn lend_at(facts: &Facts<'_>) -> Option<Duration> {
    facts.lend_at.filter(|_| facts.memtables.sealed == 0)
}
