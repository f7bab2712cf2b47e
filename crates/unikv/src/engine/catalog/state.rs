//! What the catalog's lock protects, and where the next tables go: targets, frozen generations,
//! and what makes flushes wait.

use crate::base::keys::PartitionId;
use crate::base::sync::atomic::AtomicU64;
use crate::engine::catalog::gone::GoneKeyspaces;
use crate::engine::catalog::partition_figures::PartitionFigures;
use crate::engine::catalog::targets::Targets;
use crate::jobs::flush::placing::{FlushTarget, GenerationLimits, MAX_GENERATIONS};
use crate::jobs::flush::{FlushedTable, placing};
use crate::version::manifest::Manifest;
use crate::version::state::PartitionSums;
use crate::version::{Partition, Version};
use std::collections::HashMap;
use std::path::PathBuf;
use std::sync::Arc;

pub(crate) struct CatalogState {
    pub(crate) version: Arc<Version>,
    pub(crate) manifest: Manifest,
    /// Length of the manifest when it held only its snapshot.
    pub(crate) manifest_snapshot_len: u64,
    /// Whether the append of the last edit was tried; if not, no manifest holds it.
    pub(crate) append_tried: bool,
    /// Files to be removed once a new manifest is durable: outputs of edits that may or may not be
    /// in the present one, and manifests that `CURRENT` may or may not name.
    pub(crate) quarantined: Vec<PathBuf>,
    pub(crate) gone: GoneKeyspaces,
    pub(crate) targets: Targets,
    pub(crate) figures: PartitionFigures,
    /// The highest number given to a generation so far. None is given twice: a thread that waits
    /// for a generation to be merged must not meet a later one of its name.
    pub(crate) last_generation: Arc<AtomicU64>,
}

/// Why flushes wait for merges.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum FlushBlock {
    /// This partition has as many generations as it may have.
    Partition(PartitionId),
    /// All UnsortedStores together hold too much.
    SharedLimit,
}

impl CatalogState {
    /// Whether memtables may hold something of keyspaces that are gone: until that is in tables,
    /// their partitions stay.
    pub(crate) fn gone_await_flush(&self) -> bool {
        self.gone.await_flush(self.version.counters.flushed_seq)
    }

    /// Whether no keyspace has keys in the range of a partition, and none will have any: it lists
    /// nothing, and nothing of a memtable can come to it.
    pub(crate) fn is_vacant(&self, partition: &Partition) -> bool {
        let (range, flushed) = (partition.range(), self.version.counters.flushed_seq);
        partition.is_empty()
            && self.version.keyspaces.count_in(range) == 0
            && !self.gone.may_come_to(range, flushed)
    }

    /// What a flush must wait for before it can begin another generation. Bytes of a partition
    /// whose merge is failing count towards its own limit alone: the merges of others, whose open
    /// generations are within their share, would make no room for them. The memory of its indexes
    /// is taken all the same.
    pub(super) fn what_blocks_flushes(
        &self,
        limits: GenerationLimits,
        failing: impl FnOnce() -> Vec<PartitionId>,
    ) -> Option<FlushBlock> {
        let sums = self.version.partition_sums();
        let most_bytes = limits.most_unsorted_bytes();
        let is_much_memory = sums.index_bytes > limits.most_index_bytes();
        if sums.fullest.generations >= MAX_GENERATIONS {
            let is_full = |sums: &PartitionSums| sums.fullest.generations >= MAX_GENERATIONS;
            let mut full = self.version.partitions_where(is_full);
            if let Some(partition) = full.find(|p| self.blocks_flushes(p, limits)) {
                return Some(FlushBlock::Partition(partition.id));
            }
        }
        if sums.flushed_bytes <= most_bytes && !is_much_memory {
            return None;
        }
        let failing = failing();
        let stuck = failing.iter().filter_map(|id| self.version.partition(*id));
        let stuck_bytes: u64 = stuck.map(|p| p.flushed_bytes()).sum();
        let too_many_bytes = sums.flushed_bytes.saturating_sub(stuck_bytes) > most_bytes;
        let merge_helps = |p: &Arc<Partition>| !failing.contains(&p.id);
        let waits_for_bytes = too_many_bytes && self.frozen_partitions().any(merge_helps);
        let waits_for_memory = is_much_memory && self.frozen_partitions().next().is_some();
        (waits_for_bytes || waits_for_memory).then_some(FlushBlock::SharedLimit)
    }

    /// Whether a flush would need one more generation of the partition than it may have.
    pub(crate) fn blocks_flushes(&self, partition: &Partition, limits: GenerationLimits) -> bool {
        let target = self.targets.get(&partition.id);
        let open = target.is_some_and(|t| !t.is_full(limits));
        !open && partition.generations.len() >= MAX_GENERATIONS
    }

    /// Reserves slots for `tables` in every open generation that will take some of them, and
    /// returns these generations as they are before that.
    pub(crate) fn reserve(
        &mut self,
        tables: &[FlushedTable],
    ) -> (Arc<Version>, HashMap<PartitionId, FlushTarget>) {
        let mut before = HashMap::new();
        let version = Arc::clone(&self.version);
        for partition in placing::owners(tables, &version) {
            let target = self.reserve_in(partition.id, tables.len());
            before.extend(target.map(|target| (partition.id, target)));
        }
        (version, before)
    }
}
