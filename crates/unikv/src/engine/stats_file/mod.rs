//! Publishing the figures: a small file in the directory that other processes read.
//!
//! A worker of its own replaces the file by a rename, each time the interval has passed; it removes
//! it as its last act, before the directory is released. Nothing is synced: who reads the file
//! checks it, and a torn one is as good as none. A failure is an event, and concerns nobody else.
//!
//! No locks but those of the figures themselves.

mod format;

pub use format::PublishedStats;

use crate::base::file_names::{STATS, STATS_TEMP};
use crate::base::sync::atomic::Ordering;
use crate::engine::Engine;
use crate::error::{Error, Result};
use crate::events::Event;
use crate::vfs::{Step, Worker, WriteMode};
use std::io;
use std::sync::Arc;
use std::time::Duration;

/// The worker that publishes.
pub(crate) struct Publisher {
    engine: Arc<Engine>,
    every: Duration,
    /// When the file is due, on the runtime's clock.
    next: Duration,
    published: u64,
    /// Whether the last attempt failed.
    is_failing: bool,
}

impl Publisher {
    /// Publishes the figures of `engine` for the first time when `every` has passed.
    pub(crate) fn new(engine: &Arc<Engine>, every: Duration) -> Publisher {
        Publisher {
            engine: Arc::clone(engine),
            every,
            next: engine.core.now().saturating_add(every),
            published: 0,
            is_failing: false,
        }
    }

    fn figures(&self) -> PublishedStats {
        let options = &self.engine.core.options;
        let garbage = self.engine.background.garbage();
        PublishedStats {
            pid: std::process::id(),
            interval: self.every,
            published: self.published + 1,
            open_for: self.engine.core.now().saturating_sub(self.engine.opened_at),
            partition_bytes: options.partition_bytes,
            unsorted_bytes: options.unsorted_bytes,
            max_space_amp: options.max_space_amp,
            dead_bytes: garbage.dead_bytes,
            allowed_dead_bytes: garbage.allowed_bytes,
            due_jobs: self.engine.background.due_jobs(),
            stats: self.engine.stats(),
            age: Duration::ZERO,
        }
    }

    fn publish(&mut self) {
        let written = self.write(&self.figures().encode());
        match written {
            Ok(()) => {
                self.published += 1;
                self.is_failing = false;
            }
            Err(error) => {
                let before = std::mem::replace(&mut self.is_failing, true);
                if !before {
                    let event = || Event::StatsNotPublished { error };
                    self.engine.core.events.emit(event);
                }
            }
        }
    }

    fn write(&self, bytes: &[u8]) -> Result<()> {
        let store = &self.engine.core.store;
        let (vfs, dir) = (&*store.env().vfs, store.dir());
        let (path, temp) = (dir.join(STATS), dir.join(STATS_TEMP));
        let replace = || {
            let mut file = vfs.create(&temp, WriteMode::Log, bytes.len() as u64)?;
            file.append(bytes)?;
            drop(file);
            vfs.rename(&temp, &path)
        };
        let replaced = replace().inspect_err(|_| drop(vfs.remove(&temp)));
        replaced.map_err(|e| Error::io("publish the figures in", &path, e))
    }

    /// Removes the file: from now on the figures are nobody's.
    fn withdraw(&self) {
        let store = &self.engine.core.store;
        let removed = store.env().vfs.remove(&store.dir().join(STATS));
        // The next opening removes it.
        let _stays = removed.or_else(|e| match e.kind() {
            io::ErrorKind::NotFound => Ok(()),
            _ => Err(e),
        });
    }
}

impl Worker for Publisher {
    fn step(&mut self) -> Step {
        let core = &self.engine.core;
        if core.closing.load(Ordering::Acquire) {
            self.withdraw();
            return Step::Done;
        }
        let now = core.now();
        if now >= self.next {
            self.publish();
            self.next = now.saturating_add(self.every);
        }
        Step::Wait(Some(self.next.saturating_sub(now)))
    }
}

#[cfg(test)]
mod tests;
