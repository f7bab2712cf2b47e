//! Freezing open generations.

use super::never;
use crate::jobs::plan::{Job, OfCatalog, Rule, Why};

/// Freezes every open generation once deletes have been flushed on a full disk.
pub(crate) const FREEZE_FOR_SPACE: Rule = Rule {
    name: "freeze for space",
    of_catalog: OfCatalog::Nothing,
    is_for_reads: false,
    find: |facts, _| {
        let disk = &facts.disk;
        let is_due = disk.is_full && disk.wants_freeze && facts.memtables.sealed == 0;
        is_due.then_some((Job::FreezeForSpace, Why::DiskFull))
    },
    due_in: never,
};
