//! Scan merges: where scans have lost as much to the number of tables as it costs to merge their
//! keys once.

use super::never;
use crate::jobs::plan::{Filter, Job, OfCatalog, OnFailure, Rule, SCAN_MERGE, Why};

/// Merges the keys of a partition's newest generation where that is worth its cost to scans.
pub(crate) const SCAN_MERGES: Rule = Rule {
    name: SCAN_MERGE,
    of_catalog: OfCatalog::Nothing,
    is_for_reads: true,
    // Nobody waits for one, and it is not tried again before scans have lost again.
    on_failure: OnFailure::Counted,
    listed_for: Filter::Waiter,
    find: |facts, filter| {
        let mut due = facts.partitions.scan_merges();
        let id = due.find(|id| facts.is_free(*id, filter))?;
        Some((Job::ScanMerge(id), Why::WorthAScanRun))
    },
    due_in: never,
};
