//! What every component may hold: options, files, memory, clocks and events, health and counters.
//!
//! Nothing here calls a component. Locks: those of its parts, each a leaf; `directory`, taken under
//! the catalog's or alone.

use crate::base::keys::{FileNumber, PartitionId};
use crate::base::sync::Mutex;
use crate::base::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use crate::engine::health::{Failure, Health, JobName};
use crate::engine::memory::{Arbiter, MemoryStats};
use crate::engine::snapshots::Snapshots;
use crate::engine::stats::counters::EngineCounters;
use crate::engine::stats::lifetime::LifetimeStats;
use crate::engine::stats::meter::Meter;
use crate::engine::visible_page::VisiblePage;
use crate::engine::window::WindowFiles;
use crate::error::{Error, Result};
use crate::events::{Event, Events, Wait};
use crate::jobs::JobContext;
use crate::key_table::ReadCache;
use crate::memtable::ArenaPool;
use crate::options::EffectiveOptions;
use crate::vfs::clock::Clock;
use crate::vfs::file_store::FileStore;
use crate::vfs::{self, Env, LockGuard, Process, wait_until};
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

pub(crate) struct Core {
    pub(crate) options: EffectiveOptions,
    pub(crate) store: Arc<FileStore>,
    pub(crate) cache: Arc<ReadCache>,
    pub(crate) pool: Arc<ArenaPool>,
    pub(crate) memory: Arc<Arbiter>,
    pub(crate) hash_seed: u64,
    pub(crate) next_file: AtomicU64,
    pub(crate) snapshots: Snapshots,
    /// The time by which what is written expires.
    pub(crate) clock: Arc<Clock>,
    /// Notified when there may be work for the background; the store's own.
    pub(crate) work: Arc<dyn vfs::Event>,
    /// Notified when the background has finished something or failed.
    pub(crate) progress: Arc<dyn vfs::Event>,
    pub(crate) health: Health,
    pub(crate) counters: EngineCounters,
    pub(crate) closing: AtomicBool,
    /// Notified when there may be changes for those that follow them.
    pub(crate) changed: Arc<dyn vfs::Event>,
    /// How many wait for changes.
    secondaries: AtomicU64,
    /// Files that the change window keeps.
    pub(crate) window_files: WindowFiles,
    /// That which has opened the database. In its children nothing may be done.
    pub(crate) process: Process,
    /// What secondaries see of it.
    pub(crate) visible_page: VisiblePage,
    /// Held until the engine is dropped or closed; its release lets another opener in.
    pub(crate) directory: Mutex<Option<Box<dyn LockGuard>>>,
    /// How long operations take.
    pub(crate) meter: Meter,
    /// What the listener hears of.
    pub(crate) events: Events,
    /// Where what leaves the database goes, such as copies. Its own files are there, too, unless
    /// they are in memory.
    pub(crate) outside: Env,
    /// Panics of the function that was called during the opening.
    pub(crate) progress_panics: u64,
}

/// What [`Core::new`] is made of.
pub(crate) struct CoreParts {
    pub(crate) options: EffectiveOptions,
    pub(crate) store: Arc<FileStore>,
    pub(crate) cache: Arc<ReadCache>,
    pub(crate) pool: Arc<ArenaPool>,
    pub(crate) memory: Arc<Arbiter>,
    pub(crate) clock: Arc<Clock>,
    pub(crate) hash_seed: u64,
    pub(crate) next_file: u64,
    pub(crate) counted_before: LifetimeStats,
    pub(crate) visible_page: VisiblePage,
    pub(crate) directory: Box<dyn LockGuard>,
    pub(crate) events: Events,
    pub(crate) outside: Env,
    pub(crate) progress_panics: u64,
}

impl Core {
    pub(crate) fn new(parts: CoreParts) -> Arc<Core> {
        Arc::new(Core {
            work: Arc::clone(parts.store.work()),
            progress: parts.store.env().runtime.event(),
            process: parts.memory.process.clone(),
            meter: Meter::new(parts.options.latencies, parts.options.slow_after),
            options: parts.options,
            cache: parts.cache,
            pool: parts.pool,
            memory: parts.memory,
            hash_seed: parts.hash_seed,
            next_file: AtomicU64::new(parts.next_file),
            snapshots: Snapshots::default(),
            clock: parts.clock,
            health: Health::default(),
            counters: EngineCounters::after(parts.counted_before),
            closing: AtomicBool::new(false),
            visible_page: parts.visible_page,
            changed: parts.store.env().runtime.event(),
            secondaries: AtomicU64::new(0),
            window_files: WindowFiles::default(),
            directory: Mutex::new(Some(parts.directory)),
            events: parts.events,
            outside: parts.outside,
            progress_panics: parts.progress_panics,
            store: parts.store,
        })
    }

    /// Whether its files are in memory, and only its name is that of a directory.
    pub(crate) fn is_in_memory(&self) -> bool {
        self.options.in_memory
    }

    /// Refuses to put something into the directory of the database.
    pub(crate) fn check_outside(&self, path: &Path, remedy: &str) -> Result<()> {
        if self.is_in_memory() || !path.starts_with(self.store.dir()) {
            return Ok(());
        }
        let what = format!("{} is in the directory of the database", path.display());
        Err(Error::invalid(what, remedy))
    }

    /// A number for a new file, which no other file ever has.
    pub(crate) fn next_file_number(&self) -> FileNumber {
        FileNumber(self.next_file.fetch_add(1, Ordering::Relaxed))
    }

    /// Refuses work on a closed database, and in a child of the process that has opened it. To be
    /// asked before any lock is taken: in a child, a thread that is not there may hold it.
    #[inline]
    pub(crate) fn check_open(&self) -> Result<()> {
        if !self.process.is_this() {
            Err(Error::forked())
        } else if self.is_closed() {
            Err(Error::closed())
        } else {
            Ok(())
        }
    }

    /// Whether it has been closed. Where something is begun, [`Core::check_open`] is to be asked.
    #[inline]
    pub(crate) fn is_closed(&self) -> bool {
        self.closing.load(Ordering::Acquire)
    }

    /// Calls `read`, which looks into files, unless the database is closed.
    #[inline]
    pub(crate) fn while_open<T>(&self, read: impl FnOnce() -> Result<T>) -> Result<T> {
        self.check_open()?;
        read().map_err(|error| self.unless_closed(error))
    }

    /// The error of a read. The next opener of a closed database may remove files from under a read
    /// that is still under way: that is `Closed`, and no damage.
    pub(crate) fn unless_closed(&self, error: Error) -> Error {
        self.check_open().err().unwrap_or(error)
    }

    /// Suspends writing and wakes all that wait: a thread has panicked in the middle of its work.
    pub(crate) fn suspend_after_panic(&self) {
        self.suspend_for_good(&Error::internal("a thread of the engine panicked"));
    }

    /// Suspends writing until the database is reopened, and wakes all that wait.
    pub(crate) fn suspend_for_good(&self, error: &Error) {
        self.set_fatal(error);
        self.progress.notify();
    }

    /// As [`Self::suspend_for_good`], but wakes nobody.
    pub(crate) fn set_fatal(&self, error: &Error) {
        if self.health.set_fatal(error) {
            self.events.emit(|| Event::WritesSuspended {
                error: error.clone(),
                until_reopened: true,
            });
        }
    }

    /// Suspends writing until the memtables are in tables.
    pub(crate) fn poison(&self, error: &Error) {
        if self.health.poison(error) {
            self.events.emit(|| Event::WritesSuspended {
                error: error.clone(),
                until_reopened: false,
            });
        }
    }

    /// A new segment of the log has taken over.
    pub(crate) fn unpoison(&self) {
        if self.health.unpoison() {
            self.events.emit(|| Event::WritesResumed);
        }
    }

    /// A job has succeeded, or is no longer due: what failed of it is forgotten.
    pub(crate) fn job_recovered(&self, job: JobName, partition: Option<PartitionId>) {
        if self.health.has_failures()
            && let Some(failure) = self.health.job_succeeded(job, partition)
        {
            self.report_recovered(&failure);
        }
    }

    /// Lets what failed because the disk was full be tried again at once.
    pub(crate) fn forget_full_disk(&self) {
        let forgotten = self.health.forget_full_disk();
        forgotten
            .iter()
            .for_each(|failure| self.report_recovered(failure));
    }

    fn report_recovered(&self, failure: &Failure) {
        self.events.emit(|| Event::JobRecovered {
            job: failure.job,
            partition: failure.partition.map(|id| id.0),
            failures: failure.failures,
        });
    }

    /// Waits for `done` as long as `check` finds nothing and the database is open.
    pub(crate) fn wait_while(
        &self,
        mut done: impl FnMut() -> bool,
        check: impl Fn() -> Result<()>,
    ) -> Result<()> {
        let mut outcome = Ok(());
        wait_until(&*self.progress, || {
            if done() {
                outcome = Ok(());
                return true;
            }
            outcome = self.check_open().and_then(|()| check());
            outcome.is_err()
        });
        outcome
    }

    /// The memory that each part takes now.
    pub(crate) fn memory_stats(&self) -> MemoryStats {
        let idle_buffers = self.store.env().vfs.idle_buffer_bytes();
        self.memory.stats(idle_buffers)
    }

    /// Passes a job's result on; removes the files it began if it failed.
    pub(crate) fn or_clean_up<T>(&self, context: &JobContext<'_>, result: Result<T>) -> Result<T> {
        result.inspect_err(|_| self.store.remove_files(context.begun.take()))
    }

    /// There may be changes for those that follow them. To be called after what they look at has
    /// changed.
    #[inline]
    pub(crate) fn note_changes(&self) {
        if self.options.change_window_bytes > 0 {
            self.wake_secondaries();
        }
    }

    /// Both sides change the counter, so one of them sees what the other has done: a secondary the
    /// change, or this the secondary.
    #[cold]
    fn wake_secondaries(&self) {
        if self.secondaries.fetch_add(0, Ordering::AcqRel) > 0 {
            self.changed.notify();
        }
    }

    /// Waits for what `look` finds, for `most` at most. With a `period` it looks again after that
    /// time, whatever event there was.
    pub(crate) fn follow<T>(
        &self,
        most: Option<Duration>,
        period: Option<Duration>,
        mut look: impl FnMut() -> Result<Option<T>>,
    ) -> Result<Option<T>> {
        let until = most.map(|most| self.now().saturating_add(most));
        loop {
            self.secondaries.fetch_add(1, Ordering::AcqRel);
            let epoch = self.changed.epoch();
            let found = self.check_open().and_then(|()| look());
            let left = until.map(|until| until.saturating_sub(self.now()));
            let is_over = left.is_some_and(|left| left.is_zero());
            let waits = !is_over && matches!(found, Ok(None));
            if waits {
                let most = left.into_iter().chain(period).min();
                self.changed.wait_past(epoch, most);
            }
            self.secondaries.fetch_sub(1, Ordering::AcqRel);
            if !waits {
                return found;
            }
        }
    }

    /// Waits, and counts that where slow operations are reported.
    #[inline(always)]
    pub(crate) fn counting_wait<T>(&self, wait: Wait, run: impl FnOnce() -> T) -> T {
        if !self.meter.is_on() {
            return run();
        }
        let begin = self.meter.counts_waits().then(|| self.now());
        let result = run();
        if let Some(begin) = begin {
            self.meter.waited(wait, self.now().saturating_sub(begin));
        }
        result
    }

    /// Time on the runtime's clock.
    pub(crate) fn now(&self) -> Duration {
        self.store.env().runtime.now()
    }

    /// Calls `work`, which counts no look-ups: how long it took, and how often those of others read
    /// files meanwhile.
    pub(crate) fn beside_look_ups<T>(&self, work: impl FnOnce() -> T) -> (T, Duration, u64) {
        let (began, misses) = (self.now(), self.cache.misses());
        let done = work();
        let took = self.now().saturating_sub(began);
        (done, took, self.cache.misses().saturating_sub(misses))
    }
}
