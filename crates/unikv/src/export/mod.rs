//! Exports: the newest versions of a range of keys in one verified file, and importing it.
//!
//! [`Db::export`], [`Keyspace::export`](crate::Keyspace::export) and
//! [`Snapshot::export`](crate::Snapshot::export) make one: what a snapshot shows of one keyspace,
//! with the times at which values expire, and what the wall clock alone hides. [`ExportFile`] is
//! one that is there, and [`Db::import`] stores what is in it, all at once or not at all. See
//! `docs/format.md`.
//!
//! Invariants: a file under the name that was asked for is complete and durable. An import commits
//! after the last byte was verified. Neither takes memory that grows with the data: values of
//! 256 KiB or more come and go in parts. No locks.

mod format;
mod new_file;
mod read;
#[cfg(test)]
mod tests;
mod write;

use crate::base::bounds::KeyBounds;
use crate::base::text::{Count, Size};
use crate::db::Db;
use crate::db::ingest::Ingest;
use crate::db::keyspace::Keyspace;
use crate::db::snapshot::Snapshot;
use crate::error::{Error, Result};
use crate::options::KeyspaceOptions;
use crate::vfs::Env;
use crate::vfs::clock::moved_end_ms;
use format::Head;
use read::Reader;
use std::fmt;
use std::path::{Path, PathBuf};

/// What is in an export.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Export {
    /// How many keys.
    pub records: u64,
    /// Bytes of keys and values.
    pub bytes: u64,
    /// Bytes of the file.
    pub file_bytes: u64,
    /// Everything up to this sequence number is in it, as far as it is in its range, and nothing
    /// after.
    pub seq: u64,
}

impl fmt::Display for Export {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (records, bytes) = (Count(self.records), Size(self.bytes));
        let (seq, file) = (self.seq, Size(self.file_bytes));
        write!(
            f,
            "{records} records of {bytes}, as of sequence number {seq}, in a file of {file}"
        )
    }
}

/// An export that is there: what it says of itself. The rest is verified when it is read.
#[derive(Clone, Debug)]
pub struct ExportFile {
    env: Env,
    path: PathBuf,
    head: Head,
    file_bytes: u64,
}

impl Env {
    /// An export, as [`ExportFile::open`] opens it. Errors as there.
    pub fn open_export(&self, path: impl AsRef<Path>) -> Result<ExportFile> {
        let path = path.as_ref().to_owned();
        let reader = Reader::open(&*self.vfs, &path)?;
        let file_bytes = reader.len();
        let head = reader.head().clone();
        Ok(ExportFile {
            env: self.clone(),
            path,
            head,
            file_bytes,
        })
    }
}

impl ExportFile {
    /// Opens the export at `path`, of which this reads the beginning.
    ///
    /// # Errors
    /// `Incompatible` for a file that is no export, or one of a newer release; `Corruption`, `Io`.
    pub fn open(path: impl AsRef<Path>) -> Result<ExportFile> {
        Env::os().open_export(path)
    }

    /// Where it is.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Bytes of the file.
    pub fn file_bytes(&self) -> u64 {
        self.file_bytes
    }

    /// The name that the keyspace had.
    pub fn keyspace(&self) -> &str {
        &self.head.keyspace
    }

    /// The options that the keyspace had; of the default one, none. They are what
    /// [`Db::keyspace`] takes to make another one like it.
    pub fn keyspace_options(&self) -> &KeyspaceOptions {
        &self.head.options
    }

    /// The sequence number of the database that it shows.
    pub fn seq(&self) -> u64 {
        self.head.seq
    }

    /// When it was made by the clock of the database, in milliseconds since 1970.
    pub fn time_ms(&self) -> u64 {
        self.head.time_ms
    }

    /// Reads and verifies all of it.
    ///
    /// # Errors
    /// `Corruption` that names file and offset, `Incompatible`, `Io`.
    pub fn verify(&self) -> Result<Export> {
        self.reader()?.visit(|_, _, _| Ok(()))
    }

    fn reader(&self) -> Result<Reader> {
        let reader = Reader::open(&*self.env.vfs, &self.path)?;
        if *reader.head() == self.head {
            Ok(reader)
        } else {
            let what = format!("{} has been replaced since", self.path.display());
            Err(Error::invalid(what, "open the export again"))
        }
    }

    fn import(&self, mut into: Ingest<'_>) -> Result<Export> {
        let (then_ms, now_ms) = (self.head.time_ms, into.0.now_ms());
        let found = self.reader()?.visit(|key, expiry_ms, value| {
            let expiry_ms = if crate::base::seeded::seeded!(ImportPersists) {
                None
            } else {
                expiry_ms.map(|end_ms| moved_end_ms(end_ms, then_ms, now_ms))
            };
            into.0.add_until(key, value, expiry_ms)
        })?;
        into.commit()?;
        Ok(found)
    }
}

impl Db {
    /// Writes what `range` of the default keyspace holds now to the new file `path`: each key with
    /// its value, and when that expires, but no older versions. Others read and write meanwhile.
    /// What has expired is in it, too, as long as jobs may not destroy it: it shows again where it
    /// is imported under an earlier clock.
    ///
    /// When this returns, the file survives a power cut. Until then there is nothing under the name
    /// `path`, at most what is left of the attempt, under that name with `.unfinished` behind it,
    /// which the next attempt removes.
    ///
    /// # Errors
    /// `InvalidArgument` if `path` is there, or is in the database's directory; as those of
    /// [`Db::range`]; `DiskFull`, `Io`.
    ///
    /// ```
    /// # let dir = std::env::temp_dir().join(format!("unikv-export-{}", std::process::id()));
    /// # let db = unikv::Db::open(dir.join("db"), unikv::Options::default())?;
    /// use unikv::{ExportFile, KeyspaceOptions};
    ///
    /// db.put("apple", "red")?;
    /// db.put("banana", "yellow")?;
    /// let made = db.export("a".."b", dir.join("fruit.export"))?;
    /// assert_eq!(made.records, 1);
    ///
    /// let export = ExportFile::open(dir.join("fruit.export"))?;
    /// let copy = db.keyspace("copy", KeyspaceOptions::default())?;
    /// copy.import(&export)?;
    /// assert_eq!(copy.get("apple")?.as_deref(), Some(&b"red"[..]));
    /// # db.close()?;
    /// # unikv::Db::destroy(dir.join("db"))?;
    /// # std::fs::remove_file(dir.join("fruit.export")).ok();
    /// # unikv::Result::Ok(())
    /// ```
    pub fn export(&self, range: impl KeyBounds, path: impl AsRef<Path>) -> Result<Export> {
        self.snapshot().export(range, path)
    }

    /// Stores what an export holds in the default keyspace, all at once, as [`Db::ingest_sorted`]
    /// does: newer than what was written before, and durable. Keys that it does not hold stay as
    /// they are. Values expire when they did where they came from, or never. Only if the clock
    /// there was ahead of this one by more than an hour, what had time left by it has as much left
    /// here.
    ///
    /// # Errors
    /// `Corruption` that names file and offset if anything in the export is damaged: then nothing
    /// has changed. Else as [`ExportFile::open`] and [`Db::ingest_sorted`].
    pub fn import(&self, export: &ExportFile) -> Result<Export> {
        export.import(self.ingest()?)
    }
}

impl Keyspace {
    /// As [`Db::export`]. Errors also: `NoSuchKeyspace`.
    pub fn export(&self, range: impl KeyBounds, path: impl AsRef<Path>) -> Result<Export> {
        self.snapshot().export(range, path)
    }

    /// As [`Db::import`], into this keyspace, whatever that of the export was. Errors also:
    /// `NoSuchKeyspace`.
    pub fn import(&self, export: &ExportFile) -> Result<Export> {
        export.import(self.ingest()?)
    }
}

impl Snapshot {
    /// As [`Db::export`], what this snapshot shows. Errors also: `NoSuchKeyspace`.
    pub fn export(&self, range: impl KeyBounds, path: impl AsRef<Path>) -> Result<Export> {
        write::export(self, &range, path.as_ref())
    }
}
