//! Transactions.

mod keyspace;
mod writes;

use crate::boundary::args::{Blob, Time, write_options};
use crate::boundary::callbacks;
use crate::boundary::errors::Fault;
use crate::boundary::guard::Guard;
use crate::boundary::locks::{Mutex, MutexGuard};
use crate::boundary::waits::detached;
use crate::keyspace::Named;
use crate::reads::Readable;
use crate::reads::source::Source;
pub(crate) use keyspace::TransactionKeyspace;
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyDict, PyTuple};
use std::mem;
use std::sync::Arc;
use unikv::{Db, Isolation};
use writes::Writes;

/// A transaction until it ends. Locked for a call; waiting for it is without the interpreter.
pub(crate) struct Open(Mutex<Ending>);

#[derive(Default)]
pub(crate) enum Ending {
    Open(unikv::Transaction),
    #[default]
    Ended,
}

impl Open {
    fn new(transaction: unikv::Transaction) -> Arc<Open> {
        Arc::new(Open(Mutex::new(Ending::Open(transaction))))
    }

    pub(crate) fn lock(&self) -> MutexGuard<'_, Ending> {
        self.0.lock()
    }

    fn take(&self) -> Option<unikv::Transaction> {
        match mem::take(&mut *self.lock()) {
            Ending::Open(transaction) => Some(transaction),
            Ending::Ended => None,
        }
    }
}

impl Ending {
    pub(crate) fn get(&self) -> Result<&unikv::Transaction, Fault> {
        match self {
            Ending::Open(transaction) => Ok(transaction),
            Ending::Ended => Err(ended()),
        }
    }

    fn get_mut(&mut self) -> Result<&mut unikv::Transaction, Fault> {
        match self {
            Ending::Open(transaction) => Ok(transaction),
            Ending::Ended => Err(ended()),
        }
    }
}

#[cold]
fn ended() -> Fault {
    let what = "the transaction has been committed or rolled back".to_owned();
    Fault::Ended("Closed", what, "begin another one")
}

/// Reads and writes that take place at one moment, or not at all: made by `Database.transaction()`.
///
/// It reads the database as it was when it began, with what it has written itself. In a `with`
/// statement it is committed at the end, and rolled back if that is an exception. A commit raises
/// `ConflictError` if another write came between; `Database.transact` runs it again then.
///
/// >>> db[b"ada"] = b"10"
/// >>> with db.transaction() as txn:
/// ...     txn[b"ada"] = b"%d" % (int(txn[b"ada"]) - 1)
/// >>> db[b"ada"]
/// b'9'
#[pyclass(module = "unikv", extends = Readable, frozen)]
pub(crate) struct Transaction {
    open: Arc<Open>,
    guard: Arc<Guard>,
}

impl Transaction {
    fn writes(&self) -> Writes<'_> {
        Writes(&self.open, None, &self.guard)
    }

    /// What ends it is not done in the child of a fork, where another thread may have had the lock.
    fn take(&self, py: Python<'_>) -> Option<unikv::Transaction> {
        if self.guard.is_forked() {
            None
        } else {
            py.detach(|| self.open.take())
        }
    }

    fn make(
        py: Python<'_>,
        transaction: unikv::Transaction,
        guard: &Arc<Guard>,
    ) -> PyResult<Py<Transaction>> {
        let open = Open::new(transaction);
        let base = Readable::new(Source::Transaction(Arc::clone(&open)), guard);
        let guard = Arc::clone(guard);
        let base = PyClassInitializer::from(base);
        Py::new(py, base.add_subclass(Transaction { open, guard }))
    }

    pub(crate) fn begin(
        py: Python<'_>,
        isolation: &str,
        guard: &Arc<Guard>,
    ) -> PyResult<Py<Transaction>> {
        guard.check()?;
        let isolation = match isolation {
            "serializable" => Isolation::Serializable,
            "snapshot" => Isolation::Snapshot,
            _ => {
                let what = format!("there is no isolation {isolation:?}");
                let remedy = "use \"serializable\" or \"snapshot\"";
                return Err(Fault::invalid(what, remedy).into());
            }
        };
        let transaction = guard.db()?.begin_with(isolation);
        Transaction::make(py, transaction, guard)
    }

    /// Calls `run` with a transaction, and again if that conflicts.
    pub(crate) fn transact(
        py: Python<'_>,
        run: &Bound<'_, PyAny>,
        args: &Bound<'_, PyTuple>,
        keywords: Option<&Bound<'_, PyDict>>,
        guard: &Arc<Guard>,
    ) -> PyResult<Py<PyAny>> {
        guard.check()?;
        let db = guard.db()?;
        let run = run.clone().unbind();
        let args = args.clone().unbind();
        let keywords = keywords.map(|keywords| keywords.clone().unbind());
        detached(py, || {
            db.transact(|transaction| {
                Python::attach(|py| {
                    py.check_signals()?;
                    let keywords = keywords.as_ref().map(|keywords| keywords.bind(py));
                    let call = Call {
                        run: run.bind(py),
                        args: args.bind(py),
                        keywords,
                    };
                    Transaction::run(py, db, transaction, &call, guard)
                })
            })
        })
    }

    /// Calls `run` once. The transaction is lent to the object that Python sees.
    fn run(
        py: Python<'_>,
        db: &Db,
        lent: &mut unikv::Transaction,
        call: &Call<'_, '_>,
        guard: &Arc<Guard>,
    ) -> Result<Py<PyAny>, Fault> {
        let transaction = mem::replace(lent, db.begin());
        let shown = Transaction::make(py, transaction, guard)?;
        let mut all = vec![shown.bind(py).as_any().clone()];
        all.extend(call.args.iter());
        let result = callbacks::call(call.run, &PyTuple::new(py, all)?, call.keywords);
        // None is left if the function has ended it: then there is nothing to commit.
        let taken = py.detach(|| shown.get().open.take());
        if let Some(transaction) = taken {
            *lent = transaction;
        }
        let result = result?;
        callbacks::refuse_async(&result)?;
        Ok(result.unbind())
    }
}

/// A function and what it is called with, after the transaction.
struct Call<'a, 'py> {
    run: &'a Bound<'py, PyAny>,
    args: &'a Bound<'py, PyTuple>,
    keywords: Option<&'a Bound<'py, PyDict>>,
}

#[pymethods]
impl Transaction {
    /// Writes a value, as `Database.put`.
    #[pyo3(signature = (key, value, *, ttl=None))]
    fn put(
        &self,
        py: Python<'_>,
        key: Blob<'_>,
        value: Blob<'_>,
        ttl: Option<Time>,
    ) -> PyResult<()> {
        self.writes().put(py, key, value, ttl)
    }

    fn __setitem__(&self, py: Python<'_>, key: Blob<'_>, value: Blob<'_>) -> PyResult<()> {
        self.writes().put(py, key, value, None)
    }

    /// Removes a key.
    fn delete(&self, py: Python<'_>, key: Blob<'_>) -> PyResult<()> {
        self.writes().delete(py, key)
    }

    fn __delitem__(&self, py: Python<'_>, key: Blob<'_>) -> PyResult<()> {
        self.writes().delete(py, key)
    }

    /// Removes all keys from `start` to before `stop`.
    #[pyo3(signature = (start=None, stop=None))]
    fn delete_range(
        &self,
        py: Python<'_>,
        start: Option<Blob<'_>>,
        stop: Option<Blob<'_>>,
    ) -> PyResult<()> {
        self.writes().delete_range(py, start, stop)
    }

    /// The value of a key, which no other may write until the transaction commits: else it
    /// conflicts, under either isolation.
    fn get_for_update<'py>(
        &self,
        py: Python<'py>,
        key: Blob<'_>,
    ) -> PyResult<Option<Bound<'py, PyBytes>>> {
        self.writes().get_for_update(py, key)
    }

    /// A keyspace of the database, or one by its name, as the transaction sees it.
    fn keyspace(&self, py: Python<'_>, name: Named<'_, '_>) -> PyResult<Py<TransactionKeyspace>> {
        let keyspace = name.find(&self.guard)?;
        let open = Arc::clone(&self.open);
        let source = Source::Both(Arc::clone(&open), keyspace.clone());
        let base = PyClassInitializer::from(Readable::new(source, &self.guard));
        let guard = Arc::clone(&self.guard);
        let seen = TransactionKeyspace {
            open,
            keyspace,
            guard,
        };
        Py::new(py, base.add_subclass(seen))
    }

    /// Commits everything that was written, or raises `ConflictError` and nothing has changed.
    #[pyo3(signature = (*, sync=false))]
    fn commit(&self, py: Python<'_>, sync: bool) -> PyResult<()> {
        let options = write_options(None, sync, false);
        self.guard.check()?;
        detached(py, || {
            let transaction = self.open.take().ok_or_else(ended)?;
            Ok::<_, Fault>(transaction.commit_with(options)?)
        })
    }

    /// Drops everything that was written.
    fn rollback(&self, py: Python<'_>) {
        let taken = self.take(py);
        py.detach(|| drop(taken));
    }

    /// Remembers what has been written so far. Savepoints lie on each other.
    fn set_savepoint(&self, py: Python<'_>) -> PyResult<()> {
        self.writes().call(py, |open| {
            open.get_mut()?.set_savepoint();
            Ok::<_, Fault>(())
        })
    }

    /// Undoes what was written since the newest savepoint, and removes that; whether there was one.
    fn rollback_to_savepoint(&self, py: Python<'_>) -> PyResult<bool> {
        self.writes().call(py, |open| {
            Ok::<_, Fault>(open.get_mut()?.rollback_to_savepoint())
        })
    }

    fn __enter__(slf: Bound<'_, Transaction>) -> Bound<'_, Transaction> {
        slf
    }

    #[pyo3(signature = (kind, _error, _traceback))]
    fn __exit__(
        &self,
        py: Python<'_>,
        kind: Option<&Bound<'_, PyAny>>,
        _error: Option<&Bound<'_, PyAny>>,
        _traceback: Option<&Bound<'_, PyAny>>,
    ) -> PyResult<()> {
        if kind.is_none() {
            self.guard.check()?;
        }
        match (self.take(py), kind) {
            (Some(transaction), None) => detached(py, || transaction.commit()),
            (taken, _) => {
                py.detach(|| drop(taken));
                Ok(())
            }
        }
    }
}
