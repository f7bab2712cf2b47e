//! Writing a bulk data file from front to back, with the checksum of the whole file running over
//! the bytes as they leave.
//!
//! Small pieces are gathered so that the file sees few appends; large ones pass by uncopied. Once
//! a write has failed, every later one does, so a file with a hole is never finished.

use crate::base::checksum::Crc;
use crate::base::file_header::{FileHeader, FileKind};
use crate::base::keys::{FileNumber, FileUid};
use crate::error::{Error, Result};
use crate::vfs::file_store::FileStore;
use crate::vfs::{SyncFile, WriteFile, WriteMode};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// Pieces of at least this many bytes are not gathered.
const GATHER_BYTES: usize = 64 << 10;

/// A data file being written; nobody reads it before it is finished and listed.
#[derive(Debug)]
pub(crate) struct OutputFile {
    file: Box<dyn WriteFile>,
    path: PathBuf,
    number: FileNumber,
    uid: FileUid,
    gathered: Vec<u8>,
    /// Of everything that was handed to `file`.
    crc: Crc,
    /// Of everything that was appended, also what is still gathered.
    len: u64,
    failed: bool,
}

/// A data file that is written and may not be durable.
#[derive(Debug)]
pub(crate) struct UnsyncedFile {
    file: Arc<dyn SyncFile>,
    path: PathBuf,
}

impl UnsyncedFile {
    /// Makes the file's bytes durable. After an error nobody knows what became of them.
    pub(crate) fn sync(&self) -> Result<()> {
        let synced = self.file.sync();
        synced.map_err(|e| Error::io("finish a data file", &self.path, e))
    }

    /// The path of the file.
    pub(crate) fn path(&self) -> &Path {
        &self.path
    }
}

impl OutputFile {
    /// Creates the file `name` of the store's directory and writes its header. After an error the
    /// file is not there, unless somebody else had made it.
    pub(crate) fn create(
        store: &FileStore,
        name: impl AsRef<Path>,
        header: FileHeader,
        size_hint: u64,
    ) -> Result<OutputFile> {
        let path = store.dir().join(name);
        let created = store.env().vfs.create(&path, WriteMode::Bulk, size_hint);
        let file = created.map_err(|e| Error::io("create a data file", &path, e))?;
        let mut output = OutputFile {
            file,
            path,
            number: header.number,
            uid: header.uid,
            gathered: Vec::with_capacity(GATHER_BYTES),
            crc: Crc::default(),
            len: 0,
            failed: false,
        };
        match output.append(&header.encode()) {
            Ok(()) => Ok(output),
            Err(error) => {
                let _swept_at_open = store.env().vfs.remove(&output.path);
                Err(error)
            }
        }
    }

    /// A header for a new file of the store.
    pub(crate) fn header(store: &FileStore, kind: FileKind, number: FileNumber) -> FileHeader {
        FileHeader {
            kind,
            database: store.database(),
            uid: store.new_uid(),
            number,
            required: 0,
        }
    }

    /// The bytes appended so far.
    pub(crate) fn len(&self) -> u64 {
        self.len
    }

    /// The file's random id.
    pub(crate) fn uid(&self) -> FileUid {
        self.uid
    }

    /// The number in the file's name.
    pub(crate) fn number(&self) -> FileNumber {
        self.number
    }

    /// Appends `bytes`.
    pub(crate) fn append(&mut self, bytes: &[u8]) -> Result<()> {
        if self.gathered.len() + bytes.len() > GATHER_BYTES {
            self.flush()?;
        }
        if bytes.len() >= GATHER_BYTES {
            self.write_through(bytes)?;
        } else {
            self.gathered.extend_from_slice(bytes);
        }
        self.len += bytes.len() as u64;
        Ok(())
    }

    /// Replaces `old`, which was appended at `offset`, by `new`, which is as long.
    pub(crate) fn replace(&mut self, offset: u64, old: &[u8], new: &[u8]) -> Result<()> {
        self.flush()?;
        if self.failed {
            return Err(self.failure());
        }
        let behind = self.len.saturating_sub(offset + new.len() as u64);
        self.crc = self.crc.with_replaced(old, new, behind as usize);
        self.file.replace(offset, new).map_err(|e| {
            self.failed = true;
            Error::io("write a data file", &self.path, e)
        })
    }

    /// Makes the file's bytes durable (its name is the caller's to sync) and returns its length
    /// and the checksum of the whole.
    pub(crate) fn finish(self) -> Result<(u64, u32)> {
        let (finished, file) = self.finish_unsynced()?;
        file.sync()?;
        Ok(finished)
    }

    /// The same, but leaves it to the caller to make the bytes durable.
    pub(super) fn finish_unsynced(mut self) -> Result<((u64, u32), UnsyncedFile)> {
        self.flush()?;
        if self.failed {
            return Err(self.failure());
        }
        match self.file.finish_unsynced() {
            Ok(file) => {
                let path = self.path;
                Ok(((self.len, self.crc.raw()), UnsyncedFile { file, path }))
            }
            Err(e) => Err(Error::io("finish a data file", &self.path, e)),
        }
    }

    fn flush(&mut self) -> Result<()> {
        let gathered = std::mem::take(&mut self.gathered);
        if !gathered.is_empty() {
            self.write_through(&gathered)?;
        }
        self.gathered = gathered;
        self.gathered.clear();
        Ok(())
    }

    fn write_through(&mut self, bytes: &[u8]) -> Result<()> {
        if self.failed {
            return Err(self.failure());
        }
        self.crc = self.crc.update(bytes);
        self.file.append(bytes).map_err(|e| {
            self.failed = true;
            Error::io("write a data file", &self.path, e)
        })
    }

    fn failure(&self) -> Error {
        let cause = io::Error::other("an earlier write to it failed");
        Error::io("write a data file", &self.path, cause)
    }
}
