//! One shape for reading: what a database and a snapshot of it have in common.

use crate::db::Db;
use crate::db::snapshot::Snapshot;
use crate::engine::read::bounds::KeyBounds;
use crate::engine::read::cursor::{Cursor, Keys};
use crate::engine::read::iter::Iter;
use crate::error::Result;
use bytes::Bytes;

/// Something to read from: a [`Db`], which is as it is now at each call, or a [`Snapshot`]. Both
/// have these methods of their own, too, with their documentation.
///
/// ```
/// use unikv::{Readable, Result};
///
/// fn total(from: &impl Readable) -> Result<u64> {
///     let mut bytes = 0;
///     for key in from.keys(..) {
///         bytes += from.value_len(key?)?.unwrap_or(0) as u64;
///     }
///     Ok(bytes)
/// }
/// # let dir = std::env::temp_dir().join(format!("unikv-readable-{}", std::process::id()));
/// # let db = unikv::Db::open(&dir, unikv::Options::default())?;
/// # db.put("apple", "red")?;
/// assert_eq!((total(&db)?, total(&db.snapshot())?), (3, 3));
/// # db.close()?;
/// # unikv::Db::destroy(&dir)?;
/// # unikv::Result::Ok(())
/// ```
pub trait Readable {
    /// See [`Db::get`].
    fn get(&self, key: impl AsRef<[u8]>) -> Result<Option<Bytes>>;

    /// See [`Db::get_into`].
    fn get_into(&self, key: impl AsRef<[u8]>, buffer: &mut Vec<u8>) -> Result<bool>;

    /// See [`Db::value_len`].
    fn value_len(&self, key: impl AsRef<[u8]>) -> Result<Option<usize>>;

    /// See [`Db::contains_key`].
    fn contains_key(&self, key: impl AsRef<[u8]>) -> Result<bool>;

    /// See [`Db::multi_get`].
    fn multi_get<K: AsRef<[u8]>>(
        &self,
        keys: impl IntoIterator<Item = K>,
    ) -> Result<Vec<Option<Bytes>>>;

    /// See [`Db::iter`].
    fn iter(&self) -> Iter;

    /// See [`Db::range`].
    fn range(&self, range: impl KeyBounds) -> Iter;

    /// See [`Db::prefix`].
    fn prefix(&self, prefix: impl AsRef<[u8]>) -> Iter;

    /// See [`Db::keys`].
    fn keys(&self, range: impl KeyBounds) -> Keys;

    /// See [`Db::cursor`].
    fn cursor(&self) -> Cursor;
}

/// Each method is the type's own one of that name.
macro_rules! readable {
    ($($type:ty),*) => {$(
        impl Readable for $type {
            fn get(&self, key: impl AsRef<[u8]>) -> Result<Option<Bytes>> {
                <$type>::get(self, key)
            }

            fn get_into(&self, key: impl AsRef<[u8]>, buffer: &mut Vec<u8>) -> Result<bool> {
                <$type>::get_into(self, key, buffer)
            }

            fn value_len(&self, key: impl AsRef<[u8]>) -> Result<Option<usize>> {
                <$type>::value_len(self, key)
            }

            fn contains_key(&self, key: impl AsRef<[u8]>) -> Result<bool> {
                <$type>::contains_key(self, key)
            }

            fn multi_get<K: AsRef<[u8]>>(
                &self,
                keys: impl IntoIterator<Item = K>,
            ) -> Result<Vec<Option<Bytes>>> {
                <$type>::multi_get(self, keys)
            }

            fn iter(&self) -> Iter {
                <$type>::iter(self)
            }

            fn range(&self, range: impl KeyBounds) -> Iter {
                <$type>::range(self, range)
            }

            fn prefix(&self, prefix: impl AsRef<[u8]>) -> Iter {
                <$type>::prefix(self, prefix)
            }

            fn keys(&self, range: impl KeyBounds) -> Keys {
                <$type>::keys(self, range)
            }

            fn cursor(&self) -> Cursor {
                <$type>::cursor(self)
            }
        }
    )*};
}

readable!(Db, Snapshot);
