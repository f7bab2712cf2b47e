//! Merges: the partition whose merge is most urgent, and others that are small.
//!
//! Of what a job of little takes, most is what any edit takes: its syncs, and the choice of what it
//! takes along. So small partitions share one.

use crate::base::keys::PartitionId;
use crate::jobs::plan::partitions::PartitionFacts;
use crate::jobs::plan::{
    Facts, Filter, Job, MERGE, MOST_TOGETHER, OfCatalog, OnFailure, Rule, Why,
};

/// Partitions that are looked at for one job: where most are large, it stays small.
const LOOKED_AT: usize = 4 * MOST_TOGETHER;

/// Merges the oldest frozen generations of the partition with the largest UnsortedStore, or rather
/// of one that keeps flushes waiting.
pub(crate) const MERGES: Rule = Rule {
    name: MERGE,
    of_catalog: OfCatalog::Merges,
    is_for_reads: false,
    on_failure: OnFailure::Retried,
    listed_for: Filter::Waiter,
    find: |facts, filter| {
        let (first, why) = most_urgent(facts, filter)?;
        Some((Job::Merge(together(facts, filter, first)), why))
    },
    // What has expired since may make one due.
    due_in: |facts| facts.garbage.look_again_in,
};

/// The partitions that can be merged, the most urgent first.
pub(crate) fn ready<'a>(
    facts: &'a Facts<'_>,
    filter: Filter,
) -> impl Iterator<Item = PartitionId> + 'a {
    let all = facts.partitions.merges();
    all.filter(move |id| filter.may_take(facts, MERGE, *id))
}

/// The same of one partition, which takes no look at the others.
fn is_ready(facts: &Facts<'_>, filter: Filter, id: PartitionId) -> bool {
    let partition = facts.partitions.get(id);
    let has_frozen = partition.is_some_and(|partition| partition.frozen.is_some());
    has_frozen && filter.may_take(facts, MERGE, id)
}

/// The partition whose merge is most urgent, and why it is.
pub(crate) fn most_urgent(facts: &Facts<'_>, filter: Filter) -> Option<(PartitionId, Why)> {
    let mut id = ready(facts, filter).next()?;
    let mut blocks = facts.partitions.get(id)?.blocks_flushes;
    if !blocks && let Some(blocking) = facts.blocking.filter(|id| is_ready(facts, filter, *id)) {
        (id, blocks) = (blocking, true);
    }
    let partition = facts.partitions.get(id)?;
    let why = if blocks {
        Why::BlocksFlushes
    } else {
        Why::Unmerged {
            bytes: partition.unsorted_bytes,
        }
    };
    Some((id, why))
}

/// The first partition and, after it, others that are ready, as long as they are small. Those come
/// first that have been frozen for longest: a file that many partitions share is kept whole until
/// the last of them has been merged. A partition whose merge has failed is merged alone: a failure
/// would cost the others what has been done for them.
fn together(facts: &Facts<'_>, filter: Filter, first: PartitionId) -> Vec<PartitionId> {
    let rest = |left: u64, id| left.checked_sub(cost_of(facts.partitions.get(id)?));
    let mut left = rest(facts.most_together_bytes, first).unwrap_or(0);
    let mut ids = vec![first];
    if facts.has_failed(MERGE, first) {
        return ids;
    }
    let others = facts.partitions.merges_by_age().filter(|id| *id != first);
    for id in others.take(LOOKED_AT) {
        if left == 0 || ids.len() >= MOST_TOGETHER {
            break;
        }
        if filter.may_take(facts, MERGE, id)
            && !facts.has_failed(MERGE, id)
            && let Some(rest) = rest(left, id)
        {
            left = rest;
            ids.push(id);
        }
    }
    ids
}

/// What a merge of the partition reads, and writes at most.
fn cost_of(partition: &PartitionFacts) -> u64 {
    let unsorted = partition.unsorted_bytes;
    unsorted.saturating_add(partition.key_table_bytes)
}
