//! Reads the records of one log file from front to back.
//!
//! # Invariants
//! - Memory: one buffer of 256 KiB, or of one payload where that is longer. A payload is read only
//!   when its header has verified and it fits into the file, so a damaged length allocates nothing.
//! - [`LogReader::next`] fails only for errors of the system. Damage is a [`LogItem::Bad`], and
//!   the reader stands still there until [`LogReader::resync`] has found the next whole record.
//!   Whether damage is the end of the log or corruption is the caller's to judge.
//! - Behind a record that says that the log ends there ([`KIND_END`]) no record of the log
//!   verifies, or that record is damage: a later write has not taken its place.
//!
//! One owner, no locks.

use super::{DurablePoint, KIND_END, RECORD_HEADER_LEN, RecordHeader};
use crate::base::checksum::{self, Crc};
use crate::base::file_header::{FileHeader, FileKind, HEADER_LEN};
use crate::base::keys::{DatabaseId, FileNumber, FileUid};
use crate::base::seeded::seeded;
use crate::error::{Error, Result};
use crate::vfs::{Access, ReadFile, Vfs};
use std::path::{Path, PathBuf};
use std::sync::Arc;

const CHUNK_BYTES: usize = 256 << 10;
/// A buffer grown by one large payload is given back when it is larger than this.
const BUFFER_KEPT_BYTES: usize = 4 << 20;

/// Whose durable point counts: among as many headers of an older log as may stand in a file one has
/// the right checksum by chance too often.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Trust {
    Headers,
    Records,
}

/// What the reader found at its position.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum LogItem<'a> {
    /// A whole record that verified.
    Record {
        offset: u64,
        /// Where the next record begins.
        end: u64,
        kind: u8,
        durable: Option<DurablePoint>,
        payload: &'a [u8],
    },
    /// The log ends here, after a whole record.
    End { offset: u64 },
    /// No whole record begins here.
    Bad { offset: u64, reason: &'static str },
}

/// Where a reader stands.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ReadPosition {
    offset: u64,
    chain: Crc,
}

/// A log file open for reading.
#[derive(Debug)]
pub(crate) struct LogReader {
    file: Arc<dyn ReadFile>,
    path: PathBuf,
    number: FileNumber,
    uid: FileUid,
    database: DatabaseId,
    file_len: u64,
    /// Where the next record begins, or the bad place.
    offset: u64,
    bad: Option<&'static str>,
    /// The log ends at `offset`, before the file does.
    has_ended: bool,
    chain: Crc,
    greatest_point: Option<DurablePoint>,
    buffer: Vec<u8>,
    buffer_offset: u64,
}

impl LogReader {
    /// Opens a log and checks its file header.
    pub(crate) fn open(
        vfs: &dyn Vfs,
        path: &Path,
        kind: FileKind,
        database: Option<DatabaseId>,
    ) -> Result<LogReader> {
        let mut reader = LogReader::unchecked(vfs, path)?;
        let header = reader.header_bytes()?;
        let header = FileHeader::decode(header, kind, database, path)?;
        reader.uid = header.uid;
        reader.number = header.number;
        reader.database = header.database;
        Ok(reader)
    }

    /// Opens a log whose file header is damaged, to look for records of a file with `number` and
    /// `uid`.
    pub(crate) fn open_headless(
        vfs: &dyn Vfs,
        path: &Path,
        number: FileNumber,
        uid: FileUid,
    ) -> Result<LogReader> {
        let mut reader = LogReader::unchecked(vfs, path)?;
        reader.uid = uid;
        reader.number = number;
        Ok(reader)
    }

    /// Opens the part of a log from `offset` on, where a record begins.
    pub(crate) fn open_at(
        vfs: &dyn Vfs,
        path: &Path,
        (number, uid): (FileNumber, FileUid),
        offset: u64,
    ) -> Result<LogReader> {
        let mut reader = LogReader::open_headless(vfs, path, number, uid)?;
        reader.offset = offset;
        Ok(reader)
    }

    /// The records end at `end`, whatever stands after it.
    pub(crate) fn read_until(&mut self, end: u64) {
        self.file_len = end;
    }

    /// Goes back to a record that was read.
    pub(crate) fn go_back_to(&mut self, offset: u64) {
        self.offset = offset;
    }

    fn unchecked(vfs: &dyn Vfs, path: &Path) -> Result<LogReader> {
        let io = |e| Error::io("open this log", path, e);
        let file = vfs.open(path, Access::Sequential).map_err(io)?;
        let file_len = file.len().map_err(io)?;
        Ok(LogReader {
            file,
            path: path.to_owned(),
            number: FileNumber::default(),
            uid: FileUid::default(),
            database: DatabaseId::default(),
            file_len,
            offset: HEADER_LEN as u64,
            bad: None,
            has_ended: false,
            chain: Crc::default(),
            greatest_point: None,
            buffer: Vec::new(),
            buffer_offset: 0,
        })
    }

    /// The first bytes of the file, as many as a header has or the file holds.
    pub(crate) fn header_bytes(&mut self) -> Result<&[u8]> {
        let len = self.file_len.min(HEADER_LEN as u64) as usize;
        self.fill(0, len)?;
        Ok(self.buffer.get(..len).unwrap_or(&self.buffer))
    }

    /// The next record. After a [`LogItem::Bad`] the same again.
    pub(crate) fn next(&mut self) -> Result<LogItem<'_>> {
        let (offset, chain) = (self.offset, self.chain);
        let verified = match self.bad {
            Some(reason) => Err(reason),
            None if self.has_ended || offset >= self.file_len => {
                return Ok(LogItem::End { offset });
            }
            None => self.verify(offset, Trust::Headers)?,
        };
        let header = match verified {
            Ok(header) if header.kind == KIND_END => {
                self.chain = chain;
                return self.end(offset);
            }
            Ok(header) => header,
            Err(reason) => {
                self.bad = Some(reason);
                return Ok(LogItem::Bad { offset, reason });
            }
        };
        let payload_offset = offset + RECORD_HEADER_LEN as u64;
        let end = payload_offset + u64::from(header.payload_len);
        self.offset = end;
        Ok(LogItem::Record {
            offset,
            end,
            kind: header.kind,
            durable: header.durable,
            payload: self.slice(payload_offset, header.payload_len as usize),
        })
    }

    /// Reads on in a log to which its writer may have appended: what was read ahead is forgotten.
    pub(crate) fn reload(&mut self) -> Result<()> {
        let io = |e| Error::io("look at this log", &self.path, e);
        self.file_len = self.file.len().map_err(io)?;
        (self.bad, self.has_ended) = (None, false);
        self.buffer.clear();
        Ok(())
    }

    /// The next record: its kind, where it stands, and its payload. `None`: there is none *yet*. It
    /// may be half written, or the log may end here, or go on in another file.
    pub(crate) fn poll(&mut self) -> Result<Option<(u8, u64, &[u8])>> {
        let (offset, chain) = (self.offset, self.chain);
        if offset >= self.file_len {
            return Ok(None);
        }
        let Ok(header) = self.verify(offset, Trust::Headers)? else {
            return Ok(None);
        };
        if header.kind == KIND_END {
            self.chain = chain;
            return Ok(None);
        }
        let payload_offset = offset + RECORD_HEADER_LEN as u64;
        self.offset = payload_offset + u64::from(header.payload_len);
        let payload = self.slice(payload_offset, header.payload_len as usize);
        Ok(Some((header.kind, offset, payload)))
    }

    /// Where the reader stands, for [`LogReader::stand_at`].
    pub(crate) fn position(&self) -> ReadPosition {
        ReadPosition {
            offset: self.offset,
            chain: self.chain,
        }
    }

    /// Goes back to where it stood.
    pub(crate) fn stand_at(&mut self, position: ReadPosition) {
        (self.offset, self.chain) = (position.offset, position.chain);
    }

    /// Judges a record that says that the log ends at `offset`.
    fn end(&mut self, offset: u64) -> Result<LogItem<'_>> {
        let is_older = self.resync()?;
        self.offset = offset;
        if is_older {
            let reason = "the log ended here before records were written that follow";
            self.bad = Some(reason);
            return Ok(LogItem::Bad { offset, reason });
        }
        self.has_ended = true;
        Ok(LogItem::End { offset })
    }

    /// After a bad place: moves to the next offset at which a whole record verifies, header and
    /// payload. False if there is none; the reader then stands at the end of the file.
    ///
    /// Each byte is looked at once as a possible beginning, and a payload is read only after a
    /// header that verified: the cost is linear in the file.
    pub(crate) fn resync(&mut self) -> Result<bool> {
        let mut offset = self.offset + 1;
        self.bad = None;
        while self.fill(offset, RECORD_HEADER_LEN)? {
            let buffered = &self.buffer[(offset - self.buffer_offset) as usize..];
            let Some(passed) = perhaps_a_header(buffered) else {
                offset += (buffered.len() + 1 - RECORD_HEADER_LEN) as u64;
                continue;
            };
            offset += passed as u64;
            let header = self.slice(offset, RECORD_HEADER_LEN);
            if RecordHeader::decode(header, self.number, self.uid, offset).is_ok() {
                let chain = self.chain;
                if self.verify(offset, Trust::Records)?.is_ok() {
                    self.chain = chain;
                    self.offset = offset;
                    return Ok(true);
                }
            }
            offset += 1;
        }
        self.offset = self.file_len;
        Ok(false)
    }

    /// Where the next record begins.
    pub(crate) fn offset(&self) -> u64 {
        self.offset
    }

    /// The running checksum over the headers of the records read since the front of the file.
    pub(crate) fn chain(&self) -> u32 {
        self.chain.raw()
    }

    /// The greatest durable point in the records that verified so far, and in the header of one
    /// that follows on such a record and whose payload did not: its claim was true when it was
    /// written.
    pub(crate) fn greatest_point(&self) -> Option<DurablePoint> {
        self.greatest_point
    }

    /// The uid in the file header.
    pub(crate) fn uid(&self) -> FileUid {
        self.uid
    }

    /// The file number in the file header.
    pub(crate) fn number(&self) -> FileNumber {
        self.number
    }

    /// The database id in the file header.
    pub(crate) fn database(&self) -> DatabaseId {
        self.database
    }

    /// The length of the file.
    pub(crate) fn file_len(&self) -> u64 {
        self.file_len
    }

    /// Checks the record at `offset`, notes its durable point and carries the chain on. When it
    /// verifies, its payload is in the buffer.
    fn verify(
        &mut self,
        offset: u64,
        trust: Trust,
    ) -> Result<std::result::Result<RecordHeader, &'static str>> {
        if !self.fill(offset, RECORD_HEADER_LEN)? {
            return Ok(Err("the file ends inside a record header"));
        }
        let bytes = self.slice(offset, RECORD_HEADER_LEN);
        let header = match RecordHeader::decode(bytes, self.number, self.uid, offset) {
            Ok(header) => header,
            Err(reason) => return Ok(Err(reason)),
        };
        let chain = self.chain.update(bytes);
        if trust == Trust::Headers {
            self.greatest_point = self.greatest_point.max(header.durable);
        }
        let payload_offset = offset + RECORD_HEADER_LEN as u64;
        let payload_len = header.payload_len as usize;
        if !self.fill(payload_offset, payload_len)? {
            return Ok(Err("the file ends inside a record"));
        }
        let payload = self.slice(payload_offset, payload_len);
        let fits = checksum::bound(self.uid, payload_offset, payload) == header.payload_crc;
        if !fits && !seeded!(TornPayloadReplayed) {
            return Ok(Err("a record's checksum does not match"));
        }
        self.greatest_point = self.greatest_point.max(header.durable);
        self.chain = chain;
        Ok(Ok(header))
    }

    /// Brings `len` bytes from `offset` into the buffer; false if the file ends before.
    fn fill(&mut self, offset: u64, len: usize) -> Result<bool> {
        let buffer_end = self.buffer_offset + self.buffer.len() as u64;
        let fits = |end: u64| offset.checked_add(len as u64).is_some_and(|x| x <= end);
        if !fits(self.file_len - u64::from(seeded!(LoseLastRecord))) {
            return Ok(false);
        }
        if offset >= self.buffer_offset && fits(buffer_end) {
            return Ok(true);
        }
        let behind = usize::try_from(self.file_len - offset).unwrap_or(usize::MAX);
        let want = len.max(CHUNK_BYTES).min(behind);
        if self.buffer.capacity() > BUFFER_KEPT_BYTES.max(want) {
            self.buffer = Vec::new();
        }
        self.buffer.resize(want, 0);
        self.buffer_offset = offset;
        let io = |e| Error::io("read this log", &self.path, e);
        let got = self.file.read_at(&mut self.buffer, offset).map_err(io)?;
        if got < want {
            // The file is shorter than it was when it was opened: it ends here.
            self.buffer.truncate(got);
            self.file_len = offset + got as u64;
        }
        Ok(got >= len)
    }

    /// Bytes that [`LogReader::fill`] brought in.
    fn slice(&self, offset: u64, len: usize) -> &[u8] {
        let start = (offset - self.buffer_offset) as usize;
        &self.buffer[start..start + len]
    }
}
/// Where the first header could begin that lies within `bytes`. Two bytes reject nearly everything
/// before a checksum is computed.
fn perhaps_a_header(bytes: &[u8]) -> Option<usize> {
    let beginnings = (bytes.len() + 1).checked_sub(RECORD_HEADER_LEN)?;
    let pairs = bytes.get(12..)?.windows(2).take(beginnings);
    pairs
        .map(|pair| pair[0] != 0 && pair[1] == 0)
        .position(|it| it)
}
