//! What the engine counts while it is open.

use crate::base::keys::PartitionId;
use crate::base::sync::atomic::{AtomicU64, Ordering};
use crate::base::sync::{Mutex, MutexGuard};
use crate::engine::stats::lifetime::LifetimeStats;
use crate::engine::stats::stalls::{StallCause, Stalls};
use crate::memtable::Batch;
use std::collections::HashMap;
use std::time::Duration;

/// Counters since the database was opened.
#[derive(Debug, Default)]
pub(crate) struct EngineCounters {
    /// What processes before this one have counted.
    before: LifetimeStats,
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
    /// Zeros, to be added to what earlier processes have counted.
    pub(crate) fn after(before: LifetimeStats) -> EngineCounters {
        EngineCounters {
            before,
            ..EngineCounters::default()
        }
    }

    /// What was counted since the database was created; its present manifest has `manifest_len`
    /// bytes.
    pub(crate) fn lifetime(&self, manifest_len: u64) -> LifetimeStats {
        self.of_process(manifest_len).after(&self.before)
    }

    /// What this process has counted; its present manifest has `manifest_len` bytes.
    fn of_process(&self, manifest_len: u64) -> LifetimeStats {
        let of = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        LifetimeStats {
            user_bytes_written: of(&self.user_bytes),
            wal_bytes: of(&self.wal_bytes),
            large_bytes: of(&self.large_bytes),
            flush_bytes: of(&self.flush_bytes),
            ingest_bytes: of(&self.ingest_bytes),
            merge_bytes: of(&self.merge_bytes),
            gc_bytes: of(&self.gc_bytes),
            scan_merge_bytes: of(&self.scan_merge_bytes),
            manifest_bytes: of(&self.retired_manifest_bytes).saturating_add(manifest_len),
            flushes: of(&self.flushes),
            ingests: of(&self.ingests),
            merges: of(&self.merges),
            gcs: of(&self.gcs),
            splits: of(&self.splits),
            joins: of(&self.joins),
            scan_merges: of(&self.scan_merges),
            stall_causes: self.causes.figures(),
        }
    }

    /// What earlier processes have counted.
    #[cfg(test)]
    pub(crate) fn before(&self) -> &LifetimeStats {
        &self.before
    }

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
