//! What all handles of an open database share: the engine and its background. Snapshots, iterators
//! and transactions keep it, too. It ends with the last of all these, on the thread that drops it.
//!
//! Locks: `turns`, each held over a transaction, before all others; `workers`, held while they are
//! started and while they are waited for; `delivery`, a leaf.

use crate::base::keys::KeyspaceId;
use crate::base::sync::{Mutex, MutexGuard};
use crate::engine::background::workers;
use crate::engine::read::moment::KeepsOpen;
use crate::engine::stats::holders::ClosingReport;
use crate::engine::stats_file::Publisher;
use crate::engine::{Engine, open};
use crate::error::{Error, ErrorKind, Result};
use crate::events::{self, Event, RecoveryReport};
use crate::options::Options;
use crate::vfs::{Env, JoinHandle};
use std::mem;
use std::path::Path;
use std::sync::Arc;

pub(crate) struct Handle {
    pub(crate) engine: Arc<Engine>,
    workers: Mutex<Vec<Box<dyn JoinHandle>>>,
    pub(crate) recovery: RecoveryReport,
    /// Delivers events. It ends last.
    delivery: Mutex<Option<Box<dyn JoinHandle>>>,
    /// Of those who take entries away.
    turns: [Mutex<()>; TURNS],
}

/// As many keyspaces may have entries taken away beside each other, with luck.
const TURNS: usize = 16;

impl Handle {
    /// Opens the database in `dir` and starts its background.
    pub(crate) fn open(env: Env, dir: &Path, options: Options) -> Result<Handle> {
        let (engine, recovery) = open::open(env, dir, options)?;
        Handle::start(engine, recovery)
    }

    /// The turn of the caller to take an entry of a keyspace away.
    pub(crate) fn turn(&self, keyspace: KeyspaceId) -> MutexGuard<'_, ()> {
        self.turns[keyspace.0 as usize % TURNS].lock()
    }

    /// What keeps the database open.
    pub(crate) fn kept_open(self: &Arc<Handle>) -> KeepsOpen {
        Some(Arc::<Handle>::clone(self))
    }

    fn start(engine: Arc<Engine>, recovery: RecoveryReport) -> Result<Handle> {
        let handle = Handle {
            engine,
            workers: Mutex::new(Vec::new()),
            recovery,
            delivery: Mutex::default(),
            turns: Default::default(),
        };
        handle.begin_delivery()?;
        workers::spawn(&handle.engine.background, &mut handle.workers.lock())?;
        handle.begin_publishing()?;
        Ok(handle)
    }

    /// Starts the worker that delivers events, of which the opening is the first.
    fn begin_delivery(&self) -> Result<()> {
        let core = &self.engine.core;
        core.events.emit(|| Event::Opened {
            recovery: Box::new(self.recovery.clone()),
        });
        self.engine.space.report_full();
        let delivery = events::deliver(&core.events, &*core.store.env().runtime);
        let dir = core.store.dir();
        *self.delivery.lock() = delivery.map_err(|e| Error::io("start a thread for", dir, e))?;
        Ok(())
    }

    /// Starts the worker that publishes the figures, where that is asked for.
    fn begin_publishing(&self) -> Result<()> {
        let core = &self.engine.core;
        let Some(every) = core.options.publish_stats else {
            return Ok(());
        };
        let wake = Arc::clone(&self.engine.background.sync_wake);
        let publisher = Box::new(Publisher::new(&self.engine, every));
        let runtime = &core.store.env().runtime;
        let spawned = runtime.spawn("unikv-stats", wake, publisher);
        let spawned = spawned.map_err(|e| Error::io("start a thread for", core.store.dir(), e))?;
        self.workers.lock().push(spawned);
        Ok(())
    }

    /// Has all events delivered. A listener that closes the database does not wait for itself.
    fn end_delivery(&self) {
        let events = &self.engine.core.events;
        events.end();
        let delivery = self.delivery.lock().take();
        if events.is_listener() {
            drop(delivery)
        } else {
            delivery.into_iter().for_each(|delivery| delivery.join())
        }
    }

    /// Syncs the log, stops the background, stores what was counted and releases the directory. The
    /// error is that of the sync, or of background work that has failed and not been made up for.
    /// On a full disk on which this opening could not write, it has nothing to sync. Returns what
    /// was still open.
    pub(crate) fn close(&self) -> Result<ClosingReport> {
        self.engine.core.check_open()?;
        let synced = self.engine.write.sync_and_note();
        let jobs = self.engine.background.check_jobs();
        let has_written_nothing = self.engine.catalog.is_staying();
        let ended = match synced.and(jobs) {
            Err(error) if error.kind() == ErrorKind::DiskFull && has_written_nothing => Ok(()),
            ended => ended,
        };
        self.engine.stop();
        let report = self.engine.read.still_open();
        self.stop_workers();
        self.engine.store_lifetime();
        let engine = &self.engine;
        let disk_is_full = engine.space.full_disk.is_full();
        engine.background.warmth.note_hints_at_closing(disk_is_full);
        self.shut_down();
        ended.map(|()| report)
    }

    /// Stops the workers and releases the directory. Idempotent.
    pub(crate) fn shut_down(&self) {
        self.stop_workers();
        self.engine.release();
        self.end_delivery();
    }

    pub(crate) fn stop_workers(&self) {
        self.engine.stop();
        for worker in self.workers.lock().drain(..) {
            worker.join();
        }
    }
}

impl Drop for Handle {
    fn drop(&mut self) {
        if !self.engine.core.process.is_this() {
            // All that is here is a copy of what the parent has: its files, its lock, threads that
            // are not there.
            if let Some(mut workers) = self.workers.try_lock() {
                mem::forget(mem::take(&mut *workers));
            }
            if let Some(mut delivery) = self.delivery.try_lock() {
                mem::forget(delivery.take());
            }
            mem::forget(Arc::clone(&self.engine));
            return;
        }
        self.shut_down();
    }
}
