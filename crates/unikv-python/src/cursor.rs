//! Positions among entries: the engine's cursor, with the methods of plyvel's raw iterators.

use crate::boundary::args::Blob;
use crate::boundary::callbacks;
use crate::boundary::errors::Fault;
use crate::boundary::guard::Guard;
use crate::boundary::locks::Mutex;
use crate::boundary::waits::{detached, lock, release};
use crate::iterators::pair;
use crate::reads::source::Source;
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyType};
use std::sync::Arc;
use unikv::{Cursor, ReadOptions};

/// A position among the entries, which moves both ways. It is on no entry before it is moved.
#[pyclass(module = "unikv", frozen)]
pub(crate) struct RawIterator {
    cursor: Mutex<Option<Cursor>>,
    guard: Arc<Guard>,
}

impl RawIterator {
    pub(crate) fn new(
        py: Python<'_>,
        source: &Source,
        guard: &Arc<Guard>,
        options: &ReadOptions,
    ) -> PyResult<RawIterator> {
        let cursor = detached(py, || source.cursor(options))?;
        Ok(RawIterator {
            cursor: Mutex::new(Some(cursor)),
            guard: Arc::clone(guard),
        })
    }

    fn with<T: Send>(
        &self,
        py: Python<'_>,
        call: impl FnOnce(&mut Cursor) -> unikv::Result<T> + Send,
    ) -> PyResult<T> {
        self.guard.check()?;
        detached(py, || {
            let mut cursor = self.cursor.lock();
            let cursor = cursor.as_mut().ok_or_else(|| Fault::closed("iterator"))?;
            Ok::<_, Fault>(call(cursor)?)
        })
    }

    fn invalid(py: Python<'_>) -> PyErr {
        let class = callbacks::module(py, "unikv._errors")
            .and_then(|errors| errors.getattr("IteratorInvalidError"))
            .and_then(|class| Ok(class.cast_into::<PyType>()?));
        match class {
            Ok(class) => PyErr::from_type(class, "the iterator is on no entry"),
            Err(failed) => failed,
        }
    }

    /// Moves an iterator that is on an entry.
    fn shift(
        &self,
        py: Python<'_>,
        call: impl FnOnce(&mut Cursor) -> unikv::Result<bool> + Send,
    ) -> PyResult<()> {
        let moved = self.with(py, |cursor| match cursor.key() {
            Some(_) => call(cursor).map(Some),
            None => Ok(None),
        })?;
        moved.map(drop).ok_or_else(|| RawIterator::invalid(py))
    }
}

#[pymethods]
impl RawIterator {
    /// Whether it is on an entry.
    fn valid(&self, py: Python<'_>) -> PyResult<bool> {
        self.guard.check()?;
        match lock(py, &self.cursor).as_ref() {
            Some(cursor) => Ok(cursor.key().is_some()),
            None => Err(Fault::closed("iterator").into()),
        }
    }

    /// Moves to the first entry.
    fn seek_to_first(&self, py: Python<'_>) -> PyResult<()> {
        self.with(py, Cursor::first).map(drop)
    }

    /// Moves to the last entry.
    fn seek_to_last(&self, py: Python<'_>) -> PyResult<()> {
        self.with(py, Cursor::last).map(drop)
    }

    /// Moves to the first entry at or after a key.
    fn seek(&self, py: Python<'_>, target: Blob<'_>) -> PyResult<()> {
        let target = target.as_ref();
        self.with(py, |cursor| cursor.seek(target)).map(drop)
    }

    /// Moves to the last entry at or before a key.
    fn seek_for_prev(&self, py: Python<'_>, target: Blob<'_>) -> PyResult<()> {
        let target = target.as_ref();
        self.with(py, |cursor| cursor.seek_for_prev(target))
            .map(drop)
    }

    /// Moves to the next entry.
    fn next(&self, py: Python<'_>) -> PyResult<()> {
        self.shift(py, Cursor::next)
    }

    /// Moves to the entry before.
    fn prev(&self, py: Python<'_>) -> PyResult<()> {
        self.shift(py, Cursor::prev)
    }

    /// The key of the entry.
    fn key<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyBytes>> {
        self.guard.check()?;
        let guard = lock(py, &self.cursor);
        let cursor = guard.as_ref().ok_or_else(|| Fault::closed("iterator"))?;
        let key = cursor.key().ok_or_else(|| RawIterator::invalid(py))?;
        Ok(PyBytes::new(py, key))
    }

    /// The value of the entry.
    fn value<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyBytes>> {
        let value = self.with(py, Cursor::value)?;
        let value = value.ok_or_else(|| RawIterator::invalid(py))?;
        Ok(PyBytes::new(py, &value))
    }

    /// Key and value of the entry.
    fn item<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        let item = self.with(py, |cursor| {
            let value = cursor.value()?;
            Ok(cursor.key().map(<[u8]>::to_vec).zip(value))
        })?;
        let (key, value) = item.ok_or_else(|| RawIterator::invalid(py))?;
        pair(py, &key, &value)
    }

    /// Releases what the iterator keeps on disk.
    fn close(&self, py: Python<'_>) {
        release(py, &self.guard, &self.cursor);
    }

    fn __enter__(slf: Bound<'_, RawIterator>) -> Bound<'_, RawIterator> {
        slf
    }

    #[pyo3(signature = (*_args))]
    fn __exit__(&self, py: Python<'_>, _args: &Bound<'_, PyAny>) {
        self.close(py);
    }
}
