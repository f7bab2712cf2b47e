//! Running merges and garbage collection: choose, run without locks, commit.
//!
//! One job at a time changes a partition's SortedStore: it holds the partition's lease
//! (`Catalog::merging`). Only flushes run beside it, and they touch newer generations only.

use crate::base::keys::{FileNumber, PartitionId};
use crate::base::sync::atomic::Ordering;
use crate::engine::background::Background;
use crate::engine::catalog::Indexes;
use crate::engine::health::Job;
use crate::engine::schedule::idle::Plan;
use crate::engine::schedule::merges::{MergePlan, oldest_frozen};
use crate::error::{ErrorKind, Result};
use crate::jobs::compact::merge;
use crate::jobs::compact::merge::{MergeInputs, Merged};
use crate::version::edit::VersionEdit;
use crate::version::{Generation, Partition};
use std::sync::Arc;

impl Background {
    /// Merges the oldest frozen generations of some partition, or reclaims space, if there is
    /// something to do.
    pub(crate) fn merge_one(&self) -> Result<bool> {
        self.core.health.check_fatal()?;
        let Some(mut plan) = self.schedule.lease_for_merge() else {
            return Ok(false);
        };
        let mut merged = self.run_plan(&plan);
        if let Err(error) = &merged {
            self.space.note_full(error);
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
            || self.core.closing.load(Ordering::Acquire)
        {
            return false;
        }
        let failed = &self.core.counters.failed_clusterings;
        failed.fetch_add(1, Ordering::Relaxed);
        true
    }

    /// Notes how a partition's job ended. What failed is in backoff, and other
    /// partitions go on.
    pub(crate) fn note(&self, job: Job, partition: PartitionId, ended: Result<()>) -> Result<bool> {
        if let Err(error) = &ended {
            self.space.note_full(error);
        }
        match ended {
            Err(error) if error.kind() == ErrorKind::Closed => return Err(error),
            ended => self.core.job_ended(job, Some(partition), ended.err()),
        }
        Ok(true)
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
        self.space.probe_space();
        // The inputs are chosen; only now the snapshots are listed.
        let mut context = self.job_context();
        let MergePlan { partition, inputs } = plan;
        context.resting = plan.is_pass_when_idle().then(|| self.schedule.resting());
        context.cluster |= inputs.copies_when_idle;
        let merged = merge::merge(&context, partition, inputs);
        let mut merged = self.core.or_clean_up(&context, merged)?;
        let copied: u64 = merged.record_files.iter().map(|f| f.len).sum();
        let keys: u64 = merged.key_tables.iter().map(|t| t.len).sum();
        let moved = std::mem::take(&mut merged.moved);
        let edit = merge_edit(partition, &inputs.generations, merged);
        let mut catalog = self.catalog.lock();
        self.catalog
            .commit_edit(&mut catalog, edit, &Indexes::new(), |_| ())
            .inspect_err(|_| self.catalog.quarantine(&mut catalog, &context))?;
        drop(catalog);
        self.learn_outliers(partition.id);
        // Nobody asks for them there any more.
        for (file, offset) in moved {
            self.core.cache.remove_record(file, offset);
        }
        let counters = &self.core.counters;
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

impl Background {
    /// Clusters in one partition what lies apart, if writers are idle.
    pub(crate) fn cluster_when_idle(&self) -> Result<bool> {
        self.core.health.check_fatal()?;
        let plan = {
            let mut catalog = self.catalog.lock();
            match self.schedule.plan_when_idle(&catalog) {
                None => return Ok(false),
                Some(Plan::Freeze(partitions)) => {
                    let frozen = partitions.iter().filter(|p| catalog.freeze(p)).count();
                    return Ok(frozen > 0);
                }
                Some(Plan::Pass(plan)) => {
                    catalog.merging.insert(plan.partition.id);
                    plan
                }
            }
        };
        // Before anybody else may plan, it is known how it failed.
        let ended = self.run_plan(&plan).inspect_err(|error| {
            self.space.note_full(error);
            self.schedule.pass_failed(&plan, error);
        });
        self.catalog.lock().merging.remove(&plan.partition.id);
        match ended {
            Ok(()) => self.schedule.idle.pass_succeeded(),
            // Unless writing is suspended, that was all: it is for speed alone, and nobody waits
            // for it.
            Err(_) => self.core.health.check_fatal()?,
        }
        Ok(true)
    }

    /// Has the key tables of a partition read which of their records are much longer than the
    /// others. Of what cannot be read nothing is known.
    pub(crate) fn learn_outliers(&self, partition: PartitionId) {
        let version = Arc::clone(&self.read.view.load().version);
        let partition = version.partition(partition);
        for table in partition.into_iter().flat_map(|p| &p.key_tables) {
            let _nothing_known = table.outliers();
        }
    }
}

#[cfg(test)]
mod tests;
