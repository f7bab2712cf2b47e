//! Which partitions are merged next, and what goes together.
//!
//! Of what a job of little takes, most is what any edit takes: its syncs, and the choice of what it
//! takes along. So small partitions share one.
//!
//! Runs under the catalog's lock.

use crate::base::keys::{FileNumber, PartitionId};
use crate::base::seeded::slip;
use crate::engine::background::Background;
use crate::engine::background::passes::{MOST_TOGETHER, MOST_TOGETHER_BYTES};
use crate::engine::background::scheduler::Ask;
use crate::engine::catalog::CatalogState;
use crate::engine::health::MERGE;
use crate::jobs::compact::gc;
use crate::jobs::compact::parts::{MergeInputs, MergePlan};
use crate::jobs::flush::placing::{MAX_GENERATIONS, MAX_SLOTS};
use crate::jobs::plan::rules::merge;
use crate::jobs::plan::{Facts, Why};
use crate::record::RecordFile;
use crate::version::{Generation, Partition, Version};
use std::sync::Arc;

/// Generations that one merge takes along when it has fallen behind: a pass over the key tables
/// then serves several. More would need more space beside them.
pub(super) const MAX_MERGED: usize = 2;

/// A job of several partitions reads no more than this part of what is stored: it takes as much
/// space beside it.
const PART_TOGETHER: u64 = 128;

impl Background {
    /// The merge that is most urgent, and others that are small.
    pub(super) fn plan_merges(&self, ask: &Ask<'_>) -> Option<(Vec<MergePlan>, Why)> {
        let mut facts = self.facts_of(ask.catalog);
        facts.blocking = self.catalog.blocking_partition(ask.catalog);
        let (partition, why) = merge::most_urgent(&facts, ask.filter)?;
        let partition = ask.catalog.version.partition(partition)?;
        let riding = if facts.disk.is_full {
            Vec::new()
        } else {
            self.riding_victims(&ask.catalog.version)
        };
        let first = self.plan_of(ask.catalog, partition, &riding);
        Some((self.plan_merges_beside(ask, &facts, first, &riding), why))
    }

    /// The first merge and others that are ready, as long as they are small. Those come first that
    /// have been frozen for longest: a file that many partitions share is kept whole until the last
    /// of them has been merged.
    pub(super) fn plan_merges_beside(
        &self,
        ask: &Ask<'_>,
        facts: &Facts<'_>,
        first: MergePlan,
        riding: &[Arc<RecordFile>],
    ) -> Vec<MergePlan> {
        let catalog = ask.catalog;
        let victims = gc::numbers(riding);
        // What is left beside a partition. Its values in the victims are counted last: that looks
        // at each of its pointers.
        let beside = |left: u64, p: &Partition| {
            let left = left.checked_sub(cost_of(p))?;
            left.checked_sub(gc::bytes_in(p, &victims))
        };
        let most = self.most_together_bytes(&catalog.version);
        let mut left = beside(most, &first.partition).unwrap_or(0);
        let first_id = first.partition.id;
        let mut plans = vec![first];
        if left == 0 || self.is_tried_alone(MERGE, first_id) {
            return plans;
        }
        let is_other = |id: &PartitionId| *id != first_id && !self.is_tried_alone(MERGE, *id);
        let others = merge::ready(facts, ask.filter).filter(is_other);
        let others = others.filter_map(|id| catalog.version.partition(id));
        let mut others: Vec<_> = others.map(|p| (oldest_file(catalog, p), p)).collect();
        // Partitions of one age come in key order, and so do their shares of a table.
        others.sort_unstable_by_key(|(file, p)| {
            let file = slip!(MergeSmallInKeyOrder, None, *file);
            (file, p.start.as_slice())
        });
        for (_, partition) in others {
            if plans.len() >= MOST_TOGETHER {
                break;
            }
            let Some(rest) = beside(left, partition) else {
                continue;
            };
            left = rest;
            plans.push(self.plan_of(catalog, partition, riding));
        }
        plans.sort_by(|a, b| a.partition.start.cmp(&b.partition.start));
        plans
    }

    /// Bytes that one job reads of several partitions.
    pub(in crate::engine::background) fn most_together_bytes(&self, version: &Version) -> u64 {
        let files = version.file_sums();
        let stored = files.bytes + version.partition_sums().key_table_bytes;
        self.small_bytes()
            .max(stored / PART_TOGETHER)
            .min(MOST_TOGETHER_BYTES)
    }

    /// The cost of a merge that is small in any case.
    fn small_bytes(&self) -> u64 {
        (self.core.options.unsorted_bytes / 4).min(MOST_TOGETHER_BYTES)
    }

    /// What the next merge of a partition takes along. Of a small partition that is all that is
    /// frozen: it needs little space beside it, and each further merge would write its keys again.
    /// But each table takes memory, however little the partition has of it.
    pub(super) fn oldest_frozen(
        &self,
        catalog: &CatalogState,
        partition: &Partition,
    ) -> Vec<Generation> {
        let frozen = catalog.frozen(partition);
        let tables = frozen.iter().flat_map(Generation::tables).count();
        let is_small = cost_of(partition) <= self.small_bytes()
            && tables <= MAX_MERGED * usize::from(MAX_SLOTS);
        let most = if is_small {
            MAX_GENERATIONS
        } else {
            MAX_MERGED
        };
        let newer = frozen.len().saturating_sub(most);
        let newer = slip!(MergeNewestFirst, 0, newer);
        let merged = frozen.iter().skip(newer).take(most);
        merged.cloned().collect()
    }

    /// The merge of the oldest frozen generations of `partition`, which takes `riding` victims
    /// along.
    fn plan_of(
        &self,
        catalog: &CatalogState,
        partition: &Arc<Partition>,
        riding: &[Arc<RecordFile>],
    ) -> MergePlan {
        let mut inputs = MergeInputs::merge(self.oldest_frozen(catalog, partition));
        // What has failed may have done so because of what rode along, and is forgotten when a full
        // disk has room again.
        let failed = self.core.health.failure(MERGE, Some(partition.id));
        if failed.is_none() && !self.passes.have_failed_with_victims(partition.id) {
            inputs.victims = riding.to_vec();
        }
        MergePlan {
            partition: Arc::clone(partition),
            inputs,
        }
    }
}

/// What a merge of the partition reads, and writes at most.
fn cost_of(partition: &Partition) -> u64 {
    let unsorted = partition.unsorted_bytes();
    unsorted.saturating_add(partition.key_table_bytes())
}

/// The oldest file among the tables of its frozen generations.
fn oldest_file(catalog: &CatalogState, partition: &Partition) -> Option<FileNumber> {
    let frozen = catalog.frozen(partition);
    let tables = frozen.iter().flat_map(Generation::tables);
    tables.map(|(_, table)| table.meta().number).min()
}
