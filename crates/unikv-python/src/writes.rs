//! Writes to a database or a keyspace.

use crate::batch::WriteBatch;
use crate::boundary::args::{Blob, Time, range, write_options};
use crate::boundary::callbacks::{self, Items};
use crate::boundary::errors::Fault;
use crate::boundary::guard::Guard;
use crate::boundary::waits::{detached, interruptible};
use crate::exports;
use crate::iterators::pair;
use pyo3::exceptions::PyKeyError;
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyDict, PyTuple};
use std::path::PathBuf;
use std::sync::Arc;
use unikv::{Batch, Bytes, Db};

/// What is written to.
#[derive(Clone)]
pub(crate) enum Target {
    Db(Db),
    Keyspace(unikv::Keyspace),
}

/// Does the same with either.
macro_rules! on {
    ($target:expr, $to:ident => $do:expr) => {
        match $target {
            Target::Db($to) => $do,
            Target::Keyspace($to) => $do,
        }
    };
}

/// The entry that `take` takes away, as a pair.
fn taken(
    py: Python<'_>,
    take: impl FnOnce() -> unikv::Result<Option<(Bytes, Bytes)>> + Send,
) -> PyResult<Option<Bound<'_, PyAny>>> {
    let entry = detached(py, take)?;
    entry.map(|(key, value)| pair(py, &key, &value)).transpose()
}

/// A readable that can be written: a database or a keyspace.
#[pyclass(module = "unikv", extends = crate::reads::Readable, subclass, frozen)]
pub(crate) struct Writable {
    target: Target,
    guard: Arc<Guard>,
}

impl Writable {
    pub(crate) fn new(target: Target, guard: &Arc<Guard>) -> Writable {
        let guard = Arc::clone(guard);
        Writable { target, guard }
    }

    fn keyspace(&self) -> Option<unikv::Keyspace> {
        match &self.target {
            Target::Db(_) => None,
            Target::Keyspace(keyspace) => Some(keyspace.clone()),
        }
    }
}

#[pymethods]
impl Writable {
    /// Stores a value under a key. It expires after `ttl`, in seconds or as a `timedelta`; infinity
    /// is never, and `None` is what the keyspace has by default. With `sync` the write has reached
    /// the disk when this returns, else it survives the death of the process. With `no_wait` it
    /// fails with `WouldBlockError` where it would be slowed because the background is behind.
    ///
    /// >>> db.put(b"apple", b"red")
    /// >>> db.put(b"session", bytearray(b"Ada"), ttl=3600, sync=True)
    /// >>> db[b"session"]
    /// b'Ada'
    #[pyo3(signature = (key, value, *, ttl=None, sync=false, no_wait=false))]
    fn put(
        &self,
        py: Python<'_>,
        key: Blob<'_>,
        value: Blob<'_>,
        ttl: Option<Time>,
        sync: bool,
        no_wait: bool,
    ) -> PyResult<()> {
        let (key, value) = (key.as_ref(), value.as_ref());
        let options = write_options(ttl, sync, no_wait);
        detached(
            py,
            || on!(&self.target, to => to.put_with(key, value, options)),
        )
    }

    fn __setitem__(&self, py: Python<'_>, key: Blob<'_>, value: Blob<'_>) -> PyResult<()> {
        let (key, value) = (key.as_ref(), value.as_ref());
        detached(py, || on!(&self.target, to => to.put(key, value)))
    }

    /// Removes a key; one that is not there is no error.
    #[pyo3(signature = (key, *, sync=false, no_wait=false))]
    fn delete(&self, py: Python<'_>, key: Blob<'_>, sync: bool, no_wait: bool) -> PyResult<()> {
        let key = key.as_ref();
        let options = write_options(None, sync, no_wait);
        detached(py, || on!(&self.target, to => to.delete_with(key, options)))
    }

    /// Removes a key, which must be there.
    fn __delitem__(&self, py: Python<'_>, key: &Bound<'_, PyAny>) -> PyResult<()> {
        let blob: Blob<'_> = key.extract()?;
        let bytes = blob.as_ref();
        let was_there = detached(py, || {
            let mut was_there = false;
            on!(&self.target, to => to.update(bytes, |value| {
                was_there = value.is_some();
                None
            }))?;
            Ok::<_, Fault>(was_there)
        })?;
        if was_there {
            Ok(())
        } else {
            Err(PyKeyError::new_err(key.clone().unbind()))
        }
    }

    /// Removes all keys from `start` to before `stop`, as one write, however many there are.
    /// Without an end it goes on to the last key.
    ///
    /// >>> db.update({b"a": b"1", b"b": b"2", b"c": b"3"})
    /// >>> db.delete_range(b"a", b"c")
    /// >>> list(db)
    /// [b'c']
    #[pyo3(signature = (start=None, stop=None, *, sync=false))]
    fn delete_range(
        &self,
        py: Python<'_>,
        start: Option<Blob<'_>>,
        stop: Option<Blob<'_>>,
        sync: bool,
    ) -> PyResult<()> {
        let range = range(start, stop, None);
        let options = write_options(None, sync, false);
        detached(
            py,
            || on!(&self.target, to => to.delete_range_with(range, options)),
        )
    }

    /// Removes all keys that begin with `prefix`, as `delete_range`.
    #[pyo3(signature = (prefix, *, sync=false))]
    fn delete_prefix(&self, py: Python<'_>, prefix: Blob<'_>, sync: bool) -> PyResult<()> {
        let range = range(None, None, Some(prefix));
        let options = write_options(None, sync, false);
        detached(
            py,
            || on!(&self.target, to => to.delete_range_with(range, options)),
        )
    }

    /// Stores what a mapping has, or pairs, all of it or nothing.
    fn update(&self, py: Python<'_>, other: &Bound<'_, PyAny>) -> PyResult<()> {
        let keyspace = self.keyspace();
        let mut batch = Batch::new();
        let mut add = |key: Blob<'_>, value: Blob<'_>| match &keyspace {
            Some(keyspace) => drop(batch.put_in(keyspace, key, value)),
            None => drop(batch.put(key, value)),
        };
        let items = match callbacks::attribute(other, "items")? {
            Some(items) => callbacks::call_with(&items, ())?,
            None => other.clone(),
        };
        for item in Items::of(&items)? {
            let (key, value): (Bound<'_, PyAny>, Bound<'_, PyAny>) = item?.extract()?;
            add(key.extract()?, value.extract()?);
        }
        let guard = &self.guard;
        detached(py, || Ok::<_, Fault>(guard.db()?.write(&batch)?))
    }

    /// Removes a key and returns its value; `default` if it has none, or `KeyError` without one.
    ///
    /// >>> db[b"a"] = b"1"
    /// >>> db.pop(b"a"), db.pop(b"a", None)
    /// (b'1', None)
    #[pyo3(signature = (key, *default))]
    fn pop<'py>(
        &self,
        py: Python<'py>,
        key: &Bound<'py, PyAny>,
        default: &Bound<'py, PyTuple>,
    ) -> PyResult<Bound<'py, PyAny>> {
        let blob: Blob<'_> = key.extract()?;
        let bytes = blob.as_ref();
        let popped = detached(py, || {
            let mut popped = None;
            on!(&self.target, to => to.update(bytes, |value| {
                popped = value.map(<[u8]>::to_vec);
                None
            }))?;
            Ok::<_, Fault>(popped)
        })?;
        match popped {
            Some(value) => Ok(PyBytes::new(py, &value).into_any()),
            None => default
                .get_item(0)
                .map_err(|_| PyKeyError::new_err(key.clone().unbind())),
        }
    }

    /// Removes the entry with the least key, or the least from `start` to before `stop` that begins
    /// with `prefix`, and returns it as a pair; `None` if there is none. Each entry is taken once,
    /// however many threads take entries.
    ///
    /// >>> tasks = db.keyspace("tasks")
    /// >>> tasks.update({b"1": b"sweep", b"2": b"cook"})
    /// >>> tasks.pop_first(), tasks.pop_first(), tasks.pop_first()
    /// ((b'1', b'sweep'), (b'2', b'cook'), None)
    #[pyo3(signature = (start=None, stop=None, prefix=None))]
    fn pop_first<'py>(
        &self,
        py: Python<'py>,
        start: Option<Blob<'_>>,
        stop: Option<Blob<'_>>,
        prefix: Option<Blob<'_>>,
    ) -> PyResult<Option<Bound<'py, PyAny>>> {
        let range = range(start, stop, prefix);
        taken(
            py,
            || on!(&self.target, from => from.pop_first_in_range(range)),
        )
    }

    /// Removes the entry with the greatest key, as `pop_first`.
    #[pyo3(signature = (start=None, stop=None, prefix=None))]
    fn pop_last<'py>(
        &self,
        py: Python<'py>,
        start: Option<Blob<'_>>,
        stop: Option<Blob<'_>>,
        prefix: Option<Blob<'_>>,
    ) -> PyResult<Option<Bound<'py, PyAny>>> {
        let range = range(start, stop, prefix);
        taken(
            py,
            || on!(&self.target, from => from.pop_last_in_range(range)),
        )
    }

    /// The value of a key, which becomes `default` if it has none.
    fn setdefault<'py>(
        &self,
        py: Python<'py>,
        key: Blob<'_>,
        default: Blob<'_>,
    ) -> PyResult<Option<Bound<'py, PyBytes>>> {
        let (key, default) = (key.as_ref(), default.as_ref());
        let or_default = |value: Option<&[u8]>| Some(value.unwrap_or(default).to_vec());
        let value = detached(py, || on!(&self.target, to => to.update(key, or_default)))?;
        Ok(value.map(|value| PyBytes::new(py, &value)))
    }

    /// Puts `new` in the place of the value of a key if that is `expected`; `None` stands for no
    /// value. Whether it was.
    ///
    /// >>> db.compare_and_swap(b"owner", None, b"me")
    /// True
    /// >>> db.compare_and_swap(b"owner", None, b"you")
    /// False
    fn compare_and_swap(
        &self,
        py: Python<'_>,
        key: Blob<'_>,
        expected: Option<Blob<'_>>,
        new: Option<Blob<'_>>,
    ) -> PyResult<bool> {
        let expected = expected.as_ref().map(Blob::as_ref);
        let new = new.as_ref().map(Blob::as_ref);
        let key = key.as_ref();
        let swapped = detached(
            py,
            || on!(&self.target, to => to.compare_and_swap(key, expected, new)),
        )?;
        Ok(swapped.is_ok())
    }

    /// Adds `by` to the number that is the value of a key: 8 bytes, little-endian, signed; no value
    /// counts as 0. Returns the sum.
    ///
    /// >>> db.increment(b"visits"), db.increment(b"visits", 10)
    /// (1, 11)
    #[pyo3(signature = (key, by=1))]
    fn increment(&self, py: Python<'_>, key: Blob<'_>, by: i64) -> PyResult<i64> {
        let key = key.as_ref();
        detached(py, || on!(&self.target, to => to.increment(key, by)))
    }

    /// Has the value of a key expire after `ttl`; whether there is one.
    fn expire(&self, py: Python<'_>, key: Blob<'_>, ttl: Time) -> PyResult<bool> {
        let (key, Time(ttl)) = (key.as_ref(), ttl);
        detached(py, || on!(&self.target, to => to.expire(key, ttl)))
    }

    /// Has the value of a key never expire; whether it would have.
    fn clear_ttl(&self, py: Python<'_>, key: Blob<'_>) -> PyResult<bool> {
        let key = key.as_ref();
        detached(py, || on!(&self.target, to => to.clear_ttl(key)))
    }

    /// Several writes that are applied together: all of them or none. In a `with` statement they
    /// are written at its end, and dropped if that is an exception.
    ///
    /// >>> with db.write_batch() as batch:
    /// ...     batch.put(b"a", b"1")
    /// ...     batch.delete(b"b")
    /// >>> list(db.items())
    /// [(b'a', b'1')]
    #[pyo3(signature = (*, sync=false))]
    fn write_batch(&self, sync: bool) -> PyResult<WriteBatch> {
        self.guard.check()?;
        Ok(WriteBatch::new(self.keyspace(), sync, &self.guard))
    }

    /// Stores what an export holds, all at once or, if any of it is damaged, not at all. Other keys
    /// stay as they are. Values expire when they did where they came from. It is durable when this
    /// returns, which is a dict as that of `export`.
    fn import_<'py>(&self, py: Python<'py>, path: PathBuf) -> PyResult<Bound<'py, PyDict>> {
        self.guard.check()?;
        exports::import(py, self.target.clone(), path)
    }

    /// About how many bytes on disk serve the keys from `start` to before `stop`.
    #[pyo3(signature = (start=None, stop=None))]
    fn approximate_size(
        &self,
        py: Python<'_>,
        start: Option<Blob<'_>>,
        stop: Option<Blob<'_>>,
    ) -> PyResult<u64> {
        let range = range(start, stop, None);
        detached(py, || on!(&self.target, to => to.approximate_size(range)))
    }

    /// Merges what has been written into sorted files, for the keys from `start` to before `stop`,
    /// and waits for that. Nobody needs to call it: the background does it in time.
    #[pyo3(signature = (start=None, stop=None))]
    fn compact(
        &self,
        py: Python<'_>,
        start: Option<Blob<'_>>,
        stop: Option<Blob<'_>>,
    ) -> PyResult<()> {
        let all = start.is_none() && stop.is_none();
        let range = range(start, stop, None);
        let target = self.target.clone();
        interruptible(py, move || match target {
            Target::Db(db) if all => db.compact(),
            Target::Db(db) => db.compact_range(range),
            Target::Keyspace(keyspace) => keyspace.compact_range(range),
        })
    }
}
