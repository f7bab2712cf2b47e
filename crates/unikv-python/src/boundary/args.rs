//! Arguments: bytes, ranges, sizes and times.

use crate::boundary::callbacks::call_with;
use crate::boundary::errors::Fault;
use crate::boundary::locks::Mutex;
use pyo3::buffer::PyBuffer;
use pyo3::exceptions::{PyTypeError, PyValueError};
use pyo3::prelude::*;
use pyo3::types::{PyByteArray, PyBytes, PyDelta, PyMemoryView};
use std::ops::Bound as End;
use std::time::Duration;
use unikv::{Durability, WriteOptions};

/// A bytes-like object. `bytes` are lent, as they never change; others are copied.
pub(crate) enum Blob<'a> {
    Lent(&'a [u8]),
    Owned(Vec<u8>),
}

impl AsRef<[u8]> for Blob<'_> {
    #[inline]
    fn as_ref(&self) -> &[u8] {
        match self {
            Blob::Lent(bytes) => bytes,
            Blob::Owned(bytes) => bytes,
        }
    }
}

impl Blob<'_> {
    pub(crate) fn into_owned(self) -> Vec<u8> {
        match self {
            Blob::Lent(bytes) => bytes.to_vec(),
            Blob::Owned(bytes) => bytes,
        }
    }
}

impl<'a, 'py> FromPyObject<'a, 'py> for Blob<'a> {
    type Error = PyErr;

    #[inline]
    fn extract(object: Borrowed<'a, 'py, PyAny>) -> PyResult<Blob<'a>> {
        match object.extract::<&'a [u8]>() {
            Ok(bytes) => Ok(Blob::Lent(bytes)),
            Err(_) => copy(&object),
        }
    }
}

fn copy<'a>(object: &Bound<'_, PyAny>) -> PyResult<Blob<'a>> {
    if let Ok(bytes) = object.cast::<PyByteArray>() {
        return Ok(Blob::Owned(bytes.to_vec()));
    }
    if let Ok(buffer) = PyBuffer::<u8>::get(object) {
        return Ok(Blob::Owned(buffer.to_vec(object.py())?));
    }
    let Ok(view) = PyMemoryView::from(object) else {
        let kind = object.get_type().name()?;
        let hint = match kind.to_string().as_str() {
            "str" => ": encode it first, or use a keyspace with unikv.Str",
            _ => "",
        };
        let message = format!("a bytes-like object is needed, not '{kind}'{hint}");
        return Err(PyTypeError::new_err(message));
    };
    let bytes = call_with(&view.getattr("tobytes")?, ())?.cast_into::<PyBytes>()?;
    Ok(Blob::Owned(bytes.as_bytes().to_vec()))
}

/// A buffer of bytes, to write into.
pub(crate) fn writable(object: &Bound<'_, PyAny>) -> PyResult<PyBuffer<u8>> {
    let buffer = PyBuffer::get(object).ok();
    let is_fit = |buffer: &PyBuffer<u8>| {
        !buffer.readonly() && buffer.dimensions() == 1 && buffer.is_c_contiguous()
    };
    let needed = "a writable, contiguous buffer of bytes is needed";
    buffer
        .filter(is_fit)
        .ok_or_else(|| PyTypeError::new_err(needed))
}

/// A range of keys.
pub(crate) type Range = (End<Vec<u8>>, End<Vec<u8>>);

/// The first key after all those that begin with `prefix`; none if there is no such key.
pub(crate) fn after_prefix(prefix: &[u8]) -> Option<Vec<u8>> {
    let last = prefix.iter().rposition(|byte| *byte != 0xff)?;
    let mut after = prefix[..=last].to_vec();
    after[last] += 1;
    Some(after)
}

/// The keys from `start` to before `stop` that begin with `prefix`.
pub(crate) fn range(
    start: Option<Blob<'_>>,
    stop: Option<Blob<'_>>,
    prefix: Option<Blob<'_>>,
) -> Range {
    let mut from = start.map(Blob::into_owned);
    let mut to = stop.map(Blob::into_owned);
    if let Some(prefix) = prefix.map(Blob::into_owned) {
        let after = after_prefix(&prefix);
        from = from.max(Some(prefix));
        to = match (to, after) {
            (Some(to), Some(after)) => Some(to.min(after)),
            (to, after) => to.or(after),
        };
    }
    (
        from.map_or(End::Unbounded, End::Included),
        to.map_or(End::Unbounded, End::Excluded),
    )
}

/// A time: seconds, or a `timedelta`. Infinity is for ever.
#[derive(Clone, Copy)]
pub(crate) struct Time(pub(crate) Duration);

impl<'py> FromPyObject<'_, 'py> for Time {
    type Error = PyErr;

    fn extract(object: Borrowed<'_, 'py, PyAny>) -> PyResult<Time> {
        let seconds: f64 = match object.cast::<PyDelta>() {
            Ok(delta) => delta.call_method0("total_seconds")?.extract()?,
            Err(_) => object.extract().map_err(|_| {
                PyTypeError::new_err("a time is a number of seconds, or a timedelta")
            })?,
        };
        if seconds == f64::INFINITY {
            return Ok(Time(Duration::MAX));
        }
        match Duration::try_from_secs_f64(seconds) {
            Ok(time) => Ok(Time(time)),
            Err(_) if seconds > 0.0 => Ok(Time(Duration::MAX)),
            Err(_) => {
                let what = format!("{seconds} seconds are no time to wait or to live");
                Err(Fault::invalid(what, "use a time of more than nothing").into())
            }
        }
    }
}

/// A number of bytes: an int, or a text such as "512MB" or "64KiB".
pub(crate) struct Size(pub(crate) u64);

impl<'py> FromPyObject<'_, 'py> for Size {
    type Error = PyErr;

    fn extract(object: Borrowed<'_, 'py, PyAny>) -> PyResult<Size> {
        if let Ok(bytes) = object.extract::<u64>() {
            return Ok(Size(bytes));
        }
        let expected = "a number of bytes, or a text such as \"512MB\" or \"64KiB\"";
        match object.extract::<String>() {
            Ok(text) => parse_size::parse_size(&text)
                .map(Size)
                .map_err(|_| PyValueError::new_err(format!("{text:?} is not {expected}"))),
            Err(_) => Err(PyTypeError::new_err(format!("a size is {expected}"))),
        }
    }
}

/// How keys of a range are read.
pub(crate) fn read_options(
    range: Range,
    fill_cache: bool,
    timeout: Option<Time>,
) -> unikv::ReadOptions {
    let options = unikv::ReadOptions::default().range(range);
    let options = options.fill_cache(fill_cache);
    match timeout {
        Some(Time(timeout)) => options.timeout(timeout),
        None => options,
    }
}

/// How a write is done.
#[inline]
pub(crate) fn write_options(ttl: Option<Time>, sync: bool, no_wait: bool) -> WriteOptions {
    let mut options = WriteOptions::default();
    if sync {
        options = options.durability(Durability::Sync);
    }
    if no_wait {
        options = options.no_wait(true);
    }
    match ttl {
        Some(Time(ttl)) => options.ttl(ttl),
        None => options,
    }
}

/// A handle that the program may close, and which is gone then.
pub(crate) struct Held<T>(Mutex<Option<T>>, &'static str);

impl<T: Clone> Held<T> {
    pub(crate) fn new(value: T, name: &'static str) -> Held<T> {
        Held(Mutex::new(Some(value)), name)
    }

    pub(crate) fn get(&self) -> Result<T, Fault> {
        let held = self.0.lock().clone();
        held.ok_or_else(|| Fault::closed(self.1))
    }

    pub(crate) fn take(&self) -> Option<T> {
        self.0.lock().take()
    }
}
