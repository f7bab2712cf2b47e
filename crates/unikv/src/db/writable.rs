//! What can be written to, and how: databases and keyspaces have these methods in common, with one
//! text. Those of a [`Db`] are those of its default keyspace.

use crate::base::bounds::{KeyBounds, Prefix, engine_bounds};
use crate::db::Db;
use crate::db::ingest::Ingest;
use crate::db::keyspace::Keyspace;
use crate::engine::background::ingest::entry::SortedEntry;
use crate::error::{Error, Result};
use crate::memtable::{Batch, Lifetime};
use crate::options::WriteOptions;
use crate::vfs::clock::since_1970;
use std::io::Read;
use std::time::{Duration, SystemTime};

/// Gives a type these methods, which write by its `writer()`.
macro_rules! writes {
    ($type:ty) => {
        impl $type {
            /// Stores `value` under `key`.
            ///
            /// # Errors
            /// `InvalidArgument` if the key is longer than 64 KiB or the value than 1 GiB; then
            /// nothing has changed, nor after `NoSuchKeyspace`, `DiskFull`, `Closed` or `Forked`.
            /// After `WritesSuspended`, `Io` and `Internal` the outcome is unknown: the write does
            /// not show now, and may from the next opening on, whole.
            pub fn put(&self, key: impl AsRef<[u8]>, value: impl AsRef<[u8]>) -> Result<()> {
                self.put_with(key, value, WriteOptions::default())
            }

            /// Stores `value` under `key`, as `options` say: a
            /// [`Durability`](crate::Durability), or [`WriteOptions`].
            ///
            /// # Errors
            /// Those of [`Keyspace::put`](crate::Keyspace::put); `WouldBlock` where the write may
            /// not wait and would have to: then nothing has changed.
            pub fn put_with(
                &self,
                key: impl AsRef<[u8]>,
                value: impl AsRef<[u8]>,
                options: impl Into<WriteOptions>,
            ) -> Result<()> {
                let (key, value) = (key.as_ref(), value.as_ref());
                self.writer().put(key, value, options.into())
            }

            /// Writes `value` under `key`, which expires when `ttl` has passed: see
            /// [`WriteOptions::ttl`](crate::WriteOptions::ttl). Errors as for
            /// [`Keyspace::put`](crate::Keyspace::put); `InvalidArgument` for a `ttl` of zero.
            pub fn put_with_ttl(
                &self,
                key: impl AsRef<[u8]>,
                value: impl AsRef<[u8]>,
                ttl: Duration,
            ) -> Result<()> {
                self.put_with(key, value, WriteOptions::default().ttl(ttl))
            }

            /// Removes `key`; removing what is not there is no error. Errors as for
            /// [`Keyspace::put`](crate::Keyspace::put).
            pub fn delete(&self, key: impl AsRef<[u8]>) -> Result<()> {
                self.delete_with(key, WriteOptions::default())
            }

            /// Removes `key`, as `options` say. Errors as for
            /// [`Keyspace::put_with`](crate::Keyspace::put_with).
            pub fn delete_with(
                &self,
                key: impl AsRef<[u8]>,
                options: impl Into<WriteOptions>,
            ) -> Result<()> {
                let key = key.as_ref();
                self.writer().write_one(options.into(), |batch, data| {
                    batch.delete_at(data, key);
                })
            }

            /// Commits all operations of a batch or none, in their order. Those that name no
            /// keyspace go to this one.
            ///
            /// ```
            /// # let db = unikv::Db::in_memory(unikv::Options::default())?;
            /// let users = db.keyspace("users", unikv::KeyspaceOptions::default())?;
            /// let mut batch = unikv::Batch::new();
            /// batch.put("7", "Ada").delete("8");
            /// users.write(&batch)?;
            /// assert_eq!(users.get("7")?.as_deref(), Some(&b"Ada"[..]));
            /// # unikv::Result::Ok(())
            /// ```
            ///
            /// # Errors
            /// Those of [`Keyspace::put`](crate::Keyspace::put).
            pub fn write(&self, batch: &Batch) -> Result<()> {
                self.write_with(batch, WriteOptions::default())
            }

            /// Commits a batch, as `options` say. Errors as for
            /// [`Keyspace::put_with`](crate::Keyspace::put_with).
            pub fn write_with(
                &self,
                batch: &Batch,
                options: impl Into<WriteOptions>,
            ) -> Result<()> {
                self.writer().write(batch, options.into())
            }

            /// Removes all keys in `range`, as one write that takes the time of a put however many
            /// keys there are. A range that ends before it starts has no keys, and nothing is done.
            ///
            /// What is deleted gives its space back in the background: whole files at once, the
            /// rest when it is merged. Meanwhile scans pass over it in one step for each file.
            ///
            /// ```
            /// # let db = unikv::Db::in_memory(unikv::Options::default())?;
            /// for day in 1..=30 {
            ///     db.put(format!("2025-06-{day:02}"), "…")?;
            /// }
            /// db.delete_range("2025-06-01".."2025-06-30")?;
            /// assert_eq!(db.range(..).count(), 1);
            /// # unikv::Result::Ok(())
            /// ```
            ///
            /// # Errors
            /// `InvalidArgument` if an end of the range is longer than 64 KiB. Else those of
            /// [`Keyspace::delete`](crate::Keyspace::delete): a full disk takes it.
            pub fn delete_range(&self, range: impl KeyBounds) -> Result<()> {
                self.delete_range_with(range, WriteOptions::default())
            }

            /// Removes all keys in `range`, as `options` say. Errors as for
            /// [`Keyspace::delete_range`](crate::Keyspace::delete_range) and
            /// [`Keyspace::put_with`](crate::Keyspace::put_with).
            pub fn delete_range_with(
                &self,
                range: impl KeyBounds,
                options: impl Into<WriteOptions>,
            ) -> Result<()> {
                self.writer().write_one(options.into(), |batch, data| {
                    batch.delete_range_at(engine_bounds(data, &range));
                })
            }

            /// Removes all keys that begin with `prefix`, as
            /// [`Keyspace::delete_range`](crate::Keyspace::delete_range) does. Errors as there.
            pub fn delete_prefix(&self, prefix: impl AsRef<[u8]>) -> Result<()> {
                self.delete_range(Prefix::new(prefix))
            }

            /// Stores under `key` the next `len` bytes that `reader` gives, or all up to its end. A
            /// long value, of up to 1 GiB, goes to a file as it comes, with a chunk of 64 KiB in
            /// memory at a time, and one of less than 256 KiB is an ordinary put. The key has its
            /// old value until all of the new one is there; if the reader fails before, nothing has
            /// changed. A reader that gives more than `len` bytes is left where they end.
            ///
            /// The reader may be slow, but must not write to the same database; closing the
            /// database waits for it.
            ///
            /// ```
            /// # let db = unikv::Db::in_memory(unikv::Options::default())?;
            /// use std::io::Read;
            ///
            /// let film = std::io::repeat(7).take(1 << 20);
            /// db.put_reader("film", film, None)?;
            /// assert_eq!(db.value_len("film")?, Some(1 << 20));
            /// # unikv::Result::Ok(())
            /// ```
            ///
            /// # Errors
            /// `Io` with the reader's own error as its source, also if it ends before `len` bytes;
            /// `InvalidArgument` if it gives more than 1 GiB; `NoSuchKeyspace` also if the keyspace
            /// was emptied meanwhile. Then nothing has changed. Else those of
            /// [`Keyspace::put`](crate::Keyspace::put).
            pub fn put_reader(
                &self,
                key: impl AsRef<[u8]>,
                reader: impl Read,
                len: Option<u64>,
            ) -> Result<()> {
                self.put_reader_with(key, reader, len, WriteOptions::default())
            }

            /// Stores what `reader` gives, as `options` say. Errors as for
            /// [`Keyspace::put_reader`](crate::Keyspace::put_reader) and
            /// [`Keyspace::put_with`](crate::Keyspace::put_with).
            pub fn put_reader_with(
                &self,
                key: impl AsRef<[u8]>,
                mut reader: impl Read,
                len: Option<u64>,
                options: impl Into<WriteOptions>,
            ) -> Result<()> {
                let (key, options) = (key.as_ref(), options.into());
                self.writer().put_reader(key, &mut reader, len, options)
            }

            /// Begins to store sorted keys all at once. For a stream that is there already, there
            /// is [`Keyspace::ingest_sorted`](crate::Keyspace::ingest_sorted), which says more.
            ///
            /// # Errors
            /// `DiskFull`, `Io` and `WritesSuspended` where nothing can be written;
            /// `NoSuchKeyspace`, `Closed`.
            ///
            /// ```
            /// # let db = unikv::Db::in_memory(unikv::Options::default())?;
            /// db.put("banana", "yellow")?;
            /// let mut fruit = db.ingest()?;
            /// fruit.put("apple", "red")?;
            /// fruit.delete("banana")?;
            /// fruit.put_reader("cherry", &mut "dark red".as_bytes(), None)?;
            /// assert_eq!(db.get("apple")?, None);
            /// assert_eq!(fruit.commit()?, 3);
            /// assert_eq!(db.get("apple")?.as_deref(), Some(&b"red"[..]));
            /// assert_eq!(db.get("banana")?, None);
            /// # unikv::Result::Ok(())
            /// ```
            pub fn ingest(&self) -> Result<Ingest<'_>> {
                self.writer().ingest().map(Ingest)
            }

            /// Stores a sorted stream all at once: values, and `None` for keys to be removed. It
            /// goes straight into files, without log and memtable, in memory that does not grow
            /// with its length; nothing of it is visible before all of it is, and when this returns
            /// it survives a power cut. It is newer than every write that returned before the whole
            /// stream was read, and older than those that begin after this returns. The commit tag,
            /// if there is one, is committed with it, as
            /// [`Batch::set_commit_tag`](crate::Batch::set_commit_tag) says. Returns the number of
            /// entries.
            ///
            /// Made for large streams: memtables are flushed first, and what is ingested is merged
            /// soon. Closing the database waits for the next entry of the stream, so the stream
            /// itself must not close it.
            ///
            /// # Errors
            /// `InvalidArgument` if a key is not greater than the one before or something is longer
            /// than [`Batch`](crate::Batch) allows; an error of the stream, as it came: then
            /// nothing has changed. Else those of [`Db::flush`](crate::Db::flush);
            /// `WritesSuspended` may leave the outcome unknown until the database is reopened.
            ///
            /// ```no_run
            /// # fn main() -> unikv::Result<()> {
            /// # let db = unikv::Db::open("db", unikv::Options::default())?;
            /// let squares = (0..1_000_000u64).map(|n| n * n);
            /// let entries = squares.map(|n| (n.to_be_bytes(), Some(n.to_be_bytes())));
            /// db.ingest_sorted(entries.map(unikv::Result::Ok), Some(b"squares loaded"))?;
            /// # Ok(())
            /// # }
            /// ```
            ///
            /// With an [`Expiry`](crate::Expiry) beside it, a value expires as that says, else as
            /// is usual:
            ///
            /// ```
            /// # let db = unikv::Db::in_memory(unikv::Options::default())?;
            /// use std::time::{Duration, SystemTime};
            /// use unikv::{Expiry, Ttl};
            ///
            /// let hour = Expiry::At(SystemTime::now() + Duration::from_secs(3600));
            /// let sessions = [("1", Some("Ada"), hour), ("2", Some("root"), Expiry::Never)];
            /// db.ingest_sorted(sessions.map(unikv::Result::Ok), None)?;
            /// assert!(matches!(db.ttl("1")?, Some(Ttl::Remaining(_))));
            /// assert_eq!(db.ttl("2")?, Some(Ttl::Never));
            /// # unikv::Result::Ok(())
            /// ```
            pub fn ingest_sorted<T: SortedEntry, E: From<Error>>(
                &self,
                entries: impl IntoIterator<Item = std::result::Result<T, E>>,
                commit_tag: Option<&[u8]>,
            ) -> std::result::Result<u64, E> {
                self.writer().ingest()?.commit_all(entries, commit_tag)
            }

            /// Has the value of `key` expire when `ttl` has passed; whether there is a value.
            /// Errors as for [`Keyspace::put`](crate::Keyspace::put) and
            /// [`Keyspace::get`](crate::Keyspace::get); `InvalidArgument` if `ttl` is zero.
            pub fn expire(&self, key: impl AsRef<[u8]>, ttl: Duration) -> Result<bool> {
                self.writer().set_lifetime(key.as_ref(), Lifetime::of(ttl)?)
            }

            /// Has the value of `key` expire at `time` of the wall clock; whether there is a value.
            /// If that is not later than now, the key is removed at once. The value is written
            /// again, so of a large one this takes as long as a put. Errors as for
            /// [`Keyspace::expire`](crate::Keyspace::expire).
            ///
            /// ```
            /// # let db = unikv::Db::in_memory(unikv::Options::default())?;
            /// use std::time::{Duration, SystemTime};
            ///
            /// db.put("session", "Ada")?;
            /// let hour = Duration::from_secs(3600);
            /// assert!(db.expire_at("session", SystemTime::now() + hour)?);
            /// assert!(db.expire_at("session", SystemTime::now() - hour)?);
            /// assert_eq!(db.get("session")?, None);
            /// assert!(!db.expire("session", hour)?, "it is not there any more");
            /// # unikv::Result::Ok(())
            /// ```
            pub fn expire_at(&self, key: impl AsRef<[u8]>, time: SystemTime) -> Result<bool> {
                let lifetime = Lifetime::until(since_1970(time));
                self.writer().set_lifetime(key.as_ref(), lifetime)
            }

            /// Has the value of `key` never expire; whether it would have. Errors as for
            /// [`Keyspace::expire`](crate::Keyspace::expire).
            pub fn clear_ttl(&self, key: impl AsRef<[u8]>) -> Result<bool> {
                self.writer().clear_ttl(key.as_ref())
            }
        }
    };
}

writes!(Db);
writes!(Keyspace);

#[cfg(test)]
mod delete_range_tests;
