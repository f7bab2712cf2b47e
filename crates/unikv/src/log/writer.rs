//! Appends records to one log file.
//!
//! Invariants:
//! - [`LogWriter::write_staged`] makes exactly one `append` of everything staged, so a record and
//!   the group it was committed with reach the kernel together or the writer is broken.
//! - Nothing is written after a failed append. [`LogWriter::end`] and [`LogWriter::chain`] keep
//!   naming the last good end, which the successor's link will carry.
//! - Over an old file each write carries the end of the log ([`KIND_END`]), over which the next one
//!   begins. The file header goes with the first records, and the file takes its name when they are
//!   written: a process that dies leaves no file under a name that is not its own.
//!
//! One owner, no locks.

use super::{DurablePoint, KIND_END, RECORD_HEADER_LEN, RecordHeader};
use crate::base::checksum::Crc;
use crate::base::file_header::{FileHeader, FileKind, HEADER_LEN};
use crate::base::keys::{FileNumber, FileUid};
use crate::error::{Error, Result};
use crate::vfs::file_store::FileStore;
use crate::vfs::{SyncFile, WriteFile, WriteMode};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// The staging buffer is given back when one group made it larger than this.
const STAGING_KEPT_BYTES: usize = 4 << 20;

/// What file systems read and write at once, usually.
const BLOCK_BYTES: u64 = 4096;

/// How far a log that was begun over an old one and ends at `end` has written over it.
pub(crate) fn covered_until(end: u64) -> u64 {
    (end + RECORD_HEADER_LEN as u64).next_multiple_of(BLOCK_BYTES)
}

/// A log file under construction.
#[derive(Debug)]
pub(crate) struct LogWriter {
    path: PathBuf,
    number: FileNumber,
    uid: FileUid,
    file: Box<dyn WriteFile>,
    written: Position,
    /// Where the log ends once `staging` is written.
    planned: Position,
    staging: Vec<u8>,
    /// How much of the file has been written over, if it held something before.
    covered: Option<u64>,
    state: State,
}

/// An end of the log.
#[derive(Clone, Copy, Debug)]
struct Position {
    end: u64,
    chain: Crc,
}

#[derive(Debug)]
enum State {
    Good,
    /// A payload too long for its length field was staged; nothing of its group is written.
    Oversized,
    /// An append failed.
    Broken(Error),
}

impl LogWriter {
    /// Creates the file and writes its header. After an error it is not there, unless somebody else
    /// had made it.
    pub(crate) fn create(
        store: &FileStore,
        path: PathBuf,
        kind: FileKind,
        number: FileNumber,
    ) -> Result<LogWriter> {
        let file = store.env().vfs.create(&path, WriteMode::Log, 0);
        let file = file.map_err(|e| Error::io("create this log", &path, e))?;
        let (mut log, header) = LogWriter::new(store, file, path, kind, number);
        match log.append(&header) {
            Ok(()) => Ok(log),
            Err(error) => {
                let _swept_at_open = store.env().vfs.remove(&log.path);
                Err(error)
            }
        }
    }

    /// Begins the log in the place of `old`, a log that nobody needs any more. Until
    /// [`LogWriter::take_name`] nothing but the first records may be written.
    pub(crate) fn recycle(
        store: &FileStore,
        old: &Path,
        kind: FileKind,
        number: FileNumber,
    ) -> Result<LogWriter> {
        let file = store.env().vfs.overwrite(old);
        let file = file.map_err(|e| Error::io("write over this old log", old, e))?;
        let (mut log, header) = LogWriter::new(store, file, old.to_owned(), kind, number);
        log.covered = Some(0);
        log.staging.extend_from_slice(&header);
        Ok(log)
    }

    /// Gives a recycled log its name, once its first records are written. Nobody but the holder of
    /// the directory's lock makes files there, so what has that name already was put there by
    /// mistake: it is not replaced.
    pub(crate) fn take_name(&mut self, store: &FileStore, path: PathBuf) -> Result<()> {
        let vfs = &store.env().vfs;
        let renamed = match vfs.len(&path) {
            Ok(_) => Err(io::ErrorKind::AlreadyExists.into()),
            Err(e) if e.kind() == io::ErrorKind::NotFound => vfs.rename(&self.path, &path),
            Err(e) => Err(e),
        };
        renamed.map_err(|e| Error::io("rename this old log", &self.path, e))?;
        self.path = path;
        Ok(())
    }

    fn new(
        store: &FileStore,
        file: Box<dyn WriteFile>,
        path: PathBuf,
        kind: FileKind,
        number: FileNumber,
    ) -> (LogWriter, [u8; HEADER_LEN]) {
        let uid = store.new_uid();
        let header = FileHeader {
            kind,
            database: store.database(),
            uid,
            number,
            required: 0,
        };
        let written = Position {
            end: HEADER_LEN as u64,
            chain: Crc::default(),
        };
        let log = LogWriter {
            path,
            number,
            uid,
            file,
            written,
            planned: written,
            staging: Vec::new(),
            covered: None,
            state: State::Good,
        };
        (log, header.encode())
    }

    /// Frames a record whose payload is the concatenation of `parts` into the staging buffer.
    pub(crate) fn stage(&mut self, kind: u8, parts: &[&[u8]], durable: Option<DurablePoint>) {
        if self.stage_header(kind, parts, durable) {
            for part in parts {
                self.staging.extend_from_slice(part);
            }
        }
    }

    /// Writes everything staged in one append. After an error the writer is broken, except when
    /// a payload was too long for the format: then nothing was written and the writer goes on.
    pub(crate) fn write_staged(&mut self) -> Result<()> {
        self.ready()?;
        if self.staging.is_empty() {
            return Ok(());
        }
        self.stage_end();
        let staging = std::mem::take(&mut self.staging);
        let written = self.append(&staging).and_then(|()| self.rewind_end());
        self.staging = staging;
        self.forget_staged();
        written?;
        self.written = self.planned;
        Ok(())
    }

    /// Writes what is staged and then one record with a large payload, which is not copied.
    pub(crate) fn write_large(
        &mut self,
        kind: u8,
        parts: &[&[u8]],
        durable: Option<DurablePoint>,
    ) -> Result<()> {
        self.write_staged()?;
        self.stage_header(kind, parts, durable);
        self.ready()?;
        let header = std::mem::take(&mut self.staging);
        let mut written = self.append(&header);
        for part in parts {
            written = written.and_then(|()| self.append(part));
        }
        self.staging = header;
        self.staging.clear();
        written?;
        self.stage_end();
        if !self.staging.is_empty() {
            let end = std::mem::take(&mut self.staging);
            self.append(&end)?;
            self.rewind_end()?;
        }
        self.written = self.planned;
        Ok(())
    }

    /// Where the written log ends.
    pub(crate) fn end(&self) -> u64 {
        self.written.end
    }

    /// The random uid of the file.
    pub(crate) fn uid(&self) -> FileUid {
        self.uid
    }

    /// The number of the file.
    pub(crate) fn number(&self) -> FileNumber {
        self.number
    }

    /// The running checksum over the headers of all records written.
    pub(crate) fn chain(&self) -> u32 {
        self.written.chain.raw()
    }

    /// Whether the file held something before.
    pub(crate) fn is_recycled(&self) -> bool {
        self.covered.is_some()
    }

    /// The path of the file.
    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    /// A handle for making the bytes durable, usable beside the writer.
    pub(crate) fn sync_handle(&self) -> Arc<dyn SyncFile> {
        self.file.sync_handle()
    }

    /// Stages the header of a record; the payload must follow. False if nothing may be staged.
    fn stage_header(&mut self, kind: u8, parts: &[&[u8]], durable: Option<DurablePoint>) -> bool {
        debug_assert_ne!(kind, 0, "kind zero is no record");
        let len: usize = parts.iter().map(|part| part.len()).sum();
        let Ok(payload_len) = u32::try_from(len) else {
            if matches!(self.state, State::Good) {
                self.state = State::Oversized;
            }
            return false;
        };
        if !matches!(self.state, State::Good) {
            return false;
        }
        let offset = self.planned.end;
        let payload_offset = offset + RECORD_HEADER_LEN as u64;
        let crc = parts
            .iter()
            .fold(Crc::default(), |crc, part| crc.update(part));
        let header = RecordHeader {
            payload_crc: crc.bind(self.uid, payload_offset),
            payload_len,
            kind,
            durable,
        };
        let header = header.encode(self.number, self.uid, offset);
        self.staging.extend_from_slice(&header);
        self.planned = Position {
            end: payload_offset + len as u64,
            chain: self.planned.chain.update(&header),
        };
        true
    }

    /// Stages what stands after the last record of a log that has remains: its end, and zeros up
    /// to the end of a block that has not been written to: one that is written in part would have
    /// to be read first, should it be in memory no more.
    fn stage_end(&mut self) {
        let Some(covered) = self.covered else { return };
        let offset = self.planned.end;
        let behind = offset + RECORD_HEADER_LEN as u64;
        let end = RecordHeader {
            payload_crc: Crc::default().bind(self.uid, behind),
            payload_len: 0,
            kind: KIND_END,
            durable: None,
        };
        let end = end.encode(self.number, self.uid, offset);
        self.staging.extend_from_slice(&end);
        let mut filled = behind;
        if behind > covered {
            filled = covered_until(offset);
            self.covered = Some(filled);
        }
        let zeros = self.staging.len() + (filled - behind) as usize;
        self.staging.resize(zeros, 0);
    }

    /// Has the next record take the place of the end.
    fn rewind_end(&mut self) -> Result<()> {
        if self.covered.is_none() {
            return Ok(());
        }
        let rewound = self.file.rewind(self.file.len() - self.planned.end);
        rewound.map_err(|e| self.broken_by("go back in this log", e))
    }

    /// Fails if nothing may be written.
    fn ready(&mut self) -> Result<()> {
        match &self.state {
            State::Good => Ok(()),
            State::Oversized => {
                self.state = State::Good;
                self.planned = self.written;
                self.forget_staged();
                let what = "a write is longer than a log record can hold (4 GiB)";
                Err(Error::invalid(what, "split it into smaller batches"))
            }
            State::Broken(cause) => Err(Error::writes_suspended(
                cause,
                "wait until the engine has moved to a new log, or reopen the database",
            )),
        }
    }

    fn append(&mut self, bytes: &[u8]) -> Result<()> {
        let appended = self.file.append(bytes);
        appended.map_err(|e| self.broken_by("append to this log", e))
    }

    /// Nothing is written any more.
    fn broken_by(&mut self, what: &'static str, e: std::io::Error) -> Error {
        let error = Error::io(what, &self.path, e);
        self.state = State::Broken(error.clone());
        error
    }

    /// Empties the staging buffer and gives back what one large group left.
    fn forget_staged(&mut self) {
        self.staging.clear();
        if self.staging.capacity() > STAGING_KEPT_BYTES {
            self.staging = Vec::new();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::log::tests::{DIR, store};
    use crate::vfs::sim::SimVfs;

    #[test]
    fn a_large_group_keeps_no_large_buffer() {
        let store = store(&SimVfs::new(), 1);
        let path = Path::new(DIR).join("000007.wal");
        let mut log = LogWriter::create(&store, path, FileKind::Wal, FileNumber(7)).unwrap();
        let payload = vec![1; STAGING_KEPT_BYTES / 2];
        log.stage(2, &[&payload], None);
        log.write_staged().unwrap();
        let kept = log.staging.capacity();
        assert!(kept >= payload.len(), "a usual one is used again");
        (0..3).for_each(|_| log.stage(2, &[&payload], None));
        log.write_staged().unwrap();
        assert!(log.staging.capacity() <= STAGING_KEPT_BYTES);
    }
}
