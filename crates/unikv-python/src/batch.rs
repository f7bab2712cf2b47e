//! Write batches.

use crate::boundary::args::{Blob, Time, range, write_options};
use crate::boundary::errors::Fault;
use crate::boundary::guard::Guard;
use crate::boundary::locks::Mutex;
use crate::boundary::waits::{detached, lock};
use crate::keyspace::Named;
use pyo3::prelude::*;
use std::sync::Arc;
use unikv::Batch;

/// Several writes that are applied together: made by `write_batch()` of a database or a keyspace.
#[pyclass(module = "unikv", frozen)]
pub(crate) struct WriteBatch {
    batch: Mutex<Batch>,
    /// Where it writes unless a call says otherwise.
    keyspace: Option<unikv::Keyspace>,
    sync: bool,
    guard: Arc<Guard>,
}

impl WriteBatch {
    pub(crate) fn new(
        keyspace: Option<unikv::Keyspace>,
        sync: bool,
        guard: &Arc<Guard>,
    ) -> WriteBatch {
        WriteBatch {
            batch: Mutex::new(Batch::new()),
            keyspace,
            sync,
            guard: Arc::clone(guard),
        }
    }

    /// The keyspace that a call names, else that of the batch; `None` is the default one.
    fn to(&self, named: Option<Named<'_, '_>>) -> Result<Option<unikv::Keyspace>, Fault> {
        self.guard.check()?;
        match named {
            Some(named) => named.find(&self.guard).map(Some),
            None => Ok(self.keyspace.clone()),
        }
    }
}

#[pymethods]
impl WriteBatch {
    /// Adds a put, as `Database.put`. `keyspace` is one of the database, or its name.
    #[pyo3(signature = (key, value, *, ttl=None, keyspace=None))]
    fn put(
        &self,
        py: Python<'_>,
        key: Blob<'_>,
        value: Blob<'_>,
        ttl: Option<Time>,
        keyspace: Option<Named<'_, '_>>,
    ) -> PyResult<()> {
        let keyspace = self.to(keyspace)?;
        let mut batch = lock(py, &self.batch);
        match (keyspace, ttl) {
            (None, None) => batch.put(key, value),
            (None, Some(Time(ttl))) => batch.put_with_ttl(key, value, ttl),
            (Some(keyspace), None) => batch.put_in(&keyspace, key, value),
            (Some(keyspace), Some(Time(ttl))) => batch.put_with_ttl_in(&keyspace, key, value, ttl),
        };
        Ok(())
    }

    fn __setitem__(&self, py: Python<'_>, key: Blob<'_>, value: Blob<'_>) -> PyResult<()> {
        self.put(py, key, value, None, None)
    }

    /// Adds a delete.
    #[pyo3(signature = (key, *, keyspace=None))]
    fn delete(
        &self,
        py: Python<'_>,
        key: Blob<'_>,
        keyspace: Option<Named<'_, '_>>,
    ) -> PyResult<()> {
        let keyspace = self.to(keyspace)?;
        let mut batch = lock(py, &self.batch);
        match keyspace {
            None => batch.delete(key),
            Some(keyspace) => batch.delete_in(&keyspace, key),
        };
        Ok(())
    }

    fn __delitem__(&self, py: Python<'_>, key: Blob<'_>) -> PyResult<()> {
        self.delete(py, key, None)
    }

    /// Adds a delete of all keys from `start` to before `stop`.
    #[pyo3(signature = (start=None, stop=None, *, keyspace=None))]
    fn delete_range(
        &self,
        py: Python<'_>,
        start: Option<Blob<'_>>,
        stop: Option<Blob<'_>>,
        keyspace: Option<Named<'_, '_>>,
    ) -> PyResult<()> {
        let keyspace = self.to(keyspace)?;
        let range = range(start, stop, None);
        let mut batch = lock(py, &self.batch);
        match keyspace {
            None => batch.delete_range(range),
            Some(keyspace) => batch.delete_range_in(&keyspace, range),
        };
        Ok(())
    }

    /// Adds what another batch has.
    fn append(&self, py: Python<'_>, other: &WriteBatch) -> PyResult<()> {
        self.guard.check()?;
        let other = lock(py, &other.batch).clone();
        lock(py, &self.batch).append(&other);
        Ok(())
    }

    /// Removes all writes from the batch.
    fn clear(&self, py: Python<'_>) -> PyResult<()> {
        self.guard.check()?;
        lock(py, &self.batch).clear();
        Ok(())
    }

    /// Gives the batch a commit tag, opaque bytes that are committed with it: see
    /// `Database.commit_tag`.
    fn set_commit_tag(&self, py: Python<'_>, commit_tag: Blob<'_>) -> PyResult<()> {
        self.guard.check()?;
        lock(py, &self.batch).set_commit_tag(commit_tag);
        Ok(())
    }

    /// Applies all writes, or none. The batch keeps them until it is cleared.
    fn write(&self, py: Python<'_>) -> PyResult<()> {
        self.guard.check()?;
        let options = write_options(None, self.sync, false);
        detached(py, || {
            let batch = self.batch.lock();
            Ok::<_, Fault>(self.guard.db()?.write_with(&batch, options)?)
        })
    }

    /// Bytes that the writes take in the log.
    fn approximate_size(&self, py: Python<'_>) -> PyResult<usize> {
        self.guard.check()?;
        Ok(lock(py, &self.batch).byte_len())
    }

    fn __len__(&self, py: Python<'_>) -> PyResult<usize> {
        self.guard.check()?;
        Ok(lock(py, &self.batch).len())
    }

    fn __bool__(&self) -> bool {
        true
    }

    fn __enter__(slf: Bound<'_, WriteBatch>) -> PyResult<Bound<'_, WriteBatch>> {
        slf.get().guard.check()?;
        Ok(slf)
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
            self.write(py)?;
        }
        if !self.guard.is_forked() {
            lock(py, &self.batch).clear();
        }
        Ok(())
    }
}
