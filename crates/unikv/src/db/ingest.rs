//! Storing sorted keys all at once, as a stream or step by step.

use crate::base::keys::KeyspaceId;
use crate::db::Db;
use crate::db::keyspace::Keyspace;
use crate::engine::background::ingest::Ingest as Inner;
use crate::engine::background::ingest::entry::{Expiry, SortedEntry};
use crate::error::{Error, Result};
use std::fmt;
use std::io::Read;

/// Sorted keys on their way into the database, all at once: see [`Db::ingest`].
///
/// Keys must ascend, each once. What is written goes straight into files, without log and memtable,
/// in memory that does not grow with it. Nothing of it is visible before [`Ingest::commit`], and
/// dropped without that it leaves nothing. After any error nothing of it can be committed.
///
/// While it is there the database is not closed: closing waits for its end. So it must not be held
/// by the thread that closes.
pub struct Ingest<'db>(pub(crate) Inner<'db>);

impl Db {
    /// Begins to store sorted keys of the default keyspace all at once. For a stream that is there
    /// already, there is [`Db::ingest_sorted`], which says more.
    ///
    /// # Errors
    /// `DiskFull`, `Io` and `WritesSuspended` where nothing can be written; `Closed`.
    ///
    /// ```
    /// # let dir = std::env::temp_dir().join(format!("unikv-ingest-steps-{}", std::process::id()));
    /// # let db = unikv::Db::open(&dir, unikv::Options::default())?;
    /// db.put("banana", "yellow")?;
    /// let mut fruit = db.ingest()?;
    /// fruit.write("apple", "red")?;
    /// fruit.remove("banana")?;
    /// fruit.write_reader("cherry", &mut "dark red".as_bytes(), None)?;
    /// assert_eq!(db.get("apple")?, None);
    /// assert_eq!(fruit.commit()?, 3);
    /// assert_eq!(db.get("apple")?.as_deref(), Some(&b"red"[..]));
    /// assert_eq!(db.get("banana")?, None);
    /// # db.close()?;
    /// # unikv::Db::destroy(&dir)?;
    /// # unikv::Result::Ok(())
    /// ```
    pub fn ingest(&self) -> Result<Ingest<'_>> {
        Ok(Ingest(Inner::begin(
            &self.0.engine.background,
            KeyspaceId::DEFAULT,
        )?))
    }

    /// Stores a sorted stream all at once: values, and `None` for keys to be removed. It goes
    /// straight into files, without log and memtable, in memory that does not grow with its length;
    /// nothing of it is visible before all of it is, and when this returns it survives a power cut.
    /// It is newer than every write that returned before the whole stream was read, and older than
    /// those that begin after this returns. The mark, if there is one, is committed with it, as
    /// [`Batch::set_mark`](crate::Batch::set_mark) says. Returns the number of entries.
    ///
    /// Made for large streams: memtables are flushed first, and what is ingested is merged soon.
    /// Closing the database waits for the next entry of the stream, so the stream itself must not
    /// close it.
    ///
    /// # Errors
    /// `InvalidArgument` if a key is not greater than the one before or something is longer than
    /// [`Batch`](crate::Batch) allows; an error of the stream, as it came: then nothing has
    /// changed. Else as [`Db::flush`]; `WritesSuspended` may leave the outcome unknown until the
    /// database is reopened.
    ///
    /// ```no_run
    /// # fn main() -> unikv::Result<()> {
    /// # let db = unikv::Db::open("db", unikv::Options::default())?;
    /// let squares = (0..1_000_000u64).map(|n| (n.to_be_bytes(), Some((n * n).to_be_bytes())));
    /// db.ingest_sorted(squares.map(unikv::Result::Ok), Some(b"squares loaded"))?;
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// With an [`Expiry`](crate::Expiry) beside it, a value expires as that says, else as is usual:
    ///
    /// ```
    /// # let dir = std::env::temp_dir().join(format!("unikv-ingest-{}", std::process::id()));
    /// # let db = unikv::Db::open(&dir, unikv::Options::default())?;
    /// use std::time::{Duration, SystemTime};
    /// use unikv::{Expiry, Ttl};
    ///
    /// let hour = Expiry::At(SystemTime::now() + Duration::from_secs(3600));
    /// let sessions = [("1", Some("Ada"), hour), ("2", Some("root"), Expiry::Never)];
    /// db.ingest_sorted(sessions.map(unikv::Result::Ok), None)?;
    /// assert!(matches!(db.ttl("1")?, Some(Ttl::Remaining(_))));
    /// assert_eq!(db.ttl("2")?, Some(Ttl::Never));
    /// # db.close()?;
    /// # unikv::Db::destroy(&dir)?;
    /// # unikv::Result::Ok(())
    /// ```
    pub fn ingest_sorted<T: SortedEntry, E: From<Error>>(
        &self,
        entries: impl IntoIterator<Item = std::result::Result<T, E>>,
        mark: Option<&[u8]>,
    ) -> std::result::Result<u64, E> {
        let ingest = Inner::begin(&self.0.engine.background, KeyspaceId::DEFAULT)?;
        ingest.commit_all(entries, mark)
    }
}

impl Keyspace {
    /// As [`Db::ingest`]. Errors also: `NoSuchKeyspace`.
    pub fn ingest(&self) -> Result<Ingest<'_>> {
        let background = &self.handle().engine.background;
        Ok(Ingest(Inner::begin(background, self.data()?)?))
    }

    /// As [`Db::ingest_sorted`].
    pub fn ingest_sorted<T: SortedEntry, E: From<Error>>(
        &self,
        entries: impl IntoIterator<Item = std::result::Result<T, E>>,
        mark: Option<&[u8]>,
    ) -> std::result::Result<u64, E> {
        let ingest = Inner::begin(&self.handle().engine.background, self.data()?)?;
        ingest.commit_all(entries, mark)
    }
}

impl Ingest<'_> {
    /// Commits a mark with it, as [`Batch::set_mark`](crate::Batch::set_mark) says.
    ///
    /// # Errors
    /// `InvalidArgument` if it is longer than 64 KiB.
    pub fn set_mark(&mut self, mark: impl AsRef<[u8]>) -> Result<()> {
        self.0.set_mark(mark.as_ref())
    }

    /// Gives `key` a value, which expires as is usual there.
    ///
    /// # Errors
    /// `InvalidArgument` if the key is not greater than the one before, or something is longer than
    /// [`Batch`](crate::Batch) allows; `DiskFull`, `Io`, `Closed`.
    pub fn write(&mut self, key: impl AsRef<[u8]>, value: impl AsRef<[u8]>) -> Result<()> {
        self.write_expiring(key, value, Expiry::AsUsual)
    }

    /// Gives `key` a value that expires as `expiry` says. Errors as [`Ingest::write`].
    pub fn write_expiring(
        &mut self,
        key: impl AsRef<[u8]>,
        value: impl AsRef<[u8]>,
        expiry: Expiry,
    ) -> Result<()> {
        self.0.add(key.as_ref(), Some(value.as_ref()), expiry)
    }

    /// Gives `key` the next `len` bytes that `reader` gives, or all up to its end, as
    /// [`Db::put_reader`] does: a long value is never in memory whole.
    ///
    /// # Errors
    /// As [`Ingest::write`]; `Io` with the reader's own error as its source.
    pub fn write_reader(
        &mut self,
        key: impl AsRef<[u8]>,
        reader: &mut dyn Read,
        len: Option<u64>,
    ) -> Result<()> {
        let expiry = Expiry::AsUsual;
        self.0.add_reader(key.as_ref(), reader, len, expiry)
    }

    /// Removes `key`. Errors as [`Ingest::write`].
    pub fn remove(&mut self, key: impl AsRef<[u8]>) -> Result<()> {
        self.0.add(key.as_ref(), None, Expiry::Never)
    }

    /// Makes all of it visible at once, and durable. Returns how many keys there are.
    ///
    /// # Errors
    /// The error of a write that has failed before: then nothing has changed. Else as
    /// [`Db::ingest_sorted`].
    pub fn commit(self) -> Result<u64> {
        self.0.commit()
    }
}

impl fmt::Debug for Ingest<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Ingest").finish_non_exhaustive()
    }
}
