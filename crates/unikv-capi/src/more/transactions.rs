//! Transactions.

use crate::boundary::args::{Alone, Bytes, Ending, New, Optional, OptionalBytes, Out, Shared, end};
use crate::boundary::capi;
use crate::boundary::fault::{Fault, Outcome};
use crate::boundary::handles::object;
use crate::leveldb::database::{Database, hand_out, range};
use crate::leveldb::iterator::Iterator;
use crate::leveldb::reads_and_writes::{ReadOptions, WriteOptions};
use std::ffi::{c_char, c_int};
use unikv::{Isolation, Keyspace};

/// A transaction, until it is committed or undone.
pub struct Transaction {
    open: Option<unikv::Transaction>,
    database: u64,
}

object!(Transaction, "unikv_transaction_t", b"ukv:txn\0");

#[cold]
fn ended() -> Fault {
    Fault::misuse("the transaction has been committed", "begin another one")
}

impl Transaction {
    fn open(&self) -> Outcome<&unikv::Transaction> {
        self.open.as_ref().ok_or_else(ended)
    }

    fn open_mut(&mut self) -> Outcome<&mut unikv::Transaction> {
        self.open.as_mut().ok_or_else(ended)
    }

    /// The keyspace that read options name; a snapshot has no place there.
    fn to_read<'a>(&self, options: Option<&'a ReadOptions>) -> Outcome<Option<&'a Keyspace>> {
        let Some(options) = options else {
            return Ok(None);
        };
        if options.has_snapshot() {
            let what = "read options with a snapshot were passed for a transaction";
            return Err(Fault::misuse(
                what,
                "a transaction reads the moment of its beginning",
            ));
        }
        options.keyspace_of(self.database)
    }

    fn to_write<'a>(&self, options: Option<&'a WriteOptions>) -> Outcome<Option<&'a Keyspace>> {
        match options {
            None => Ok(None),
            Some(options) => options.keyspace_of(self.database),
        }
    }

    fn get(
        &self,
        options: Option<&ReadOptions>,
        key: &[u8],
        for_update: bool,
    ) -> Outcome<Option<unikv::Bytes>> {
        let open = self.open()?;
        let reading = options.map(ReadOptions::engine).unwrap_or_default();
        Ok(match (self.to_read(options)?, for_update) {
            (None, false) => open.get_with(key, &reading)?,
            (None, true) => open.get_for_update(key)?,
            (Some(keyspace), false) => open.keyspace(keyspace).get_with(key, &reading)?,
            (Some(keyspace), true) => open.keyspace(keyspace).get_for_update(key)?,
        })
    }
}

capi! { functions:
    /// Begins a transaction: `isolation` 0 is serializable, 1 is snapshot isolation. It reads the
    /// database as it is now, with what it writes itself. Keyspace and time to live are those of
    /// the options of each call; nobody waits for it.
    fn unikv_transaction_begin(
        db: Shared<Database>, isolation: c_int; errptr
    ) -> New<Transaction> {
        let isolation = match isolation {
            0 => Isolation::Serializable,
            1 => Isolation::Snapshot,
            _ => return Err(Fault::misuse("there is no such isolation", "use 0 or 1")),
        };
        let open = Some(db.db()?.begin_with(isolation));
        New::of(Transaction { open, database: db.id })
    }

    /// Ends the handle, and undoes the transaction unless it has been committed.
    fn unikv_transaction_destroy(txn: Ending<Transaction>) {
        end(txn);
    }

    /// Writes a value.
    fn unikv_transaction_put(
        txn: Alone<Transaction>, options: Optional<WriteOptions>,
        key[keylen]: Bytes, val[vallen]: Bytes; errptr
    ) {
        let keyspace = txn.to_write(options)?;
        let ttl = options.and_then(WriteOptions::ttl);
        let open = txn.open_mut()?;
        match (keyspace, ttl) {
            (None, None) => open.put(key, val)?,
            (None, Some(ttl)) => open.put_with_ttl(key, val, ttl)?,
            (Some(keyspace), None) => open.put_in(keyspace, key, val)?,
            (Some(keyspace), Some(ttl)) => open.put_with_ttl_in(keyspace, key, val, ttl)?,
        }
    }

    /// Removes a key.
    fn unikv_transaction_delete(
        txn: Alone<Transaction>, options: Optional<WriteOptions>, key[keylen]: Bytes; errptr
    ) {
        let keyspace = txn.to_write(options)?;
        let open = txn.open_mut()?;
        match keyspace {
            None => open.delete(key)?,
            Some(keyspace) => open.delete_in(keyspace, key)?,
        }
    }

    /// Removes all keys from `start` to before `limit`, as `unikv_delete_range`.
    fn unikv_transaction_delete_range(
        txn: Alone<Transaction>, options: Optional<WriteOptions>,
        start[startlen]: OptionalBytes, limit[limitlen]: OptionalBytes; errptr
    ) {
        let keyspace = txn.to_write(options)?;
        let open = txn.open_mut()?;
        match keyspace {
            None => open.delete_range(range(start, limit))?,
            Some(keyspace) => open.delete_range_in(keyspace, range(start, limit))?,
        }
    }

    /// As `unikv_get`.
    fn unikv_transaction_get(
        txn: Alone<Transaction>, options: Optional<ReadOptions>, key[keylen]: Bytes,
        vallen: Out<usize>; errptr
    ) -> *mut c_char {
        hand_out(txn.get(options, key, false)?, &vallen)?
    }

    /// As `unikv_transaction_get`; and the transaction conflicts, under either isolation, if
    /// another writes the key before it commits.
    fn unikv_transaction_get_for_update(
        txn: Alone<Transaction>, options: Optional<ReadOptions>, key[keylen]: Bytes,
        vallen: Out<usize>; errptr
    ) -> *mut c_char {
        hand_out(txn.get(options, key, true)?, &vallen)?
    }

    /// An iterator over the transaction as it is now.
    fn unikv_transaction_create_iterator(
        txn: Alone<Transaction>, options: Optional<ReadOptions>
    ) -> New<Iterator> {
        let open = txn.open()?;
        let reading = options.map(ReadOptions::engine).unwrap_or_default();
        let cursor = txn.to_read(options).map(|keyspace| match keyspace {
            None => open.cursor_with(&reading),
            Some(keyspace) => open.keyspace(keyspace).cursor_with(&reading),
        });
        New::of(Iterator::new(cursor, options))
    }

    /// Remembers what has been written so far. Savepoints lie on each other.
    fn unikv_transaction_set_savepoint(txn: Alone<Transaction>; errptr) {
        txn.open_mut()?.set_savepoint();
    }

    /// Undoes what was written since the newest savepoint, and removes that. 1 if there was one.
    fn unikv_transaction_rollback_to_savepoint(txn: Alone<Transaction>; errptr) -> u8 {
        u8::from(txn.open_mut()?.rollback_to_savepoint())
    }

    /// Removes the newest savepoint, and leaves what was written. 1 if there was one.
    fn unikv_transaction_pop_savepoint(txn: Alone<Transaction>; errptr) -> u8 {
        u8::from(txn.open_mut()?.pop_savepoint())
    }

    /// Commits everything that was written, or nothing: with `unikv_conflict` if another write came
    /// between, and then it is to be begun again. The transaction has ended in any case; its handle
    /// is still to be destroyed. Of the options the keyspace does not count.
    fn unikv_transaction_commit(
        txn: Alone<Transaction>, options: Optional<WriteOptions>; errptr
    ) {
        let open = txn.open.take().ok_or_else(ended)?;
        open.commit_with(options.map(WriteOptions::engine).unwrap_or_default())?;
    }
}
