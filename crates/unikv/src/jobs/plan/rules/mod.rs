//! The rules, a file each.

mod clear;
mod flush;
mod for_reads;
mod freeze;
mod join;
pub(crate) mod merge;
mod notes;
mod split;
mod warm;

pub(crate) use clear::CLEAR;
pub(crate) use flush::FLUSHES;
pub(crate) use for_reads::{KEY_BLOCKS, POINTER_INDEX};
pub(crate) use freeze::FREEZE_FOR_SPACE;
pub(crate) use join::{JOIN_BEFORE_MERGES, JOIN_LAST};
pub(crate) use notes::{CLOCK_NOTES, HINT_NOTES};
pub(crate) use split::SPLIT;
pub(crate) use warm::WARM_START;

use crate::base::keys::PartitionId;
use crate::jobs::plan::{Facts, Filter, JobName, MERGE, Rule, Why};
use std::time::Duration;

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
    let all = [by_rule(&CLEAR), by_rule(&SPLIT), merge, by_rule(&JOIN_LAST)];
    all.into_iter().flatten()
}

fn never(_: &Facts<'_>) -> Option<Duration> {
    None
}
