//! The reads that databases, keyspaces, snapshots, secondaries and transactions have, in one text.

use crate::base::bounds::KeyBounds;
use crate::db::Db;
use crate::db::keyspace::Keyspace;
use crate::db::secondary::Secondary;
use crate::db::snapshot::Snapshot;
use crate::db::transaction::{Transaction, TransactionKeyspace};
use crate::engine::read::cursor::{Cursor, Keys};
use crate::engine::read::iter::Iter;
use crate::engine::read::lifetimes::Ttl;
use crate::engine::read::parts::offsets;
use crate::engine::read::value_reader::ValueReader;
use crate::error::Result;
use crate::key_table::read_terms::ReadTerms;
use crate::options::ReadOptions;
use bytes::Bytes;
use std::ops::RangeBounds;

/// Gives a type these methods, which read from its `reader()`.
macro_rules! reads {
    ($type:ty) => {
        impl $type {
            /// The value of `key`, or `None`.
            ///
            /// A value that is held keeps at most half its length and a kilobyte beside itself in
            /// memory; see [`Iter`](crate::Iter) for those of iterators. It keeps no file.
            ///
            /// # Errors
            /// `Corruption` if what should answer is damaged (damage never reads as "not there"),
            /// `Io`, `InvalidArgument` for a key longer than any can be, `NoSuchKeyspace` where the
            /// keyspace is gone, `Closed`, `Forked`.
            pub fn get(&self, key: impl AsRef<[u8]>) -> Result<Option<Bytes>> {
                self.reader().get(key.as_ref())
            }

            /// The value of `key`, or `None`, read as `options` say. Errors as
            /// [`Db::get`](crate::Db::get), and `TimedOut`.
            pub fn get_with(
                &self,
                key: impl AsRef<[u8]>,
                options: &ReadOptions,
            ) -> Result<Option<Bytes>> {
                let reader = self.reader();
                let terms = reader.terms(options);
                ReadTerms::within(terms.as_ref(), || reader.get(key.as_ref()))
            }

            /// What `read` makes of the value of `key`, which it is lent; `None` if there is none.
            /// Errors as [`Db::get`](crate::Db::get).
            ///
            /// ```
            /// # let db = unikv::Db::in_memory(unikv::Options::default())?;
            /// db.put("apple", "red")?;
            /// assert_eq!(db.with_value("apple", |value| value.len())?, Some(3));
            /// assert_eq!(db.with_value("banana", |value| value.len())?, None);
            /// # unikv::Result::Ok(())
            /// ```
            pub fn with_value<T>(
                &self,
                key: impl AsRef<[u8]>,
                read: impl FnOnce(&[u8]) -> T,
            ) -> Result<Option<T>> {
                Ok(self.get(key)?.map(|value| read(&value)))
            }

            /// The values of `keys`, in their order, all as of one moment. What is not in memory
            /// the device reads for up to 64 keys at once: several times as fast as one
            /// [`Db::get`](crate::Db::get) after the other. Errors as there.
            pub fn multi_get<K: AsRef<[u8]>>(
                &self,
                keys: impl IntoIterator<Item = K>,
            ) -> Result<Vec<Option<Bytes>>> {
                self.reader().multi_get(keys)
            }

            /// Puts the value of `key` into `buffer` in the place of what is there; whether there
            /// is one. If there is none, the buffer is empty. Errors as
            /// [`Db::get`](crate::Db::get); then the buffer is as it was.
            pub fn get_into(&self, key: impl AsRef<[u8]>, buffer: &mut Vec<u8>) -> Result<bool> {
                let value = self.get(key)?;
                buffer.clear();
                buffer.extend_from_slice(value.as_deref().unwrap_or_default());
                Ok(value.is_some())
            }

            /// Whether `key` has a value. No record is read for it, only lists of keys, in which
            /// very short values stand, too; so a record that is damaged counts as there. Where a
            /// list is damaged, the record answers, and errors are those of
            /// [`Db::get`](crate::Db::get).
            pub fn contains_key(&self, key: impl AsRef<[u8]>) -> Result<bool> {
                self.reader().contains_key(key.as_ref())
            }

            /// The length in bytes of the value of `key`, or `None` if it has none. As
            /// [`Db::contains_key`](crate::Db::contains_key), and of the record it reads the
            /// header, whose damage is an error.
            pub fn value_len(&self, key: impl AsRef<[u8]>) -> Result<Option<usize>> {
                self.reader().value_len(key.as_ref())
            }

            /// The bytes of the value of `key` at the offsets in `range`, or `None` if it has none.
            /// Offsets behind its end have no bytes: what comes is as long as the part of the range
            /// that lies within the value, and may be empty.
            ///
            /// Of a value of 256 KiB or more, only the chunks of 64 KiB that have the bytes are
            /// read and verified, beside the record's header and the list of its chunks. What is
            /// shorter is read whole, and so is a large value that a release without chunks wrote.
            /// Errors as [`Db::get`](crate::Db::get), but none for damage in other chunks.
            ///
            /// ```
            /// # let db = unikv::Db::in_memory(unikv::Options::default())?;
            /// db.put("word", "range")?;
            /// assert_eq!(db.get_range("word", 3..10)?.as_deref(), Some(&b"ge"[..]));
            /// assert_eq!(db.get_range("word", 9..)?.as_deref(), Some(&b""[..]));
            /// assert_eq!(db.get_range("none", ..)?, None);
            /// # unikv::Result::Ok(())
            /// ```
            pub fn get_range(
                &self,
                key: impl AsRef<[u8]>,
                range: impl RangeBounds<usize>,
            ) -> Result<Option<Bytes>> {
                self.reader().get_range(key.as_ref(), &offsets(&range))
            }

            /// A reader of the value of `key`, from any offset, or `None` if it has none. It
            /// borrows nothing, and may be sent to another thread. Errors as
            /// [`Db::get`](crate::Db::get).
            ///
            /// ```
            /// # let db = unikv::Db::in_memory(unikv::Options::default())?;
            /// use std::io::{Read, Seek, SeekFrom};
            ///
            /// db.put("film", vec![7; 1 << 20])?;
            /// let mut film = db.get_reader("film")?.expect("it was just put");
            /// let mut frame = [0; 100];
            /// film.seek(SeekFrom::Start(500_000))?;
            /// film.read_exact(&mut frame)?;
            /// assert_eq!((frame, film.len()), ([7; 100], 1 << 20));
            /// # Ok::<_, Box<dyn std::error::Error>>(())
            /// ```
            pub fn get_reader(&self, key: impl AsRef<[u8]>) -> Result<Option<ValueReader>> {
                self.reader().get_reader(key.as_ref())
            }

            /// How long the value of `key` lives from now on, or from the snapshot's moment on;
            /// `None` if it has none. No value is read. What a transaction has written lives from
            /// its commit on. Errors as [`Db::get`](crate::Db::get).
            pub fn ttl(&self, key: impl AsRef<[u8]>) -> Result<Option<Ttl>> {
                self.reader().ttl(key.as_ref())
            }

            /// All entries in key order, as of now or of the snapshot's moment. Errors come as
            /// items, of the kinds of [`Db::get`](crate::Db::get).
            pub fn iter(&self) -> Iter {
                self.range(..)
            }

            /// Entries in key order, as [`Db::iter`](crate::Db::iter) and as `options` say. Errors
            /// come as items, `TimedOut`, too.
            pub fn iter_with(&self, options: &ReadOptions) -> Iter {
                let reader = self.reader();
                let terms = reader.terms(options);
                reader.range(&options.range).reading(options, terms)
            }

            /// The entry with the least key, or `None`. Errors as for
            /// [`Keyspace::get`](crate::Keyspace::get).
            pub fn first_key_value(&self) -> Result<Option<(Bytes, Bytes)>> {
                self.iter().next().transpose()
            }

            /// The entry with the greatest key, or `None`. Errors as for
            /// [`Keyspace::get`](crate::Keyspace::get).
            pub fn last_key_value(&self) -> Result<Option<(Bytes, Bytes)>> {
                self.iter().next_back().transpose()
            }

            /// The entries whose keys lie in `range`, as [`Db::iter`](crate::Db::iter).
            pub fn range(&self, range: impl KeyBounds) -> Iter {
                self.reader().range(&range)
            }

            /// The entries whose keys begin with `prefix`, as [`Db::iter`](crate::Db::iter).
            pub fn prefix(&self, prefix: impl AsRef<[u8]>) -> Iter {
                self.reader().prefix(prefix.as_ref())
            }

            /// The keys in `range`, in order. No record is read, only lists of keys.
            ///
            /// ```
            /// # let db = unikv::Db::in_memory(unikv::Options::default())?;
            /// db.put("apple", "red")?;
            /// db.put("banana", "yellow")?;
            /// let keys: unikv::Result<Vec<_>> = db.keys(..).collect();
            /// assert_eq!(keys?, ["apple", "banana"]);
            /// # unikv::Result::Ok(())
            /// ```
            pub fn keys(&self, range: impl KeyBounds) -> Keys {
                Keys::new(self.range(range))
            }

            /// A position that moves both ways. It borrows nothing, and may be sent to another
            /// thread.
            ///
            /// ```
            /// # let db = unikv::Db::in_memory(unikv::Options::default())?;
            /// db.put("apple", "red")?;
            /// db.put("banana", "yellow")?;
            /// let mut cursor = db.cursor();
            /// assert!(cursor.seek_for_prev("avocado")?);
            /// assert_eq!(cursor.key(), Some(&b"apple"[..]));
            /// assert!(cursor.next()?);
            /// assert_eq!(cursor.value()?.as_deref(), Some(&b"yellow"[..]));
            /// assert!(!cursor.next()?);
            /// # unikv::Result::Ok(())
            /// ```
            pub fn cursor(&self) -> Cursor {
                self.reader().cursor()
            }

            /// A position that moves both ways, as [`Db::cursor`](crate::Db::cursor) and as
            /// `options` say. Errors as there, and `TimedOut`.
            pub fn cursor_with(&self, options: &ReadOptions) -> Cursor {
                let reader = self.reader();
                let terms = reader.terms(options);
                reader.cursor().reading(options, terms)
            }
        }
    };
}

reads!(Db);
reads!(Keyspace);
reads!(Snapshot);
reads!(Secondary);
reads!(Transaction);
reads!(TransactionKeyspace<'_>);
