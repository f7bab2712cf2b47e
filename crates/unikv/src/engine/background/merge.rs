//! Running merges and garbage collection: choose, run without locks, commit.
//!
//! One job at a time changes a partition's SortedStore: it holds the partition's lease
//! (`Catalog::merging`). Only flushes run beside it, and they touch newer generations only.

use crate::base::keys::{FileNumber, PartitionId};
use crate::base::seeded::{seeded, slip};
use crate::base::sync::atomic::Ordering;
use crate::engine::Engine;
use crate::engine::catalog::{Catalog, Indexes};
use crate::engine::health::Job;
use crate::error::{ErrorKind, Result};
use crate::jobs::compact::gc::Pressure;
use crate::jobs::compact::merge::{MergeInputs, Merged};
use crate::jobs::compact::tight_gc;
use crate::jobs::compact::{gc, merge};
use crate::jobs::space::{Space, SpaceLimit};
use crate::record::RecordFile;
use crate::version::edit::VersionEdit;
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
    fn job(&self) -> Job {
        if self.inputs.generations.is_empty() {
            Job::Gc
        } else {
            Job::Merge
        }
    }

    /// Whether it is for idle times alone.
    fn is_pass_when_idle(&self) -> bool {
        self.inputs.copies_when_idle && self.inputs.generations.is_empty()
    }
}

impl Engine {
    /// Merges the oldest frozen generations of some partition, or reclaims space, if there is
    /// something to do.
    pub(crate) fn merge_one(&self) -> Result<bool> {
        self.health.check_fatal()?;
        let Some(mut plan) = self.lease_for_merge() else {
            return Ok(false);
        };
        let mut merged = self.run_plan(&plan);
        if let Err(error) = &merged {
            self.note_full(error);
            if self.gives_up_copies(&mut plan) {
                merged = self.run_plan(&plan);
            }
        }
        self.catalog.lock().merging.remove(&plan.partition.id);
        self.note(plan.job(), plan.partition.id, merged)
    }

    /// Takes out of a plan that has failed what it was to copy because nobody writes; false:
    /// nothing.
    fn gives_up_copies(&self, plan: &mut MergePlan) -> bool {
        if !std::mem::take(&mut plan.inputs.copies_when_idle)
            || self.closing.load(Ordering::Acquire)
        {
            return false;
        }
        let failed = &self.counters.failed_clusterings;
        failed.fetch_add(1, Ordering::Relaxed);
        true
    }

    /// Notes how a partition's job ended. What failed is in backoff, and other
    /// partitions go on.
    pub(crate) fn note(&self, job: Job, partition: PartitionId, ended: Result<()>) -> Result<bool> {
        if let Err(error) = &ended {
            self.note_full(error);
        }
        match ended {
            Err(error) if error.kind() == ErrorKind::Closed => return Err(error),
            ended => self.job_ended(job, Some(partition), ended.err()),
        }
        Ok(true)
    }

    fn lease_for_merge(&self) -> Option<MergePlan> {
        let mut catalog = self.catalog.lock();
        self.forget_settled(&catalog);
        if self.takes_freeze_request() {
            catalog.freeze_all();
        }
        let plan = self.plan_merge(&catalog, Some(self.now()))?;
        if plan.job() == Job::Merge || !seeded!(GcUnleased) {
            catalog.merging.insert(plan.partition.id);
        }
        Some(plan)
    }

    /// What to do next: merge frozen generations of the partition with the largest UnsortedStore,
    /// or rather of one that keeps flushes waiting; or else, if space presses, reclaim in the
    /// partition that holds most of what is to be moved. Only partitions whose lease is free come
    /// into question and, where `now` is given, whose job is not in backoff.
    pub(crate) fn plan_merge(&self, catalog: &Catalog, now: Option<Duration>) -> Option<MergePlan> {
        let version = &catalog.version;
        let in_backoff = |job, id| now.is_some_and(|now| self.health.is_in_backoff(job, id, now));
        let is_free = |job, id| !catalog.merging.contains(&id) && !in_backoff(job, id);
        let limit = self.space_limit();
        let space = self.space_of(version, limit.oldest);
        let partitions = version.partitions().iter();
        let free = partitions.filter(|p| is_free(Job::Merge, p.id));
        let ready = free.filter(|p| !catalog.frozen(p).is_empty());
        // One that keeps flushes waiting comes before all others.
        let limits = self.generation_limits(version);
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
        catalog: &Catalog,
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
            .health
            .failure(Job::Merge, Some(partition.id))
            .is_some()
        {
            return inputs;
        }
        if !self.space.is_full() {
            inputs.victims = gc::victims(version, space, limit, Pressure::Riding);
        }
        // Both at a time would need more room beside what there is; and nobody should wait for it.
        let is_awaited = catalog.flush_is_blocked(self.generation_limits(version));
        if !inputs.victims.is_empty() || is_awaited {
            return inputs;
        }
        inputs.copies_when_idle = self.copies_when_idle(&inputs.generations, space, limit);
        inputs
    }

    /// What garbage collection is to reclaim alone, if any.
    pub(crate) fn victims_alone(&self, version: &Arc<Version>) -> Vec<Arc<RecordFile>> {
        match self.tight_space() {
            None => {
                let limit = self.space_limit();
                let space = self.space_of(version, limit.oldest);
                gc::victims(version, &space, limit, self.garbage_requests.pressure())
            }
            Some(free_bytes) => tight_gc::victims(version, free_bytes),
        }
    }

    /// Merges the oldest frozen generations of a partition whose lease the caller holds. False:
    /// there are none.
    pub(crate) fn merge_leased(&self, id: PartitionId) -> Result<bool> {
        let plan = {
            let catalog = self.catalog.lock();
            let Some(partition) = catalog.version.partition(id) else {
                return Ok(false);
            };
            let inputs = MergeInputs {
                generations: oldest_frozen(&catalog, partition),
                ..MergeInputs::default()
            };
            MergePlan {
                partition: Arc::clone(partition),
                inputs,
            }
        };
        if plan.inputs.generations.is_empty() {
            return Ok(false);
        }
        self.run_plan(&plan).map(|()| true)
    }

    /// Does what the lease was taken for.
    pub(crate) fn run_plan(&self, plan: &MergePlan) -> Result<()> {
        self.probe_space();
        // The inputs are chosen; only now the snapshots are listed.
        let mut context = self.job_context();
        let MergePlan { partition, inputs } = plan;
        context.resting = plan.is_pass_when_idle().then(|| self.resting());
        context.cluster |= inputs.copies_when_idle;
        let merged = merge::merge(&context, partition, inputs);
        let mut merged = self.or_clean_up(&context, merged)?;
        let copied: u64 = merged.record_files.iter().map(|f| f.len).sum();
        let keys: u64 = merged.key_tables.iter().map(|t| t.len).sum();
        let moved = std::mem::take(&mut merged.moved);
        let edit = merge_edit(partition, &inputs.generations, merged);
        let mut catalog = self.catalog.lock();
        self.commit_edit(&mut catalog, edit, &Indexes::new(), |_| ())
            .inspect_err(|_| self.quarantine(&mut catalog, &context))?;
        drop(catalog);
        self.learn_outliers(partition.id);
        // Nobody asks for them there any more.
        for (file, offset) in moved {
            self.cache.remove_record(file, offset);
        }
        let counters = &self.counters;
        let clusters = plan.is_pass_when_idle();
        let (bytes, copied_bytes) = if !inputs.generations.is_empty() {
            counters.count_merge(partition.id);
            (&counters.merge_bytes, &counters.merge_copied_bytes)
        } else if clusters {
            (&counters.merge_bytes, &counters.merge_copied_bytes)
        } else {
            counters.gcs.fetch_add(1, Ordering::Relaxed);
            (&counters.gc_bytes, &counters.gc_copied_bytes)
        };
        counters
            .clusterings
            .fetch_add(clusters.into(), Ordering::Relaxed);
        bytes.fetch_add(keys + copied, Ordering::Relaxed);
        copied_bytes.fetch_add(copied, Ordering::Relaxed);
        Ok(())
    }
}

/// What the next merge of a partition takes along.
fn oldest_frozen(catalog: &Catalog, partition: &Partition) -> Vec<Generation> {
    let frozen = catalog.frozen(partition);
    let newer = frozen.len().saturating_sub(MAX_MERGED);
    let newer = slip!(MergeNewestFirst, 0, newer);
    let merged = frozen.iter().skip(newer).take(MAX_MERGED);
    merged.cloned().collect()
}

fn merge_edit(partition: &Partition, generations: &[Generation], merged: Merged) -> VersionEdit {
    let id = partition.id;
    let dropped = |number: FileNumber| (id, number);
    VersionEdit {
        record_files: merged.record_files,
        key_tables: merged
            .key_tables
            .into_iter()
            .map(|table| (id, table))
            .collect(),
        dropped_key_tables: merged.dropped_key_tables.into_iter().map(dropped).collect(),
        dropped_generations: generations.iter().map(|g| (id, g.id)).collect(),
        ..VersionEdit::default()
    }
}

#[cfg(test)]
mod tests;
