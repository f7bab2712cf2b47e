//! Freezing open generations.

use super::never;
use crate::jobs::plan::facts::IDLE_FOR_SCANS;
use crate::jobs::plan::{Facts, Filter, Job, JobName, OfCatalog, OnFailure, Rule, Why};

const FOR_SCANS: JobName = "freeze for scans";

/// Freezes every open generation once deletes have been flushed on a full disk.
pub(crate) const FREEZE_FOR_SPACE: Rule = Rule {
    name: "freeze for space",
    of_catalog: OfCatalog::Nothing,
    is_for_reads: false,
    on_failure: OnFailure::Retried,
    listed_for: Filter::Waiter,
    find: |facts, _| {
        let disk = &facts.disk;
        let is_due = disk.is_full && disk.wants_freeze && facts.memtables.sealed == 0;
        is_due.then_some((Job::FreezeForSpace, Why::DiskFull))
    },
    due_in: never,
};

/// Freezes an open generation of which much is tombstones, which scans have to step over, once
/// nobody has written for a while.
pub(crate) const FREEZE_FOR_SCANS: Rule = Rule {
    name: FOR_SCANS,
    of_catalog: OfCatalog::Tombstones,
    is_for_reads: true,
    on_failure: OnFailure::Retried,
    listed_for: Filter::Waiter,
    find: |facts, filter| {
        if !may_freeze_for_scans(facts) {
            return None;
        }
        let mut all = facts.scans.tombstones.iter();
        let id = all.find(|id| filter.may_take(facts, FOR_SCANS, **id))?;
        Some((Job::FreezeTombstones(*id), Why::Tombstones))
    },
    due_in: |facts| {
        let any = !facts.scans.tombstones.is_empty();
        facts.idle_in(IDLE_FOR_SCANS).filter(|_| any)
    },
};

/// Whether a generation may be frozen for scans. To look for one takes longer.
pub(crate) fn may_freeze_for_scans(facts: &Facts<'_>) -> bool {
    facts.idle.time >= IDLE_FOR_SCANS && !facts.disk.is_full
}
