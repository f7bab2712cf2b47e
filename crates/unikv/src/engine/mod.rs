//! The engine's shared state and its locks.
//!
//! Lock order: `commit` → `catalog` → `wal_sync` → `view_lock` → `snapshots`. A thread takes them
//! in this order or skips some; jobs never wait for `commit`. Readers take none of them: they load
//! the view, then the visible sequence number.

pub(crate) mod background;
pub(crate) mod catalog;
pub(crate) mod handle;
pub(crate) mod health;
pub(crate) mod memory;
#[cfg(all(test, unikv_model = "shuttle"))]
mod models;
pub(crate) mod open;
pub(crate) mod read;
pub(crate) mod space;
pub(crate) mod stats;
#[cfg(test)]
pub(crate) mod tests;
pub(crate) mod write;

use crate::base::keys::SeqNo;
use crate::base::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use crate::base::sync::{ArcSwap, Guard, Weakness, is_weak, order};
use crate::base::sync::{Mutex, RwLock};
use crate::engine::background::gc::GarbageRequests;
use crate::engine::background::idle::IdleWork;
use crate::engine::catalog::Catalog;
use crate::engine::health::Health;
use crate::engine::memory::Arbiter;
use crate::engine::read::pins::Views;
use crate::engine::read::snapshots::Snapshots;
use crate::engine::space::disk_full::DiskFull;
use crate::engine::space::tombstone_debt::TombstoneDebt;
use crate::engine::stats::counters::EngineCounters;
use crate::engine::stats::lifetime::LifetimeStats;
use crate::engine::write::Commit;
use crate::engine::write::backpressure::Pressure;
use crate::engine::write::queue::WriteQueue;
use crate::engine::write::wal_sync::WalSync;
use crate::error::{Error, Result};
use crate::jobs::JobContext;
use crate::jobs::flush::placing::GenerationLimits;
use crate::jobs::partitioning::split::PartitionLimits;
use crate::jobs::space::SpaceLimit;
use crate::key_table::ReadCache;
use crate::memtable::ArenaPool;
use crate::options::{Clustering, EffectiveOptions};
use crate::partition::{LargeFiles, ReadCounters, View};
use crate::version::Version;
use crate::vfs::file_store::FileStore;
use crate::vfs::{Event, LockGuard, Process};
use std::cell::RefCell;
use std::sync::Arc;

/// A part of what the space promise allows beside what is visible. The rest of that is for large
/// values of the memtable, for the ballast, and for manifests.
const IDLE_BYTES: u64 = 7 << 20;
pub(crate) const MEMTABLES_WHEN_IDLE: u64 = 4;
/// A partition large enough to be split has so many key tables at least.
const KEY_TABLES_OF_A_PARTITION: u64 = 8;

/// Everything that handles, iterators, snapshots and workers of one open database share.
pub(crate) struct Engine {
    pub(crate) options: EffectiveOptions,
    pub(crate) store: Arc<FileStore>,
    pub(crate) cache: Arc<ReadCache>,
    pub(crate) pool: Arc<ArenaPool>,
    pub(crate) memory: Arc<Arbiter>,
    pub(crate) hash_seed: u64,

    pub(crate) view: ArcSwap<View>,
    view_lock: Mutex<()>,
    /// Every write up to this sequence number is in the view.
    pub(crate) visible_seq: AtomicU64,

    pub(crate) commit: Mutex<Commit>,
    /// Writers that wait for the one that leads.
    pub(crate) queue: WriteQueue,
    pub(crate) wal_sync: WalSync,
    /// Files of large values whose batches are not committed yet.
    pub(crate) staged_large: LargeFiles,
    /// Shared by writers of large values from before they begin a file until it is with a memtable
    /// or removed; taken alone before the directory is released. Before all other locks.
    pub(crate) staging: RwLock<()>,
    pub(crate) catalog: Mutex<Catalog>,
    pub(crate) snapshots: Snapshots,
    pub(crate) views: Views,
    pub(crate) next_file: AtomicU64,
    /// Edits in the manifest, counted over all manifests of the database.
    pub(crate) manifest_edits: AtomicU64,

    /// Notified when there may be work for the background; the store's own.
    pub(crate) work: Arc<dyn Event>,
    /// Notified when the background has finished something or failed.
    pub(crate) progress: Arc<dyn Event>,
    /// Notified when the periodic sync is to end.
    pub(crate) sync_wake: Arc<dyn Event>,
    pub(crate) health: Health,
    pub(crate) pressure: Pressure,
    pub(crate) garbage_requests: GarbageRequests,
    pub(crate) tombstone_debt: TombstoneDebt,
    pub(crate) idle: IdleWork,
    /// The last flush that was tried had to wait for a merge.
    pub(crate) flush_blocked: AtomicBool,
    pub(crate) space: DiskFull,
    pub(crate) closing: AtomicBool,
    /// That which has opened the database. In its children nothing may be done.
    pub(crate) process: Process,
    /// Held shared by each ingest, and alone to release the directory.
    pub(crate) ingesting: RwLock<()>,

    pub(crate) counters: EngineCounters,
    /// What processes before this one have counted.
    pub(crate) counted_before: LifetimeStats,
    pub(crate) reads: ReadCounters,
    /// Held until the engine is dropped or closed; its release lets another opener in.
    pub(crate) lock: Mutex<Option<Box<dyn LockGuard>>>,
}

/// What [`Engine::new`] is made of.
pub(crate) struct EngineParts {
    pub(crate) options: EffectiveOptions,
    pub(crate) store: Arc<FileStore>,
    pub(crate) cache: Arc<ReadCache>,
    pub(crate) pool: Arc<ArenaPool>,
    pub(crate) memory: Arc<Arbiter>,
    pub(crate) view: View,
    pub(crate) last_seq: SeqNo,
    pub(crate) commit: Commit,
    pub(crate) wal_sync: WalSync,
    pub(crate) catalog: Catalog,
    pub(crate) next_file: u64,
    pub(crate) counted_before: LifetimeStats,
    pub(crate) space: DiskFull,
    pub(crate) lock: Box<dyn LockGuard>,
}

impl Engine {
    pub(crate) fn new(parts: EngineParts) -> Engine {
        let runtime = &parts.store.env().runtime;
        let (progress, sync_wake) = (runtime.event(), runtime.event());
        let work = Arc::clone(parts.store.work());
        let process = parts.memory.process.clone();
        Engine {
            options: parts.options,
            cache: parts.cache,
            pool: parts.pool,
            memory: parts.memory,
            hash_seed: parts.catalog.version.counters.hash_seed,
            view: ArcSwap::from_pointee(parts.view),
            view_lock: Mutex::new(()),
            visible_seq: AtomicU64::new(parts.last_seq.0),
            commit: Mutex::new(parts.commit),
            queue: WriteQueue::default(),
            wal_sync: parts.wal_sync,
            staged_large: LargeFiles::default(),
            staging: RwLock::default(),
            manifest_edits: AtomicU64::new(parts.catalog.manifest.edits()),
            catalog: Mutex::new(parts.catalog),
            snapshots: Snapshots::default(),
            views: Views::default(),
            next_file: AtomicU64::new(parts.next_file),
            work,
            progress,
            sync_wake,
            health: Health::default(),
            pressure: Pressure::default(),
            garbage_requests: GarbageRequests::default(),
            tombstone_debt: TombstoneDebt::default(),
            idle: IdleWork::default(),
            flush_blocked: AtomicBool::new(false),
            space: parts.space,
            closing: AtomicBool::new(false),
            process,
            ingesting: RwLock::new(()),
            counters: EngineCounters::default(),
            counted_before: parts.counted_before,
            reads: ReadCounters::default(),
            store: parts.store,
            lock: Mutex::new(Some(parts.lock)),
        }
    }

    /// Publishes a changed view.
    pub(crate) fn update_view(&self, change: impl FnOnce(&mut View)) {
        let _guard = self.view_lock.lock();
        let mut next = View::clone(&self.view.load());
        change(&mut next);
        let short = self.memory.look_at(&next);
        self.update_pressure(&next);
        self.view.store(Arc::new(next));
        if short {
            self.views.release();
        }
    }

    /// What a read without a snapshot sees: the view first, then the sequence number, so that the
    /// view holds a prefix of the write order and no version that the number needs is gone.
    pub(crate) fn read_point(&self) -> (Guard<Arc<View>>, SeqNo) {
        let seq = || SeqNo(self.visible_seq.load(Ordering::Acquire));
        let early = is_weak(Weakness::SeqBeforeView).then(seq);
        let view = self.view.load();
        (view, early.unwrap_or_else(seq))
    }

    /// Makes the writes up to `seq`, which are in the view, visible.
    pub(crate) fn publish_seq(&self, seq: SeqNo) {
        let ordering = order(Weakness::Visible, Ordering::Release);
        self.visible_seq.store(seq.0, ordering);
    }

    /// Refuses work on a closed database, and in a child of the process that has opened it. To be
    /// asked before any lock is taken: in a child, a thread that is not there may hold it.
    pub(crate) fn check_open(&self) -> Result<()> {
        if !self.process.is_this() {
            Err(Error::forked())
        } else if self.closing.load(Ordering::Acquire) {
            Err(Error::closed())
        } else {
            Ok(())
        }
    }

    /// Calls `read`, which looks into files, unless the database is closed.
    pub(crate) fn while_open<T>(&self, read: impl FnOnce() -> Result<T>) -> Result<T> {
        self.check_open()?;
        read().map_err(|error| self.unless_closed(error))
    }

    /// The error of a read. Whoever opens a closed database next may remove files from under a read
    /// that is still under way: that is `Closed`, and no damage.
    pub(crate) fn unless_closed(&self, error: Error) -> Error {
        self.check_open().err().unwrap_or(error)
    }

    pub(crate) fn space_limit(&self) -> SpaceLimit {
        SpaceLimit {
            max_space_amp: self.options.max_space_amp,
            floor_bytes: self.memory.plan.memtable_bytes.saturating_mul(2),
            idle_bytes: IDLE_BYTES + MEMTABLES_WHEN_IDLE * self.memory.plan.memtable_bytes,
            oldest: self.snapshots.oldest(),
            job_bytes: (2 * self.options.background_threads as u64)
                .saturating_mul(self.options.unsorted_bytes),
            unsorted_bytes: self.options.unsorted_bytes,
        }
    }

    /// Suspends writing and wakes all that wait: a thread has panicked in the middle of its work.
    pub(crate) fn suspend_after_panic(&self) {
        self.suspend_for_good(&Error::internal("a thread of the engine panicked"));
    }

    /// Suspends writing until the database is reopened, and wakes all that wait.
    pub(crate) fn suspend_for_good(&self, error: &Error) {
        self.health.set_fatal(error);
        self.progress.notify();
    }

    /// How large partitions may grow.
    pub(crate) fn partition_limits(&self) -> PartitionLimits {
        PartitionLimits::new(self.options.partition_bytes, self.options.unsorted_bytes)
    }

    /// How large the UnsortedStores may grow.
    pub(crate) fn generation_limits(&self, version: &Arc<Version>) -> GenerationLimits {
        let limit = self.space_limit();
        let most = self.space_of(version, limit.oldest).most_open_bytes(limit);
        GenerationLimits::of(self.options.unsorted_bytes, self.options.memory_budget).sharing(most)
    }

    /// What a job needs. Lists the snapshots, so take it after choosing the job's inputs: a
    /// snapshot that is not listed then sees the newest version of everything in them.
    pub(crate) fn job_context(&self) -> JobContext<'_> {
        JobContext {
            store: &self.store,
            cache: &self.cache,
            next_file: &self.next_file,
            closing: &self.closing,
            resting: None,
            snapshots: self.snapshots.list(),
            hash_seed: self.hash_seed,
            block_bytes: self.options.block_bytes as usize,
            key_table_bytes: self.memory.plan.key_table_bytes as usize,
            key_table_reach_bytes: self.options.partition_bytes / KEY_TABLES_OF_A_PARTITION,
            read_buffers_bytes: self.memory.plan.merge_read_bytes as usize,
            inline_value_bytes: self.options.inline_value_bytes as usize,
            copied_file_bytes: self.options.unsorted_bytes.clamp(64 << 10, 64 << 20),
            cluster: self.options.clustering == Clustering::EveryMerge && !self.space.is_full(),
            begun: RefCell::new(Vec::new()),
            _running: self.memory.begin_job(),
        }
    }
}
