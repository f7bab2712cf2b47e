//! Splits.

use super::never;
use crate::base::keys::PartitionId;
use crate::jobs::plan::facts::Cause;
use crate::jobs::plan::{
    COLLECT, Facts, Filter, Job, JobName, MERGE, OfCatalog, OnFailure, Rule, Why,
};

const SPLIT_NAME: JobName = "split";

/// Splits the largest partition that has outgrown its size, or the space there is.
pub(crate) const SPLIT: Rule = Rule {
    name: SPLIT_NAME,
    of_catalog: OfCatalog::Nothing,
    is_for_reads: false,
    on_failure: OnFailure::Retried,
    listed_for: Filter::Waiter,
    find: |facts, filter| {
        let may = |id: &PartitionId| filter.may_take(facts, SPLIT_NAME, *id);
        let outgrown = facts.partitions.splits().find(may);
        let starved = starved(facts).filter(may);
        let figures = |id| facts.partitions.get(id).map(|partition| (id, partition));
        let due = outgrown.into_iter().chain(starved).filter_map(figures);
        let (id, largest) = due.max_by_key(|(_, partition)| partition.bytes)?;
        let bytes = largest.bytes;
        let why = if largest.is_to_be_split {
            let most = facts.most_partition_bytes;
            Why::TooLarge { bytes, most }
        } else {
            Why::TooLargeForSpace { bytes }
        };
        Some((Job::Split(id), why))
    },
    due_in: never,
};

/// The partitions of which a job has failed because the disk is full, and would need less space in
/// a part of them: a split needs next to none, and a merge writes only its own key tables again.
fn starved<'a>(facts: &'a Facts<'_>) -> impl Iterator<Item = PartitionId> + 'a {
    let all = facts.held_back.iter().filter(|held| {
        facts.disk.is_full && held.cause == Cause::DiskFull && [MERGE, COLLECT].contains(&held.job)
    });
    let ids = all.filter_map(|held| held.partition);
    ids.filter(|id| facts.partitions.get(*id).is_some_and(|p| p.key_tables >= 2))
}
