//! Warm starts.

use super::{merge, never};
use crate::jobs::plan::{Filter, Job, OfCatalog, OnFailure, Rule, Why};

/// Reads back what was hot before the opening, for a while at a time. It takes turns with merges.
pub(crate) const WARM_START: Rule = Rule {
    name: "warm start",
    of_catalog: OfCatalog::Nothing,
    is_for_reads: true,
    on_failure: OnFailure::Retried,
    listed_for: Filter::Waiter,
    find: |facts, filter| {
        let hints = &facts.hints;
        let gives_way = || {
            let is_by_worker = filter == Filter::Worker;
            is_by_worker && hints.had_turn && merge::ready(facts, filter).next().is_some()
        };
        let is_due = hints.are_left && !gives_way();
        is_due.then_some((Job::Warm, Why::HintsLeft))
    },
    due_in: never,
};
