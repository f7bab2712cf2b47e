//! The background: one worker flushes, the others split, merge and join, one syncs periodically
//! where asked to.
//!
//! A worker's step is one job: choose inputs under the catalog lock, run without locks, commit
//! under the catalog lock. A job that fails removes what it began (unless the commit was tried:
//! then its outcome is unknown), leaves its error in `health` and is retried after a pause, while
//! the other jobs go on.

pub(crate) mod flush;
mod for_reads;
mod full_disk;
pub(crate) mod ingest;
mod join;
pub(crate) mod maintenance;
mod merge;
mod scan_merge;
mod split;

use crate::base::sync::atomic::Ordering;
use crate::base::sync::{RwLock, Weakness, is_weak};
use crate::engine::backpressure::Backpressure;
use crate::engine::catalog::Catalog;
use crate::engine::core::Core;
use crate::engine::read::ReadState;
use crate::engine::schedule::Scheduler;
use crate::engine::schedule::joins::Effort;
use crate::engine::space::DiskSpace;
use crate::engine::write::WritePath;
use crate::error::{Error, ErrorKind, Result};
use crate::jobs::JobContext;
use crate::options::Clustering;
use crate::vfs::{Event, JoinHandle, Step, Worker};
use std::cell::RefCell;
use std::sync::Arc;
use std::time::Duration;

/// How long a worker is in backoff after a failed step.
const RETRY_AFTER: Duration = Duration::from_secs(1);

/// While merges are due all the time, every so many of them a join that needs merges takes its
/// turn.
const MERGES_PER_JOIN: u64 = 4;

/// A partition large enough to be split has so many key tables at least.
const KEY_TABLES_OF_A_PARTITION: u64 = 8;

/// The component that does what is due.
pub(crate) struct Background {
    core: Arc<Core>,
    space: Arc<DiskSpace>,
    backpressure: Arc<Backpressure>,
    read: Arc<ReadState>,
    catalog: Arc<Catalog>,
    schedule: Arc<Scheduler>,
    write: Arc<WritePath>,
    /// Notified when the periodic sync is to end.
    pub(crate) sync_wake: Arc<dyn Event>,
    /// Held shared by each ingest, and alone to release the directory.
    pub(crate) ingesting: RwLock<()>,
}

/// What [`Background::new`] is made of.
pub(crate) struct BackgroundParts<'a> {
    pub(crate) core: &'a Arc<Core>,
    pub(crate) space: &'a Arc<DiskSpace>,
    pub(crate) backpressure: &'a Arc<Backpressure>,
    pub(crate) read: &'a Arc<ReadState>,
    pub(crate) catalog: &'a Arc<Catalog>,
    pub(crate) schedule: &'a Arc<Scheduler>,
    pub(crate) write: &'a Arc<WritePath>,
}

/// Starts the workers; those started before one that fails are in `handles` all the same.
pub(crate) fn spawn(
    background: &Arc<Background>,
    handles: &mut Vec<Box<dyn JoinHandle>>,
) -> Result<()> {
    let mut start = |name: &str, wake: Arc<dyn Event>, task| -> Result<()> {
        let worker = Box::new(BackgroundWorker {
            background: Arc::clone(background),
            task,
            stepping: false,
        });
        let runtime = &background.core.store.env().runtime;
        let spawned = runtime.spawn(name, wake, worker);
        let dir = background.core.store.dir();
        handles.push(spawned.map_err(|e| Error::io("start a thread for", dir, e))?);
        Ok(())
    };
    start(
        "unikv-flush",
        Arc::clone(&background.core.work),
        Task::Flush,
    )?;
    for _ in 1..background.core.options.background_threads {
        start(
            "unikv-merge",
            Arc::clone(&background.core.work),
            Task::Merge,
        )?;
    }
    if let crate::options::Durability::Periodic(every) = background.core.options.durability {
        start(
            "unikv-sync",
            Arc::clone(&background.sync_wake),
            Task::Sync(every),
        )?;
    }
    Ok(())
}

#[derive(Clone, Copy)]
enum Task {
    Flush,
    Merge,
    Sync(Duration),
}

struct BackgroundWorker {
    background: Arc<Background>,
    task: Task,
    /// Whether a step has begun and not ended: a worker dropped then has panicked.
    stepping: bool,
}

impl Drop for BackgroundWorker {
    fn drop(&mut self) {
        if self.stepping {
            // Nobody does its work any more: whoever waits for that must not wait for ever.
            self.background.core.suspend_after_panic();
        }
    }
}

impl Worker for BackgroundWorker {
    fn step(&mut self) -> Step {
        self.stepping = true;
        let step = self.work();
        self.stepping = false;
        step
    }
}

impl BackgroundWorker {
    fn work(&self) -> Step {
        let background = &self.background;
        if background.core.closing.load(Ordering::Acquire) {
            return Step::Done;
        }
        match self.task {
            Task::Flush => {
                background.core.store.remove_obsolete();
                let look_again = background.maintain_disk_space();
                match background.run_job(Background::flush_and_note) {
                    Step::Wait(rest) => {
                        let settle = background.rest_or_settle();
                        let lend = background.lend_memory();
                        let all = rest.into_iter().chain(settle).chain(lend).chain(look_again);
                        Step::Wait(all.min())
                    }
                    step => step,
                }
            }
            Task::Merge => {
                let step = background.run_job(Background::run_next_job);
                if matches!(step, Step::Wait(_)) && background.schedule.idle.is_asked() {
                    // Who waits may have seen something to do that is not to be done any more.
                    background.core.progress.notify();
                }
                step
            }
            Task::Sync(every) => {
                if background.write.wal_sync.is_dirty() && !background.core.health.is_suspended() {
                    let _poisons_on_failure = background.write.sync_wal();
                }
                Step::Wait(Some(every))
            }
        }
    }
}

impl Background {
    pub(crate) fn new(parts: BackgroundParts<'_>) -> Arc<Background> {
        Arc::new(Background {
            core: Arc::clone(parts.core),
            space: Arc::clone(parts.space),
            backpressure: Arc::clone(parts.backpressure),
            read: Arc::clone(parts.read),
            catalog: Arc::clone(parts.catalog),
            schedule: Arc::clone(parts.schedule),
            write: Arc::clone(parts.write),
            sync_wake: parts.core.store.env().runtime.event(),
            ingesting: RwLock::default(),
        })
    }

    /// Runs a job, which says whether it found anything to do and keeps account of its failure.
    fn run_job(&self, run: impl FnOnce(&Background) -> Result<bool>) -> Step {
        // What has found nothing to do may find something later than this.
        let before = self.core.now();
        match run(self) {
            Ok(true) => {
                if !is_weak(Weakness::JobTellsNobody) {
                    self.core.progress.notify();
                }
                self.core.work.notify();
                Step::Again
            }
            Ok(false) => Step::Wait(self.schedule.backoff_left(before)),
            Err(error) if error.kind() == ErrorKind::Closed => Step::Wait(None),
            Err(_) => {
                self.core.progress.notify();
                Step::Wait(Some(RETRY_AFTER))
            }
        }
    }

    /// Splits a partition that has outgrown its size, or merges; then what nobody waits for: joins,
    /// and at last what only serves scans. A join that needs no merge goes along, and another takes
    /// its turn now and then, or merges without a pause would leave behind more and more empty
    /// partitions.
    fn run_next_job(&self) -> Result<bool> {
        if self.split_one()? {
            return Ok(true);
        }
        let merges = self.core.counters.merges.load(Ordering::Relaxed);
        let turn = merges.is_multiple_of(MERGES_PER_JOIN);
        let joined = self.join_one(if turn { Effort::Merges } else { Effort::Edit })?;
        Ok(self.merge_one()?
            || self.index_pointers_of_one()
            || self.read_blocks_of_one()
            || joined
            || self.join_one(Effort::Merges)?
            || self.scan_merge_one()?
            || self.cluster_when_idle()?
            || self.want_indexes_when_idle())
    }

    /// Lends the cache what jobs take, if none is waiting and none has run for a while. In what
    /// time to look again.
    fn lend_memory(&self) -> Option<Duration> {
        let waits = !self.read.view.load().sealed.is_empty();
        (!waits).then(|| self.core.memory.lend(self.core.now()))?
    }

    /// What a job needs. Lists the snapshots, so take it after choosing the job's inputs: a
    /// snapshot that is not listed then sees the newest version of everything in them.
    pub(crate) fn job_context(&self) -> JobContext<'_> {
        JobContext {
            store: &self.core.store,
            cache: &self.core.cache,
            next_file: &self.core.next_file,
            closing: &self.core.closing,
            resting: None,
            snapshots: self.core.snapshots.list(),
            hash_seed: self.core.hash_seed,
            block_bytes: self.core.options.block_bytes as usize,
            key_table_bytes: self.core.memory.plan.key_table_bytes as usize,
            key_table_reach_bytes: self.core.options.partition_bytes / KEY_TABLES_OF_A_PARTITION,
            read_buffers_bytes: self.core.memory.plan.merge_read_bytes as usize,
            inline_value_bytes: self.core.options.inline_value_bytes as usize,
            copied_file_bytes: self.core.options.unsorted_bytes.clamp(64 << 10, 64 << 20),
            cluster: self.core.options.clustering == Clustering::EveryMerge
                && !self.space.full.is_full(),
            begun: RefCell::new(Vec::new()),
            _running: self.core.memory.begin_job(),
        }
    }
}
