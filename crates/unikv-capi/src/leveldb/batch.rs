//! Batches of writes.

use super::database::Database;
use super::reads_and_writes::WriteOptions;
use crate::boundary::args::{Alone, AloneConst, Bytes, Const, Ending, New, OnDelete, OnPut, end};
use crate::boundary::capi;
use crate::boundary::fault::{Fault, Outcome};
use crate::boundary::handles::object;
use std::ffi::c_void;
use unikv::{Batch, Operation};

/// A batch.
#[derive(Default)]
pub struct WriteBatch(pub(crate) Batch);

object!(WriteBatch, "unikv_writebatch_t", b"ukv:bat\0");

/// Commits a batch.
pub(crate) fn write_batch(
    database: &Database,
    options: Option<&WriteOptions>,
    batch: &WriteBatch,
) -> Outcome<()> {
    match options {
        None => database.db()?.write(&batch.0)?,
        Some(options) if options.keyspace(database)?.is_some() => {
            return Err(Fault::misuse(
                "write options with a keyspace were passed for a batch",
                "name the keyspace when the operations are put into the batch",
            ));
        }
        Some(options) => database.db()?.write_with(&batch.0, options.engine())?,
    }
    Ok(())
}

/// An operation that the caller of an iteration has given no function for.
#[cold]
pub(crate) fn without_function(what: &str) -> Fault {
    Fault::misuse(
        &format!("null was passed for the function for {what}"),
        "pass one",
    )
}

capi! { functions:
    /// An empty batch.
    fn unikv_writebatch_create() -> New<WriteBatch> {
        New::of(WriteBatch::default())
    }

    /// Ends a batch.
    fn unikv_writebatch_destroy(batch: Ending<WriteBatch>) {
        end(batch);
    }

    /// Removes all operations.
    fn unikv_writebatch_clear(batch: Alone<WriteBatch>) {
        batch.0.clear();
    }

    /// Adds a put. What is beyond the limits (64 KiB for a key, 1 GiB for a value) fails when the
    /// batch is written.
    fn unikv_writebatch_put(
        batch: Alone<WriteBatch>, key[klen]: Bytes, val[vlen]: Bytes
    ) {
        batch.0.put(key, val);
    }

    /// Adds a delete.
    fn unikv_writebatch_delete(batch: Alone<WriteBatch>, key[klen]: Bytes) {
        batch.0.delete(key);
    }

    /// Calls `put` and `deleted` for the puts and deletes of the default keyspace, in their order.
    /// The functions must not use the batch, nor throw. `unikv_writebatch_iterate_all` shows
    /// operations on ranges and in other keyspaces, too.
    fn unikv_writebatch_iterate(
        batch: AloneConst<WriteBatch>, state: *mut c_void,
        put: Option<OnPut>, deleted: Option<OnDelete>
    ) {
        let put = put.ok_or_else(|| without_function("puts"))?;
        let deleted = deleted.ok_or_else(|| without_function("deletes"))?;
        for operation in batch.0.iter() {
            match operation {
                Operation::Put { keyspace: 0, key, value, .. } => {
                    let (k, v) = (key.as_ptr().cast(), value.as_ptr().cast());
                    put.call(state, k, key.len(), v, value.len());
                }
                Operation::Delete { keyspace: 0, key, .. } => {
                    deleted.call(state, key.as_ptr().cast(), key.len());
                }
                _ => {}
            }
        }
    }

    /// Adds the operations of another batch after those of this one.
    fn unikv_writebatch_append(
        destination: Alone<WriteBatch>, source: Const<WriteBatch>
    ) {
        destination.0.append(&source.0);
    }
}
