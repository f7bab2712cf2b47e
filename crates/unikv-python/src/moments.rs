//! What can be read and not written: snapshots, and secondaries of a database that others write.

use crate::boundary::args::{Held, Size, Time};
use crate::boundary::errors::Fault;
use crate::boundary::guard::Guard;
use crate::boundary::waits::{detached, interruptible};
use crate::keyspace::{Named, missing};
use crate::offline::show_made;
use crate::reads::Readable;
use crate::reads::source::Source;
use pyo3::prelude::*;
use pyo3::types::PyDict;
use std::path::PathBuf;
use std::sync::Arc;
use unikv::backup::Repository;
use unikv::{Db, SecondaryOptions};

/// The database as it was at one moment. Made by `Database.snapshot()`.
///
/// While it is open, what it shows is kept on disk: close it, or use it in a `with` statement.
///
/// >>> db[b"k"] = b"old"
/// >>> with db.snapshot() as snapshot:
/// ...     db[b"k"] = b"new"
/// ...     snapshot[b"k"]
/// b'old'
#[pyclass(module = "unikv", extends = Readable, frozen)]
pub(crate) struct Snapshot;

impl Snapshot {
    pub(crate) fn make(
        py: Python<'_>,
        snapshot: unikv::Snapshot,
        guard: &Arc<Guard>,
    ) -> PyResult<Py<Snapshot>> {
        let source = Source::Snapshot(Held::new(snapshot, "snapshot"));
        let base = PyClassInitializer::from(Readable::new(source, guard));
        Py::new(py, base.add_subclass(Snapshot))
    }
}

#[pymethods]
impl Snapshot {
    /// Another keyspace at the same moment, by its name.
    fn keyspace(slf: &Bound<'_, Snapshot>, name: Named<'_, '_>) -> PyResult<Py<Snapshot>> {
        let (py, base) = (slf.py(), slf.as_super().get());
        base.guard.check()?;
        let Source::Snapshot(held) = &base.source else {
            return Err(Fault::closed("snapshot").into());
        };
        let other = match &name {
            // As it was called at that moment; a secondary has no database to ask.
            Named::Name(name) => {
                let other = held.get()?.find_keyspace(name);
                other.ok_or_else(|| missing(name))?
            }
            Named::Keyspace(_) => held.get()?.keyspace(&name.find(&base.guard)?),
        };
        Snapshot::make(py, other, &base.guard)
    }

    /// Releases what the snapshot keeps on disk.
    fn close(slf: &Bound<'_, Snapshot>) {
        let base = slf.as_super().get();
        if let (Source::Snapshot(held), false) = (&base.source, base.guard.is_forked()) {
            let snapshot = held.take();
            slf.py().detach(|| drop(snapshot));
        }
    }

    fn __enter__(slf: Bound<'_, Snapshot>) -> Bound<'_, Snapshot> {
        slf
    }

    #[pyo3(signature = (*_args))]
    fn __exit__(slf: &Bound<'_, Snapshot>, _args: &Bound<'_, PyAny>) {
        Snapshot::close(slf);
    }
}

/// A database that another process writes, or nobody, for reading: made by
/// `unikv.open_secondary(path)`.
///
/// It shows the state of its last `refresh()`.
#[pyclass(module = "unikv", extends = Readable, frozen)]
pub(crate) struct Secondary;

impl Secondary {
    fn held<'a>(slf: &'a Bound<'_, Secondary>) -> Result<&'a Held<unikv::Secondary>, Fault> {
        match &slf.as_super().get().source {
            Source::Secondary(held) => {
                slf.as_super().get().guard.check()?;
                Ok(held)
            }
            _ => Err(Fault::closed("secondary")),
        }
    }
}

#[pymethods]
impl Secondary {
    #[new]
    #[pyo3(signature = (path, *, memory_budget=None, refresh_every=None))]
    fn new(
        py: Python<'_>,
        path: PathBuf,
        memory_budget: Option<Size>,
        refresh_every: Option<Time>,
    ) -> PyResult<PyClassInitializer<Secondary>> {
        let mut options = SecondaryOptions::default();
        if let Some(Size(bytes)) = memory_budget {
            options = options.memory_budget(bytes);
        }
        if let Some(Time(period)) = refresh_every {
            options = options.refresh_every(period);
        }
        let secondary = interruptible(py, move || Db::open_secondary(path, options))?;
        let source = Source::Secondary(Held::new(secondary, "secondary"));
        let base = Readable::new(source, &Guard::new(None));
        Ok(PyClassInitializer::from(base).add_subclass(Secondary))
    }

    /// Shows from now on what the writer has made visible.
    fn refresh(slf: &Bound<'_, Secondary>) -> PyResult<()> {
        let held = Secondary::held(slf)?;
        detached(slf.py(), || Ok::<_, Fault>(held.get()?.refresh()?))
    }

    /// The state that is shown now.
    fn snapshot(slf: &Bound<'_, Secondary>) -> PyResult<Py<Snapshot>> {
        let held = Secondary::held(slf)?;
        let snapshot = held.get()?.snapshot();
        Snapshot::make(slf.py(), snapshot, &slf.as_super().get().guard)
    }

    /// Another keyspace in the state that is shown now, by its name.
    fn keyspace(slf: &Bound<'_, Secondary>, name: &str) -> PyResult<Py<Snapshot>> {
        let secondary = Secondary::held(slf)?.get()?;
        let snapshot = secondary
            .find_keyspace(name)
            .ok_or_else(|| crate::keyspace::missing(name))?;
        Snapshot::make(slf.py(), snapshot, &slf.as_super().get().guard)
    }

    /// The names of all keyspaces.
    fn keyspaces(slf: &Bound<'_, Secondary>) -> PyResult<Vec<String>> {
        Ok(Secondary::held(slf)?.get()?.keyspaces())
    }

    /// The sequence number of the last write that is shown.
    #[getter]
    fn seq(slf: &Bound<'_, Secondary>) -> PyResult<u64> {
        Ok(Secondary::held(slf)?.get()?.seq())
    }

    /// Figures, as a dict.
    fn stats<'py>(slf: &Bound<'py, Secondary>) -> PyResult<Bound<'py, PyDict>> {
        let stats = Secondary::held(slf)?.get()?.stats();
        let shown = PyDict::new(slf.py());
        shown.set_item("seq", stats.seq)?;
        shown.set_item("lag", stats.lag)?;
        shown.set_item("has_writer", stats.has_writer)?;
        shown.set_item("age", stats.age.as_secs_f64())?;
        shown.set_item("refreshes", stats.refreshes)?;
        shown.set_item("retries", stats.retries)?;
        shown.set_item("reloads", stats.reloads)?;
        shown.set_item("open_files", stats.open_files)?;
        shown.set_item("memory", stats.memory.total())?;
        shown.set_item("error", stats.error.map(|error| error.to_string()))?;
        Ok(shown)
    }

    /// Makes a database of its own in the new directory `path` that is what is shown now, while the
    /// writer goes on.
    fn checkpoint(slf: &Bound<'_, Secondary>, path: PathBuf) -> PyResult<()> {
        let secondary = Secondary::held(slf)?.get()?;
        interruptible(slf.py(), move || secondary.checkpoint(path).map(drop))
    }

    /// Adds what is shown now to a repository of backups, as `Database.backup`.
    fn backup<'py>(
        slf: &Bound<'py, Secondary>,
        repository: PathBuf,
    ) -> PyResult<Bound<'py, PyDict>> {
        let secondary = Secondary::held(slf)?.get()?;
        let made = interruptible(slf.py(), move || {
            Repository::at(repository).back_up_secondary(&secondary)
        })?;
        show_made(slf.py(), &made)
    }

    /// Ends it.
    fn close(slf: &Bound<'_, Secondary>) {
        let base = slf.as_super().get();
        if base.guard.is_forked() || !base.guard.close() {
            return;
        }
        if let Source::Secondary(held) = &base.source {
            let secondary = held.take();
            slf.py().detach(|| drop(secondary));
        }
    }

    fn __enter__(slf: Bound<'_, Secondary>) -> Bound<'_, Secondary> {
        slf
    }

    #[pyo3(signature = (*_args))]
    fn __exit__(slf: &Bound<'_, Secondary>, _args: &Bound<'_, PyAny>) {
        Secondary::close(slf);
    }
}
