//! Work of no use, which shows what it takes to add a rule.

use super::never;
use crate::jobs::plan::{Filter, Job, OfCatalog, OnFailure, Rule, Why};

/// Does nothing in a partition, as often as a test asks for.
pub(crate) const CHORES: Rule = Rule {
    name: "chore",
    of_catalog: OfCatalog::Nothing,
    is_for_reads: false,
    on_failure: OnFailure::Retried,
    listed_for: Filter::Waiter,
    find: |facts, filter| {
        let id = facts.partitions.any().filter(|_| facts.chores > 0)?;
        let may = filter.may_take(facts, "chore", id);
        may.then_some((Job::Chore(id), Why::MadeUp))
    },
    due_in: never,
};
