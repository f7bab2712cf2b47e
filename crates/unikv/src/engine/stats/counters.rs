//! What the engine counts while it is open.

use crate::base::keys::PartitionId;
use crate::base::sync::atomic::{AtomicU64, Ordering};
use crate::base::sync::{Mutex, MutexGuard};
use crate::engine::write::stalls::{StallCause, Stalls};
use crate::memtable::Batch;
use std::collections::HashMap;
use std::time::Duration;

/// Counters since the database was opened.
#[derive(Debug, Default)]
pub(crate) struct EngineCounters {
    pub(crate) operations: AtomicU64,
    pub(crate) deletes: AtomicU64,
    pub(crate) batches: AtomicU64,
    pub(crate) gets: AtomicU64,
    pub(crate) hits: AtomicU64,
    pub(crate) user_bytes: AtomicU64,
    pub(crate) wal_bytes: AtomicU64,
    pub(crate) large_values: AtomicU64,
    pub(crate) large_bytes: AtomicU64,
    pub(crate) flush_bytes: AtomicU64,
    pub(crate) ingest_bytes: AtomicU64,
    pub(crate) merge_bytes: AtomicU64,
    pub(crate) merge_copied_bytes: AtomicU64,
    pub(crate) gc_bytes: AtomicU64,
    pub(crate) gc_copied_bytes: AtomicU64,
    /// Bytes of manifests that have been replaced.
    pub(crate) retired_manifest_bytes: AtomicU64,
    pub(crate) flushes: AtomicU64,
    pub(crate) ingests: AtomicU64,
    pub(crate) merges: AtomicU64,
    /// Of each partition. Nothing else is locked under it.
    partition_merges: Mutex<HashMap<PartitionId, u64>>,
    pub(crate) gcs: AtomicU64,
    pub(crate) splits: AtomicU64,
    pub(crate) joins: AtomicU64,
    pub(crate) scan_merges: AtomicU64,
    pub(crate) failed_scan_merges: AtomicU64,
    pub(crate) scan_merge_bytes: AtomicU64,
    pub(crate) clusterings: AtomicU64,
    pub(crate) failed_clusterings: AtomicU64,
    pub(crate) stalls: AtomicU64,
    pub(crate) stall_ns: AtomicU64,
    pub(crate) longest_stall_ns: AtomicU64,
    pub(crate) pauses: AtomicU64,
    pub(crate) pause_ns: AtomicU64,
    pub(crate) causes: Stalls,
}

impl EngineCounters {
    /// Counts the operations and user bytes of committed batches.
    pub(crate) fn count_writes<'a>(&self, batches: impl Iterator<Item = &'a Batch>) {
        for batch in batches {
            self.batches.fetch_add(1, Ordering::Relaxed);
            self.operations
                .fetch_add(batch.len() as u64, Ordering::Relaxed);
            self.deletes
                .fetch_add(batch.deletes() as u64, Ordering::Relaxed);
            self.user_bytes
                .fetch_add(batch.user_bytes() as u64, Ordering::Relaxed);
        }
    }

    /// Counts a merge of a partition.
    pub(crate) fn count_merge(&self, partition: PartitionId) {
        self.merges.fetch_add(1, Ordering::Relaxed);
        *self.partition_merges.lock().entry(partition).or_default() += 1;
    }

    /// Merges of each partition since it came to be.
    pub(crate) fn partition_merges(&self) -> MutexGuard<'_, HashMap<PartitionId, u64>> {
        self.partition_merges.lock()
    }

    /// Counts a split. What became of the parent's keys is counted anew.
    pub(crate) fn count_split(&self, parent: PartitionId) {
        self.splits.fetch_add(1, Ordering::Relaxed);
        self.partition_merges.lock().remove(&parent);
    }

    /// Counts a join of two partitions.
    pub(crate) fn count_join(&self, sides: [PartitionId; 2]) {
        self.joins.fetch_add(1, Ordering::Relaxed);
        self.partition_merges
            .lock()
            .retain(|id, _| !sides.contains(id));
    }

    /// Counts a pause that back-pressure made a writer take.
    pub(crate) fn count_pause(&self, cause: StallCause, ns: u64) {
        self.causes.count(cause, ns);
        self.pauses.fetch_add(1, Ordering::Relaxed);
        self.pause_ns.fetch_add(ns, Ordering::Relaxed);
    }

    /// Counts a wait of a writer for the background.
    pub(crate) fn count_stall(&self, cause: StallCause, time: Duration) {
        let ns = time.as_nanos() as u64;
        self.causes.count(cause, ns);
        self.stalls.fetch_add(1, Ordering::Relaxed);
        self.stall_ns.fetch_add(ns, Ordering::Relaxed);
        self.longest_stall_ns.fetch_max(ns, Ordering::Relaxed);
    }
}
