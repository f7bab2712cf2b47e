//! Flushes.

use crate::base::seeded::slip;
use crate::jobs::plan::rules::never;
use crate::jobs::plan::{FLUSH, Filter, Job, OfCatalog, OnFailure, Rule, Why};

/// Writes the oldest sealed memtable to tables of the UnsortedStore, if that can take it.
pub(crate) const FLUSH_OLDEST: Rule = Rule {
    name: FLUSH,
    of_catalog: OfCatalog::BlockedFlushes,
    is_for_reads: false,
    on_failure: OnFailure::Retried,
    listed_for: Filter::Waiter,
    find: |facts, filter| {
        let memtables = facts.memtables.sealed;
        let may_begin =
            filter != Filter::Worker || !slip!(FlushUnblocked, false, facts.memtables.are_blocked);
        let is_due = memtables > 0 && filter.allows(facts, FLUSH, None) && may_begin;
        is_due.then_some((Job::Flush, Why::Sealed { memtables }))
    },
    due_in: never,
};
