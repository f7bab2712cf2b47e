//! The database.

use crate::boundary::args::Time;
use crate::boundary::callbacks::{self, Items, call_with};
use crate::boundary::errors::Fault;
use crate::boundary::guard::Guard;
use crate::boundary::options;
use crate::boundary::waits::{detached, interruptible};
use crate::changes::Changes;
use crate::keyspace::{Keyspace, Named};
use crate::moments::Snapshot;
use crate::offline::show_made;
use crate::reads::Readable;
use crate::reads::source::Source;
use crate::transaction::Transaction;
use crate::writes::{Target, Writable};
use pyo3::exceptions::PyTypeError;
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyDict, PyList, PyString, PyTuple};
use std::path::PathBuf;
use std::sync::Arc;
use unikv::backup::Repository;
use unikv::{Db, Options};

/// An open database: made by `unikv.open(path, **options)`.
///
/// It may be used by any number of threads. Close it, or use it in a `with` statement, which closes
/// it at its end. One that is only dropped is closed when the last of its iterators, snapshots and
/// transactions is gone.
#[pyclass(module = "unikv", extends = Writable, frozen)]
pub(crate) struct Database {
    path: PathBuf,
    guard: Arc<Guard>,
}

impl Database {
    /// The handle, of an open database.
    fn db(&self) -> Result<&Db, Fault> {
        self.guard.check()?;
        self.guard.db()
    }

    /// What `open` opens with the options that keywords name.
    fn opened(
        py: Python<'_>,
        keywords: Option<&Bound<'_, PyDict>>,
        open: impl FnOnce(Options) -> unikv::Result<Db> + Send + 'static,
    ) -> PyResult<PyClassInitializer<Database>> {
        let options = options::parse(keywords)?;
        let db = interruptible(py, move || open(options))?;
        let guard = Guard::new(Some(db.clone()));
        let path = db.path().to_owned();
        let reads = Readable::new(Source::Db(db.clone()), &guard);
        let writes = Writable::new(Target::Db(db), &guard);
        let base = PyClassInitializer::from(reads).add_subclass(writes);
        Ok(base.add_subclass(Database { path, guard }))
    }

    /// Calls the engine in a thread that Ctrl-C does not wait for.
    fn wait<T: Send + 'static>(
        &self,
        py: Python<'_>,
        call: impl FnOnce(&Db) -> unikv::Result<T> + Send + 'static,
    ) -> PyResult<T> {
        let db = self.db()?.clone();
        interruptible(py, move || call(&db))
    }
}

/// The items of a list or the like. The letters of a text are seldom meant.
fn several<'py>(of: &Bound<'py, PyAny>) -> PyResult<Items<'py>> {
    if of.is_instance_of::<PyString>() {
        let needed = "several keyspaces are needed, as in a list, not one name";
        return Err(PyTypeError::new_err(needed));
    }
    Items::of(of)
}

#[pymethods]
impl Database {
    #[new]
    #[pyo3(signature = (path, **options))]
    fn new(
        py: Python<'_>,
        path: PathBuf,
        options: Option<&Bound<'_, PyDict>>,
    ) -> PyResult<PyClassInitializer<Database>> {
        Database::opened(py, options, |options| Db::open(path, options))
    }

    /// Opens the database in a directory, which must be there.
    #[staticmethod]
    #[pyo3(signature = (path, **options))]
    fn open_existing(
        py: Python<'_>,
        path: PathBuf,
        options: Option<&Bound<'_, PyDict>>,
    ) -> PyResult<Py<Database>> {
        let open = |options| Db::open_existing(path, options);
        Py::new(py, Database::opened(py, options, open)?)
    }

    /// Creates a database in a directory, which must not hold one.
    #[staticmethod]
    #[pyo3(signature = (path, **options))]
    fn create_new(
        py: Python<'_>,
        path: PathBuf,
        options: Option<&Bound<'_, PyDict>>,
    ) -> PyResult<Py<Database>> {
        let open = |options| Db::create_new(path, options);
        Py::new(py, Database::opened(py, options, open)?)
    }

    /// Creates a database in the memory of the process.
    #[staticmethod]
    #[pyo3(signature = (**options))]
    fn in_memory(py: Python<'_>, options: Option<&Bound<'_, PyDict>>) -> PyResult<Py<Database>> {
        Py::new(py, Database::opened(py, options, Db::in_memory)?)
    }

    /// The directory; `:memory:` for a database in memory.
    #[getter]
    fn path(&self) -> PathBuf {
        self.path.clone()
    }

    /// Whether it has been closed.
    #[getter]
    fn closed(&self) -> bool {
        self.guard.is_closed()
    }

    /// Syncs the log, stops the background and releases the directory at once. Later calls raise
    /// `ClosedError`, on iterators, snapshots and transactions, too; closing again does nothing.
    ///
    /// Returns a list of those that were still open, the oldest first, as dicts with `kind`, which
    /// is "snapshot", "transaction" or "iterator", and `age`, in seconds. What `iterator()` makes
    /// has a snapshot of its own, which is one of them.
    ///
    /// >>> other = unikv.open(path / "other")
    /// >>> snapshot = other.snapshot()
    /// >>> [left["kind"] for left in other.close()]
    /// ['snapshot']
    fn close<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyList>> {
        let shown = PyList::empty(py);
        if !self.guard.close() {
            return Ok(shown);
        }
        let db = self.guard.db()?.clone();
        let report = interruptible(py, move || db.close())?;
        for open in &report.still_open {
            let left = PyDict::new(py);
            left.set_item("kind", open.kind.name())?;
            left.set_item("age", open.age.as_secs_f64())?;
            shown.append(left)?;
        }
        Ok(shown)
    }

    /// The options in effect, as `open` takes them.
    fn options<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        options::show(py, &self.db()?.options())
    }

    /// The keyspace of this name, which is made if there is none. Its options are
    /// `inline_value_bytes`, `compression` and `default_ttl`; what is not set is as in the
    /// database.
    ///
    /// With `key` or `value` it is one of keys or values of a type: `unikv.Str`, `unikv.Int`,
    /// `unikv.Json`, or a codec of your own.
    ///
    /// >>> users = db.keyspace("users", key=unikv.Int, value=unikv.Json)
    /// >>> users[7] = {"name": "Ada"}
    /// >>> dict(users.items())
    /// {7: {'name': 'Ada'}}
    #[pyo3(signature = (
        name, *, key=None, value=None, inline_value_bytes=None, compression=None, default_ttl=None
    ))]
    #[expect(clippy::too_many_arguments, reason = "they are keywords in Python")]
    fn keyspace(
        &self,
        py: Python<'_>,
        name: &str,
        key: Option<&Bound<'_, PyAny>>,
        value: Option<&Bound<'_, PyAny>>,
        inline_value_bytes: Option<&Bound<'_, PyAny>>,
        compression: Option<&Bound<'_, PyAny>>,
        default_ttl: Option<Time>,
    ) -> PyResult<Py<PyAny>> {
        let options = options::of_keyspace(inline_value_bytes, compression, default_ttl)?;
        let db = self.db()?;
        let keyspace = detached(py, || db.keyspace(name, options))?;
        let keyspace = Keyspace::make(py, keyspace, &self.guard)?;
        if key.is_none() && value.is_none() {
            return Ok(keyspace.into_any());
        }
        let typed = callbacks::module(py, "unikv._typed")?.getattr("TypedKeyspace")?;
        Ok(call_with(&typed, (keyspace, key, value))?.unbind())
    }

    /// The names of all keyspaces, in the order in which they were made.
    fn keyspaces(&self) -> PyResult<Vec<String>> {
        Ok(self.db()?.keyspaces())
    }

    /// The keyspaces of these names, in a list. Those that are not there are made, all at once: a
    /// power cut leaves all or none, and ten thousand take about as long as ten. The options are
    /// those of `keyspace`.
    ///
    /// >>> users, mails = db.create_keyspaces(["users", "mails"], compression="zstd")
    /// >>> mails.name, db.keyspaces()
    /// ('mails', ['default', 'users', 'mails'])
    /// >>> db.drop_keyspaces([users, "mails"])
    /// >>> db.keyspaces()
    /// ['default']
    #[pyo3(signature = (names, *, inline_value_bytes=None, compression=None, default_ttl=None))]
    fn create_keyspaces(
        &self,
        py: Python<'_>,
        names: &Bound<'_, PyAny>,
        inline_value_bytes: Option<&Bound<'_, PyAny>>,
        compression: Option<&Bound<'_, PyAny>>,
        default_ttl: Option<Time>,
    ) -> PyResult<Vec<Py<Keyspace>>> {
        let options = options::of_keyspace(inline_value_bytes, compression, default_ttl)?;
        self.guard.check()?;
        let names = several(names)?.map(|name| name?.extract::<String>());
        let names = names.collect::<PyResult<Vec<_>>>()?;
        let made = self.wait(py, move |db| db.create_keyspaces(names, options))?;
        let make = |keyspace| Keyspace::make(py, keyspace, &self.guard);
        made.into_iter().map(make).collect()
    }

    /// Removes keyspaces with all their keys, all at once: a power cut leaves all or none. They are
    /// given as `Keyspace`s or by their names.
    fn drop_keyspaces(&self, py: Python<'_>, keyspaces: &Bound<'_, PyAny>) -> PyResult<()> {
        self.guard.check()?;
        let mut dropped = Vec::new();
        for keyspace in several(keyspaces)? {
            let keyspace = keyspace?;
            dropped.push(keyspace.extract::<Named<'_, '_>>()?.find_own(&self.guard)?);
        }
        self.wait(py, move |db| db.drop_keyspaces(&dropped))
    }

    /// Removes a keyspace with all its keys at once.
    fn drop_keyspace(&self, py: Python<'_>, name: Named<'_, '_>) -> PyResult<()> {
        let keyspace = name.find_own(&self.guard)?;
        self.wait(py, move |_| keyspace.drop_keyspace())
    }

    /// The database as it is now, for as long as the snapshot is open.
    fn snapshot(&self, py: Python<'_>) -> PyResult<Py<Snapshot>> {
        let db = self.db()?;
        let snapshot = py.detach(|| db.snapshot());
        Snapshot::make(py, snapshot, &self.guard)
    }

    /// Begins a transaction. With the isolation "serializable" it conflicts if what it has read was
    /// written by others meanwhile; with "snapshot" only if what it writes was.
    #[pyo3(signature = (isolation="serializable"))]
    fn transaction(&self, py: Python<'_>, isolation: &str) -> PyResult<Py<Transaction>> {
        Transaction::begin(py, isolation, &self.guard)
    }

    /// Calls `function(txn, *args, **keywords)` in a serializable transaction, commits it, and
    /// returns what it returns. If it conflicts it is called again, up to 20 times, the last ones
    /// while other writers wait; so it should have no other effects. If it raises something,
    /// nothing is written.
    ///
    /// >>> def add(txn, key, by):
    /// ...     txn[key] = b"%d" % (int(txn.get(key, b"0")) + by)
    /// >>> db.transact(add, b"visits", 3)
    /// >>> db[b"visits"]
    /// b'3'
    #[pyo3(signature = (function, *args, **keywords))]
    fn transact(
        &self,
        py: Python<'_>,
        function: &Bound<'_, PyAny>,
        args: &Bound<'_, PyTuple>,
        keywords: Option<&Bound<'_, PyDict>>,
    ) -> PyResult<Py<PyAny>> {
        Transaction::transact(py, function, args, keywords, &self.guard)
    }

    /// A decorator: calls of the function run it in a transaction, as `transact` does.
    ///
    /// >>> @db.transactional
    /// ... def visit(txn, page):
    /// ...     count = int(txn.get(page, b"0")) + 1
    /// ...     txn[page] = b"%d" % count
    /// ...     return count
    /// >>> visit(b"/"), visit(b"/")
    /// (1, 2)
    fn transactional<'py>(
        slf: &Bound<'py, Database>,
        function: &Bound<'py, PyAny>,
    ) -> PyResult<Bound<'py, PyAny>> {
        let tools = callbacks::module(slf.py(), "unikv._decorators")?;
        call_with(&tools.getattr("transactional")?, (slf, function))
    }

    /// Makes every acknowledged write survive a power cut.
    fn sync(&self, py: Python<'_>) -> PyResult<()> {
        self.wait(py, Db::sync)
    }

    /// Writes what is in memory to files, and waits for that.
    fn flush(&self, py: Python<'_>) -> PyResult<()> {
        self.wait(py, Db::flush)
    }

    /// Waits until the background has nothing to do.
    fn wait_until_idle(&self, py: Python<'_>) -> PyResult<()> {
        self.wait(py, Db::wait_until_idle)
    }

    /// Figures of the database, as a dict: counters since it was opened, sizes as of now.
    ///
    /// >>> db[b"a"] = b"1"
    /// >>> db.stats()["puts"]
    /// 1
    fn stats<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        let db = self.db()?;
        let text = detached(py, || {
            serde_json::to_string(&db.stats()).map_err(|error| {
                let what = format!("the figures cannot be written as JSON: {error}");
                Fault::Ended("Internal", what, "report this with the message")
            })
        })?;
        call_with(&callbacks::module(py, "json")?.getattr("loads")?, (text,))
    }

    /// Makes a database of its own in the new directory `path` that is what this one is now, in
    /// milliseconds where files can be linked.
    fn checkpoint(&self, py: Python<'_>, path: PathBuf) -> PyResult<()> {
        self.wait(py, move |db| db.checkpoint(path).map(drop))
    }

    /// Adds what the database is now to a repository of backups, a directory; what earlier backups
    /// have is not copied again. Returns the point as a dict: see `unikv.backup_points`.
    fn backup<'py>(&self, py: Python<'py>, repository: PathBuf) -> PyResult<Bound<'py, PyDict>> {
        let made = self.wait(py, move |db| Repository::at(repository).back_up(db))?;
        show_made(py, &made)
    }

    /// A token of all that has been written so far, for `changes_since`. Needs the option
    /// `change_window_bytes`.
    #[getter]
    fn change_token(&self) -> PyResult<String> {
        Ok(self.db()?.change_token().map_err(Fault::from)?.to_string())
    }

    /// The token of the oldest changes that are kept.
    #[getter]
    fn oldest_change_token(&self) -> PyResult<String> {
        Ok(self
            .db()?
            .oldest_change_token()
            .map_err(Fault::from)?
            .to_string())
    }

    /// What has changed after a token, in the order of the writes: an iterator that waits for more,
    /// for ever or for `timeout` seconds. Only what has reached the disk is shown, unless
    /// `include_unsynced` is set.
    ///
    /// >>> db = unikv.open(path / "feed", change_window_bytes="1MB")
    /// >>> token = db.change_token
    /// >>> db.put(b"a", b"1", sync=True)
    /// >>> for change in db.changes_since(token, timeout=0):
    /// ...     print(change.operations)
    /// (Put(keyspace=0, key=b'a', value=b'1', expires=None),)
    /// >>> db.close()
    /// []
    #[pyo3(signature = (token, *, timeout=None, include_unsynced=false))]
    fn changes_since(
        &self,
        py: Python<'_>,
        token: &str,
        timeout: Option<f64>,
        include_unsynced: bool,
    ) -> PyResult<Changes> {
        self.guard.check()?;
        let timeout = match timeout {
            None => None,
            Some(seconds) => Some(std::time::Duration::try_from_secs_f64(seconds).map_err(
                |_| {
                    let what = format!("{seconds} seconds are no time to wait");
                    Fault::invalid(what, "use 0 or more, or None to wait for ever")
                },
            )?),
        };
        Changes::begin(py, token, timeout, include_unsynced, &self.guard)
    }

    /// The commit tag of the newest write that had one: see `WriteBatch.set_commit_tag`.
    #[getter]
    fn commit_tag<'py>(&self, py: Python<'py>) -> PyResult<Option<Bound<'py, PyBytes>>> {
        Ok(self
            .db()?
            .commit_tag()
            .map(|commit_tag| PyBytes::new(py, &commit_tag)))
    }

    fn __enter__(slf: Bound<'_, Database>) -> PyResult<Bound<'_, Database>> {
        slf.get().guard.check()?;
        Ok(slf)
    }

    #[pyo3(signature = (*_args))]
    fn __exit__(&self, py: Python<'_>, _args: &Bound<'_, PyAny>) -> PyResult<()> {
        // What is true here would hide an exception.
        self.close(py).map(drop)
    }

    fn __repr__(&self) -> String {
        let closed = if self.guard.is_closed() {
            ", closed"
        } else {
            ""
        };
        format!(
            "<unikv.Database {:?}{closed}>",
            self.path.display().to_string()
        )
    }
}
