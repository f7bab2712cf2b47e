//! The threads: one flushes, and looks after disk and memory; the others do all other work; one
//! syncs periodically where asked to. A step of a thread is one job.

use crate::base::sync::atomic::Ordering;
use crate::base::sync::{Weakness, is_weak};
use crate::engine::background::Background;
use crate::error::{Error, ErrorKind, Result};
use crate::jobs::plan::{Rule, rules};
use crate::vfs::{Event, JoinHandle, Step, Worker};
use std::sync::Arc;
use std::time::Duration;

/// How long a worker waits after an error that is no job's.
const RETRY_AFTER: Duration = Duration::from_secs(1);

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
            // Nobody does its work any more: a thread that waits for that must not wait for ever.
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
                self.run_one(rules::FLUSHES)
            }
            Task::Merge => {
                let jobs = background.scheduler.jobs();
                let step = self.run_one(rules::OTHERS);
                if matches!(step, Step::Wait(_)) {
                    background.scheduler.note_none(jobs);
                    if background.idle.asked.any() {
                        background.core.progress.notify();
                    }
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

    /// Runs one job of these rules, if any is due.
    fn run_one(&self, rules: &[Rule]) -> Step {
        // What has found nothing to do may find something later than this.
        let before = self.background.core.now();
        match self.background.run_next_job(rules) {
            Ok(true) => {
                self.background.scheduler.note_job();
                if !is_weak(Weakness::JobTellsNobody) {
                    self.background.core.progress.notify();
                }
                self.background.core.work.notify();
                Step::Again
            }
            Ok(false) => Step::Wait(self.background.retry_in(rules, before)),
            Err(error) if error.kind() == ErrorKind::Closed => Step::Wait(None),
            Err(_) => {
                self.background.core.progress.notify();
                Step::Wait(Some(RETRY_AFTER))
            }
        }
    }
}
