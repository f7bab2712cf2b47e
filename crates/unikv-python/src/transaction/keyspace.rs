//! Keyspaces as a transaction sees them.

use super::Open;
use super::writes::Writes;
use crate::boundary::args::{Blob, Time};
use crate::boundary::guard::Guard;
use crate::reads::Readable;
use pyo3::prelude::*;
use pyo3::types::PyBytes;
use std::sync::Arc;
use unikv::Keyspace;

/// A keyspace as a transaction sees it: made by `Transaction.keyspace(name)`.
#[pyclass(module = "unikv", extends = Readable, frozen)]
pub(crate) struct TransactionKeyspace {
    pub(super) open: Arc<Open>,
    pub(super) keyspace: Keyspace,
    pub(super) guard: Arc<Guard>,
}

impl TransactionKeyspace {
    fn writes(&self) -> Writes<'_> {
        Writes(&self.open, Some(&self.keyspace), &self.guard)
    }
}

#[pymethods]
impl TransactionKeyspace {
    /// As `Transaction.put`.
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

    /// As `Transaction.delete`.
    fn delete(&self, py: Python<'_>, key: Blob<'_>) -> PyResult<()> {
        self.writes().delete(py, key)
    }

    fn __delitem__(&self, py: Python<'_>, key: Blob<'_>) -> PyResult<()> {
        self.writes().delete(py, key)
    }

    /// As `Transaction.delete_range`.
    #[pyo3(signature = (start=None, stop=None))]
    fn delete_range(
        &self,
        py: Python<'_>,
        start: Option<Blob<'_>>,
        stop: Option<Blob<'_>>,
    ) -> PyResult<()> {
        self.writes().delete_range(py, start, stop)
    }

    /// As `Transaction.get_for_update`.
    fn get_for_update<'py>(
        &self,
        py: Python<'py>,
        key: Blob<'_>,
    ) -> PyResult<Option<Bound<'py, PyBytes>>> {
        self.writes().get_for_update(py, key)
    }
}
