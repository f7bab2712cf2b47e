//! A secondary: reads a database while another process writes it, or nobody does. It shows a
//! *state*, a view and a number that never change; a refresh puts the next in its place.
//! `docs/mechanisms.md`, "Secondaries", has the steps of a refresh.
//!
//! Invariants:
//! - It takes no lock that a writer meets, and writes nothing.
//! - It applies the edits in force before it takes the visible number, and looks again whether an
//!   edit has come. So no state has an edit that may not be durable, or a write not yet published.
//! - An error is true if numbers, page and `CURRENT` say that no file has moved on; else the
//!   refresh is tried again, up to a bound.
//!
//! Lock: `progress`, held over a refresh; taken by no reader.

mod copies;
mod feed;
mod files;
mod history;
mod memtables;
mod progress;
mod shared;
mod stored;
#[cfg(test)]
mod tests;
mod text;

use crate::base::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use crate::base::sync::{ArcSwap, Mutex};
use crate::engine::memory::MemoryStats;
use crate::engine::open::directory::{hold, refuse_unfinished};
use crate::engine::open::foreign;
use crate::engine::secondary::progress::Progress;
use crate::engine::secondary::shared::{Figures, LogOf, Shared, ShownLog};
use crate::engine::stats::{PartitionStats, partitions_of};
use crate::error::{Error, Result};
use crate::options::SecondaryOptions;
use crate::version::file_names;
use crate::vfs::{Env, Event, JoinHandle, Step, Worker};
pub(crate) use shared::Shown;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

/// Figures of a secondary, as of now.
#[derive(Clone, Debug, Default, serde::Serialize)]
#[non_exhaustive]
pub struct SecondaryStats {
    /// The sequence number of the last write that it shows.
    pub seq: u64,
    /// Writes that the writer has made visible since: the lag. 0 where there is no writer.
    pub lag: u64,
    /// Whether a writer had the database open at the last refresh.
    pub has_writer: bool,
    /// Time since the last refresh that succeeded.
    pub age: Duration,
    /// Refreshes that succeeded, by whatever they were asked for.
    pub refreshes: u64,
    /// Times when files had moved on and something was read again.
    pub retries: u64,
    /// Times when everything was read afresh: another opening of the writer, or none.
    pub reloads: u64,
    /// Data files that are held open.
    pub open_files: usize,
    /// What the memory budget is used for.
    pub memory: MemoryStats,
    /// Why the last refresh failed, if it did; serialized as its message.
    #[serde(serialize_with = "message")]
    pub error: Option<Error>,
    /// The partitions of the state that it shows, in key order. What is in its memtables is in
    /// none.
    pub partitions: Vec<PartitionStats>,
}

fn message<S: serde::Serializer>(
    error: &Option<Error>,
    to: S,
) -> std::result::Result<S::Ok, S::Error> {
    serde::Serialize::serialize(&error.as_ref().map(Error::to_string), to)
}

/// The component that follows.
pub(crate) struct Follow {
    shared: Shared,
    shown: ArcSwap<Shown>,
    progress: Mutex<Progress>,
    figures: Figures,
    failed: Mutex<Option<Error>>,
    ends: AtomicBool,
    wake: Arc<dyn Event>,
}

impl Follow {
    /// Opens what is in `dir` now.
    pub(crate) fn open(env: &Env, dir: &Path, options: &SecondaryOptions) -> Result<Arc<Follow>> {
        let explained = |error| foreign::explained(&*env.vfs, dir, error);
        file_names::refuse_foreign(&*env.vfs, dir).map_err(explained)?;
        let survey = file_names::survey(&*env.vfs, dir).map_err(explained)?;
        if survey.names.is_empty() {
            return Err(Error::not_found(dir));
        }
        refuse_unfinished(dir, &survey)?;
        let env = hold(env, dir)?;
        let shared = Shared::open(env, dir, options)?;
        let (mut progress, figures) = (Progress::default(), Figures::default());
        let shown = progress.refresh(&shared, &figures)?;
        let shown = shown.ok_or_else(|| Error::internal("a secondary has nothing to show"))?;
        figures.note(&shared);
        Ok(Arc::new(Follow {
            shown: ArcSwap::from_pointee(shown),
            progress: Mutex::new(progress),
            figures,
            failed: Mutex::default(),
            ends: AtomicBool::new(false),
            wake: shared.core.store.env().runtime.event(),
            shared,
        }))
    }

    /// What is shown now.
    #[inline]
    pub(crate) fn shown(&self) -> Arc<Shown> {
        self.shown.load_full()
    }

    /// Shows what is visible now.
    pub(crate) fn refresh(&self) -> Result<()> {
        self.shared.core.check_open()?;
        let mut progress = self.progress.lock();
        let refreshed = progress.refresh(&self.shared, &self.figures);
        *self.failed.lock() = refreshed.as_ref().err().cloned();
        if let Some(shown) = refreshed? {
            self.shown.store(Arc::new(shown));
        }
        self.figures.note(&self.shared);
        Ok(())
    }

    pub(crate) fn stats(&self) -> SecondaryStats {
        let core = &self.shared.core;
        if !core.process.is_this() {
            return SecondaryStats::default();
        }
        let of = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        let shown = self.shown();
        let since = Duration::from_nanos(of(&self.figures.refreshed_ns));
        let visible = self.progress.lock().published_seq();
        SecondaryStats {
            seq: shown.seq.0,
            lag: visible.map_or(0, |seq| seq.0.saturating_sub(shown.seq.0)),
            has_writer: shown.is_live,
            age: core.now().saturating_sub(since),
            refreshes: of(&self.figures.refreshes),
            retries: of(&self.figures.retries),
            reloads: of(&self.figures.reloads),
            open_files: core.store.open_files(),
            memory: core.memory_stats(),
            error: self.failed.lock().clone(),
            partitions: partitions_of(&shown.read.view.load().version),
        }
    }

    /// Refreshes every `period` from now on, until [`Follow::end`].
    pub(crate) fn spawn(self: &Arc<Self>, period: Duration) -> Result<Box<dyn JoinHandle>> {
        let store = &self.shared.core.store;
        let worker = Box::new(Refresher {
            follow: Arc::clone(self),
            period,
        });
        let spawned = store
            .env()
            .runtime
            .spawn("unikv-follow", Arc::clone(&self.wake), worker);
        spawned.map_err(|e| Error::io("start a thread for", store.dir(), e))
    }

    /// Whether the log is still that one.
    fn is_of(&self, log: &ShownLog) -> Result<bool> {
        match &log.of {
            LogOf::Writer(page) => page.is_held(self.shared.core.store.dir()),
            LogOf::Nobody(world, _) => Ok(self.progress.lock().look(&self.shared)? == *world),
        }
    }

    /// Asks the thread to end.
    pub(crate) fn end(&self) {
        self.ends.store(true, Ordering::Release);
        self.wake.notify();
    }

    /// Whether this is the process that has opened it, and not a child.
    pub(crate) fn is_this_process(&self) -> bool {
        self.shared.core.process.is_this()
    }
}

struct Refresher {
    follow: Arc<Follow>,
    period: Duration,
}

impl Worker for Refresher {
    fn step(&mut self) -> Step {
        if self.follow.ends.load(Ordering::Acquire) {
            return Step::Done;
        }
        let _kept_for_the_figures = self.follow.refresh();
        Step::Wait(Some(self.period))
    }
}
