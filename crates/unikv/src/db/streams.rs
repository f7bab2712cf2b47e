//! Values that come as streams.

use crate::base::keys::KeyspaceId;
use crate::db::Db;
use crate::db::keyspace::Keyspace;
use crate::error::Result;
use crate::options::WriteOptions;
use std::io::Read;

impl Db {
    /// Stores under `key` the next `len` bytes that `reader` gives, or all up to its end. A long
    /// value, of up to 1 GiB, goes to a file as it comes, with a chunk of 64 KiB in memory at a
    /// time, and one of less than 256 KiB is an ordinary put. The key has its old value until all
    /// of the new one is there; if the reader fails before, nothing has changed. A reader that
    /// gives more than `len` bytes is left where they end.
    ///
    /// The reader may be slow, but must not write to the same database; closing the database waits
    /// for it.
    ///
    /// ```
    /// # let dir = std::env::temp_dir().join(format!("unikv-put-reader-{}", std::process::id()));
    /// # let db = unikv::Db::open(&dir, unikv::Options::default())?;
    /// use std::io::Read;
    ///
    /// let film = std::io::repeat(7).take(1 << 20);
    /// db.put_reader("film", film, None)?;
    /// assert_eq!(db.value_len("film")?, Some(1 << 20));
    /// # db.close()?;
    /// # unikv::Db::destroy(&dir)?;
    /// # unikv::Result::Ok(())
    /// ```
    ///
    /// # Errors
    /// `Io` with the reader's own error as its source, also if it ends before `len` bytes;
    /// `InvalidArgument` if it gives more than 1 GiB. Then nothing has changed. Else as
    /// [`Db::put`].
    pub fn put_reader(
        &self,
        key: impl AsRef<[u8]>,
        reader: impl Read,
        len: Option<u64>,
    ) -> Result<()> {
        self.put_reader_with(key, reader, len, WriteOptions::default())
    }

    /// As [`Db::put_reader`], as `options` say. Errors also as [`Db::put_with`].
    pub fn put_reader_with(
        &self,
        key: impl AsRef<[u8]>,
        mut reader: impl Read,
        len: Option<u64>,
        options: impl Into<WriteOptions>,
    ) -> Result<()> {
        let write = &self.0.engine.write;
        let key = key.as_ref();
        write.put_reader(KeyspaceId::DEFAULT, key, &mut reader, len, options.into())
    }
}

impl Keyspace {
    /// As [`Db::put_reader`]. Errors also as [`Keyspace::put`]; `NoSuchKeyspace` also if the
    /// keyspace was emptied while the value was read.
    pub fn put_reader(
        &self,
        key: impl AsRef<[u8]>,
        reader: impl Read,
        len: Option<u64>,
    ) -> Result<()> {
        self.put_reader_with(key, reader, len, WriteOptions::default())
    }

    /// As [`Db::put_reader_with`].
    pub fn put_reader_with(
        &self,
        key: impl AsRef<[u8]>,
        mut reader: impl Read,
        len: Option<u64>,
        options: impl Into<WriteOptions>,
    ) -> Result<()> {
        self.write_once(|write, data| {
            write.put_reader(data, key.as_ref(), &mut reader, len, options.into())
        })
    }
}
