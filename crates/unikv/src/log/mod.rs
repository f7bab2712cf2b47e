//! Logs: the framing of records that the write-ahead log and the manifest share, the segments of
//! the write-ahead log, and its replay. See `docs/format.md`, "Log framing".
//!
//! Invariants:
//! - The one writer that began a log file appends to it. Recovery reads it and leaves it as it is.
//! - A log is written over only once it is below the durable low-water mark, under a number and a
//!   uid of its own: no record in it is both ours and of former use.
//! - Everything below a [`DurablePoint`] was durable when its record was written. Writers may be
//!   late in claiming, never early.
//! - Checksums are bound to uid and offset, so stale and foreign bytes do not verify.
//! - The chain, a CRC-32C over all record headers, stands for every byte of a file; links name it.

pub(crate) mod reader;
pub(crate) mod replay;
pub(crate) mod wal;
pub(crate) mod writer;

pub(crate) use reader::{LogItem, LogReader};
pub(crate) use replay::ReplayOutcome;
pub(crate) use replay::live::{LogTail, Wanted};
pub(crate) use wal::{SegmentEnd, WalWrite, WalWriter};
pub(crate) use writer::{LogWriter, covered_until};

use crate::base::checksum;
use crate::base::coding::Decoder;
use crate::base::keys::{FileNumber, FileUid};
use std::path::PathBuf;

/// The kind of record that ends a log that was written over an old one ([`LogWriter::recycle`]). It
/// is written with the records before it and written over by the next: what follows are remains.
pub(crate) const KIND_END: u8 = 4;

/// Length of the header before each record.
pub(crate) const RECORD_HEADER_LEN: usize = 24;

/// No log is as long. A search for records through garbage trusts a durable point by its header
/// alone, so what a header may say is kept narrow.
const MAX_LOG_LEN: u64 = 1 << 48;

/// A place below which everything was durable, in its file and in all files before.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct DurablePoint {
    pub(crate) file: FileNumber,
    /// Never zero.
    pub(crate) offset: u64,
}

impl DurablePoint {
    /// Whether the byte at `offset` of `file` was durable.
    pub(crate) fn covers(self, file: FileNumber, offset: u64) -> bool {
        (self.file, self.offset) > (file, offset)
    }
}

/// A segment of the log that was durable up to a durable point.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct DurableSegment {
    pub(crate) point: DurablePoint,
    /// Of the file that the durable point is in.
    pub(crate) uid: FileUid,
}

/// What recovery cut off the end of a log: bytes that were never known to be durable.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct TailCut {
    /// The file in which the log now ends.
    pub path: PathBuf,
    /// Where it ends.
    pub offset: u64,
    /// How many bytes were ignored, in that file and in those that followed it. What is left of an
    /// older segment counts, where the log was written over one.
    pub bytes: u64,
    /// What was found there.
    pub reason: String,
}

/// The decoded header of a record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct RecordHeader {
    payload_crc: u32,
    payload_len: u32,
    kind: u8,
    durable: Option<DurablePoint>,
}

impl RecordHeader {
    /// The header's bytes for a record at `offset` of the file (`number`, `uid`).
    fn encode(&self, number: FileNumber, uid: FileUid, offset: u64) -> [u8; RECORD_HEADER_LEN] {
        // A durable point too far behind for the lag's 16 bits is left out: not to claim is always
        // right.
        let lag = |point: &DurablePoint| {
            let lag = number.0.checked_sub(point.file.0)?;
            Some((u16::try_from(lag).ok()?, point.offset))
        };
        let (lag, durable_offset) = self.durable.as_ref().and_then(lag).unwrap_or((0, 0));
        let mut out = [0; RECORD_HEADER_LEN];
        out[4..8].copy_from_slice(&self.payload_crc.to_le_bytes());
        out[8..12].copy_from_slice(&self.payload_len.to_le_bytes());
        out[12] = self.kind;
        out[14..16].copy_from_slice(&lag.to_le_bytes());
        out[16..24].copy_from_slice(&durable_offset.to_le_bytes());
        let crc = checksum::bound(uid, offset, &out[4..]);
        out[..4].copy_from_slice(&crc.to_le_bytes());
        out
    }

    /// Decodes and checks a header; the error says what is wrong.
    fn decode(
        bytes: &[u8],
        number: FileNumber,
        uid: FileUid,
        offset: u64,
    ) -> Result<RecordHeader, &'static str> {
        let short = "a record header is cut short";
        let mut d = Decoder::new(bytes);
        let header_crc = d.u32().ok_or(short)?;
        let payload_crc = d.u32().ok_or(short)?;
        let payload_len = d.u32().ok_or(short)?;
        let [kind, reserved] = d.array().ok_or(short)?;
        let lag = d.u16().ok_or(short)?;
        let durable_offset = d.u64().ok_or(short)?;
        if kind == 0 || reserved != 0 {
            let zeros = bytes.iter().all(|&byte| byte == 0);
            return Err(if zeros {
                "zeros where a record should begin"
            } else {
                "no record begins here"
            });
        }
        let covered = bytes.get(4..RECORD_HEADER_LEN).ok_or(short)?;
        if header_crc != checksum::bound(uid, offset, covered) {
            return Err("a record header's checksum does not match");
        }
        let file = number.0.checked_sub(u64::from(lag)).map(FileNumber);
        let longest = if lag == 0 { offset } else { MAX_LOG_LEN };
        let impossible = durable_offset > longest;
        let Some(file) = file.filter(|_| !impossible) else {
            return Err("a record's durable point is impossible");
        };
        Ok(RecordHeader {
            payload_crc,
            payload_len,
            kind,
            durable: (durable_offset != 0).then_some(DurablePoint {
                file,
                offset: durable_offset,
            }),
        })
    }
}

#[cfg(test)]
mod tests;
