//! The figures that the engine shows.

pub(crate) mod counters;
mod hex;
pub(crate) mod holders;
pub(crate) mod lifetime;
pub(crate) mod meter;
pub(crate) mod pins;
mod prometheus;
pub(crate) mod report;
pub(crate) mod stalls;
mod table;
mod text;

use super::memory::MemoryStats;
use crate::base::keys::{KEYSPACE_PREFIX_LEN, KeyspaceId};
use crate::base::sync::atomic::{AtomicU64, Ordering};
use crate::engine::health::JobError;
use crate::engine::stats::counters::EngineCounters;
use crate::engine::stats::holders::{HolderStats, RunningJob};
use crate::engine::stats::lifetime::{LifetimeStats, amplification};
use crate::engine::stats::meter::LatencyStats;
use crate::engine::stats::pins::PinStats;
use crate::engine::stats::stalls::StallStats;
use crate::engine::stats::table::each_counter;
use crate::version::keyspaces::DEFAULT_NAME;
use crate::version::{Partition, Version};
use std::collections::HashSet;
use std::sync::Arc;
use std::time::Duration;

/// A partition's figures.
#[derive(Clone, Debug, Default, serde::Serialize, serde::Deserialize)]
#[serde(default)]
#[non_exhaustive]
pub struct PartitionStats {
    /// The partition's id.
    pub id: u64,
    /// The keyspace in which it lies; `None`: it has been dropped.
    pub keyspace: Option<String>,
    /// The first key of its range.
    #[serde(with = "hex")]
    pub start: Vec<u8>,
    /// The first key after its range; `None`: it ends with the keyspace.
    #[serde(with = "hex::option")]
    pub end: Option<Vec<u8>>,
    /// Bytes that count towards its splitting: key tables, the newest records that they point to,
    /// and its share of the UnsortedStore's tables.
    pub data_bytes: u64,
    /// Generations of its UnsortedStore.
    pub generations: usize,
    /// Tables of its UnsortedStore.
    pub tables: usize,
    /// Sources that a scan merges in place of those tables: the tables that no scan run covers, and
    /// the runs.
    pub scan_sources: usize,
    /// Bytes of those tables in the range; after a split an estimate.
    pub unsorted_bytes: u64,
    /// Records of those tables in the range, superseded ones included; after a split an estimate.
    pub unsorted_records: u64,
    /// Key tables of its SortedStore.
    pub key_tables: usize,
    /// Bytes of those key tables.
    pub key_table_bytes: u64,
    /// Entries of those key tables.
    pub sorted_keys: u64,
    /// Merges of this partition since it came to be, or since the database was opened.
    pub merges: u64,
}

/// The figures of an open database. Counters count from the opening, those in `lifetime` from the
/// creation; bytes are bytes.
#[derive(Clone, Debug, Default, serde::Serialize, serde::Deserialize)]
#[serde(default)]
#[non_exhaustive]
pub struct Stats {
    /// Puts committed.
    pub puts: u64,
    /// Deletes committed.
    pub deletes: u64,
    /// Batches committed; a single put or delete is a batch.
    pub batches: u64,
    /// Point lookups.
    pub gets: u64,
    /// Point lookups that found a value.
    pub hits: u64,
    /// Bytes of the keys and values of committed operations.
    pub user_bytes_written: u64,
    /// Bytes appended to the WAL.
    pub wal_bytes: u64,
    /// Values that went to record files of their own, because of their size or that of their batch.
    pub large_values: u64,
    /// Bytes of those files.
    pub large_bytes: u64,
    /// Bytes written by flushes.
    pub flush_bytes: u64,
    /// Bytes written by ingests.
    pub ingest_bytes: u64,
    /// Bytes written by merges, copied values included.
    pub merge_bytes: u64,
    /// Bytes of values copied by merges, to cluster them or to reclaim what lay between them.
    pub merge_copied_bytes: u64,
    /// Bytes written by garbage collection that ran alone, copied values included.
    pub gc_bytes: u64,
    /// Bytes of values copied by garbage collection that ran alone.
    pub gc_copied_bytes: u64,
    /// Bytes written to manifests.
    pub manifest_bytes: u64,
    /// Bytes read from data files, by reads and jobs.
    pub read_bytes: u64,
    /// Reads of data files.
    pub reads: u64,
    /// Flushes done.
    pub flushes: u64,
    /// Sorted streams ingested.
    pub ingests: u64,
    /// Merges done.
    pub merges: u64,
    /// Garbage collections that ran alone.
    pub gcs: u64,
    /// Partitions split.
    pub splits: u64,
    /// Neighbouring partitions joined, two at a time.
    pub joins: u64,
    /// Memory by part, and its budget.
    pub memory: MemoryStats,
    /// Merges of keys of an UnsortedStore for scans.
    pub scan_merges: u64,
    /// Those that failed; scans go on without.
    pub failed_scan_merges: u64,
    /// Bytes written by them.
    pub scan_merge_bytes: u64,
    /// Bytes of the runs that they made and that are in use.
    pub scan_run_bytes: u64,
    /// Slices in which values were copied into key order. What they write counts as written by
    /// merges.
    pub clusterings: u64,
    /// Bytes of the values that they copied.
    pub clustered_bytes: u64,
    /// Those that failed; scans go on without.
    pub failed_clusterings: u64,
    /// Bytes in the memtable.
    pub memtable_bytes: u64,
    /// Memtables waiting for their flush.
    pub sealed_memtables: usize,
    /// Bytes of the UnsortedStore's tables.
    pub unsorted_bytes: u64,
    /// Records in them, superseded ones included.
    pub unsorted_records: u64,
    /// Entries of the hash indexes.
    pub index_entries: u64,
    /// Bytes of the hash indexes.
    pub index_bytes: u64,
    /// The share of the hash indexes' places that hold entries, from 0 to 1, weighted by their
    /// bytes.
    pub index_utilisation: f64,
    /// Lookups that went to a hash index.
    pub index_lookups: u64,
    /// Records read for such a lookup that were another key's.
    pub index_failed_comparisons: u64,
    /// Bytes of the pointer indexes of key tables: a part of `cache_bytes`.
    pub pointer_index_bytes: u64,
    /// Bytes in the read cache.
    pub cache_bytes: u64,
    /// Bytes the read cache may hold.
    pub cache_capacity: u64,
    /// Blocks, fences and records found in the cache.
    pub cache_hits: u64,
    /// Blocks, fences and records read because they were not there.
    pub cache_misses: u64,
    /// Record files: UnsortedStore tables and value logs.
    pub record_files: usize,
    /// Bytes of those files.
    pub record_file_bytes: u64,
    /// Bytes of records that key tables point to.
    pub record_live_bytes: u64,
    /// Key tables.
    pub key_tables: usize,
    /// Bytes of the key tables.
    pub key_table_bytes: u64,
    /// Bytes that compression has saved in the record files and key tables that there are.
    pub compression_saved_bytes: u64,
    /// Per partition, in key order.
    pub partitions: Vec<PartitionStats>,
    /// Bytes of all live files, the ballast included.
    pub disk_bytes: u64,
    /// What snapshots and iterators keep on disk, among those files and beside them.
    pub pins: PinStats,
    /// Pauses that slowed writers down while the background was behind.
    pub pauses: u64,
    /// How long they were in all.
    pub pause_time: Duration,
    /// How often a writer waited because every memtable was sealed.
    pub stalls: u64,
    /// How long they waited in all.
    pub stall_time: Duration,
    /// The longest such wait.
    pub longest_stall: Duration,
    /// Whether the disk is full: puts are refused, reads and deletes go on.
    pub disk_full: bool,
    /// Bytes of the file that is kept back for a full disk: at most a sixteenth of the data,
    /// none for a few megabytes.
    pub ballast_bytes: u64,
    /// Background jobs that have failed, are due, and are tried again from time to time.
    pub job_errors: Vec<JobError>,
    /// Whether there may be values that expire.
    pub expires: bool,
    /// By how much the clock of jobs is behind the wall clock. What has expired within that time
    /// stays on disk: see [`Db::trust_wall_clock`](crate::Db::trust_wall_clock).
    pub job_clock_behind: Option<Duration>,
    /// Bytes of what has expired in the SortedStore and stays on disk for that reason, at least.
    pub expired_kept_bytes: u64,
    /// Pauses and waits by what caused them; causes that never held a writer up are left out.
    pub stall_causes: Vec<StallStats>,
    /// What was counted since the database was created, by this process and those before it.
    pub lifetime: LifetimeStats,
    /// How long operations and jobs took: see [`Options::latencies`](crate::Options::latencies).
    /// Empty where that is off.
    pub latencies: Vec<LatencyStats>,
    /// Jobs of the background that run now.
    pub running_jobs: Vec<RunningJob>,
    /// Snapshots, transactions and iterators, the oldest first: what keeps old states on disk.
    pub holders: Vec<HolderStats>,
    /// How often the listener of [`Options::listener`](crate::Options::listener) has panicked, and
    /// the function of [`Options::on_progress`](crate::Options::on_progress).
    pub listener_panics: u64,
    /// Bytes of memory that the files take, beside the memory budget: see
    /// [`Db::in_memory`](crate::Db::in_memory). 0 where they are on a disk.
    pub in_memory_bytes: u64,
}

macro_rules! show_counters {
    ($($name:ident: $(stats $stats:ident)? $(,)? $(life $life:ident = $tag:literal)?;)*) => {
        impl Stats {
            /// The figures that are counters, the others being zero.
            pub(crate) fn of(counters: &EngineCounters) -> Stats {
                let of = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
                let time = |counter: &AtomicU64| Duration::from_nanos(of(counter));
                Stats {
                    $($($stats: of(&counters.$name),)?)*
                    puts: of(&counters.operations).saturating_sub(of(&counters.deletes)),
                    pause_time: time(&counters.pause_ns),
                    stall_time: time(&counters.stall_ns),
                    longest_stall: time(&counters.longest_stall_ns),
                    stall_causes: counters.causes.figures(),
                    ..Stats::default()
                }
            }
        }
    };
}
each_counter!(show_counters);

impl Stats {
    /// Bytes written to files since the opening, the WAL included.
    pub fn written_bytes(&self) -> u64 {
        self.wal_bytes
            + self.large_bytes
            + self.flush_bytes
            + self.ingest_bytes
            + self.merge_bytes
            + self.gc_bytes
            + self.scan_merge_bytes
            + self.manifest_bytes
    }

    /// Bytes written to files since the opening per byte that the user wrote, the WAL included.
    /// Zero before the first write. Since the creation: [`LifetimeStats::write_amplification`].
    pub fn write_amplification(&self) -> f64 {
        amplification(self.written_bytes(), self.user_bytes_written)
    }

    /// Bytes that the record files and key tables would take uncompressed per byte that they take;
    /// 1 without any.
    pub fn compression_ratio(&self) -> f64 {
        let stored = self.record_file_bytes + self.key_table_bytes;
        match stored {
            0 => 1.0,
            _ => (stored + self.compression_saved_bytes) as f64 / stored as f64,
        }
    }

    pub(crate) fn add_version(&mut self, version: &Version) {
        self.partitions = partitions_of(version);
        let mut used_bytes = 0.0;
        let mut seen = HashSet::new();
        for generation in version.partitions().iter().flat_map(|p| &p.generations) {
            self.unsorted_bytes += generation.bytes();
            self.unsorted_records += generation.records();
            // After a split, both sides share one index.
            if !seen.insert(Arc::as_ptr(&generation.index)) {
                continue;
            }
            self.index_entries += generation.index.len() as u64;
            self.index_bytes += generation.index.memory_bytes() as u64;
            used_bytes += generation.index.utilisation() * generation.index.memory_bytes() as f64;
        }
        if self.index_bytes > 0 {
            self.index_utilisation = used_bytes / self.index_bytes as f64;
        }
        let (files, partitions) = (version.file_sums(), version.partition_sums());
        self.record_files = version.record_files().len();
        self.record_file_bytes = files.bytes;
        self.record_live_bytes = files.all_live_bytes;
        self.scan_run_bytes = partitions.run_bytes;
        self.key_tables = partitions.key_tables as usize;
        self.key_table_bytes = partitions.key_table_bytes;
        self.compression_saved_bytes = files.saved_bytes + partitions.saved_bytes;
    }
}

/// The key as the user knows it.
fn user_key(engine_key: &[u8]) -> Vec<u8> {
    let key = engine_key.get(KEYSPACE_PREFIX_LEN..);
    key.unwrap_or_default().to_vec()
}

/// The figures of the partitions, in key order.
pub(crate) fn partitions_of(version: &Version) -> Vec<PartitionStats> {
    let partitions = version.partitions().iter();
    partitions.map(|p| partition_stats(version, p)).collect()
}

fn partition_stats(version: &Version, partition: &Partition) -> PartitionStats {
    let generations = &partition.generations;
    let range = partition.range();
    let name = || match version.keyspaces.first_in(range) {
        Some(meta) => meta.name.clone(),
        None => DEFAULT_NAME.to_owned(),
    };
    let is_there = version.keyspaces.count_in(range) > 0;
    // A partition may reach into what is gone before and after its keyspace.
    let data = version.keyspaces.first_in(range).map(|meta| meta.data);
    let is_own = |key: &&[u8]| KeyspaceId::of(key) == data.unwrap_or_default();
    let start = Some(range.start).filter(is_own).unwrap_or_default();
    let end = range.end.filter(|end| end.len() > KEYSPACE_PREFIX_LEN);
    let end = end.filter(is_own);
    PartitionStats {
        id: partition.id.0,
        start: user_key(start),
        end: end.map(user_key),
        keyspace: is_there.then(name),
        data_bytes: partition.data_bytes(),
        generations: generations.len(),
        tables: generations.iter().map(|g| g.tables().count()).sum(),
        scan_sources: generations.iter().map(|g| g.scan_sources()).sum(),
        unsorted_bytes: partition.unsorted_bytes(),
        unsorted_records: generations.iter().map(|g| g.records()).sum(),
        key_tables: partition.key_tables.len(),
        key_table_bytes: partition.key_table_bytes(),
        sorted_keys: partition.key_tables.iter().map(|t| t.meta().count).sum(),
        merges: 0,
    }
}
