//! What is noted for the next opening.

use crate::jobs::plan::{Filter, Job, JobName, OfCatalog, OnFailure, Rule, Why};

const CLOCK: JobName = "clock";

/// Notes the time.
pub(crate) const CLOCK_NOTES: Rule = Rule {
    name: CLOCK,
    of_catalog: OfCatalog::Nothing,
    is_for_reads: false,
    on_failure: OnFailure::Retried,
    listed_for: Filter::Waiter,
    find: |facts, filter| {
        let is_time = facts.note_clock_at.is_some_and(|at| at <= facts.now);
        let is_due = is_time && filter.allows(facts, CLOCK, None) && !facts.disk.is_full;
        is_due.then_some((Job::NoteClock, Why::ClockPassed))
    },
    due_in: |facts| {
        let note_at = facts.note_clock_at.filter(|_| !facts.disk.is_full)?;
        Some(note_at.saturating_sub(facts.now))
    },
};

/// Notes what the cache holds, once enough of that has changed.
pub(crate) const HINT_NOTES: Rule = Rule {
    name: "cache hints",
    of_catalog: OfCatalog::Nothing,
    is_for_reads: true,
    on_failure: OnFailure::Retried,
    listed_for: Filter::Waiter,
    find: |facts, _| {
        let is_time = facts.hints.note_at.is_some_and(|at| at <= facts.now);
        let is_due = is_time && !facts.disk.is_full;
        is_due.then_some((Job::NoteHints, Why::CacheChanged))
    },
    due_in: |facts| {
        let note_at = facts.hints.note_at.filter(|_| !facts.disk.is_full)?;
        Some(note_at.saturating_sub(facts.now))
    },
};
