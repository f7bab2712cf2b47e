//! The background: one worker flushes, the others split, merge and join, one syncs periodically
//! where asked to.
//!
//! A worker's step is one job: choose inputs under the catalog lock, run without locks, commit
//! under the catalog lock. A job that fails removes what it began (unless the commit was tried:
//! then its outcome is unknown), leaves its error in `health` and is retried after a pause, while
//! the other jobs go on.

pub(crate) mod gc;
pub(crate) mod idle;
pub(crate) mod ingest;
mod join;
mod key_blocks;
pub(crate) mod maintenance;
mod merge;
mod pointer_indexes;
mod scan_merge;
mod split;

use super::catalog::{Catalog, Indexes};
use super::health::Job;
use crate::base::keys::SeqNo;
use crate::base::seeded::{seeded, slip};
use crate::base::sync::atomic::Ordering;
use crate::base::sync::{MutexGuard, Weakness, is_weak};
use crate::engine::Engine;
use crate::engine::background::join::Effort;
use crate::engine::write::blobs;
use crate::error::{Error, ErrorKind, Result};
use crate::jobs::flush::placing::{Placed, PlacingContext};
use crate::jobs::flush::{FlushedTable, placing};
use crate::jobs::{JobContext, flush};
use crate::version::edit::VersionEdit;
use crate::vfs::{Event, JoinHandle, Step, Worker};
use std::sync::Arc;
use std::time::Duration;

/// How long a worker is in backoff after a failed step.
const RETRY_AFTER: Duration = Duration::from_secs(1);

/// While merges are due all the time, every so many of them a join that needs merges takes its
/// turn.
const MERGES_PER_JOIN: u64 = 4;

/// Starts the workers; those started before one that fails are in `handles` all the same.
pub(crate) fn spawn(engine: &Arc<Engine>, handles: &mut Vec<Box<dyn JoinHandle>>) -> Result<()> {
    let mut start = |name: &str, wake: Arc<dyn Event>, task| -> Result<()> {
        let worker = Box::new(BackgroundWorker {
            engine: Arc::clone(engine),
            task,
            stepping: false,
        });
        let runtime = &engine.store.env().runtime;
        let spawned = runtime.spawn(name, wake, worker);
        let dir = engine.store.dir();
        handles.push(spawned.map_err(|e| Error::io("start a thread for", dir, e))?);
        Ok(())
    };
    start("unikv-flush", Arc::clone(&engine.work), Task::Flush)?;
    for _ in 1..engine.options.background_threads {
        start("unikv-merge", Arc::clone(&engine.work), Task::Merge)?;
    }
    if let crate::options::Durability::Periodic(every) = engine.options.durability {
        start(
            "unikv-sync",
            Arc::clone(&engine.sync_wake),
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
    engine: Arc<Engine>,
    task: Task,
    /// Whether a step has begun and not ended: a worker dropped then has panicked.
    stepping: bool,
}

impl Drop for BackgroundWorker {
    fn drop(&mut self) {
        if self.stepping {
            // Nobody does its work any more: whoever waits for that must not wait for ever.
            self.engine.suspend_after_panic();
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
        let engine = &self.engine;
        if engine.closing.load(Ordering::Acquire) {
            return Step::Done;
        }
        match self.task {
            Task::Flush => {
                engine.store.remove_obsolete();
                let look_again = engine.maintain_disk_space();
                match engine.run_job(Engine::flush_and_note) {
                    Step::Wait(rest) => {
                        let settle = engine.rest_or_settle();
                        let lend = engine.lend_memory();
                        let all = rest.into_iter().chain(settle).chain(lend).chain(look_again);
                        Step::Wait(all.min())
                    }
                    step => step,
                }
            }
            Task::Merge => {
                let step = engine.run_job(Engine::run_next_job);
                if matches!(step, Step::Wait(_)) && engine.idle.is_asked() {
                    // Who waits may have seen something to do that is not to be done any more.
                    engine.progress.notify();
                }
                step
            }
            Task::Sync(every) => {
                if engine.wal_sync.is_dirty() && !engine.health.is_suspended() {
                    let _poisons_on_failure = engine.sync_wal();
                }
                Step::Wait(Some(every))
            }
        }
    }
}

impl Engine {
    /// Runs a job, which says whether it found anything to do and keeps account of its failure.
    fn run_job(&self, run: impl FnOnce(&Engine) -> Result<bool>) -> Step {
        // What has found nothing to do may find something later than this.
        let before = self.now();
        match run(self) {
            Ok(true) => {
                if !is_weak(Weakness::JobTellsNobody) {
                    self.progress.notify();
                }
                self.work.notify();
                Step::Again
            }
            Ok(false) => Step::Wait(self.backoff_left(before)),
            Err(error) if error.kind() == ErrorKind::Closed => Step::Wait(None),
            Err(_) => {
                self.progress.notify();
                Step::Wait(Some(RETRY_AFTER))
            }
        }
    }

    fn flush_and_note(&self) -> Result<bool> {
        let flushed = self.flush_oldest();
        match &flushed {
            Err(error) if error.kind() == ErrorKind::Closed => {}
            Err(error) => {
                self.note_full(error);
                self.job_ended(Job::Flush, None, Some(error.clone()));
            }
            Ok(true) => self.job_ended(Job::Flush, None, None),
            Ok(false) => {}
        }
        flushed
    }

    /// Flushes the oldest sealed memtable, if there is one and the UnsortedStore can take it.
    fn flush_oldest(&self) -> Result<bool> {
        let view = self.view.load_full();
        let sealed = &view.sealed;
        let Some(oldest) = slip!(FlushNewestFirst, sealed.first(), sealed.last()) else {
            return Ok(false);
        };
        self.health.check_fatal()?;
        let limits = self.generation_limits(&view.version);
        if self.catalog.lock().flush_is_blocked(limits) {
            self.flush_blocked.store(true, Ordering::Relaxed);
            return Ok(false);
        }
        self.probe_space();
        let begin = self.now();
        let context = self.job_context();
        let flushed = flush::flush(&context, &oldest.table);
        let tables = self.or_clean_up(&context, flushed)?;
        let time = self.now().saturating_sub(begin);
        // A small one takes what a flush takes in any case, which says nothing of its bytes.
        let least = self.memory.plan.memtable_bytes / 4;
        let bytes = (oldest.table.bytes() as u64).max(least);
        self.pressure.note_flush(bytes, time);
        let placed = self.place_tables(&tables);
        let (mut catalog, placed) = self.or_clean_up(&context, placed)?;
        let indexes = indexes_of(&placed);
        // Segments are needed from the one where the next newer memtable begins.
        let newer = view.sealed.iter().rev().nth(1).unwrap_or(&view.memtable);
        let newer = slip!(LowWaterTooHigh, view.memtable.wal, newer.wal);
        let low_water = Some(newer).filter(|newer| self.wal_sync.may_begin_with(*newer));
        let bytes: u64 = tables.iter().map(|t| t.meta.len).sum();
        let mut record_files: Vec<_> = tables.into_iter().map(|t| t.meta).collect();
        let (large, overwritten) = blobs::named_by(&record_files, &oldest.large);
        record_files.extend(large);
        let mark = oldest.table.mark(SeqNo::MAX);
        let visible = || Some(SeqNo(self.visible_seq.load(Ordering::Acquire)));
        let edit = VersionEdit {
            record_files,
            tables: placed.iter().flat_map(|p| p.places.clone()).collect(),
            last_seq: slip!(FlushedSeqTooHigh, visible(), oldest.table.max_seq()),
            host_mark: slip!(NewestMark, view.mark(SeqNo::MAX), mark).map(Vec::from),
            wal_low_water: low_water,
            ..VersionEdit::default()
        };
        if seeded!(LogRemovedBeforeEdit) {
            self.store
                .remove_files(self.wal_sync.retire_below(newer, 0));
        }
        let spare_bytes = self.space.spare_bytes(self.memory.plan.memtable_bytes);
        if seeded!(LogRecycledBeforeEdit) {
            self.store
                .remove_files(self.wal_sync.retire_below(newer, spare_bytes));
        }
        self.commit_edit(&mut catalog, edit, &indexes, |view| drop(view.sealed.pop()))
            .inspect_err(|_| self.quarantine(&mut catalog, &context))?;
        // The log names them no more.
        overwritten.iter().for_each(|file| file.mark_obsolete());
        let targets = placed.into_iter().map(|p| (p.partition, p.target));
        catalog.targets.extend(targets);
        // A full generation is frozen at once, so that its merge need not wait for the next flush.
        catalog.freeze_full(limits);
        self.freeze_hiding(&mut catalog);
        drop(catalog);
        self.counters.flushes.fetch_add(1, Ordering::Relaxed);
        self.counters
            .flush_bytes
            .fetch_add(bytes, Ordering::Relaxed);
        if let Some(low_water) = low_water {
            self.store
                .remove_files(self.wal_sync.retire_below(low_water, spare_bytes));
        }
        Ok(true)
    }

    /// Gives tables their places in the partitions. This may read key sections, so it is done
    /// without the lock; what was split or frozen meanwhile is gone over with it, and that reads no
    /// section, because new generations begin there, and little of key tables that a merge has just
    /// made.
    pub(crate) fn place_tables(
        &self,
        tables: &[FlushedTable],
    ) -> Result<(MutexGuard<'_, Catalog>, Vec<Placed>)> {
        let mut catalog = self.catalog.lock();
        let (version, targets) = catalog.reserve(tables);
        let last_generation = Arc::clone(&catalog.last_generation);
        drop(catalog);
        let context = PlacingContext {
            limits: self.generation_limits(&version),
            hash_seed: self.hash_seed,
            last_generation: &last_generation,
        };
        let placed = placing::place(&context, tables, &version, &targets, Vec::new())?;
        let catalog = self.catalog.lock();
        let (version, targets) = (&catalog.version, &catalog.targets);
        let placed = placing::place(&context, tables, version, targets, placed)?;
        Ok((catalog, placed))
    }

    /// Splits a partition that has outgrown its size, or merges; then what nobody waits for: joins,
    /// and at last what only serves scans. A join that needs no merge goes along, and another takes
    /// its turn now and then, or merges without a pause would leave behind more and more empty
    /// partitions.
    fn run_next_job(&self) -> Result<bool> {
        if self.split_one()? {
            return Ok(true);
        }
        let merges = self.counters.merges.load(Ordering::Relaxed);
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
        let waits = !self.view.load().sealed.is_empty();
        (!waits).then(|| self.memory.lend(self.now()))?
    }

    /// How long from `now` until the first job in backoff is retried, flushes left aside.
    fn backoff_left(&self, now: Duration) -> Option<Duration> {
        let backoffs = [
            self.health.backoff_left(now),
            self.join_rest_left(now),
            self.rest_begins_in(now),
        ];
        backoffs.into_iter().flatten().min()
    }

    /// Passes a job's result on; removes the files it began if it failed.
    pub(crate) fn or_clean_up<T>(&self, context: &JobContext<'_>, result: Result<T>) -> Result<T> {
        result.inspect_err(|_| self.store.remove_files(context.begun.take()))
    }
}

/// The hash indexes that are published with placed tables.
pub(crate) fn indexes_of(placed: &[Placed]) -> Indexes {
    let each = placed.iter().flat_map(|p| {
        let of = p.partition;
        p.indexes
            .iter()
            .map(move |(g, index)| ((of, *g), Arc::clone(index)))
    });
    each.collect()
}
