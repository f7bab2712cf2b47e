//! What merges take in: which generations, and what rides along.

use crate::base::keys::PartitionId;
use crate::base::seeded::slip;
use crate::engine::background::Background;
use crate::engine::catalog::CatalogState;
use crate::engine::health::MERGE;
use crate::jobs::compact::gc;
use crate::jobs::compact::parts::{MergeInputs, MergePlan};
use crate::jobs::flush::placing::{MAX_GENERATIONS, MAX_SLOTS};
use crate::record::RecordFile;
use crate::version::{Generation, Partition};
use std::sync::Arc;

/// Generations that one merge takes along when it has fallen behind: a pass over the key tables
/// then serves several. More would need more space beside them.
pub(super) const MAX_MERGED: usize = 2;

impl Background {
    /// What is merged of these partitions, in key order, and what rides along. The first one is
    /// merged in any case; of the others those are left out whose values in the victims are too
    /// many for one job. That looks at each of their pointers.
    pub(super) fn merge_plans(&self, ids: &[PartitionId]) -> Vec<MergePlan> {
        let catalog = self.catalog.lock();
        let version = Arc::clone(&catalog.version);
        let partitions = ids.iter().filter_map(|id| version.partition(*id));
        let all: Vec<_> = partitions
            .map(|partition| (partition, self.oldest_frozen(&catalog, partition)))
            .filter(|(_, generations)| !generations.is_empty())
            .collect();
        drop(catalog);
        let riding = if self.space.full_disk.is_full() {
            Vec::new()
        } else {
            self.choices.riding_victims(&version)
        };
        let numbers = gc::numbers(&riding);
        let rest = |left: u64, p: &Partition| {
            let left = left.checked_sub(cost_of(p))?;
            left.checked_sub(gc::bytes_in(p, &numbers))
        };
        let mut left = self.choices.most_together_bytes(&version);
        let mut plans = Vec::new();
        for (partition, generations) in all {
            let rest = rest(left, partition);
            if plans.is_empty() || rest.is_some() {
                plans.push(self.plan_of(partition, generations, &riding));
                left = rest.unwrap_or(0);
            }
        }
        plans.sort_by(|a, b| a.partition.start.cmp(&b.partition.start));
        plans
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
        let is_small = cost_of(partition) <= self.choices.small_bytes()
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

    /// The merge of these generations of `partition`, which takes `riding` victims along.
    fn plan_of(
        &self,
        partition: &Arc<Partition>,
        generations: Vec<Generation>,
        riding: &[Arc<RecordFile>],
    ) -> MergePlan {
        let mut inputs = MergeInputs::merge(generations);
        // What has failed may have done so because of what rode along, and is forgotten when a full
        // disk has room again.
        let failed = self.core.health.failure(MERGE, Some(partition.id));
        if failed.is_none() && !self.choices.have_failed_with_victims(partition.id) {
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
