//! Walks through entries.
//!
//! Entries are read some hundred at a time without the lock of the interpreter, beginning with a
//! few, so that a step takes what is there. The state is locked for a step, or for reading a block;
//! a thread that finds it locked waits without the interpreter.

use crate::boundary::errors::Fault;
use crate::boundary::guard::Guard;
use crate::boundary::locks::Mutex;
use crate::boundary::waits::{detached, lock, release};
use crate::reads::source::Source;
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyTuple};
use std::collections::VecDeque;
use std::sync::Arc;
use unikv::{Bytes, Iter, ReadOptions};

/// The first block, the longest one, and the bytes that end one.
const FIRST_BLOCK: usize = 8;
const LONGEST_BLOCK: usize = 256;
const BLOCK_BYTES: usize = 64 << 10;
/// Keys that are counted between two looks for a signal.
const COUNTED: u64 = 1 << 16;

/// What an iterator hands out.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Shape {
    Items,
    Keys,
    Values,
}

/// A walk over a range, in blocks.
pub(crate) struct Walk {
    /// None when it has come to the end.
    rows: Option<Iter>,
    ready: VecDeque<(Bytes, Bytes)>,
    block: usize,
    reverse: bool,
    /// The error after what is ready.
    failed: Option<unikv::Error>,
}

impl Walk {
    pub(crate) fn begin(
        source: &Source,
        options: &ReadOptions,
        reverse: bool,
    ) -> Result<Walk, Fault> {
        Ok(Walk {
            rows: Some(source.iter(options)?),
            ready: VecDeque::new(),
            block: FIRST_BLOCK,
            reverse,
            failed: None,
        })
    }

    #[inline]
    pub(crate) fn pop(&mut self) -> Option<(Bytes, Bytes)> {
        self.ready.pop_front()
    }

    /// Whether there is nothing to come.
    pub(crate) fn has_ended(&self) -> bool {
        self.rows.is_none() && self.failed.is_none() && self.ready.is_empty()
    }

    /// Reads the next block, if none is ready.
    pub(crate) fn fill(&mut self) -> unikv::Result<()> {
        if !self.ready.is_empty() {
            return Ok(());
        }
        if let Some(error) = self.failed.take() {
            return Err(error);
        }
        let mut bytes = 0;
        while let Some(rows) = &mut self.rows {
            let next = if self.reverse {
                rows.next_back()
            } else {
                rows.next()
            };
            match next {
                Some(Ok((key, value))) => {
                    bytes += key.len() + value.len();
                    self.ready.push_back((key, value));
                    if self.ready.len() >= self.block || bytes >= BLOCK_BYTES {
                        break;
                    }
                }
                Some(Err(error)) => {
                    self.rows = None;
                    if self.ready.is_empty() {
                        return Err(error);
                    }
                    self.failed = Some(error);
                }
                None => self.rows = None,
            }
        }
        self.block = (self.block * 4).min(LONGEST_BLOCK);
        Ok(())
    }
}

/// The entries, keys or values of a range, in the order of the keys: an iterator.
///
/// It shows the database as it was when it was made. Close it when it is left before its end and
/// not dropped soon, as it keeps files on disk.
#[pyclass(module = "unikv", frozen)]
pub(crate) struct Entries {
    walk: Mutex<Option<Walk>>,
    shape: Shape,
    guard: Arc<Guard>,
}

impl Entries {
    pub(crate) fn new(
        py: Python<'_>,
        source: &Source,
        guard: &Arc<Guard>,
        options: ReadOptions,
        reverse: bool,
        shape: Shape,
    ) -> PyResult<Entries> {
        let options = options.keys_only(shape == Shape::Keys);
        let walk = detached(py, || Walk::begin(source, &options, reverse))?;
        Ok(Entries {
            walk: Mutex::new(Some(walk)),
            shape,
            guard: Arc::clone(guard),
        })
    }

    /// Reads on, for who has found nothing ready. False: there is nothing.
    #[cold]
    fn fill(&self, py: Python<'_>) -> PyResult<bool> {
        py.check_signals()?;
        detached(py, || {
            let mut walk = self.walk.lock();
            let walk = walk.as_mut().ok_or_else(|| Fault::closed("iterator"))?;
            walk.fill()?;
            Ok::<_, Fault>(!walk.has_ended())
        })
    }

    /// How many entries are left, which are walked through for it.
    pub(crate) fn count(&self, py: Python<'_>) -> PyResult<u64> {
        let mut all = 0;
        loop {
            py.check_signals()?;
            let counted = detached(py, || {
                let (mut counted, mut walk) = (0, self.walk.lock());
                let walk = walk.as_mut().ok_or_else(|| Fault::closed("iterator"))?;
                while counted < COUNTED {
                    walk.fill()?;
                    if walk.ready.is_empty() {
                        break;
                    }
                    counted += walk.ready.len() as u64;
                    walk.ready.clear();
                }
                Ok::<_, Fault>(counted)
            })?;
            all += counted;
            if counted < COUNTED {
                return Ok(all);
            }
        }
    }
}

/// A pair as a tuple.
#[inline]
pub(crate) fn pair<'py>(py: Python<'py>, key: &[u8], value: &[u8]) -> PyResult<Bound<'py, PyAny>> {
    let pair = [PyBytes::new(py, key), PyBytes::new(py, value)];
    Ok(PyTuple::new(py, pair)?.into_any())
}

#[pymethods]
impl Entries {
    fn __iter__(slf: Bound<'_, Entries>) -> Bound<'_, Entries> {
        slf
    }

    fn __next__<'py>(&self, py: Python<'py>) -> PyResult<Option<Bound<'py, PyAny>>> {
        loop {
            self.guard.check()?;
            let entry = match lock(py, &self.walk).as_mut() {
                Some(walk) => walk.pop(),
                None => return Err(Fault::closed("iterator").into()),
            };
            if let Some((key, value)) = entry {
                return Ok(Some(match self.shape {
                    Shape::Items => pair(py, &key, &value)?,
                    Shape::Keys => PyBytes::new(py, &key).into_any(),
                    Shape::Values => PyBytes::new(py, &value).into_any(),
                }));
            }
            if !self.fill(py)? {
                return Ok(None);
            }
        }
    }

    /// Releases what the iterator keeps on disk.
    fn close(&self, py: Python<'_>) {
        release(py, &self.guard, &self.walk);
    }

    fn __enter__(slf: Bound<'_, Entries>) -> Bound<'_, Entries> {
        slf
    }

    #[pyo3(signature = (*_args))]
    fn __exit__(&self, py: Python<'_>, _args: &Bound<'_, PyAny>) {
        self.close(py);
    }
}
