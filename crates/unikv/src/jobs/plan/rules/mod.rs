//! The rules, a file each, and the order of all. To add one: a file, and a line in the list.

#[cfg(test)]
pub(crate) mod chore;
pub(crate) mod clear;
pub(crate) mod cluster;
pub(crate) mod collect;
mod flush_worker;
pub(crate) mod for_reads;
pub(crate) mod freeze;
pub(crate) mod join;
pub(crate) mod merge;
pub(crate) mod notes;
pub(crate) mod scan_merge;
pub(crate) mod split;
pub(crate) mod warm;

use crate::base::keys::PartitionId;
use crate::jobs::plan::{Facts, Filter, JobName, MERGE, Rule, Why};
pub(crate) use flush_worker::{disk, flush, lend, settle};
use std::time::Duration;

/// What the flush worker does, the most urgent first. A full disk comes before flushes, which need
/// what it gives back. The others wait until there is nothing to flush.
pub(crate) const FLUSHES: &[Rule] = &[
    disk::DISK_SPACE,
    flush::FLUSH_OLDEST,
    settle::SETTLE,
    lend::LEND_MEMORY,
];

/// All other kinds of job, the most urgent first. The time is noted when it is due, by an edit a
/// minute. What keyspaces held that are gone costs an edit, and spares others work. What was hot
/// before the opening is read back next, which ends and takes turns with merges. Splits come before
/// merges, for they make them smaller; a join that needs no merge costs an edit, and another takes
/// its turn now and then, or merges without a pause would leave more and more empty partitions;
/// what only serves reads comes last.
pub(crate) const OTHERS: &[Rule] = &[
    notes::CLOCK_NOTES,
    clear::CLEAR,
    warm::WARM_START,
    split::SPLIT,
    join::JOIN_BEFORE_MERGES,
    freeze::FREEZE_FOR_SPACE,
    merge::MERGES,
    collect::COLLECTIONS,
    for_reads::POINTER_INDEX,
    for_reads::KEY_BLOCKS,
    join::JOIN_LAST,
    freeze::FREEZE_FOR_SCANS,
    scan_merge::SCAN_MERGES,
    cluster::CLUSTERINGS,
    for_reads::INDEXES_WHEN_IDLE,
    notes::HINT_NOTES,
    #[cfg(test)]
    chore::CHORES,
];

/// All of them.
pub(crate) fn all() -> impl Iterator<Item = &'static Rule> {
    FLUSHES.iter().chain(OTHERS)
}

/// What is due of that which the files alone say, the most urgent first: the first of each kind,
/// with its partitions.
pub(crate) fn due_by_files(
    facts: &Facts<'_>,
) -> impl Iterator<Item = (JobName, Vec<PartitionId>, Why)> {
    let by_rule = |rule: &Rule| {
        let (job, why) = (rule.find)(facts, Filter::Waiter)?;
        Some((rule.name, job.partitions(), why))
    };
    let merge = merge::most_urgent(facts, Filter::Waiter);
    let merge = merge.map(|(id, why)| (MERGE, vec![id], why));
    let all = [
        by_rule(&clear::CLEAR),
        by_rule(&split::SPLIT),
        merge,
        by_rule(&join::JOIN_LAST),
    ];
    all.into_iter().flatten()
}

fn never(_: &Facts<'_>) -> Option<Duration> {
    None
}
