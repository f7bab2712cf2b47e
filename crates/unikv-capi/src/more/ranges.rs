//! Deleting ranges of keys, and batches that do.

use crate::boundary::args::{Alone, AloneConst, Bytes, Optional, OptionalBytes, Shared, callbacks};
use crate::boundary::capi;
use crate::boundary::fault::Outcome;
use crate::leveldb::batch::{WriteBatch, without_function};
use crate::leveldb::database::{Database, range};
use crate::leveldb::reads_and_writes::{ReadOptions, WriteOptions};
use std::ffi::{c_char, c_void};
use std::time::Duration;
use unikv::{Batch, Operation};

callbacks! {
    /// Gets a put of any keyspace.
    OnAnyPut(
        state: *mut c_void, keyspace: u32, key: *const c_char, key_len: usize,
        value: *const c_char, len: usize, time_ms: u64
    ),
        "void (*)(void*, uint32_t keyspace, const char* k, size_t klen, \
         const char* v, size_t vlen, uint64_t ttl_ms)";
    /// Gets a delete of any keyspace.
    OnAnyDelete(state: *mut c_void, keyspace: u32, key: *const c_char, key_len: usize),
        "void (*)(void*, uint32_t keyspace, const char* k, size_t klen)";
    /// Gets a delete of a range of any keyspace.
    OnRange(
        state: *mut c_void, keyspace: u32, start: *const c_char, start_len: usize,
        limit: *const c_char, limit_len: usize
    ),
        "void (*)(void*, uint32_t keyspace, const char* start, size_t startlen, \
         const char* limit, size_t limitlen)";
}

/// A time to live as C sees it: 0 stands for none of its own, the greatest number for ever.
pub(crate) fn ttl_in_ms(ttl: Option<Duration>) -> u64 {
    match ttl {
        None => 0,
        Some(ttl) => u64::try_from(ttl.as_millis()).unwrap_or(u64::MAX),
    }
}

/// A batch with one operation on a range, as the options say where.
fn delete(
    db: &Database,
    options: Option<&WriteOptions>,
    in_default: impl FnOnce(&mut Batch),
    in_keyspace: impl FnOnce(&mut Batch, &unikv::Keyspace),
) -> Outcome<()> {
    let mut batch = Batch::new();
    let keyspace = options
        .map(|options| options.keyspace(db))
        .transpose()?
        .flatten();
    match keyspace {
        None => in_default(&mut batch),
        Some(keyspace) => in_keyspace(&mut batch, keyspace),
    }
    let options = options.map(WriteOptions::engine).unwrap_or_default();
    Ok(db.db()?.write_with(&batch, options)?)
}

capi! { functions:
    /// Removes all keys from `start` to before `limit`, in one write that takes the time of a put;
    /// NULL stands for the first key, or for the end.
    fn unikv_delete_range(
        db: Shared<Database>, options: Optional<WriteOptions>,
        start[startlen]: OptionalBytes, limit[limitlen]: OptionalBytes; errptr
    ) {
        let keys = || range(start, limit);
        delete(
            db,
            options,
            |batch| {
                batch.delete_range(keys());
            },
            |batch, keyspace| {
                batch.delete_range_in(keyspace, keys());
            },
        )?;
    }

    /// Removes all keys that begin with a prefix, as `unikv_delete_range`.
    fn unikv_delete_prefix(
        db: Shared<Database>, options: Optional<WriteOptions>, prefix[prefixlen]: Bytes; errptr
    ) {
        delete(
            db,
            options,
            |batch| {
                batch.delete_prefix(prefix);
            },
            |batch, keyspace| {
                batch.delete_prefix_in(keyspace, prefix);
            },
        )?;
    }

    /// Adds the delete of a range to a batch, in the keyspace of the options.
    fn unikv_writebatch_delete_range(
        batch: Alone<WriteBatch>, options: Optional<WriteOptions>,
        start[startlen]: OptionalBytes, limit[limitlen]: OptionalBytes
    ) {
        match options.map(WriteOptions::of_batch).transpose()?.unwrap_or_default().0 {
            None => batch.0.delete_range(range(start, limit)),
            Some(keyspace) => batch.0.delete_range_in(keyspace, range(start, limit)),
        };
    }

    /// Calls a function for each operation of a batch, in their order, with the number of its
    /// keyspace (0 for the default one). A time to live is in milliseconds, 0 where a put has none
    /// of its own, `UINT64_MAX` for ever. A range without an end has NULL for its limit. The
    /// functions must not use the batch, nor throw.
    fn unikv_writebatch_iterate_all(
        batch: AloneConst<WriteBatch>, state: *mut c_void, put: Option<OnAnyPut>,
        deleted: Option<OnAnyDelete>, deleted_range: Option<OnRange>
    ) {
        let put = put.ok_or_else(|| without_function("puts"))?;
        let deleted = deleted.ok_or_else(|| without_function("deletes"))?;
        let deleted_range = deleted_range.ok_or_else(|| without_function("ranges"))?;
        for operation in batch.0.iter() {
            match operation {
                Operation::Put { keyspace, key, value, ttl, .. } => {
                    let (k, v) = (key.as_ptr().cast(), value.as_ptr().cast());
                    put.call(state, keyspace, k, key.len(), v, value.len(), ttl_in_ms(ttl));
                }
                Operation::Delete { keyspace, key, .. } => {
                    deleted.call(state, keyspace, key.as_ptr().cast(), key.len());
                }
                Operation::DeleteRange { keyspace, start, end, .. } => {
                    let limit = end.map_or(std::ptr::null(), |end| end.as_ptr().cast());
                    let (from, len) = (start.as_ptr().cast(), end.map_or(0, <[u8]>::len));
                    deleted_range.call(state, keyspace, from, start.len(), limit, len);
                }
                _ => {}
            }
        }
    }

    /// About how many bytes on disk serve the keys from `start` to before `limit`, in the keyspace
    /// of the options; NULL stands for the first key, or for the end.
    fn unikv_approximate_size(
        db: Shared<Database>, options: Optional<ReadOptions>,
        start[startlen]: OptionalBytes, limit[limitlen]: OptionalBytes; errptr
    ) -> u64 {
        match options.map(|options| options.keyspace(db)).transpose()?.flatten() {
            None => db.db()?.approximate_size(range(start, limit))?,
            Some(keyspace) => keyspace.approximate_size(range(start, limit))?,
        }
    }
}
