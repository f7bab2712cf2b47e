//! Snapshots: the database as it was at one moment, for as long as the handle lives.

use crate::db::fill;
use crate::engine::read::ReadState;
use crate::engine::read::bounds::{KeyBounds, engine_bounds, prefix_bounds};
use crate::engine::read::cursor::{Cursor, Keys};
use crate::engine::read::iter::Iter;
use crate::engine::read::moment::Registered;
use crate::engine::snapshots::Holder;
use crate::error::Result;
use bytes::Bytes;
use std::fmt;
use std::sync::Arc;

/// The database as it was at one moment. Cheap to take and to clone; while it lives, the versions
/// it sees are kept on disk.
#[derive(Clone)]
pub struct Snapshot(Arc<Registered>);

impl Snapshot {
    pub(crate) fn take(read: &Arc<ReadState>) -> Snapshot {
        Snapshot(Registered::take(read, Holder::Snapshot))
    }

    /// The value that `key` had. Errors as [`Db::get`](crate::Db::get).
    pub fn get(&self, key: impl AsRef<[u8]>) -> Result<Option<Bytes>> {
        let view = self.0.read().view.load();
        self.0.read().get_at(&view, self.0.seq(), key.as_ref())
    }

    /// The values that `keys` had, in the order of the keys. Errors as [`Db::get`](crate::Db::get).
    pub fn multi_get<K: AsRef<[u8]>>(
        &self,
        keys: impl IntoIterator<Item = K>,
    ) -> Result<Vec<Option<Bytes>>> {
        self.0.read().multi_get(Some(self.0.seq()), keys)
    }

    /// As [`Db::get_into`](crate::Db::get_into).
    pub fn get_into(&self, key: impl AsRef<[u8]>, buffer: &mut Vec<u8>) -> Result<bool> {
        Ok(fill(buffer, self.get(key)?))
    }

    /// Whether `key` had a value. As [`Db::contains_key`](crate::Db::contains_key).
    pub fn contains_key(&self, key: impl AsRef<[u8]>) -> Result<bool> {
        let read = self.0.read();
        let view = read.view.load();
        read.contains_at(&view, self.0.seq(), key.as_ref())
    }

    /// The length in bytes of the value that `key` had. As
    /// [`Db::value_len`](crate::Db::value_len).
    pub fn value_len(&self, key: impl AsRef<[u8]>) -> Result<Option<usize>> {
        let read = self.0.read();
        let view = read.view.load();
        read.value_len_at(&view, self.0.seq(), key.as_ref())
    }

    /// All entries in key order.
    pub fn iter(&self) -> Iter {
        self.range(..)
    }

    /// The entries whose keys lie in `range`, in key order.
    pub fn range(&self, range: impl KeyBounds) -> Iter {
        self.iterate(engine_bounds(&range))
    }

    /// The entries whose keys begin with `prefix`, in key order.
    pub fn prefix(&self, prefix: impl AsRef<[u8]>) -> Iter {
        self.iterate(prefix_bounds(prefix.as_ref()))
    }

    /// The keys in `range`, in order. As [`Db::keys`](crate::Db::keys).
    pub fn keys(&self, range: impl KeyBounds) -> Keys {
        Keys::new(self.range(range))
    }

    /// A position that moves both ways. As [`Db::cursor`](crate::Db::cursor).
    pub fn cursor(&self) -> Cursor {
        Cursor::new(Arc::clone(&self.0))
    }

    fn iterate(&self, bounds: (Vec<u8>, Vec<u8>)) -> Iter {
        Iter::new(Arc::clone(&self.0), bounds)
    }
}

impl fmt::Debug for Snapshot {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Snapshot")
            .field("seq", &self.0.seq().0)
            .finish_non_exhaustive()
    }
}
