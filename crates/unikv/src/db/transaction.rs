//! Transactions: reads and writes that take place at one moment, or not at all.

use crate::base::bounds::{KeyBounds, engine_bounds, prefix_bounds};
use crate::base::keys::KeyspaceId;
use crate::db::Db;
use crate::db::keyspace::Keyspace;
use crate::engine::read::cursor::Cursor;
use crate::engine::read::iter::Iter;
use crate::engine::read::lifetimes::Ttl;
use crate::engine::read::value_reader::ValueReader;
use crate::error::{Error, Result};
use crate::key_table::read_terms::ReadTerms;
use crate::memtable::Lifetime;
use crate::options::{ReadOptions, WriteOptions};
use crate::txn::single::{self, Ended, TRIES};
use crate::txn::{Isolation, Txn};
use crate::vfs::clock::since_1970;
use bytes::Bytes;
use std::fmt;
use std::ops::Range;
use std::time::{Duration, SystemTime};

/// Reads and writes that take place at one moment, or not at all.
///
/// It reads the database as it was when the transaction began, with what it has written itself;
/// an iterator shows the transaction as it was when the iterator was made. Nobody else sees its
/// writes before [`Transaction::commit`], which fails with
/// [`ErrorKind::Conflict`](crate::ErrorKind::Conflict) if another write came between: see
/// [`Isolation`]. Nobody waits for a transaction, and dropping it undoes it. It keeps the database
/// open as a [`Snapshot`](crate::Snapshot) does, and may commit when the last [`Db`] has been
/// dropped.
///
/// What it writes is kept in memory until it commits, and has the limits of a
/// [`Batch`](crate::Batch). While it is open, versions that it sees are kept on disk, and writes
/// since its beginning in memory, within the budget: one that stays open for long while others
/// write much conflicts. One that writes nothing never does.
///
/// What it has read is kept in memory, too, within the budget: while all open transactions take
/// more than an eighth of it for their reads, the keys that one has read are joined to ranges. Then
/// writes to keys between those that it has read conflict as well: there may be more conflicts, and
/// nothing else changes.
///
/// ```
/// # let db = unikv::Db::in_memory(unikv::Options::default())?;
/// db.put("from", "90")?;
/// let mut transaction = db.begin();
/// assert_eq!(transaction.get("from")?.as_deref(), Some(&b"90"[..]));
/// transaction.put("from", "80")?;
/// transaction.put("to", "10")?;
/// assert_eq!(db.get("to")?, None, "nobody sees it yet");
/// transaction.commit()?;
/// assert_eq!(db.get("to")?.as_deref(), Some(&b"10"[..]));
/// # unikv::Result::Ok(())
/// ```
pub struct Transaction(Txn);

/// A keyspace as a [`Transaction`] sees it.
#[derive(Clone, Copy, Debug)]
pub struct TransactionKeyspace<'a> {
    transaction: &'a Transaction,
    keyspace: KeyspaceId,
}

/// The reads of a transaction in one keyspace.
pub(crate) struct TransactionReader<'a> {
    txn: &'a Txn,
    keyspace: KeyspaceId,
}

impl Db {
    /// Begins a transaction that is [serializable](Isolation::Serializable).
    pub fn begin(&self) -> Transaction {
        self.begin_with(Isolation::default())
    }

    /// Begins a transaction with this isolation.
    pub fn begin_with(&self, isolation: Isolation) -> Transaction {
        Transaction(Txn::begin(&self.0, isolation))
    }

    /// Runs `run` in a serializable transaction and commits it, again if it conflicts: 20 times at
    /// most, with pauses, and from the sixteenth time on alone, while other writers wait (for up to
    /// a tenth of a second, as `run` may wait for one of them). An error of `run` undoes the
    /// transaction, and is returned.
    ///
    /// # Errors
    /// That of `run`. `Conflict` if it still conflicts the last time. Else as
    /// [`Transaction::commit`].
    ///
    /// ```
    /// # let db = unikv::Db::in_memory(unikv::Options::default())?;
    /// db.put("stock", [3])?;
    /// let sold = db.transact(|transaction| {
    ///     let stock = transaction.get("stock")?.map_or(0, |value| value[0]);
    ///     if stock > 0 {
    ///         transaction.put("stock", [stock - 1])?;
    ///     }
    ///     unikv::Result::Ok(stock > 0)
    /// })?;
    /// assert!(sold);
    /// # unikv::Result::Ok(())
    /// ```
    pub fn transact<T, E: From<Error>>(
        &self,
        mut run: impl FnMut(&mut Transaction) -> std::result::Result<T, E>,
    ) -> std::result::Result<T, E> {
        single::retry(&self.0, Some(TRIES), |txn| {
            let mut transaction = Transaction(txn);
            let result = run(&mut transaction).map_err(Ended::Failed)?;
            transaction.commit()?;
            Ok(result)
        })
    }
}

impl Transaction {
    /// Writes `value` under `key`.
    ///
    /// # Errors
    /// `InvalidArgument` if the key is longer than 64 KiB or the value than 1 GiB. What was written
    /// before stays.
    pub fn put(&mut self, key: impl AsRef<[u8]>, value: impl AsRef<[u8]>) -> Result<()> {
        let value = Some(value.as_ref());
        self.0.write(KeyspaceId::DEFAULT, key.as_ref(), value)
    }

    /// Removes `key`. Errors as [`Transaction::put`].
    pub fn delete(&mut self, key: impl AsRef<[u8]>) -> Result<()> {
        self.0.write(KeyspaceId::DEFAULT, key.as_ref(), None)
    }

    /// As [`Transaction::put`], in another keyspace. Errors as there; `NoSuchKeyspace` if that has
    /// been dropped, or emptied since the transaction began.
    pub fn put_in(
        &mut self,
        keyspace: &Keyspace,
        key: impl AsRef<[u8]>,
        value: impl AsRef<[u8]>,
    ) -> Result<()> {
        let keyspace = self.id_of(keyspace);
        self.0.write(keyspace, key.as_ref(), Some(value.as_ref()))
    }

    /// As [`Transaction::delete`], in another keyspace. Errors as [`Transaction::put_in`].
    pub fn delete_in(&mut self, keyspace: &Keyspace, key: impl AsRef<[u8]>) -> Result<()> {
        let keyspace = self.id_of(keyspace);
        self.0.write(keyspace, key.as_ref(), None)
    }

    /// Removes all keys in `range`, also those that this transaction has written: see
    /// [`Db::delete_range`]. Errors as there.
    pub fn delete_range(&mut self, range: impl KeyBounds) -> Result<()> {
        let bounds = |data| engine_bounds(data, &range);
        self.0.delete_range(KeyspaceId::DEFAULT, bounds)
    }

    /// Removes all keys that begin with `prefix`, as [`Transaction::delete_range`].
    pub fn delete_prefix(&mut self, prefix: impl AsRef<[u8]>) -> Result<()> {
        let bounds = |data| prefix_bounds(data, prefix.as_ref());
        self.0.delete_range(KeyspaceId::DEFAULT, bounds)
    }

    /// As [`Transaction::delete_prefix`], in the given keyspace.
    pub fn delete_prefix_in(
        &mut self,
        keyspace: &Keyspace,
        prefix: impl AsRef<[u8]>,
    ) -> Result<()> {
        let keyspace = self.id_of(keyspace);
        let bounds = |data| prefix_bounds(data, prefix.as_ref());
        self.0.delete_range(keyspace, bounds)
    }

    /// As [`Transaction::delete_range`], in the given keyspace.
    pub fn delete_range_in(&mut self, keyspace: &Keyspace, range: impl KeyBounds) -> Result<()> {
        let keyspace = self.id_of(keyspace);
        self.0
            .delete_range(keyspace, |data| engine_bounds(data, &range))
    }

    /// The value of `key`, which must not be written by others until the transaction commits; else
    /// it conflicts, under either isolation, unless it writes nothing. Errors as [`Db::get`].
    pub fn get_for_update(&self, key: impl AsRef<[u8]>) -> Result<Option<Bytes>> {
        self.0.get(KeyspaceId::DEFAULT, key.as_ref(), true)
    }

    /// Another keyspace, as this transaction sees it, for reading.
    pub fn keyspace(&self, keyspace: &Keyspace) -> TransactionKeyspace<'_> {
        TransactionKeyspace {
            transaction: self,
            keyspace: self.id_of(keyspace),
        }
    }

    /// Remembers what has been written so far, for [`Transaction::rollback_to_savepoint`].
    /// Savepoints lie on each other.
    pub fn set_savepoint(&mut self) {
        self.0.set_savepoint();
    }

    /// Undoes what was written since the newest savepoint, and removes that; whether there was one.
    /// What was read counts as read.
    pub fn rollback_to_savepoint(&mut self) -> bool {
        self.0.rollback_to_savepoint()
    }

    /// Removes the newest savepoint, and leaves what was written; whether there was one.
    pub fn pop_savepoint(&mut self) -> bool {
        self.0.pop_savepoint()
    }

    /// Commits everything that was written, or nothing.
    ///
    /// # Errors
    /// `Conflict` if another write came between (see [`Isolation`]): nothing has changed, and the
    /// transaction may be run again from its beginning. `NoSuchKeyspace` if a keyspace that it
    /// writes to is gone: nothing has changed. Else as [`Db::write`].
    pub fn commit(self) -> Result<()> {
        self.commit_with(WriteOptions::default())
    }

    /// As [`Transaction::commit`], as `options` say. Errors as there, and as [`Db::put_with`].
    pub fn commit_with(self, options: impl Into<WriteOptions>) -> Result<()> {
        self.0.commit(options.into())
    }

    /// Its id here; that of another database's keyspace is one that nobody has.
    pub(super) fn id_of(&self, keyspace: &Keyspace) -> KeyspaceId {
        keyspace.id_in(self.0.handle.engine.core.store.database())
    }

    #[cfg(test)]
    pub(crate) fn into_txn(self) -> Txn {
        self.0
    }

    pub(super) fn txn_mut(&mut self) -> &mut Txn {
        &mut self.0
    }

    pub(crate) fn reader(&self) -> TransactionReader<'_> {
        TransactionReader {
            txn: &self.0,
            keyspace: KeyspaceId::DEFAULT,
        }
    }
}

impl Transaction {
    /// As [`Transaction::put`]; the value expires when `ttl` has passed since the commit: see
    /// [`WriteOptions::ttl`](crate::WriteOptions::ttl). Errors as there; `InvalidArgument` if `ttl`
    /// is zero.
    pub fn put_with_ttl(
        &mut self,
        key: impl AsRef<[u8]>,
        value: impl AsRef<[u8]>,
        ttl: Duration,
    ) -> Result<()> {
        self.put_for(KeyspaceId::DEFAULT, key.as_ref(), value.as_ref(), ttl)
    }

    /// As [`Transaction::put_with_ttl`], in another keyspace. Errors as [`Transaction::put_in`].
    pub fn put_with_ttl_in(
        &mut self,
        keyspace: &Keyspace,
        key: impl AsRef<[u8]>,
        value: impl AsRef<[u8]>,
        ttl: Duration,
    ) -> Result<()> {
        let keyspace = self.id_of(keyspace);
        self.put_for(keyspace, key.as_ref(), value.as_ref(), ttl)
    }

    fn put_for(
        &mut self,
        keyspace: KeyspaceId,
        key: &[u8],
        value: &[u8],
        ttl: Duration,
    ) -> Result<()> {
        let lifetime = Lifetime::of(ttl)?;
        self.txn_mut()
            .write_for(keyspace, key, Some(value), lifetime)
    }

    /// Has the value of `key` expire when `ttl` has passed since the commit; whether there is a
    /// value. The key counts as read and written. Errors as [`Transaction::put_with_ttl`] and
    /// [`Db::get`].
    pub fn expire(&mut self, key: impl AsRef<[u8]>, ttl: Duration) -> Result<bool> {
        let lifetime = Lifetime::of(ttl)?;
        let txn = self.txn_mut();
        txn.set_lifetime(KeyspaceId::DEFAULT, key.as_ref(), lifetime)
    }

    /// Has the value of `key` expire at `time`, as [`Db::expire_at`]. Errors as
    /// [`Transaction::expire`].
    pub fn expire_at(&mut self, key: impl AsRef<[u8]>, time: SystemTime) -> Result<bool> {
        let lifetime = Lifetime::until(since_1970(time));
        let txn = self.txn_mut();
        txn.set_lifetime(KeyspaceId::DEFAULT, key.as_ref(), lifetime)
    }

    /// Has the value of `key` never expire; whether it would have. Errors as
    /// [`Transaction::expire`].
    pub fn clear_ttl(&mut self, key: impl AsRef<[u8]>) -> Result<bool> {
        let before = self
            .txn_mut()
            .clear_ttl(KeyspaceId::DEFAULT, key.as_ref())?;
        Ok(matches!(before, Some(Ttl::Remaining(_))))
    }
}

impl TransactionKeyspace<'_> {
    /// As [`Transaction::get_for_update`].
    pub fn get_for_update(&self, key: impl AsRef<[u8]>) -> Result<Option<Bytes>> {
        self.transaction.0.get(self.keyspace, key.as_ref(), true)
    }

    pub(crate) fn reader(&self) -> TransactionReader<'_> {
        TransactionReader {
            txn: &self.transaction.0,
            keyspace: self.keyspace,
        }
    }
}

impl TransactionReader<'_> {
    pub(crate) fn terms(&self, options: &ReadOptions) -> Option<ReadTerms> {
        self.txn.handle.engine.read.terms(options)
    }

    pub(crate) fn get(&self, key: &[u8]) -> Result<Option<Bytes>> {
        self.txn.get(self.keyspace, key, false)
    }

    pub(crate) fn multi_get<K: AsRef<[u8]>>(
        &self,
        keys: impl IntoIterator<Item = K>,
    ) -> Result<Vec<Option<Bytes>>> {
        self.txn.multi_get(self.keyspace, keys)
    }

    pub(crate) fn contains_key(&self, key: &[u8]) -> Result<bool> {
        self.txn.contains(self.keyspace, key)
    }

    pub(crate) fn value_len(&self, key: &[u8]) -> Result<Option<usize>> {
        self.txn.value_len(self.keyspace, key)
    }

    pub(crate) fn get_range(&self, key: &[u8], range: &Range<usize>) -> Result<Option<Bytes>> {
        self.txn.get_range(self.keyspace, key, range)
    }

    pub(crate) fn get_reader(&self, key: &[u8]) -> Result<Option<ValueReader>> {
        self.txn.get_reader(self.keyspace, key)
    }

    pub(crate) fn ttl(&self, key: &[u8]) -> Result<Option<Ttl>> {
        self.txn.ttl(self.keyspace, key)
    }

    pub(crate) fn range(&self, range: &impl KeyBounds) -> Iter {
        self.txn.range(self.keyspace, range)
    }

    pub(crate) fn prefix(&self, prefix: &[u8]) -> Iter {
        self.txn.prefix(self.keyspace, prefix)
    }

    pub(crate) fn cursor(&self) -> Cursor {
        self.txn.cursor(self.keyspace)
    }
}

impl fmt::Debug for Transaction {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Transaction").finish_non_exhaustive()
    }
}
