//! The change feed.

use crate::boundary::callbacks::{self, call_with};
use crate::boundary::errors::Fault;
use crate::boundary::guard::Guard;
use crate::boundary::locks::Mutex;
use crate::boundary::waits::detached;
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyList};
use std::sync::Arc;
use std::time::{Duration, Instant};
use unikv::{Change, ChangeKind, ChangeOp, ChangeToken, ChangesOptions, KeyspaceChange};

/// How long it waits before it looks whether the user has pressed Ctrl-C.
const PATIENCE: Duration = Duration::from_millis(50);

/// The changes of a database in their order, as `unikv.Change`: made by `Database.changes_since`.
///
/// As an iterator it waits for the next one, for as long as its `timeout` says.
#[pyclass(module = "unikv", frozen)]
pub(crate) struct Changes {
    changes: Mutex<unikv::Changes>,
    /// A change that could not be handed out, as a signal handler has raised something.
    kept: Mutex<Option<Change>>,
    /// Of the last change that was handed out. A thread that waits for changes has their lock most
    /// of the time.
    token: Mutex<ChangeToken>,
    timeout: Option<Duration>,
    guard: Arc<Guard>,
}

impl Changes {
    pub(crate) fn begin(
        py: Python<'_>,
        token: &str,
        timeout: Option<Duration>,
        include_unsynced: bool,
        guard: &Arc<Guard>,
    ) -> PyResult<Changes> {
        let token: ChangeToken = token.parse().map_err(Fault::from)?;
        let options = ChangesOptions::default().include_unsynced(include_unsynced);
        let changes = detached(py, || {
            Ok::<_, Fault>(guard.db()?.changes_with(token, options)?)
        })?;
        Ok(Changes {
            token: Mutex::new(changes.token()),
            kept: Mutex::new(None),
            changes: Mutex::new(changes),
            timeout,
            guard: Arc::clone(guard),
        })
    }
}

#[pymethods]
impl Changes {
    fn __iter__(slf: Bound<'_, Changes>) -> Bound<'_, Changes> {
        slf
    }

    fn __next__<'py>(&self, py: Python<'py>) -> PyResult<Option<Bound<'py, PyAny>>> {
        let begin = Instant::now();
        loop {
            self.guard.check()?;
            let left = self
                .timeout
                .map(|timeout| timeout.saturating_sub(begin.elapsed()));
            let patience = left.map_or(PATIENCE, |left| left.min(PATIENCE));
            let kept = self.kept.lock().take();
            let change = detached(py, || {
                if kept.is_some() {
                    return Ok(kept);
                }
                let mut changes = self.changes.lock();
                if patience.is_zero() {
                    changes.try_next()
                } else {
                    changes.next_timeout(patience)
                }
            })?;
            let raised = py.check_signals();
            let Some(change) = change else {
                raised?;
                if left.is_some_and(|left| left <= patience) {
                    return Ok(None);
                }
                continue;
            };
            match raised.and_then(|()| to_python(py, &change)) {
                Ok(found) => {
                    *self.token.lock() = change.token;
                    return Ok(Some(found));
                }
                Err(raised) => {
                    *self.kept.lock() = Some(change);
                    return Err(raised);
                }
            }
        }
    }

    /// Everything up to this token has been handed out: where to go on, also after a restart.
    #[getter]
    fn token(&self) -> PyResult<String> {
        self.guard.check()?;
        Ok(self.token.lock().to_string())
    }
}

fn to_python<'py>(py: Python<'py>, change: &Change) -> PyResult<Bound<'py, PyAny>> {
    let classes = callbacks::module(py, "unikv._changes")?;
    let bytes = |bytes: &[u8]| PyBytes::new(py, bytes);
    let operations = PyList::empty(py);
    match &change.kind {
        ChangeKind::Write(all) => {
            for op in all {
                operations.append(match op {
                    ChangeOp::Put {
                        keyspace,
                        key,
                        value,
                        expires_ms,
                    } => {
                        let expires = expires_ms.map(|ms| ms as f64 / 1000.0);
                        let class = classes.getattr("Put")?;
                        call_with(&class, (*keyspace, bytes(key), bytes(value), expires))?
                    }
                    ChangeOp::Delete { keyspace, key } => {
                        call_with(&classes.getattr("Delete")?, (*keyspace, bytes(key)))?
                    }
                    ChangeOp::DeleteRange {
                        keyspace,
                        start,
                        end,
                    } => {
                        let end = end.as_deref().map(bytes);
                        let class = classes.getattr("DeleteRange")?;
                        call_with(&class, (*keyspace, bytes(start), end))?
                    }
                    other => unknown(other)?,
                })?;
            }
        }
        ChangeKind::Ingest {
            keyspace,
            first,
            last,
        } => {
            let class = classes.getattr("Ingest")?;
            operations.append(call_with(&class, (*keyspace, bytes(first), bytes(last)))?)?;
        }
        ChangeKind::Keyspace(change) => {
            let (event, number, name, now) = match change {
                KeyspaceChange::Created { number, name } => ("made", number, Some(name), None),
                KeyspaceChange::Renamed { number, name } => ("renamed", number, Some(name), None),
                KeyspaceChange::Options { number } => ("options", number, None, None),
                KeyspaceChange::Truncated { number, now } => ("emptied", number, None, Some(*now)),
                KeyspaceChange::Dropped { number } => ("dropped", number, None, None),
                other => unknown(other)?,
            };
            let class = classes.getattr("KeyspaceChange")?;
            operations.append(call_with(&class, (*number, event, name, now))?)?;
        }
        other => unknown(other)?,
    }
    let commit_tag = change.commit_tag.as_deref().map(bytes);
    let token = change.token.to_string();
    let class = classes.getattr("Change")?;
    call_with(&class, (token, commit_tag, operations.to_tuple()))
}

/// Something that a later engine reports.
#[cold]
fn unknown<T>(what: &impl std::fmt::Debug) -> PyResult<T> {
    let what = format!("this release of the package does not know the change {what:?}");
    Err(Fault::Ended("Incompatible", what, "install a newer one").into())
}
