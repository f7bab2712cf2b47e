//! Keyspaces.

use crate::boundary::errors::Fault;
use crate::boundary::guard::Guard;
use crate::boundary::waits::{detached, interruptible};
use crate::reads::Readable;
use crate::reads::source::Source;
use crate::writes::{Target, Writable};
use pyo3::exceptions::PyTypeError;
use pyo3::prelude::*;
use std::ptr;
use std::sync::Arc;

/// There is no keyspace of this name.
#[cold]
pub(crate) fn missing(name: &str) -> Fault {
    let what = format!("there is no keyspace `{name}`");
    let remedy = "make it with Database.keyspace(name), or use one that is there";
    Fault::Ended("NoSuchKeyspace", what, remedy)
}

/// An argument that says a keyspace: the keyspace, one with types, or its name.
pub(crate) enum Named<'a, 'py> {
    Keyspace(Bound<'py, Keyspace>),
    Name(&'a str),
}

impl<'a, 'py> FromPyObject<'a, 'py> for Named<'a, 'py> {
    type Error = PyErr;

    fn extract(object: Borrowed<'a, 'py, PyAny>) -> PyResult<Named<'a, 'py>> {
        if let Ok(keyspace) = object.cast::<Keyspace>() {
            return Ok(Named::Keyspace(keyspace.to_owned()));
        }
        if let Ok(name) = object.extract::<&'a str>() {
            return Ok(Named::Name(name));
        }
        let untyped = object.getattr("untyped").ok();
        match untyped.and_then(|untyped| untyped.cast_into::<Keyspace>().ok()) {
            Some(keyspace) => Ok(Named::Keyspace(keyspace)),
            None => Err(PyTypeError::new_err(
                "a keyspace is needed, or the name of one",
            )),
        }
    }
}

impl Named<'_, '_> {
    /// As [`Named::find`], and never one of another database.
    pub(crate) fn find_own(&self, guard: &Guard) -> Result<unikv::Keyspace, Fault> {
        match self {
            Named::Keyspace(keyspace) if !ptr::eq(&*keyspace.get().guard, guard) => {
                let what = "this keyspace is of another database, or of another opening";
                Err(Fault::invalid(what, "use the keyspaces of this one"))
            }
            named => named.find(guard),
        }
    }

    /// The keyspace; one that is named is of this database, and the engine refuses those of others.
    pub(crate) fn find(&self, guard: &Guard) -> Result<unikv::Keyspace, Fault> {
        match self {
            Named::Keyspace(keyspace) => Ok(keyspace.get().keyspace.clone()),
            Named::Name(name) => {
                let found = guard.db()?.find_keyspace(name);
                found.ok_or_else(|| missing(name))
            }
        }
    }
}

/// An ordered space of keys of its own in a database: made by `Database.keyspace(name)`.
///
/// Its methods are those of the database for reading and writing keys.
///
/// >>> users = db.keyspace("users")
/// >>> users[b"7"] = b"Ada"
/// >>> b"7" in users, b"7" in db
/// (True, False)
#[pyclass(module = "unikv", extends = Writable, frozen)]
pub(crate) struct Keyspace {
    keyspace: unikv::Keyspace,
    guard: Arc<Guard>,
}

impl Keyspace {
    pub(crate) fn make(
        py: Python<'_>,
        keyspace: unikv::Keyspace,
        guard: &Arc<Guard>,
    ) -> PyResult<Py<Keyspace>> {
        let reads = Readable::new(Source::Keyspace(keyspace.clone()), guard);
        let writes = Writable::new(Target::Keyspace(keyspace.clone()), guard);
        let base = PyClassInitializer::from(reads).add_subclass(writes);
        let guard = Arc::clone(guard);
        Py::new(py, base.add_subclass(Keyspace { keyspace, guard }))
    }
}

#[pymethods]
impl Keyspace {
    /// Its name.
    #[getter]
    fn name(&self) -> PyResult<String> {
        self.guard.check()?;
        Ok(self.keyspace.name().map_err(Fault::from)?)
    }

    /// The number by which `Database.changes_since` names it.
    #[getter]
    fn number(&self) -> PyResult<u32> {
        self.guard.check()?;
        Ok(self.keyspace.number().map_err(Fault::from)?)
    }

    /// Gives it another name.
    ///
    /// >>> users = db.keyspace("users")
    /// >>> users.rename("people")
    /// >>> users.name, db.keyspaces()
    /// ('people', ['default', 'people'])
    fn rename(&self, py: Python<'_>, name: &str) -> PyResult<()> {
        detached(py, || self.keyspace.rename(name))
    }

    /// Removes all its keys at once.
    fn truncate(&self, py: Python<'_>) -> PyResult<()> {
        let keyspace = self.keyspace.clone();
        interruptible(py, move || keyspace.truncate())
    }

    /// Removes the keyspace with all its keys at once. Further calls fail.
    fn drop(&self, py: Python<'_>) -> PyResult<()> {
        let keyspace = self.keyspace.clone();
        interruptible(py, move || keyspace.drop_keyspace())
    }

    /// The keyspace as it is now.
    fn snapshot(&self, py: Python<'_>) -> PyResult<Py<crate::moments::Snapshot>> {
        self.guard.check()?;
        crate::moments::Snapshot::make(py, self.keyspace.snapshot(), &self.guard)
    }

    fn __repr__(&self) -> String {
        match self.keyspace.name() {
            Ok(name) => format!("<unikv.Keyspace {name:?}>"),
            Err(_) => "<unikv.Keyspace, not there any more>".to_owned(),
        }
    }
}
