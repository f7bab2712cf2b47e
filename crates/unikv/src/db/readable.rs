//! One shape for reading: what databases, keyspaces, snapshots and transactions have in common.

mod reads;

use crate::base::bounds::KeyBounds;
use crate::db::Db;
use crate::db::keyspace::Keyspace;
use crate::db::secondary::Secondary;
use crate::db::snapshot::Snapshot;
use crate::db::transaction::{Transaction, TransactionKeyspace};
use crate::engine::read::cursor::{Cursor, Keys};
use crate::engine::read::iter::Iter;
use crate::engine::read::lifetimes::Ttl;
use crate::engine::read::value_reader::ValueReader;
use crate::error::Result;
use crate::options::ReadOptions;
use bytes::Bytes;
use std::ops::Range;

mod sealed {
    pub trait Sealed {}
}

/// Something to read from: a [`Db`] or a [`Keyspace`], which are as they are now at each call, a
/// [`Snapshot`], a [`Secondary`], which is as it was at its last refresh, or a [`Transaction`]. All
/// have these methods of their own, too, with their documentation, and take keys and ranges there
/// of any type that is bytes. The trait is for code that reads from any of them, also as
/// `&dyn Readable`. It is sealed: methods may be added.
///
/// ```
/// use unikv::{Readable, Result};
///
/// fn total(from: &dyn Readable) -> Result<u64> {
///     let mut bytes = 0;
///     for key in from.keys(&..) {
///         bytes += from.value_len(&key?)?.unwrap_or(0) as u64;
///     }
///     Ok(bytes)
/// }
/// # let db = unikv::Db::in_memory(unikv::Options::default())?;
/// # db.put("apple", "red")?;
/// assert_eq!((total(&db)?, total(&db.snapshot())?), (3, 3));
/// # unikv::Result::Ok(())
/// ```
pub trait Readable: sealed::Sealed {
    /// See [`Keyspace::get`].
    fn get(&self, key: &[u8]) -> Result<Option<Bytes>>;

    /// See [`Keyspace::get_with`].
    fn get_with(&self, key: &[u8], options: &ReadOptions) -> Result<Option<Bytes>>;

    /// See [`Keyspace::get_into`].
    fn get_into(&self, key: &[u8], buffer: &mut Vec<u8>) -> Result<bool>;

    /// See [`Keyspace::multi_get`].
    fn multi_get(&self, keys: &[&[u8]]) -> Result<Vec<Option<Bytes>>>;

    /// See [`Keyspace::contains_key`].
    fn contains_key(&self, key: &[u8]) -> Result<bool>;

    /// See [`Keyspace::value_len`].
    fn value_len(&self, key: &[u8]) -> Result<Option<usize>>;

    /// See [`Keyspace::get_range`].
    fn get_range(&self, key: &[u8], range: Range<usize>) -> Result<Option<Bytes>>;

    /// See [`Keyspace::get_reader`].
    fn get_reader(&self, key: &[u8]) -> Result<Option<ValueReader>>;

    /// See [`Keyspace::ttl`].
    fn ttl(&self, key: &[u8]) -> Result<Option<Ttl>>;

    /// See [`Keyspace::iter`].
    fn iter(&self) -> Iter;

    /// See [`Keyspace::iter_with`].
    fn iter_with(&self, options: &ReadOptions) -> Iter;

    /// See [`Keyspace::first_key_value`].
    fn first_key_value(&self) -> Result<Option<(Bytes, Bytes)>>;

    /// See [`Keyspace::last_key_value`].
    fn last_key_value(&self) -> Result<Option<(Bytes, Bytes)>>;

    /// See [`Keyspace::range`].
    fn range(&self, range: &dyn KeyBounds) -> Iter;

    /// See [`Keyspace::prefix`].
    fn prefix(&self, prefix: &[u8]) -> Iter;

    /// See [`Keyspace::keys`].
    fn keys(&self, range: &dyn KeyBounds) -> Keys;

    /// See [`Keyspace::cursor`].
    fn cursor(&self) -> Cursor;

    /// See [`Keyspace::cursor_with`].
    fn cursor_with(&self, options: &ReadOptions) -> Cursor;
}

/// Each method is the type's own one of that name.
macro_rules! readable {
    ($($type:ty),*) => {$(
        impl sealed::Sealed for $type {}

        impl Readable for $type {
            fn get(&self, key: &[u8]) -> Result<Option<Bytes>> {
                <$type>::get(self, key)
            }

            fn get_with(&self, key: &[u8], options: &ReadOptions) -> Result<Option<Bytes>> {
                <$type>::get_with(self, key, options)
            }

            fn get_into(&self, key: &[u8], buffer: &mut Vec<u8>) -> Result<bool> {
                <$type>::get_into(self, key, buffer)
            }

            fn multi_get(&self, keys: &[&[u8]]) -> Result<Vec<Option<Bytes>>> {
                <$type>::multi_get(self, keys)
            }

            fn contains_key(&self, key: &[u8]) -> Result<bool> {
                <$type>::contains_key(self, key)
            }

            fn value_len(&self, key: &[u8]) -> Result<Option<usize>> {
                <$type>::value_len(self, key)
            }

            fn get_range(&self, key: &[u8], range: Range<usize>) -> Result<Option<Bytes>> {
                <$type>::get_range(self, key, range)
            }

            fn get_reader(&self, key: &[u8]) -> Result<Option<ValueReader>> {
                <$type>::get_reader(self, key)
            }

            fn ttl(&self, key: &[u8]) -> Result<Option<Ttl>> {
                <$type>::ttl(self, key)
            }

            fn iter(&self) -> Iter {
                <$type>::iter(self)
            }

            fn iter_with(&self, options: &ReadOptions) -> Iter {
                <$type>::iter_with(self, options)
            }

            fn first_key_value(&self) -> Result<Option<(Bytes, Bytes)>> {
                <$type>::first_key_value(self)
            }

            fn last_key_value(&self) -> Result<Option<(Bytes, Bytes)>> {
                <$type>::last_key_value(self)
            }

            fn range(&self, range: &dyn KeyBounds) -> Iter {
                <$type>::range(self, range)
            }

            fn prefix(&self, prefix: &[u8]) -> Iter {
                <$type>::prefix(self, prefix)
            }

            fn keys(&self, range: &dyn KeyBounds) -> Keys {
                <$type>::keys(self, range)
            }

            fn cursor(&self) -> Cursor {
                <$type>::cursor(self)
            }

            fn cursor_with(&self, options: &ReadOptions) -> Cursor {
                <$type>::cursor_with(self, options)
            }
        }
    )*};
}

readable!(
    Db,
    Keyspace,
    Snapshot,
    Secondary,
    Transaction,
    TransactionKeyspace<'_>
);

/// Gives types that read as they are now a loop over all entries.
macro_rules! iterates {
    ($($type:ty),*) => {$(
        impl IntoIterator for &$type {
            type Item = Result<(Bytes, Bytes)>;
            type IntoIter = Iter;

            fn into_iter(self) -> Iter {
                self.iter()
            }
        }
    )*};
}

iterates!(
    Db,
    Keyspace,
    Snapshot,
    Secondary,
    Transaction,
    TransactionKeyspace<'_>
);

#[cfg(test)]
mod tests;
