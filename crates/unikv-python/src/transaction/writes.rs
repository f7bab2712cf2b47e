//! What a transaction writes.

use super::{Ending, Open};
use crate::boundary::args::{Blob, Time, range};
use crate::boundary::errors::Fault;
use crate::boundary::guard::Guard;
use crate::boundary::waits::detached;
use pyo3::prelude::*;
use pyo3::types::PyBytes;
use unikv::Keyspace;

/// The writes of a transaction, to the default keyspace or another.
pub(super) struct Writes<'a>(
    pub(super) &'a Open,
    pub(super) Option<&'a Keyspace>,
    pub(super) &'a Guard,
);

impl Writes<'_> {
    /// Refuses what is closed, or of the parent, before the lock is taken.
    pub(super) fn call<T: Send>(
        &self,
        py: Python<'_>,
        call: impl FnOnce(&mut Ending) -> Result<T, Fault> + Send,
    ) -> PyResult<T> {
        self.2.check()?;
        detached(py, || call(&mut self.0.lock()))
    }

    pub(super) fn put(
        &self,
        py: Python<'_>,
        key: Blob<'_>,
        value: Blob<'_>,
        ttl: Option<Time>,
    ) -> PyResult<()> {
        self.call(py, |open| {
            let to = open.get_mut()?;
            match (self.1, ttl) {
                (None, None) => to.put(key, value)?,
                (None, Some(Time(ttl))) => to.put_with_ttl(key, value, ttl)?,
                (Some(keyspace), None) => to.put_in(keyspace, key, value)?,
                (Some(keyspace), Some(Time(ttl))) => {
                    to.put_with_ttl_in(keyspace, key, value, ttl)?;
                }
            }
            Ok::<_, Fault>(())
        })
    }

    pub(super) fn delete(&self, py: Python<'_>, key: Blob<'_>) -> PyResult<()> {
        self.call(py, |open| {
            let to = open.get_mut()?;
            match self.1 {
                None => to.delete(key)?,
                Some(keyspace) => to.delete_in(keyspace, key)?,
            }
            Ok::<_, Fault>(())
        })
    }

    pub(super) fn delete_range(
        &self,
        py: Python<'_>,
        start: Option<Blob<'_>>,
        stop: Option<Blob<'_>>,
    ) -> PyResult<()> {
        let range = range(start, stop, None);
        self.call(py, |open| {
            let to = open.get_mut()?;
            match self.1 {
                None => to.delete_range(range)?,
                Some(keyspace) => to.delete_range_in(keyspace, range)?,
            }
            Ok::<_, Fault>(())
        })
    }

    pub(super) fn get_for_update<'py>(
        &self,
        py: Python<'py>,
        key: Blob<'_>,
    ) -> PyResult<Option<Bound<'py, PyBytes>>> {
        let value = self.call(py, |open| {
            let from = open.get()?;
            Ok::<_, Fault>(match self.1 {
                None => from.get_for_update(key)?,
                Some(keyspace) => from.keyspace(keyspace).get_for_update(key)?,
            })
        })?;
        Ok(value.map(|value| PyBytes::new(py, &value)))
    }
}
