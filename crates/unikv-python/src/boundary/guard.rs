//! What all handles of one opening share: the database, whether it is closed, and the process.
//!
//! The engine checks closing and forks at each call; this is for what Python holds on its own, such
//! as entries that were read ahead. The last handle of the database is dropped here, without the
//! lock of the interpreter, as that waits for the background.

use crate::boundary::errors::Fault;
use pyo3::prelude::*;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use unikv::Db;

/// How often this process has come from a fork since the module was loaded.
static FORKS: AtomicUsize = AtomicUsize::new(0);

/// Called in the child after each fork.
#[pyfunction(name = "_note_fork")]
pub(crate) fn note_fork() {
    FORKS.fetch_add(1, Ordering::Relaxed);
}

/// Every object of the database keeps it, and drops it last.
pub(crate) struct Guard {
    closed: AtomicBool,
    born: usize,
    /// A secondary has none.
    db: Option<Db>,
}

impl Guard {
    pub(crate) fn new(db: Option<Db>) -> Arc<Guard> {
        Arc::new(Guard {
            closed: AtomicBool::new(false),
            born: FORKS.load(Ordering::Relaxed),
            db,
        })
    }

    /// The database. A secondary has none.
    pub(crate) fn db(&self) -> Result<&Db, Fault> {
        let no_database = || {
            let what = "this is of a secondary, which reads alone";
            Fault::invalid(what, "open the database to write")
        };
        self.db.as_ref().ok_or_else(no_database)
    }

    /// Refuses what is closed, and the child of a fork.
    #[inline]
    pub(crate) fn check(&self) -> Result<(), Fault> {
        if self.is_closed() || self.is_forked() {
            return Err(self.fault());
        }
        Ok(())
    }

    pub(crate) fn is_closed(&self) -> bool {
        self.closed.load(Ordering::Acquire)
    }

    /// Whether the process has forked since, and this is the child.
    pub(crate) fn is_forked(&self) -> bool {
        FORKS.load(Ordering::Relaxed) != self.born
    }

    /// Marks it as closed; whether it was not before.
    pub(crate) fn close(&self) -> bool {
        !self.closed.swap(true, Ordering::AcqRel)
    }

    #[cold]
    fn fault(&self) -> Fault {
        if self.is_forked() {
            let what = "the database was opened in another process, of which this one is a fork";
            let remedy = "use it in the process that opened it; a child may open one of its own";
            return Fault::Ended("Forked", what.to_owned(), remedy);
        }
        let what = "the database has been closed".to_owned();
        Fault::Ended("Closed", what, "open it again")
    }
}

impl Drop for Guard {
    fn drop(&mut self) {
        if let Some(db) = self.db.take() {
            // Where there is no interpreter any more, it is dropped with the closure.
            Python::try_attach(move |py| py.detach(move || drop(db)));
        }
    }
}
