//! What is wrong with the engine right now, and what that forbids.
//!
//! - A *fatal* error (the manifest could not be appended to) suspends writing until reopen.
//! - A *poisoned WAL* (a write or sync of it failed) suspends writing until everything acknowledged
//!   is in tables; then it goes on in a new segment.
//! - A *job error* (a flush or merge failed) makes writers fail instead of waiting for that job; the
//!   job is retried, and its success clears the error.

use crate::error::{Error, Result};
use parking_lot::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};

/// Which job an error belongs to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Job {
    Flush,
    Merge,
}

#[derive(Debug, Default)]
pub(crate) struct Health {
    fatal: Mutex<Option<Error>>,
    poisoned: Mutex<Option<Error>>,
    flush: Mutex<Option<Error>>,
    merge: Mutex<Option<Error>>,
    /// Whether `fatal` or `poisoned` holds something: the one test on the way of every write.
    suspended: AtomicBool,
}

impl Health {
    /// Whether a write must look at what is wrong before it goes on.
    pub(crate) fn is_suspended(&self) -> bool {
        self.suspended.load(Ordering::Acquire)
    }

    /// Refuses writing after a fatal error.
    pub(crate) fn check_fatal(&self) -> Result<()> {
        match &*self.fatal.lock() {
            None => Ok(()),
            Some(cause) => {
                let remedy = "reads go on; close and reopen the database to resume writing";
                Err(Error::writes_suspended(cause, remedy))
            }
        }
    }

    /// Suspends writing until reopen.
    pub(crate) fn set_fatal(&self, error: &Error) {
        self.fatal.lock().get_or_insert_with(|| error.clone());
        self.suspended.store(true, Ordering::Release);
    }

    /// Why the WAL is poisoned, if it is.
    pub(crate) fn poisoned(&self) -> Option<Error> {
        self.poisoned.lock().clone()
    }

    /// Suspends writing until the memtables are in tables.
    pub(crate) fn poison(&self, error: &Error) {
        self.poisoned.lock().get_or_insert_with(|| error.clone());
        self.suspended.store(true, Ordering::Release);
    }

    /// A new WAL segment has taken over.
    pub(crate) fn unpoison(&self) {
        *self.poisoned.lock() = None;
        let fatal = self.fatal.lock().is_some();
        self.suspended.store(fatal, Ordering::Release);
    }

    /// Notes how a job ended.
    pub(crate) fn set_job(&self, job: Job, error: Option<Error>) {
        *self.slot(job).lock() = error;
    }

    /// Refuses to wait for background work that is failing.
    pub(crate) fn check_jobs(&self) -> Result<()> {
        self.check_fatal()?;
        for job in [Job::Flush, Job::Merge] {
            if let Some(error) = &*self.slot(job).lock() {
                return Err(error.clone());
            }
        }
        Ok(())
    }

    fn slot(&self, job: Job) -> &Mutex<Option<Error>> {
        match job {
            Job::Flush => &self.flush,
            Job::Merge => &self.merge,
        }
    }
}
