//! Which generations are merged next, and which garbage is collected.

use crate::base::seeded::{seeded, slip};
use crate::engine::catalog::CatalogState;
use crate::engine::health::Job;
use crate::engine::schedule::Scheduler;
use crate::jobs::compact::gc::Pressure;
use crate::jobs::compact::merge::MergeInputs;
use crate::jobs::compact::{gc, tight_gc};
use crate::jobs::space::{Space, SpaceLimit};
use crate::record::RecordFile;
use crate::version::{Generation, Partition, Version};
use std::sync::Arc;
use std::time::Duration;

/// Generations that one merge takes along when it has fallen behind: a pass over the key tables
/// then serves several. More would need more space beside them.
const MAX_MERGED: usize = 2;

/// What a lease was taken for.
pub(crate) struct MergePlan {
    pub(crate) partition: Arc<Partition>,
    pub(crate) inputs: MergeInputs,
}

impl MergePlan {
    pub(crate) fn job(&self) -> Job {
        if self.inputs.generations.is_empty() {
            Job::Gc
        } else {
            Job::Merge
        }
    }

    /// Whether it is for idle times alone.
    pub(crate) fn is_pass_when_idle(&self) -> bool {
        self.inputs.copies_when_idle && self.inputs.generations.is_empty()
    }
}

impl Scheduler {
    pub(crate) fn lease_for_merge(&self) -> Option<MergePlan> {
        let mut catalog = self.catalog.lock();
        self.forget_settled(&catalog);
        if self.takes_freeze_request() {
            catalog.freeze_all();
        }
        let plan = self.plan_merge(&catalog, Some(self.core.now()))?;
        if plan.job() == Job::Merge || !seeded!(GcUnleased) {
            catalog.merging.insert(plan.partition.id);
        }
        Some(plan)
    }

    /// What to do next: merge frozen generations of the partition with the largest UnsortedStore,
    /// or rather of one that keeps flushes waiting; or else, if space presses, reclaim in the
    /// partition that holds most of what is to be moved. Only partitions whose lease is free come
    /// into question and, where `now` is given, whose job is not in backoff.
    pub(crate) fn plan_merge(
        &self,
        catalog: &CatalogState,
        now: Option<Duration>,
    ) -> Option<MergePlan> {
        let version = &catalog.version;
        let in_backoff =
            |job, id| now.is_some_and(|now| self.core.health.is_in_backoff(job, id, now));
        let is_free = |job, id| !catalog.merging.contains(&id) && !in_backoff(job, id);
        let limit = self.space.space_limit();
        let space = self.space.space_of(version, limit.oldest);
        let partitions = version.partitions().iter();
        let free = partitions.filter(|p| is_free(Job::Merge, p.id));
        let ready = free.filter(|p| !catalog.frozen(p).is_empty());
        // One that keeps flushes waiting comes before all others.
        let limits = self.space.generation_limits(version);
        let urgency = |p: &Partition| (catalog.blocks_flushes(p, limits), p.unsorted_bytes());
        if let Some(partition) = ready.max_by_key(|p| urgency(p)) {
            return Some(MergePlan {
                inputs: self.inputs_of_merge(catalog, partition, &space, limit),
                partition: Arc::clone(partition),
            });
        }
        let victims = self.victims_alone(version);
        let is_free = |id| is_free(Job::Gc, id);
        let partition = gc::partition_of(version, &space, limit, &victims, is_free)?;
        let partition = Arc::clone(partition);
        let inputs = MergeInputs {
            victims,
            ..MergeInputs::default()
        };
        Some(MergePlan { partition, inputs })
    }

    /// The oldest frozen generations of `partition`, and what their merge takes along.
    fn inputs_of_merge(
        &self,
        catalog: &CatalogState,
        partition: &Partition,
        space: &Space,
        limit: SpaceLimit,
    ) -> MergeInputs {
        let version = &catalog.version;
        let generations = oldest_frozen(catalog, partition);
        let mut inputs = MergeInputs {
            generations,
            ..MergeInputs::default()
        };
        // What has failed may have done so because of what rode along.
        if self
            .core
            .health
            .failure(Job::Merge, Some(partition.id))
            .is_some()
        {
            return inputs;
        }
        if !self.space.full.is_full() {
            inputs.victims = gc::victims(version, space, limit, Pressure::Riding);
        }
        // Both at a time would need more room beside what there is; and nobody should wait for it.
        let is_awaited = catalog.flush_is_blocked(self.space.generation_limits(version));
        if !inputs.victims.is_empty() || is_awaited {
            return inputs;
        }
        inputs.copies_when_idle = self.copies_when_idle(&inputs.generations, space, limit);
        inputs
    }

    /// What garbage collection is to reclaim alone, if any.
    pub(crate) fn victims_alone(&self, version: &Arc<Version>) -> Vec<Arc<RecordFile>> {
        match self.space.tight_space() {
            None => {
                let limit = self.space.space_limit();
                let space = self.space.space_of(version, limit.oldest);
                gc::victims(version, &space, limit, self.garbage_requests.pressure())
            }
            Some(free_bytes) => tight_gc::victims(version, free_bytes),
        }
    }
}

/// What the next merge of a partition takes along.
pub(crate) fn oldest_frozen(catalog: &CatalogState, partition: &Partition) -> Vec<Generation> {
    let frozen = catalog.frozen(partition);
    let newer = frozen.len().saturating_sub(MAX_MERGED);
    let newer = slip!(MergeNewestFirst, 0, newer);
    let merged = frozen.iter().skip(newer).take(MAX_MERGED);
    merged.cloned().collect()
}
