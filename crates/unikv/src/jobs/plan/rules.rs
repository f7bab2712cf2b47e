//! The rules.

use crate::jobs::plan::{FLUSH, Facts, Filter, Job, JobName, OfCatalog, Rule, Why};
use std::time::Duration;

fn never(_: &Facts) -> Option<Duration> {
    None
}

/// Writes the oldest sealed memtable to tables of the UnsortedStore, if that can take it.
pub(crate) const FLUSHES: Rule = Rule {
    name: FLUSH,
    of_catalog: OfCatalog::BlockedFlushes,
    is_for_reads: false,
    find: |facts, filter| {
        let memtables = facts.memtables.sealed;
        let may_begin = filter != Filter::Worker || !facts.memtables.are_blocked;
        let is_due = memtables > 0 && filter.allows(facts, FLUSH, None) && may_begin;
        is_due.then_some((Job::Flush, Why::Sealed { memtables }))
    },
    due_in: never,
};

const CLOCK: JobName = "clock";

/// Notes the time.
pub(crate) const CLOCK_NOTES: Rule = Rule {
    name: CLOCK,
    of_catalog: OfCatalog::Nothing,
    is_for_reads: false,
    find: |facts, filter| {
        let is_time = facts.note_clock_at.is_some_and(|at| at <= facts.now);
        let is_due = is_time && filter.allows(facts, CLOCK, None) && !facts.disk.is_full;
        is_due.then_some((Job::NoteClock, Why::ClockPassed))
    },
    due_in: |facts| Some(facts.note_clock_at?.saturating_sub(facts.now)),
};

/// Reads back what was hot before the opening, for a while at a time. It takes turns with merges.
pub(crate) const WARM_START: Rule = Rule {
    name: "warm start",
    of_catalog: OfCatalog::ReadyMerges,
    is_for_reads: true,
    find: |facts, filter| {
        let hints = &facts.hints;
        let gives_way = filter == Filter::Worker && hints.is_merge_ready && hints.had_turn;
        let is_due = hints.are_left && !gives_way;
        is_due.then_some((Job::Warm, Why::HintsLeft))
    },
    due_in: never,
};

/// Notes what the cache holds, once enough of that has changed.
pub(crate) const HINT_NOTES: Rule = Rule {
    name: "cache hints",
    of_catalog: OfCatalog::Nothing,
    is_for_reads: true,
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
