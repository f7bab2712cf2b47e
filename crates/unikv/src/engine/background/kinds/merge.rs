//! Running merges and garbage collection: choose, run without locks, commit.
//!
//! One job at a time changes a partition's SortedStore: it holds the partition's lease
//! ([`crate::engine::background::lease`]). Only flushes run beside it, and they touch newer
//! generations only.

use crate::base::file_names::{self, FileName};
use crate::base::keys::PartitionId;
use crate::base::seeded::slip;
use crate::base::sync::atomic::{AtomicU64, Ordering};
use crate::engine::background::{Background, Ended};
use crate::engine::catalog::{CatalogState, Indexes};
use crate::engine::health::{JobName, MERGE};
use crate::error::{Error, ErrorKind, Result};
use crate::jobs::compact::gc;
use crate::jobs::compact::parts::{
    MergeInputs, MergePlan, MergeRules, Merged, Purpose, partitions_of,
};
use crate::jobs::compact::together::{Together, merge_together};
use crate::jobs::flush::placing::{MAX_GENERATIONS, MAX_SLOTS};
use crate::jobs::plan::{CLUSTER, Pass};
use crate::jobs::{JobContext, Needs, Slice, written};
use crate::options::KeyspaceOptions;
use crate::partition::scan_sources;
use crate::record::RecordFile;
use crate::version::edit::VersionEdit;
use crate::version::{Generation, Partition};
use std::cell::Cell;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

/// A slice, which looks each MiB whether a merge is due, looks after this many MiB whether a
/// collection is: these may be due again and again, and what a slice has copied by then is a run.
const LOOKS_FOR_COLLECTION: u32 = 16;

/// Generations that one merge takes along when it has fallen behind: a pass over the key tables
/// then serves several. More would need more space beside them.
const MAX_MERGED: usize = 2;

impl Background {
    /// What is merged of these partitions, in key order, and what rides along. The first one is
    /// merged in any case; of the others those are left out whose values in the victims are too
    /// many for one job. That looks at each of their pointers.
    fn merge_plans(&self, ids: &[PartitionId]) -> Vec<MergePlan> {
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
    fn oldest_frozen(&self, catalog: &CatalogState, partition: &Partition) -> Vec<Generation> {
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

    /// Merges the oldest frozen generations of a partition whose lease the caller holds. False:
    /// there are none.
    pub(crate) fn merge_leased(&self, id: PartitionId) -> Result<bool> {
        let plan = {
            let catalog = self.catalog.lock();
            let Some(partition) = catalog.version.partition(id) else {
                return Ok(false);
            };
            let inputs = MergeInputs::merge(self.oldest_frozen(&catalog, partition));
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

    /// Values shorter than this stand beside their keys in a partition, as its keyspace says or all
    /// do.
    fn inline_bytes_of(&self, partition: &Partition) -> usize {
        let version = Arc::clone(&self.read.view.load().version);
        let keyspace = version.keyspaces.first_in(partition.range());
        let options = keyspace.and_then(|it| KeyspaceOptions::of(it, Path::new("")).ok());
        let own = options.and_then(|options| options.inline_value_bytes);
        own.unwrap_or(self.core.options.inline_value_bytes) as usize
    }

    /// Merges, collects or clusters in a leased partition.
    pub(crate) fn run_plan(&self, plan: &MergePlan) -> Result<()> {
        self.run_plans(MERGE, std::slice::from_ref(plan)).map(drop)
    }

    /// Merges the oldest frozen generations of leased partitions, the first of which is the job's.
    pub(in crate::engine::background) fn merge_these(&self, ids: &[PartitionId]) -> Result<Ended> {
        let plans = self.merge_plans(ids);
        let Some(first) = plans.first() else {
            return Ok(Ended::Nothing);
        };
        let first = first.partition.id;
        match self.run_plans(MERGE, &plans) {
            Err(error) if Some(&first) != ids.first() && error.kind() != ErrorKind::Closed => {
                // The failure is of another partition than the job's.
                self.space.note_full(&error);
                self.job_failed(MERGE, Some(first), &error);
                Ok(Ended::Discarded)
            }
            ended => ended,
        }
    }

    /// Copies the values of a slice.
    pub(in crate::engine::background) fn run_slice(&self, slice: &Pass) -> Result<Ended> {
        let plans = self.plans_of(slice, MergeInputs::cluster);
        let (ran, took, misses) = self
            .core
            .beside_look_ups(|| self.run_plans(CLUSTER, &plans));
        let charged = scan_sources::charged_in_all(&self.read.view.load().version);
        self.choices.ended(self.core.now(), took, misses, charged);
        ran
    }

    /// What a pass does in each of its partitions.
    pub(in crate::engine::background) fn plans_of(
        &self,
        pass: &Pass,
        inputs: fn(Vec<Arc<RecordFile>>) -> MergeInputs,
    ) -> Vec<MergePlan> {
        let version = Arc::clone(&self.read.view.load().version);
        let files = pass.files.iter();
        let files = files.filter_map(|number| version.record_file(*number).cloned());
        let victims: Vec<_> = files.collect();
        let partitions = pass.partitions.iter();
        let partitions = partitions.filter_map(|id| version.partition(*id).cloned());
        let plans = partitions.map(|partition| MergePlan {
            partition,
            inputs: inputs(victims.clone()),
        });
        plans.collect()
    }

    /// Does this in several leased partitions, in key order, as a job of `name`, and commits all of
    /// it at once. A failure of a later one is noted, and the others are committed if no value has
    /// been moved.
    pub(in crate::engine::background) fn run_plans(
        &self,
        name: JobName,
        plans: &[MergePlan],
    ) -> Result<Ended> {
        if plans.is_empty() {
            return Ok(Ended::Nothing);
        }
        self.space.probe_space();
        let began = self.core.now();
        let looks = Cell::new(0_u32);
        let held = partitions_of(plans);
        let is_awaited = || {
            looks.set(looks.get() + 1);
            let for_collection = looks.get().is_multiple_of(LOOKS_FOR_COLLECTION);
            self.is_merge_due(&held) || for_collection && self.is_collection_due(&held)
        };
        // The inputs are chosen; only now the snapshots are listed.
        let needs = Needs {
            syncs_late: plans.len() > 1,
            ..Needs::default()
        };
        let context = self.job_context(self.until_closed(), needs);
        let slice_bytes = self.choices.slice_bytes(&self.read.view.load().version);
        let is_slice = |plan: &MergePlan| plan.inputs.purpose == Purpose::Cluster;
        let slice = plans.iter().any(is_slice).then_some(Slice {
            most_bytes: slice_bytes,
            is_awaited: &is_awaited,
        });
        let together = merge_together(&context, plans, |partition| MergeRules {
            inline_value_bytes: self.inline_bytes_of(partition),
            slice,
        })?;
        let ended = match (&together.failed, &together.merged[..]) {
            (None, _) => Ended::Done,
            // The others have their turn again without the partition that failed.
            (Some(_), []) => Ended::Discarded,
            (Some(_), _) => Ended::InPart,
        };
        if let Some((nth, error)) = &together.failed {
            let plan = &plans[*nth];
            self.note_failed_pass(plan, error);
            if *nth == 0 {
                return Err(error.clone());
            }
            self.space.note_full(error);
            self.job_failed(name, Some(plan.partition.id), error);
        }
        if ended != Ended::Discarded {
            self.commit_plans(name, &context, plans, together, began)?;
        }
        Ok(ended)
    }

    /// Notes what a pass could not do, for the choice of the next ones.
    fn note_failed_pass(&self, plan: &MergePlan, error: &Error) {
        self.note_unreadable(plan, error);
        let MergePlan { partition, inputs } = plan;
        if inputs.purpose == Purpose::Merge && !inputs.victims.is_empty() {
            self.choices.failed_with_victims(partition.id);
        }
    }

    /// Notes which file a pass could not read. Not the tables of its generations: those are no
    /// victims, and their merge is due whatever becomes of it.
    fn note_unreadable(&self, plan: &MergePlan, error: &Error) {
        let name = error.file().and_then(Path::file_name);
        let name = name.and_then(|name| file_names::parse(name.to_str()?));
        let Some(file) = name.and_then(FileName::number) else {
            return;
        };
        let victims = plan.inputs.victims.iter().map(|file| file.meta().number);
        let key_tables = plan.partition.key_tables.iter();
        if victims
            .chain(key_tables.map(|table| table.meta().number))
            .any(|n| n == file)
        {
            let version = Arc::clone(&self.read.view.load().version);
            self.space.note_unreadable(file, error, &version);
        }
    }

    fn commit_plans(
        &self,
        kind: JobName,
        context: &JobContext<'_>,
        plans: &[MergePlan],
        together: Together,
        began: Duration,
    ) -> Result<()> {
        let mut edit = VersionEdit {
            record_files: together.record_files,
            ..VersionEdit::default()
        };
        let (mut moved, mut bytes) = (Vec::new(), 0);
        let mut partitions = partitions_of(plans);
        partitions.truncate(together.merged.len());
        for (plan, mut merged) in plans.iter().zip(together.merged) {
            let copied = merged.copied_bytes;
            let keys: u64 = merged.key_tables.iter().map(|t| t.len).sum();
            moved.append(&mut merged.moved);
            let generations = &plan.inputs.generations;
            add_to(&mut edit, &plan.partition, generations, merged);
            // The edit is to say so, too.
            self.count_merge(plan, keys + copied, copied);
            bytes += generations.iter().map(Generation::bytes).sum::<u64>();
        }
        if bytes > 0 {
            let pressure = &self.backpressure.state;
            pressure.note_merge(bytes, began, self.core.now());
        }
        let (mut catalog, indexes) = (self.catalog.lock(), Indexes::new());
        self.commit(&mut catalog, edit, &indexes, Some(context))?;
        drop(catalog);
        for partition in &partitions {
            self.choices.merged(*partition);
            self.learn_outliers(*partition);
            self.core.job_recovered(kind, Some(*partition));
        }
        // Nobody asks for them there any more.
        for (file, offset) in moved {
            self.core.cache.remove_record(file, offset);
        }
        Ok(())
    }

    /// Has the key tables of a partition read which of their records are much longer than the
    /// others. Of what cannot be read nothing is known.
    fn learn_outliers(&self, partition: PartitionId) {
        let version = Arc::clone(&self.read.view.load().version);
        let partition = version.partition(partition);
        for table in partition.into_iter().flat_map(|p| &p.key_tables) {
            let _nothing_known = table.outliers();
        }
    }

    fn count_merge(&self, plan: &MergePlan, bytes: u64, copied: u64) {
        let counters = &self.core.counters;
        let (all, of_them) = match plan.inputs.purpose {
            Purpose::Merge => (&counters.merge_bytes, &counters.merge_copied_bytes),
            Purpose::Collect => (&counters.gc_bytes, &counters.gc_copied_bytes),
            Purpose::Cluster => (&counters.merge_bytes, &counters.clustered_bytes),
        };
        match plan.inputs.purpose {
            Purpose::Merge => counters.count_merge(plan.partition.id),
            Purpose::Collect => add(&counters.gcs, 1),
            Purpose::Cluster => {
                add(&counters.clusterings, 1);
                let spent = slip!(ClusterUnspent, 0, copied);
                plan.partition.scan_cost.spend(spent);
            }
        }
        add(all, bytes);
        written::add(bytes);
        add(of_them, copied);
    }
}

/// What a merge of the partition reads, and writes at most.
fn cost_of(partition: &Partition) -> u64 {
    let unsorted = partition.unsorted_bytes();
    unsorted.saturating_add(partition.key_table_bytes())
}

fn add(counter: &AtomicU64, by: u64) {
    counter.fetch_add(by, Ordering::Relaxed);
}

/// Adds to an edit what has been merged in a partition.
fn add_to(edit: &mut VersionEdit, of: &Partition, generations: &[Generation], merged: Merged) {
    let id = of.id;
    let key_tables = merged.key_tables.into_iter();
    edit.key_tables.extend(key_tables.map(|table| (id, table)));
    let dropped = merged.dropped_key_tables.into_iter();
    edit.dropped_key_tables
        .extend(dropped.map(|number| (id, number)));
    edit.dropped_generations
        .extend(generations.iter().map(|g| (id, g.id)));
}

#[cfg(test)]
mod tests;
