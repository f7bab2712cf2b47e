//! Deleting ranges of keys, through the database and its keyspaces.

use crate::base::bounds::{KeyBounds, engine_bounds, prefix_bounds};
use crate::base::keys::KeyspaceId;
use crate::db::Db;
use crate::db::keyspace::Keyspace;
use crate::error::Result;
use crate::memtable::Batch;
use crate::options::WriteOptions;

impl Db {
    /// Removes all keys in `range`, as one write that takes the time of a put however many keys
    /// there are. A range that ends before it starts has no keys, and nothing is done.
    ///
    /// What is deleted gives its space back in the background: whole files at once, the rest when
    /// it is merged. Meanwhile scans pass over it in one step for each file.
    ///
    /// ```
    /// # let dir = std::env::temp_dir().join(format!("unikv-delete-range-{}", std::process::id()));
    /// # let db = unikv::Db::open(&dir, unikv::Options::default())?;
    /// for day in 1..=30 {
    ///     db.put(format!("2025-06-{day:02}"), "…")?;
    /// }
    /// db.delete_range("2025-06-01".."2025-06-30")?;
    /// assert_eq!(db.range(..).count(), 1);
    /// # db.close()?;
    /// # unikv::Db::destroy(&dir)?;
    /// # unikv::Result::Ok(())
    /// ```
    ///
    /// # Errors
    /// `InvalidArgument` if an end of the range is longer than 64 KiB. Else as [`Db::delete`]: a
    /// full disk takes it.
    pub fn delete_range(&self, range: impl KeyBounds) -> Result<()> {
        self.delete_range_with(range, WriteOptions::default())
    }

    /// As [`Db::delete_range`], as `options` say. Errors as there, and as [`Db::put_with`].
    pub fn delete_range_with(
        &self,
        range: impl KeyBounds,
        options: impl Into<WriteOptions>,
    ) -> Result<()> {
        let mut batch = Batch::new();
        batch.delete_range(range);
        self.write_with(&batch, options)
    }

    /// Removes all keys that begin with `prefix`: see [`Db::delete_range`].
    pub fn delete_prefix(&self, prefix: impl AsRef<[u8]>) -> Result<()> {
        let mut batch = Batch::new();
        batch.delete_prefix(prefix);
        self.write(&batch)
    }
}

impl Keyspace {
    /// As [`Db::delete_range`]. Errors as there; `NoSuchKeyspace`: nothing has changed.
    pub fn delete_range(&self, range: impl KeyBounds) -> Result<()> {
        self.delete_range_with(range, WriteOptions::default())
    }

    /// As [`Db::delete_range_with`].
    pub fn delete_range_with(
        &self,
        range: impl KeyBounds,
        options: impl Into<WriteOptions>,
    ) -> Result<()> {
        self.delete_bounds(|data| engine_bounds(data, &range), options.into())
    }

    /// As [`Db::delete_prefix`].
    pub fn delete_prefix(&self, prefix: impl AsRef<[u8]>) -> Result<()> {
        let bounds = |data| prefix_bounds(data, prefix.as_ref());
        self.delete_bounds(bounds, WriteOptions::default())
    }

    fn delete_bounds(
        &self,
        bounds: impl Fn(KeyspaceId) -> (Vec<u8>, Vec<u8>),
        options: WriteOptions,
    ) -> Result<()> {
        self.in_data(|data| {
            let mut batch = Batch::new();
            batch.delete_range_at(bounds(data));
            self.handle().engine.write.write(&batch, options, None)
        })
    }
}

impl Batch {
    /// As [`Batch::delete_range`], in the given keyspace: see [`Batch::put_in`].
    pub fn delete_range_in(&mut self, keyspace: &Keyspace, range: impl KeyBounds) -> &mut Batch {
        self.add_in(keyspace, |batch, data| {
            batch.delete_range_at(engine_bounds(data, &range));
        })
    }

    /// As [`Batch::delete_prefix`], in the given keyspace: see [`Batch::put_in`].
    pub fn delete_prefix_in(
        &mut self,
        keyspace: &Keyspace,
        prefix: impl AsRef<[u8]>,
    ) -> &mut Batch {
        self.add_in(keyspace, |batch, data| {
            batch.delete_range_at(prefix_bounds(data, prefix.as_ref()));
        })
    }
}

#[cfg(test)]
mod tests;
