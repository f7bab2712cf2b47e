//! Iterators that move both ways, with the methods of plyvel's.
//!
//! An `Iterator` stands between two entries of its range, or at one of its ends. It reads blocks in
//! the direction in which it goes, from a snapshot, and begins another walk where it turns. A
//! transaction has no snapshot of itself, so its `Iterator` is not there; `RawIterator` is.

use crate::boundary::args::{Blob, Range, after_prefix};
use crate::boundary::errors::Fault;
use crate::boundary::guard::Guard;
use crate::boundary::locks::Mutex;
use crate::boundary::waits::{detached, lock, release};
use crate::iterators::{Walk, pair};
use crate::reads::source::{Source, snapshot_of};
use pyo3::exceptions::PyTypeError;
use pyo3::prelude::*;
use pyo3::types::PyBytes;
use std::ops::Bound as End;
use std::sync::Arc;
use unikv::{Bytes, ReadOptions};

/// What an iterator hands out.
#[derive(Clone, Copy)]
pub(crate) struct Part {
    key: bool,
    value: bool,
    /// Bytes of the key that are not shown.
    hidden: usize,
}

impl Part {
    pub(crate) fn new(key: bool, value: bool, hidden: usize) -> Part {
        Part { key, value, hidden }
    }

    fn show<'py>(self, py: Python<'py>, key: &[u8], value: &[u8]) -> PyResult<Bound<'py, PyAny>> {
        let key = key.get(self.hidden..).unwrap_or_default();
        match (self.key, self.value) {
            (true, true) => pair(py, key, value),
            (true, false) => Ok(PyBytes::new(py, key).into_any()),
            (false, true) => Ok(PyBytes::new(py, value).into_any()),
            (false, false) => Ok(py.None().into_bound(py)),
        }
    }
}

/// The range that keywords of plyvel say, within the keys that begin with `within`.
pub(crate) fn range(
    start: Option<Blob<'_>>,
    stop: Option<Blob<'_>>,
    include_start: bool,
    include_stop: bool,
    prefix: Option<Blob<'_>>,
    within: &[u8],
) -> PyResult<Range> {
    let full = |key: &[u8]| [within, key].concat();
    if let Some(prefix) = prefix {
        if start.is_some() || stop.is_some() {
            let what = "'prefix' cannot be used together with 'start' or 'stop'";
            return Err(PyTypeError::new_err(what));
        }
        let prefix = full(prefix.as_ref());
        let after = after_prefix(&prefix).map_or(End::Unbounded, End::Excluded);
        return Ok((End::Included(prefix), after));
    }
    let from = match start {
        Some(key) if include_start => End::Included(full(key.as_ref())),
        Some(key) => End::Excluded(full(key.as_ref())),
        None if within.is_empty() => End::Unbounded,
        None => End::Included(within.to_vec()),
    };
    let to = match stop {
        Some(key) if include_stop => End::Included(full(key.as_ref())),
        Some(key) => End::Excluded(full(key.as_ref())),
        None => after_prefix(within).map_or(End::Unbounded, End::Excluded),
    };
    Ok((from, to))
}

/// Where an iterator stands.
#[derive(Clone)]
enum Gap {
    Start,
    Stop,
    Before(Bytes),
    After(Bytes),
}

struct State {
    source: Source,
    range: Range,
    /// How it reads, but for the range.
    options: ReadOptions,
    gap: Gap,
    /// The walk from the gap on, and whether it goes back.
    walk: Option<(Walk, bool)>,
}

impl State {
    /// What is left of the range in a direction.
    fn rest(&self, back: bool) -> Range {
        let mut rest = self.range.clone();
        match (&self.gap, back) {
            (Gap::Start, true) => rest = nothing(),
            (Gap::Stop, false) => rest = nothing(),
            (Gap::Start, false) | (Gap::Stop, true) => {}
            (Gap::Before(key), false) => rest.0 = later(rest.0, End::Included(key.to_vec())),
            (Gap::After(key), false) => rest.0 = later(rest.0, End::Excluded(key.to_vec())),
            (Gap::Before(key), true) => rest.1 = earlier(rest.1, End::Excluded(key.to_vec())),
            (Gap::After(key), true) => rest.1 = earlier(rest.1, End::Included(key.to_vec())),
        }
        rest
    }

    /// Reads a block in a direction; false: there is nothing.
    fn fill(&mut self, back: bool) -> Result<bool, Fault> {
        if self.walk.as_ref().is_none_or(|(_, way)| *way != back) {
            let options = self.options.clone().range(self.rest(back));
            self.walk = Some((Walk::begin(&self.source, &options, back)?, back));
        }
        let Some((walk, _)) = &mut self.walk else {
            return Ok(false);
        };
        walk.fill()?;
        Ok(!walk.has_ended())
    }

    /// The next entry in a direction, if it has been read.
    fn pop(&mut self, back: bool) -> Option<(Bytes, Bytes)> {
        let (walk, way) = self.walk.as_mut()?;
        if *way != back {
            return None;
        }
        let entry = walk.pop()?;
        let key = entry.0.clone();
        self.gap = if back {
            Gap::Before(key)
        } else {
            Gap::After(key)
        };
        Some(entry)
    }

    fn go(&mut self, gap: Gap) {
        (self.gap, self.walk) = (gap, None);
    }
}

fn nothing() -> Range {
    (End::Excluded(Vec::new()), End::Excluded(Vec::new()))
}

/// The later of two beginnings.
fn later(a: End<Vec<u8>>, b: End<Vec<u8>>) -> End<Vec<u8>> {
    let key = |end: &End<Vec<u8>>| match end {
        End::Unbounded => None,
        End::Included(key) => Some((key.clone(), false)),
        End::Excluded(key) => Some((key.clone(), true)),
    };
    if key(&a) >= key(&b) { a } else { b }
}

/// The earlier of two ends.
fn earlier(a: End<Vec<u8>>, b: End<Vec<u8>>) -> End<Vec<u8>> {
    match (&a, &b) {
        (End::Unbounded, _) => b,
        (_, End::Unbounded) => a,
        (End::Included(at) | End::Excluded(at), End::Included(other) | End::Excluded(other))
            if at != other =>
        {
            if at < other {
                a
            } else {
                b
            }
        }
        (End::Excluded(_), _) => a,
        _ => b,
    }
}

/// An iterator that moves both ways: `next(it)` and `it.prev()`, `seek(key)`, `seek_to_start()` and
/// `seek_to_stop()`. It stands between two entries, so that `prev` after `next` returns the same
/// one.
#[pyclass(module = "unikv", frozen)]
pub(crate) struct Iterator {
    state: Mutex<Option<State>>,
    reverse: bool,
    part: Part,
    within: Vec<u8>,
    guard: Arc<Guard>,
}

impl Iterator {
    pub(crate) fn new(
        py: Python<'_>,
        source: &Source,
        guard: &Arc<Guard>,
        (range, options): (Range, ReadOptions),
        reverse: bool,
        part: Part,
        within: Vec<u8>,
    ) -> PyResult<Iterator> {
        let source = detached(py, || snapshot_of(source))?;
        let gap = if reverse { Gap::Stop } else { Gap::Start };
        Ok(Iterator {
            state: Mutex::new(Some(State {
                source,
                range,
                options: options.keys_only(!part.value),
                gap,
                walk: None,
            })),
            reverse,
            part,
            within,
            guard: Arc::clone(guard),
        })
    }

    fn step<'py>(&self, py: Python<'py>, back: bool) -> PyResult<Option<Bound<'py, PyAny>>> {
        loop {
            self.guard.check()?;
            let entry = match lock(py, &self.state).as_mut() {
                Some(state) => state.pop(back),
                None => return Err(Fault::closed("iterator").into()),
            };
            if let Some((key, value)) = entry {
                return self.part.show(py, &key, &value).map(Some);
            }
            py.check_signals()?;
            let more = detached(py, || {
                let mut state = self.state.lock();
                let state = state.as_mut().ok_or_else(|| Fault::closed("iterator"))?;
                state.fill(back)
            })?;
            if !more {
                return Ok(None);
            }
        }
    }

    fn go(&self, py: Python<'_>, gap: Gap) -> PyResult<()> {
        self.guard.check()?;
        match lock(py, &self.state).as_mut() {
            Some(state) => state.go(gap),
            None => return Err(Fault::closed("iterator").into()),
        }
        Ok(())
    }
}

#[pymethods]
impl Iterator {
    fn __iter__(slf: Bound<'_, Iterator>) -> Bound<'_, Iterator> {
        slf
    }

    fn __next__<'py>(&self, py: Python<'py>) -> PyResult<Option<Bound<'py, PyAny>>> {
        self.step(py, self.reverse)
    }

    /// The entry before, where `next` would return to; `StopIteration` if there is none.
    fn prev<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        let entry = self.step(py, !self.reverse)?;
        entry.ok_or_else(|| pyo3::exceptions::PyStopIteration::new_err(()))
    }

    /// Moves to just before the first key at or after `target`.
    fn seek(&self, py: Python<'_>, target: Blob<'_>) -> PyResult<()> {
        self.go(
            py,
            Gap::Before([&self.within, target.as_ref()].concat().into()),
        )
    }

    /// Moves to the least key of the range, also if the iterator is a reverse one.
    fn seek_to_start(&self, py: Python<'_>) -> PyResult<()> {
        self.go(py, Gap::Start)
    }

    /// Moves past the greatest key of the range, also if the iterator is a reverse one.
    fn seek_to_stop(&self, py: Python<'_>) -> PyResult<()> {
        self.go(py, Gap::Stop)
    }

    /// Releases what the iterator keeps on disk.
    fn close(&self, py: Python<'_>) {
        release(py, &self.guard, &self.state);
    }

    fn __enter__(slf: Bound<'_, Iterator>) -> Bound<'_, Iterator> {
        slf
    }

    #[pyo3(signature = (*_args))]
    fn __exit__(&self, py: Python<'_>, _args: &Bound<'_, PyAny>) {
        self.close(py);
    }
}
