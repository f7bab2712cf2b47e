//! Changes that depend on what is there: databases and keyspaces have these methods in common.

use crate::base::bounds::KeyBounds;
use crate::db::Db;
use crate::db::keyspace::Keyspace;
use crate::error::Result;
use crate::txn::single::Mismatch;
use bytes::Bytes;

/// Gives a type these methods, which write by its `writer()`.
macro_rules! changes {
    ($type:ty) => {
        impl $type {
            /// Puts `new` in the place of the value of `key` if that is `expected`; `None` stands
            /// for no value. Else returns the value that is there, and changes nothing. Errors as
            /// for [`Keyspace::put`](crate::Keyspace::put) and
            /// [`Keyspace::get`](crate::Keyspace::get).
            ///
            /// ```
            /// # let db = unikv::Db::in_memory(unikv::Options::default())?;
            /// assert!(db.compare_and_swap("owner", None, Some(b"me"))?.is_ok());
            /// let there = db.compare_and_swap("owner", None, Some(b"you"))?.unwrap_err();
            /// assert_eq!(there.actual.as_deref(), Some(&b"me"[..]));
            /// # unikv::Result::Ok(())
            /// ```
            pub fn compare_and_swap(
                &self,
                key: impl AsRef<[u8]>,
                expected: Option<&[u8]>,
                new: Option<&[u8]>,
            ) -> Result<std::result::Result<(), Mismatch>> {
                self.writer().compare_and_swap(key.as_ref(), expected, new)
            }

            /// Puts what `change` makes of the value of `key` in its place; `None` stands for no
            /// value. Returns the new value. If another write comes between, `change` is called
            /// again. Errors as for [`Keyspace::put`](crate::Keyspace::put) and
            /// [`Keyspace::get`](crate::Keyspace::get).
            ///
            /// ```
            /// # let db = unikv::Db::in_memory(unikv::Options::default())?;
            /// let append = |value: Option<&[u8]>| {
            ///     Some([value.unwrap_or_default(), b"!"].concat())
            /// };
            /// db.update("greeting", append)?;
            /// assert_eq!(db.update("greeting", append)?.as_deref(), Some(&b"!!"[..]));
            /// # unikv::Result::Ok(())
            /// ```
            pub fn update(
                &self,
                key: impl AsRef<[u8]>,
                change: impl FnMut(Option<&[u8]>) -> Option<Vec<u8>>,
            ) -> Result<Option<Bytes>> {
                self.writer().update(key.as_ref(), change)
            }

            /// Adds `by` to the number that is the value of `key`, 8 bytes, little-endian; no value
            /// counts as 0. Returns the sum, which is the new value.
            ///
            /// # Errors
            /// `InvalidArgument` if the value has another length, or the sum does not fit: then
            /// nothing has changed. Else those of [`Keyspace::put`](crate::Keyspace::put) and
            /// [`Keyspace::get`](crate::Keyspace::get).
            pub fn increment(&self, key: impl AsRef<[u8]>, by: i64) -> Result<i64> {
                self.writer().increment(key.as_ref(), by)
            }

            /// Removes the first entry, and returns it; `None` if there is none. Each one is taken
            /// once, however many threads take entries beside each other. They take turns, and with
            /// [`Durability::Sync`](crate::Durability::Sync) each waits for the sync of the one
            /// before.
            ///
            /// ```
            /// # let db = unikv::Db::in_memory(unikv::Options::default())?;
            /// let jobs = db.keyspace("jobs", unikv::KeyspaceOptions::default())?;
            /// jobs.put("1", "sweep")?;
            /// jobs.put("2", "cook")?;
            /// let (key, job) = jobs.pop_first()?.expect("a job");
            /// assert_eq!((&key[..], &job[..]), (&b"1"[..], &b"sweep"[..]));
            /// assert_eq!(jobs.range(..).count(), 1);
            /// # unikv::Result::Ok(())
            /// ```
            ///
            /// # Errors
            /// Those of [`Keyspace::put`](crate::Keyspace::put) and
            /// [`Keyspace::get`](crate::Keyspace::get).
            pub fn pop_first(&self) -> Result<Option<(Bytes, Bytes)>> {
                self.pop_first_in_range(..)
            }

            /// Removes the last entry, as [`Keyspace::pop_first`](crate::Keyspace::pop_first) does
            /// the first. Errors as there.
            pub fn pop_last(&self) -> Result<Option<(Bytes, Bytes)>> {
                self.pop_last_in_range(..)
            }

            /// Removes the first entry in `range`, as
            /// [`Keyspace::pop_first`](crate::Keyspace::pop_first) does the first of all. Errors as
            /// there.
            pub fn pop_first_in_range(
                &self,
                range: impl KeyBounds,
            ) -> Result<Option<(Bytes, Bytes)>> {
                self.writer().pop(&range, false)
            }

            /// Removes the last entry in `range`, as
            /// [`Keyspace::pop_first`](crate::Keyspace::pop_first) does the first of all. Errors as
            /// there.
            pub fn pop_last_in_range(
                &self,
                range: impl KeyBounds,
            ) -> Result<Option<(Bytes, Bytes)>> {
                self.writer().pop(&range, true)
            }
        }
    };
}

changes!(Db);
changes!(Keyspace);

#[cfg(test)]
mod tests;
