//! What is common to all that can be read.

pub(crate) mod source;

use crate::both_ways::{self, Iterator, Part};
use crate::boundary::args::{Blob, Time, range, read_options, writable};
use crate::boundary::callbacks::Items;
use crate::boundary::errors::Fault;
use crate::boundary::guard::Guard;
use crate::boundary::waits::detached;
use crate::cursor::RawIterator;
use crate::exports;
use crate::iterators::{Entries, Shape, pair};
use crate::reads::source::{Source, read};
use pyo3::buffer::PyBuffer;
use pyo3::exceptions::{PyKeyError, PyTypeError};
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyDict, PyList, PyMemoryView, PySlice};
use std::path::PathBuf;
use std::sync::Arc;
use unikv::{ReadOptions, Ttl};

/// Something to read from: a database or a keyspace, a snapshot, a secondary, or a transaction.
///
/// All of them can be used like a dict whose keys are sorted. Keys and values are bytes-like
/// objects, and come back as `bytes`.
#[pyclass(module = "unikv", subclass, frozen)]
pub(crate) struct Readable {
    pub(crate) source: Source,
    pub(crate) guard: Arc<Guard>,
}

impl Readable {
    pub(crate) fn new(source: Source, guard: &Arc<Guard>) -> Readable {
        let guard = Arc::clone(guard);
        Readable { source, guard }
    }

    /// Reads without the lock of the interpreter. What is closed, or of the parent, is refused
    /// before a lock is taken that nobody might release.
    #[inline]
    fn call<T: Send>(
        &self,
        py: Python<'_>,
        call: impl FnOnce(&Source) -> Result<T, Fault> + Send,
    ) -> PyResult<T> {
        self.guard.check()?;
        detached(py, || call(&self.source))
    }

    #[inline]
    fn read(&self, py: Python<'_>, key: &[u8]) -> PyResult<Option<unikv::Bytes>> {
        self.call(py, |source| read!(source, from => from.get(key)?))
    }

    fn entries(
        &self,
        py: Python<'_>,
        options: ReadOptions,
        reverse: bool,
        shape: Shape,
    ) -> PyResult<Entries> {
        self.guard.check()?;
        Entries::new(py, &self.source, &self.guard, options, reverse, shape)
    }

    /// One end of the entries, as a pair.
    fn end<'py>(
        &self,
        py: Python<'py>,
        read: impl FnOnce(&Source) -> Result<Option<(unikv::Bytes, unikv::Bytes)>, Fault> + Send,
    ) -> PyResult<Option<Bound<'py, PyAny>>> {
        let entry = self.call(py, read)?;
        entry.map(|(key, value)| pair(py, &key, &value)).transpose()
    }
}

fn to_bytes<'py>(py: Python<'py>, value: Option<unikv::Bytes>) -> Option<Bound<'py, PyBytes>> {
    value.map(|value| PyBytes::new(py, &value))
}

#[pymethods]
impl Readable {
    /// The value of a key, or `default` if it has none.
    ///
    /// Without `fill_cache` the read cache keeps no block and no record that is read for this.
    /// After `timeout`, in seconds or as a `timedelta`, nothing more is read from the device, and
    /// `TimedOutError` is raised; what is in memory is found in any case.
    ///
    /// >>> db[b"apple"] = b"red"
    /// >>> db.get(b"apple"), db.get(b"pear"), db.get(b"pear", b"green")
    /// (b'red', None, b'green')
    /// >>> db.get(b"apple", fill_cache=False, timeout=0.5)
    /// b'red'
    #[pyo3(signature = (key, default=None, *, fill_cache=true, timeout=None))]
    fn get<'py>(
        &self,
        py: Python<'py>,
        key: Blob<'_>,
        default: Option<Bound<'py, PyAny>>,
        fill_cache: bool,
        timeout: Option<Time>,
    ) -> PyResult<Option<Bound<'py, PyAny>>> {
        let value = if fill_cache && timeout.is_none() {
            self.read(py, key.as_ref())?
        } else {
            let options = read_options(range(None, None, None), fill_cache, timeout);
            let key = key.as_ref();
            self.call(
                py,
                |source| read!(source, from => from.get_with(key, &options)?),
            )?
        };
        Ok(match value {
            Some(value) => Some(PyBytes::new(py, &value).into_any()),
            None => default,
        })
    }

    /// Copies the value of a key into `buffer`, a `bytearray` or another writable buffer of bytes:
    /// as much of it as there is room for. Returns the length of the whole value; `None`, with the
    /// buffer as it was, if there is none.
    ///
    /// >>> db[b"apple"] = b"red"
    /// >>> buffer = bytearray(3)
    /// >>> db.get_into(b"apple", buffer), buffer
    /// (3, bytearray(b'red'))
    fn get_into(
        &self,
        py: Python<'_>,
        key: Blob<'_>,
        buffer: &Bound<'_, PyAny>,
    ) -> PyResult<Option<usize>> {
        // While it is held, a bytearray cannot change its length.
        let room = writable(buffer)?;
        let Some(value) = self.read(py, key.as_ref())? else {
            return Ok(None);
        };
        let len = value.len().min(room.item_count());
        if len == room.item_count() {
            room.copy_from_slice(py, &value[..len])?;
        } else {
            let begin = PySlice::new(py, 0, len as isize, 1);
            let part = PyMemoryView::from(buffer)?.get_item(begin)?;
            PyBuffer::get(&part)?.copy_from_slice(py, &value[..len])?;
        }
        Ok(Some(value.len()))
    }

    fn __getitem__<'py>(
        &self,
        py: Python<'py>,
        key: &Bound<'py, PyAny>,
    ) -> PyResult<Bound<'py, PyBytes>> {
        let blob: Blob<'_> = key.extract()?;
        let value = to_bytes(py, self.read(py, blob.as_ref())?);
        value.ok_or_else(|| PyKeyError::new_err(key.clone().unbind()))
    }

    fn __contains__(&self, py: Python<'_>, key: Blob<'_>) -> PyResult<bool> {
        let key = key.as_ref();
        self.call(py, |source| read!(source, from => from.contains_key(key)?))
    }

    fn __bool__(&self) -> bool {
        true
    }

    /// Always fails: see `count`.
    fn __len__(&self) -> PyResult<usize> {
        Err(PyTypeError::new_err(
            "the number of keys is not known without walking through them: use count()",
        ))
    }

    /// The keys, in order.
    fn __iter__(&self, py: Python<'_>) -> PyResult<Entries> {
        self.entries(py, ReadOptions::default(), false, Shape::Keys)
    }

    fn __reversed__(&self, py: Python<'_>) -> PyResult<Entries> {
        self.entries(py, ReadOptions::default(), true, Shape::Keys)
    }

    /// The entries from `start` to before `stop` whose keys begin with `prefix`, in the order of
    /// their keys, as pairs. They are as of now, whatever is written meanwhile. `fill_cache` and
    /// `timeout` are as for `get`; the time counts from this call on.
    ///
    /// >>> db.update({b"a": b"1", b"b": b"2", b"c": b"3"})
    /// >>> list(db.items(start=b"b"))
    /// [(b'b', b'2'), (b'c', b'3')]
    /// >>> list(db.items(stop=b"c", reverse=True))
    /// [(b'b', b'2'), (b'a', b'1')]
    #[pyo3(signature = (
        start=None, stop=None, prefix=None, reverse=false, *, fill_cache=true, timeout=None
    ))]
    #[expect(clippy::too_many_arguments, reason = "they are keywords in Python")]
    fn items(
        &self,
        py: Python<'_>,
        start: Option<Blob<'_>>,
        stop: Option<Blob<'_>>,
        prefix: Option<Blob<'_>>,
        reverse: bool,
        fill_cache: bool,
        timeout: Option<Time>,
    ) -> PyResult<Entries> {
        let options = read_options(range(start, stop, prefix), fill_cache, timeout);
        self.entries(py, options, reverse, Shape::Items)
    }

    /// The keys, as `items`. No value is read.
    ///
    /// >>> db.update({b"user:1": b"", b"user:2": b"", b"visit:1": b""})
    /// >>> list(db.keys(prefix=b"user:"))
    /// [b'user:1', b'user:2']
    #[pyo3(signature = (
        start=None, stop=None, prefix=None, reverse=false, *, fill_cache=true, timeout=None
    ))]
    #[expect(clippy::too_many_arguments, reason = "they are keywords in Python")]
    fn keys(
        &self,
        py: Python<'_>,
        start: Option<Blob<'_>>,
        stop: Option<Blob<'_>>,
        prefix: Option<Blob<'_>>,
        reverse: bool,
        fill_cache: bool,
        timeout: Option<Time>,
    ) -> PyResult<Entries> {
        let options = read_options(range(start, stop, prefix), fill_cache, timeout);
        self.entries(py, options, reverse, Shape::Keys)
    }

    /// The values in the order of their keys, as `items`.
    #[pyo3(signature = (
        start=None, stop=None, prefix=None, reverse=false, *, fill_cache=true, timeout=None
    ))]
    #[expect(clippy::too_many_arguments, reason = "they are keywords in Python")]
    fn values(
        &self,
        py: Python<'_>,
        start: Option<Blob<'_>>,
        stop: Option<Blob<'_>>,
        prefix: Option<Blob<'_>>,
        reverse: bool,
        fill_cache: bool,
        timeout: Option<Time>,
    ) -> PyResult<Entries> {
        let options = read_options(range(start, stop, prefix), fill_cache, timeout);
        self.entries(py, options, reverse, Shape::Values)
    }

    /// The entry with the least key, as a pair, or `None` if there is none.
    ///
    /// >>> db.update({b"a": b"1", b"b": b"2"})
    /// >>> db.first_key_value(), db.last_key_value()
    /// ((b'a', b'1'), (b'b', b'2'))
    fn first_key_value<'py>(&self, py: Python<'py>) -> PyResult<Option<Bound<'py, PyAny>>> {
        self.end(py, |source| read!(source, from => from.first_key_value()?))
    }

    /// The entry with the greatest key, as a pair, or `None` if there is none.
    fn last_key_value<'py>(&self, py: Python<'py>) -> PyResult<Option<Bound<'py, PyAny>>> {
        self.end(py, |source| read!(source, from => from.last_key_value()?))
    }

    /// How many keys there are; each is read for it.
    ///
    /// >>> db.update({b"a": b"1", b"b": b"2"})
    /// >>> db.count(), db.count(prefix=b"b")
    /// (2, 1)
    #[pyo3(signature = (start=None, stop=None, prefix=None))]
    fn count(
        &self,
        py: Python<'_>,
        start: Option<Blob<'_>>,
        stop: Option<Blob<'_>>,
        prefix: Option<Blob<'_>>,
    ) -> PyResult<u64> {
        let all = ReadOptions::default().range(range(start, stop, prefix));
        let keys = self.entries(py, all, false, Shape::Keys)?;
        keys.count(py)
    }

    /// The values of several keys as of one moment, in a list; `None` for those without. What is
    /// not in memory is read several at a time.
    ///
    /// >>> db[b"a"] = b"1"
    /// >>> db.multi_get([b"a", b"b"])
    /// [b'1', None]
    fn multi_get<'py>(
        &self,
        py: Python<'py>,
        keys: &Bound<'py, PyAny>,
    ) -> PyResult<Bound<'py, PyList>> {
        self.guard.check()?;
        let objects: Vec<Bound<'py, PyAny>> = Items::of(keys)?.collect::<PyResult<_>>()?;
        let blobs: Vec<Blob<'_>> = objects
            .iter()
            .map(|key| key.extract())
            .collect::<PyResult<_>>()?;
        let keys: Vec<&[u8]> = blobs.iter().map(|blob| blob.as_ref()).collect();
        let values = detached(
            py,
            || read!(&self.source, from => from.multi_get(keys.iter().copied())?),
        )?;
        PyList::new(py, values.into_iter().map(|value| to_bytes(py, value)))
    }

    /// The length of the value of a key, which is not read; `None` if it has none.
    fn value_len(&self, py: Python<'_>, key: Blob<'_>) -> PyResult<Option<usize>> {
        let key = key.as_ref();
        self.call(py, |source| read!(source, from => from.value_len(key)?))
    }

    /// The bytes of the value of a key from offset `start` to before `stop`; `None` if it has none.
    /// Of a long value only what is asked for is read.
    ///
    /// >>> db[b"word"] = b"range"
    /// >>> db.get_range(b"word", 1, 3)
    /// b'an'
    #[pyo3(signature = (key, start=0, stop=None))]
    fn get_range<'py>(
        &self,
        py: Python<'py>,
        key: Blob<'_>,
        start: usize,
        stop: Option<usize>,
    ) -> PyResult<Option<Bound<'py, PyBytes>>> {
        let key = key.as_ref();
        let value = self.call(py, |source| {
            let stop = stop.unwrap_or(usize::MAX).max(start);
            read!(source, from => from.get_range(key, start..stop)?)
        })?;
        Ok(to_bytes(py, value))
    }

    /// For how many seconds the value of a key lives from now on: infinity if it does not expire,
    /// `None` if there is none.
    ///
    /// >>> db.put(b"session", b"Ada", ttl=60)
    /// >>> db[b"name"] = b"Ada"
    /// >>> 0 < db.ttl(b"session") <= 60, db.ttl(b"name"), db.ttl(b"none")
    /// (True, inf, None)
    fn ttl(&self, py: Python<'_>, key: Blob<'_>) -> PyResult<Option<f64>> {
        let key = key.as_ref();
        let ttl = self.call(py, |source| read!(source, from => from.ttl(key)?))?;
        Ok(ttl.map(|ttl| match ttl {
            Ttl::Remaining(left) => left.as_secs_f64(),
            _ => f64::INFINITY,
        }))
    }

    /// An iterator that moves both ways, with the keywords of plyvel: `reverse`, `start`, `stop`,
    /// `include_start`, `include_stop`, `prefix`, `include_key`, `include_value`. With `within` it
    /// is as if there were only the keys that begin with that, without it. `fill_cache` and
    /// `timeout` are as for `get`; the time begins again where the iterator is moved or turns.
    ///
    /// >>> db.update({b"a": b"1", b"b": b"2", b"c": b"3"})
    /// >>> it = db.iterator(include_value=False)
    /// >>> it.seek(b"b")
    /// >>> next(it), next(it), it.prev()
    /// (b'b', b'c', b'c')
    #[pyo3(signature = (
        *, reverse=false, start=None, stop=None, include_start=true, include_stop=false,
        prefix=None, include_key=true, include_value=true, within=None, fill_cache=true,
        timeout=None,
    ))]
    #[expect(clippy::too_many_arguments, reason = "they are keywords in Python")]
    fn iterator(
        &self,
        py: Python<'_>,
        reverse: bool,
        start: Option<Blob<'_>>,
        stop: Option<Blob<'_>>,
        include_start: bool,
        include_stop: bool,
        prefix: Option<Blob<'_>>,
        include_key: bool,
        include_value: bool,
        within: Option<Blob<'_>>,
        fill_cache: bool,
        timeout: Option<Time>,
    ) -> PyResult<Iterator> {
        self.guard.check()?;
        let within = within.map(Blob::into_owned).unwrap_or_default();
        let keys = both_ways::range(start, stop, include_start, include_stop, prefix, &within)?;
        let options = read_options(range(None, None, None), fill_cache, timeout);
        let (keys, part) = (
            (keys, options),
            Part::new(include_key, include_value, within.len()),
        );
        Iterator::new(py, &self.source, &self.guard, keys, reverse, part, within)
    }

    /// Writes the keys from `start` to before `stop` that begin with `prefix`, with their values
    /// and when these expire, to the new file `path`, which `import_` reads. Returns a dict with
    /// `records`, `bytes` and `file_bytes`. The file is complete and durable when it is there.
    ///
    /// >>> db.update({b"a": b"1", b"b": b"2"})
    /// >>> db.export(path / "b.export", start=b"b")["records"]
    /// 1
    /// >>> copy = db.keyspace("copy")
    /// >>> copy.import_(path / "b.export")["records"], list(copy.items())
    /// (1, [(b'b', b'2')])
    #[pyo3(signature = (path, start=None, stop=None, prefix=None))]
    fn export<'py>(
        &self,
        py: Python<'py>,
        path: PathBuf,
        start: Option<Blob<'_>>,
        stop: Option<Blob<'_>>,
        prefix: Option<Blob<'_>>,
    ) -> PyResult<Bound<'py, PyDict>> {
        self.guard.check()?;
        exports::export(py, &self.source, range(start, stop, prefix), path)
    }

    /// A position that moves both ways, with plyvel's methods: `seek_to_first`, `seek_to_last`,
    /// `seek`, `next`, `prev`, `valid`, `key`, `value`. `fill_cache` and `timeout` are as for
    /// `get`; the time counts from this call on.
    #[pyo3(signature = (*, fill_cache=true, timeout=None))]
    fn raw_iterator(
        &self,
        py: Python<'_>,
        fill_cache: bool,
        timeout: Option<Time>,
    ) -> PyResult<RawIterator> {
        self.guard.check()?;
        let options = read_options(range(None, None, None), fill_cache, timeout);
        RawIterator::new(py, &self.source, &self.guard, &options)
    }
}
