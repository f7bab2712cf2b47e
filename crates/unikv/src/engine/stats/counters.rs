//! What the engine counts while it is open.

use crate::base::keys::PartitionId;
use crate::base::sync::atomic::{AtomicU64, Ordering};
use crate::base::sync::{Mutex, MutexGuard};
use crate::engine::stats::lifetime::LifetimeStats;
use crate::engine::stats::stalls::Stalls;
use crate::engine::stats::table::each_counter;
use crate::events::StallCause;
use crate::jobs::compact::parts::Purpose;
use crate::memtable::Batch;
use crate::partition::scan_sources;
use crate::version::Version;
use std::collections::HashMap;
use std::time::Duration;

macro_rules! define_counters {
    ($($name:ident: $(stats $stats:ident)? $(,)? $(life $life:ident = $tag:literal)?;)*) => {
        /// Counters since the database was opened.
        #[derive(Debug, Default)]
        pub(crate) struct EngineCounters {
            /// What processes before this one have counted.
            before: LifetimeStats,
            $(pub(crate) $name: AtomicU64,)*
            /// Of each partition. Nothing else is locked under it.
            partition_merges: Mutex<HashMap<PartitionId, u64>>,
            pub(crate) causes: Stalls,
        }

        impl EngineCounters {
            /// What this process has counted, its present manifest left out.
            fn of_process(&self) -> LifetimeStats {
                LifetimeStats {
                    $($($life: self.$name.load(Ordering::Relaxed),)?)*
                    stall_causes: self.causes.figures(),
                    scan_cost: 0,
                }
            }
        }
    };
}
each_counter!(define_counters);

impl EngineCounters {
    /// Zeros, to be added to what earlier processes have counted.
    pub(crate) fn after(before: LifetimeStats) -> EngineCounters {
        EngineCounters {
            before,
            ..EngineCounters::default()
        }
    }

    /// What was counted since the database was created; its present version is `version`, and its
    /// present manifest has `manifest_len` bytes.
    pub(crate) fn lifetime(&self, version: &Version, manifest_len: u64) -> LifetimeStats {
        let mut counted = self.of_process();
        counted.scan_cost = scan_sources::charged_in_all(version);
        counted.manifest_bytes = counted.manifest_bytes.saturating_add(manifest_len);
        counted.after(&self.before)
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

    /// Counts a flush that wrote this much.
    pub(crate) fn count_flush(&self, bytes: u64) {
        self.flushes.fetch_add(1, Ordering::Relaxed);
        self.flush_bytes.fetch_add(bytes, Ordering::Relaxed);
    }

    /// Counts a scan merge that wrote this much.
    pub(crate) fn count_scan_merge(&self, bytes: u64) {
        self.scan_merges.fetch_add(1, Ordering::Relaxed);
        self.scan_merge_bytes.fetch_add(bytes, Ordering::Relaxed);
    }

    /// Counts a pass over a partition that wrote `bytes`, of which `copied` are records.
    pub(crate) fn count_pass(
        &self,
        purpose: Purpose,
        partition: PartitionId,
        bytes: u64,
        copied: u64,
    ) {
        let (passes, all, of_them) = match purpose {
            Purpose::Merge => {
                *self.partition_merges.lock().entry(partition).or_default() += 1;
                (&self.merges, &self.merge_bytes, &self.merge_copied_bytes)
            }
            Purpose::Collect => (&self.gcs, &self.gc_bytes, &self.gc_copied_bytes),
            Purpose::Cluster => (&self.clusterings, &self.merge_bytes, &self.clustered_bytes),
        };
        passes.fetch_add(1, Ordering::Relaxed);
        all.fetch_add(bytes, Ordering::Relaxed);
        of_them.fetch_add(copied, Ordering::Relaxed);
    }

    /// Merges of each partition since it came to be.
    pub(crate) fn partition_merges(&self) -> MutexGuard<'_, HashMap<PartitionId, u64>> {
        self.partition_merges.lock()
    }

    /// Counts a split. What became of the parent's keys is counted again.
    pub(crate) fn count_split(&self, parent: PartitionId) {
        self.splits.fetch_add(1, Ordering::Relaxed);
        self.partition_merges.lock().remove(&parent);
    }

    /// Counts a join of partitions.
    pub(crate) fn count_join(&self, sides: &[PartitionId]) {
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
