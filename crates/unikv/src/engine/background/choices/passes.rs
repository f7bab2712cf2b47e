//! What the passes over key tables take in: merges with what rides along, collections and slices;
//! and what the failure of one says for the next.

use super::Choices;
use crate::base::file_names::{self, FileName};
use crate::base::keys::PartitionId;
use crate::base::seeded::slip;
use crate::engine::catalog::CatalogState;
use crate::engine::health::MERGE;
use crate::error::Error;
use crate::jobs::compact::gc;
use crate::jobs::compact::parts::{MergeInputs, MergePlan, Purpose};
use crate::jobs::flush::placing::{MAX_GENERATIONS, MAX_SLOTS};
use crate::jobs::plan::Pass;
use crate::options::KeyspaceOptions;
use crate::record::RecordFile;
use crate::version::{Generation, Partition, Version};
use std::path::Path;
use std::sync::Arc;

/// Generations that one merge takes along when it has fallen behind: a pass over the key tables
/// then serves several. More would need more space beside them.
pub(crate) const MAX_MERGED: usize = 2;

/// Partitions with the generations that their next merges take along.
pub(crate) type Frozen = Vec<(Arc<Partition>, Vec<Generation>)>;

impl Choices {
    /// What the next merges of these partitions take along, those left out that have nothing.
    pub(crate) fn oldest_frozen(&self, catalog: &CatalogState, ids: &[PartitionId]) -> Frozen {
        let partitions = ids.iter().filter_map(|id| catalog.version.partition(*id));
        let all = partitions.map(|partition| {
            let generations = self.oldest_frozen_of(catalog, partition);
            (Arc::clone(partition), generations)
        });
        all.filter(|(_, generations)| !generations.is_empty())
            .collect()
    }

    /// Of a small partition all that is frozen is merged: it needs little space beside it, and each
    /// further merge would write its keys again. But each table takes memory, however little the
    /// partition has of it.
    fn oldest_frozen_of(&self, catalog: &CatalogState, partition: &Partition) -> Vec<Generation> {
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

    /// The merges of these, in key order, and what rides along. The first one is merged in any
    /// case; of the others those are left out whose values in the victims are too many for one job.
    /// That looks at each of their pointers.
    pub(crate) fn merges_of(&self, version: &Arc<Version>, frozen: Frozen) -> Vec<MergePlan> {
        let riding = if self.space.full_disk.is_full() {
            Vec::new()
        } else {
            self.riding_victims(version)
        };
        let numbers = gc::numbers(&riding);
        let rest = |left: u64, p: &Partition| {
            let left = left.checked_sub(cost_of(p))?;
            left.checked_sub(gc::bytes_in(p, &numbers))
        };
        let mut left = self.most_together_bytes(version);
        let mut plans = Vec::new();
        for (partition, generations) in frozen {
            let rest = rest(left, &partition);
            if plans.is_empty() || rest.is_some() {
                plans.push(self.merge_with(partition, generations, &riding));
                left = rest.unwrap_or(0);
            }
        }
        plans.sort_by(|a, b| a.partition.start.cmp(&b.partition.start));
        plans
    }

    /// The merge of these generations of `partition`, which takes `riding` victims along.
    fn merge_with(
        &self,
        partition: Arc<Partition>,
        generations: Vec<Generation>,
        riding: &[Arc<RecordFile>],
    ) -> MergePlan {
        let mut inputs = MergeInputs::merge(generations);
        // What has failed may have done so because of what rode along, and is forgotten when a full
        // disk has room again.
        let failed = self.core.health.failure(MERGE, Some(partition.id));
        if failed.is_none() && !self.failed_with_victims.lock().contains(&partition.id) {
            inputs.victims = riding.to_vec();
        }
        MergePlan { partition, inputs }
    }

    /// Values shorter than this stand beside their keys in a partition, as its keyspace says or all
    /// do.
    pub(crate) fn inline_bytes_of(&self, version: &Version, partition: &Partition) -> usize {
        let keyspace = version.keyspaces.first_in(partition.range());
        let options = keyspace.and_then(|it| KeyspaceOptions::of(it, Path::new("")).ok());
        let own = options.and_then(|options| options.inline_value_bytes);
        own.unwrap_or(self.core.options.inline_value_bytes) as usize
    }

    /// Notes what a pass could not do.
    pub(crate) fn pass_failed(&self, plan: &MergePlan, error: &Error, version: &Arc<Version>) {
        self.note_unreadable(plan, error, version);
        let MergePlan { partition, inputs } = plan;
        if inputs.purpose == Purpose::Merge && !inputs.victims.is_empty() {
            // The next one goes without.
            self.failed_with_victims.lock().insert(partition.id);
        }
    }

    /// Notes which file a pass could not read. Not the tables of its generations: those are no
    /// victims, and their merge is due whatever becomes of it.
    fn note_unreadable(&self, plan: &MergePlan, error: &Error, version: &Arc<Version>) {
        let name = error.file().and_then(Path::file_name);
        let name = name.and_then(|name| file_names::parse(name.to_str()?));
        let Some(file) = name.and_then(FileName::number) else {
            return;
        };
        let victims = plan.inputs.victims.iter().map(|file| file.meta().number);
        let key_tables = plan.partition.key_tables.iter();
        let mut read = victims.chain(key_tables.map(|table| table.meta().number));
        if read.any(|number| number == file) {
            self.space.note_unreadable(file, error, version);
        }
    }
}

/// A pass over these partitions that moves what they have in `victims`.
pub(super) fn pass_over(partitions: Vec<PartitionId>, victims: &[Arc<RecordFile>]) -> Pass {
    let files = victims.iter().map(|file| file.meta().number).collect();
    Pass { partitions, files }
}

/// What a pass does in each of its partitions.
pub(crate) fn plans_of(
    pass: &Pass,
    version: &Version,
    inputs: fn(Vec<Arc<RecordFile>>) -> MergeInputs,
) -> Vec<MergePlan> {
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

/// What a merge of the partition reads, and writes at most.
fn cost_of(partition: &Partition) -> u64 {
    let unsorted = partition.unsorted_bytes();
    unsorted.saturating_add(partition.key_table_bytes())
}
