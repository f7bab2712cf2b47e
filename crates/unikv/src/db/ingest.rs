//! Storing sorted keys all at once, as a stream or step by step.

use crate::engine::background::ingest::Ingest as Inner;
use crate::engine::background::ingest::entry::Expiry;
use crate::error::Result;
use std::fmt;
use std::io::Read;

/// Sorted keys on their way into the database, all at once: see [`Db::ingest`](crate::Db::ingest).
///
/// Keys must ascend, each once. What is written goes straight into files, without log and memtable,
/// in memory that does not grow with it. Nothing of it is visible before [`Ingest::commit`], and
/// dropped without that it leaves nothing. After any error nothing of it can be committed.
///
/// While it is there the database is not closed: closing waits for its end. So it must not be held
/// by the thread that closes.
pub struct Ingest<'db>(pub(crate) Inner<'db>);

impl Ingest<'_> {
    /// Commits a commit tag with it, as [`Batch::set_commit_tag`](crate::Batch::set_commit_tag)
    /// says.
    ///
    /// # Errors
    /// `InvalidArgument` if it is longer than 64 KiB.
    pub fn set_commit_tag(&mut self, commit_tag: impl AsRef<[u8]>) -> Result<()> {
        self.0.set_commit_tag(commit_tag.as_ref())
    }

    /// Gives `key` a value, which expires as is usual there.
    ///
    /// # Errors
    /// `InvalidArgument` if the key is not greater than the one before, or something is longer than
    /// [`Batch`](crate::Batch) allows; `DiskFull`, `Io`, `Closed`.
    pub fn put(&mut self, key: impl AsRef<[u8]>, value: impl AsRef<[u8]>) -> Result<()> {
        self.put_expiring(key, value, Expiry::AsUsual)
    }

    /// Gives `key` a value that expires as `expiry` says. Errors as [`Ingest::put`].
    pub fn put_expiring(
        &mut self,
        key: impl AsRef<[u8]>,
        value: impl AsRef<[u8]>,
        expiry: Expiry,
    ) -> Result<()> {
        self.0.add(key.as_ref(), Some(value.as_ref()), expiry)
    }

    /// Gives `key` the next `len` bytes that `reader` gives, or all up to its end, as
    /// [`Db::put_reader`](crate::Db::put_reader) does: a long value is never in memory whole.
    ///
    /// # Errors
    /// As [`Ingest::put`]; `Io` with the reader's own error as its source.
    pub fn put_reader(
        &mut self,
        key: impl AsRef<[u8]>,
        reader: &mut dyn Read,
        len: Option<u64>,
    ) -> Result<()> {
        let expiry = Expiry::AsUsual;
        self.0.add_reader(key.as_ref(), reader, len, expiry)
    }

    /// Removes `key`. Errors as [`Ingest::put`].
    pub fn delete(&mut self, key: impl AsRef<[u8]>) -> Result<()> {
        self.0.add(key.as_ref(), None, Expiry::Never)
    }

    /// Makes all of it visible at once, and durable. Returns how many keys there are.
    ///
    /// # Errors
    /// The error of a write that has failed before: then nothing has changed. Else as
    /// [`Db::ingest_sorted`](crate::Db::ingest_sorted).
    pub fn commit(self) -> Result<u64> {
        self.0.commit()
    }
}

impl fmt::Debug for Ingest<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Ingest").finish_non_exhaustive()
    }
}
