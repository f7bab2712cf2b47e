//! What all handles of an open database share: the engine and its background. With the last of them it ends.
//!
//! Lock: `workers`, held while they are started and while they are waited for.

use super::background;
use super::engine::Engine;
use super::report::RecoveryReport;
use crate::base::sync::Mutex;
use crate::error::Result;
use crate::vfs::JoinHandle;
use std::mem;
use std::sync::Arc;

pub(super) struct Handle {
    pub(super) engine: Arc<Engine>,
    workers: Mutex<Vec<Box<dyn JoinHandle>>>,
    pub(super) recovery: RecoveryReport,
}

impl Handle {
    /// Starts the background of an engine.
    pub(super) fn start(engine: Arc<Engine>, recovery: RecoveryReport) -> Result<Handle> {
        let handle = Handle {
            engine,
            workers: Mutex::new(Vec::new()),
            recovery,
        };
        background::spawn(&handle.engine, &mut handle.workers.lock())?;
        Ok(handle)
    }

    /// Stops the workers and releases the directory. Idempotent.
    pub(super) fn shut_down(&self) {
        self.stop_workers();
        self.engine.release();
    }

    pub(super) fn stop_workers(&self) {
        self.engine.stop();
        for worker in self.workers.lock().drain(..) {
            worker.join();
        }
    }
}

impl Drop for Handle {
    fn drop(&mut self) {
        if !self.engine.process.is_this() {
            // All that is here is a copy of what the parent has: its files, its lock, threads that are not there.
            if let Some(mut workers) = self.workers.try_lock() {
                mem::forget(mem::take(&mut *workers));
            }
            mem::forget(Arc::clone(&self.engine));
            return;
        }
        self.shut_down();
    }
}
