//! The engine: its components, and what concerns all of them.
//!
//! Lock order: `commit` → `catalog` → `wal_sync` → `view_lock` → `snapshots`. A thread takes them
//! in this order or skips some; jobs never wait for `commit`. Readers take none of them: they load
//! the view, then the visible sequence number.

pub(crate) mod background;
pub(crate) mod backpressure;
pub(crate) mod catalog;
pub(crate) mod changes;
pub(crate) mod checkpoint;
pub(crate) mod core;
pub(crate) mod handle;
pub(crate) mod health;
pub(crate) mod keyspaces;
pub(crate) mod memory;
#[cfg(all(test, unikv_model = "shuttle"))]
mod models;
pub(crate) mod open;
pub(crate) mod read;
pub(crate) mod recent;
pub(crate) mod secondary;
pub(crate) mod snapshots;
pub(crate) mod space;
pub(crate) mod stats;
pub(crate) mod stats_file;
#[cfg(test)]
pub(crate) mod tests;
pub(crate) mod uses;
pub(crate) mod visible_page;
pub(crate) mod window;
pub(crate) mod write;

use crate::base::keys::{PartitionId, SeqNo};
use crate::base::sync::atomic::{AtomicU64, Ordering};
use crate::engine::background::Background;
use crate::engine::backpressure::Backpressure;
use crate::engine::catalog::{Catalog, CatalogState};
use crate::engine::changes::ChangeFeed;
use crate::engine::checkpoint::Checkpoints;
use crate::engine::core::{Core, CoreParts};
use crate::engine::keyspaces::KeyspaceChanges;
use crate::engine::read::ReadState;
use crate::engine::space::DiskSpace;
use crate::engine::space::full_disk::FullDisk;
use crate::engine::stats::lifetime::LifetimeStats;
use crate::engine::stats::{Stats, lifetime};
use crate::engine::write::wal_sync::WalSync;
use crate::engine::write::{Commit, WritePath};
use crate::partition::View;
use crate::version::edit::VersionEdit;
use std::sync::Arc;
use std::time::Duration;

/// An open database: its components, each of which holds those above it in this list that it calls.
pub(crate) struct Engine {
    pub(crate) core: Arc<Core>,
    pub(crate) space: Arc<DiskSpace>,
    #[cfg(test)]
    pub(crate) backpressure: Arc<Backpressure>,
    pub(crate) read: Arc<ReadState>,
    pub(crate) catalog: Arc<Catalog>,
    pub(crate) write: Arc<WritePath>,
    pub(crate) keyspaces: KeyspaceChanges,
    pub(crate) background: Arc<Background>,
    pub(crate) checkpoints: Checkpoints,
    pub(crate) changes: Arc<ChangeFeed>,
    /// When it was opened, on the runtime's clock.
    pub(crate) opened_at: Duration,
}

/// What [`Engine::new`] is made of.
pub(crate) struct EngineParts {
    pub(crate) core: CoreParts,
    pub(crate) full_disk: FullDisk,
    pub(crate) view: View,
    pub(crate) last_seq: SeqNo,
    pub(crate) commit: Commit,
    pub(crate) wal_sync: WalSync,
    pub(crate) catalog: CatalogState,
}

impl Engine {
    pub(crate) fn new(parts: EngineParts) -> Engine {
        let core = Core::new(parts.core);
        let space = DiskSpace::new(&core, parts.full_disk);
        let backpressure = Backpressure::new(&core, &space);
        let read = ReadState::new(&core, &space, &backpressure, parts.view, parts.last_seq);
        let catalog = Catalog::new(&core, &space, &read, parts.catalog);
        let write = WritePath::new(
            &core,
            &space,
            &backpressure,
            &read,
            &catalog,
            parts.commit,
            parts.wal_sync,
        );
        let keyspaces = KeyspaceChanges::new(&core, &read, &catalog, &write);
        let checkpoints = Checkpoints::new(&core, &read, &catalog, &write);
        let changes = ChangeFeed::new(&core, &read, &write, &catalog);
        let background = Background::new(&core, &space, &backpressure, &read, &catalog, &write);
        Engine {
            opened_at: core.now(),
            core,
            space,
            #[cfg(test)]
            backpressure,
            read,
            catalog,
            write,
            keyspaces,
            background,
            checkpoints,
            changes,
        }
    }

    /// Stores what was counted, if something was written since it last was. The workers have ended.
    /// A failure loses no more than figures, and nothing is written after it. Where another call
    /// has released the directory meanwhile, the manifest may be another process's.
    pub(crate) fn store_lifetime(&self) {
        let mut catalog = self.catalog.lock();
        let directory = self.core.directory.lock();
        if directory.is_none() || self.core.health.is_suspended() || self.space.full_disk.is_full()
        {
            return;
        }
        let (counters, manifest_len) = (&self.core.counters, catalog.manifest.len());
        let lifetime = counters.lifetime(&catalog.version, manifest_len);
        let stored = lifetime::of(&catalog.version, catalog.manifest.path()).unwrap_or_default();
        // Opening and closing alone write to the log and the manifest.
        let with_own_writes = LifetimeStats {
            wal_bytes: lifetime.wal_bytes,
            manifest_bytes: lifetime.manifest_bytes,
            ..stored
        };
        let clock = &self.core.clock;
        if lifetime == with_own_writes && !clock.is_needed() {
            return;
        }
        let edit = VersionEdit {
            lifetime: Some(lifetime.encode()),
            clock_ms: Some(clock.note_ms()),
            ..VersionEdit::default()
        };
        let _only_figures = catalog.manifest.append(&edit);
    }

    /// The figures now.
    pub(crate) fn stats(&self) -> Stats {
        if !self.core.process.is_this() {
            return Stats::default();
        }
        let of = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        let manifest_len = self.catalog.lock().manifest.len();
        let view = self.read.view.load_full();
        let counters = &self.core.counters;
        let mut stats = Stats {
            read_bytes: self.core.store.read_bytes(),
            reads: self.core.store.reads(),
            memory: self.core.memory_stats(),
            memtable_bytes: view.memtable.table.bytes() as u64,
            sealed_memtables: view.sealed.len(),
            index_lookups: of(&self.read.reads.index_lookups),
            index_failed_comparisons: of(&self.read.reads.index_failed_comparisons),
            pointer_index_bytes: self.core.cache.pointer_index_bytes(),
            cache_bytes: self.core.cache.used_bytes(),
            cache_capacity: self.core.cache.capacity(),
            cache_hits: self.core.cache.hits(),
            cache_misses: self.core.cache.misses(),
            pins: self.read.pin_stats(&view.version),
            disk_full: self.space.full_disk.is_full(),
            ballast_bytes: self.space.full_disk.ballast_bytes(),
            job_errors: self.background.job_errors(),
            listener_panics: self.core.events.panics() + self.core.progress_panics,
            in_memory_bytes: self.core.store.env().vfs.memory_bytes(),
            latencies: self.core.meter.figures(),
            running_jobs: self.background.running.figures(self.core.now()),
            holders: self.read.holders(&view.version),
            job_clock_behind: self.core.clock.job_clock_behind(),
            expired_kept_bytes: self.space.expired_kept_bytes(&view.version),
            expires: self.core.clock.is_needed(),
            lifetime: counters.lifetime(&view.version, manifest_len),
            manifest_bytes: of(&counters.retired_manifest_bytes) + manifest_len,
            ..Stats::of(counters)
        };
        stats.add_version(&view.version);
        let merges = counters.partition_merges();
        for partition in &mut stats.partitions {
            let id = PartitionId(partition.id);
            partition.merges = merges.get(&id).copied().unwrap_or_default();
        }
        drop(merges);
        stats.disk_bytes = stats.record_file_bytes
            + stats.key_table_bytes
            + stats.scan_run_bytes
            + manifest_len
            + self.write.wal_sync.bytes()
            + self.core.window_files.bytes().1
            + stats.ballast_bytes
            + self.background.warmth.bytes();
        stats
    }

    /// Lets no more work begin and asks the workers to end.
    pub(crate) fn stop(&self) {
        self.core.closing.store(true, Ordering::Release);
        // Waits for a group that is being committed, which may wait for the background itself.
        self.core.progress.notify();
        drop(self.write.commit.lock());
        self.core.work.notify();
        self.core.progress.notify();
        self.background.sync_wake.notify();
        self.core.changed.notify();
    }

    /// Removes what is obsolete and lets another opener in. The workers have ended. Once that is
    /// done, the files are another opener's: nothing more is removed.
    pub(crate) fn release(&self) {
        if self.core.directory.lock().is_none() {
            return;
        }
        // Files of large values that are being written are given up by their writers.
        self.write.staging.wait();
        // An ingest removes its files when it finds the database closed.
        self.background.ingesting.wait();
        // So does a checkpoint.
        self.checkpoints.wait();
        self.write.commit.lock().wal = None;
        self.core
            .store
            .remove_files(self.write.wal_sync.drop_spare());
        self.read.views.release();
        self.core.store.remove_obsolete();
        self.core.visible_page.release();
        drop(self.core.directory.lock().take());
    }
}
