//! Logs: one framing of records for the write-ahead log and the manifest, the segments of the
//! write-ahead log, and its replay.
//!
//! A log file is a [file header](crate::base::file_header) followed by records without gaps. See
//! `docs/format.md`, "Log framing". A record is a 24-byte header and a payload:
//!
//! ```text
//!  0  header checksum   4  of bytes 4..24, bound to (file uid, offset of the record)
//!  4  payload checksum  4  bound to (file uid, offset of the payload)
//!  8  payload length    4
//! 12  kind              1  never 0, so zeros are no record
//! 13  reserved          1  zero
//! 14  durable lag       2  the mark's file number = this file's number - lag
//! 16  durable offset    8  the mark's offset; zero = no claim
//! 24  payload
//! ```
//!
//! A log may be written over an old one that nobody needs any more ([`LogWriter::recycle`]). Then a
//! record of kind [`KIND_END`] without payload stands after the last one, written with it and
//! written over by the next: *the log ends here, what follows are remains*.
//!
//! # Invariants
//! - A log file is only ever appended to, by the one writer that began it, from its file header on.
//!   Recovery reads it and leaves it as it is.
//! - A log is written over only once it is below the durable low-water mark, and under a number and
//!   a uid of its own. So no record in it is both ours and of former use.
//! - *The durable mark* ([`DurableMark`]): when the record was written, every byte below the mark
//!   was known to be durable, in the mark's file and in all files before it in the chain. Writers
//!   may be late in claiming, never early.
//! - Checksums are bound to the random uid of the file and to the offset. Bytes from an older file
//!   in recycled blocks, from a copy of another file, or from a value that looks like a record do
//!   not verify.
//! - *The chain* is the running CRC-32C over the 24-byte headers of all records from the front of a
//!   file; through the payload checksums it stands for every byte. A successor's link names it.
//!
//! [`replay`] says how the tail of a log is judged.

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

/// The kind of record that ends a log that was written over an old one.
pub(crate) const KIND_END: u8 = 4;

/// Length of the header before each record.
pub(crate) const RECORD_HEADER_LEN: usize = 24;

/// No log is as long. A search for records through garbage trusts a mark by its header alone, so
/// what a header may say is kept narrow.
const MAX_LOG_LEN: u64 = 1 << 48;

/// A place below which everything was durable, in its file and in all files before.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct DurableMark {
    pub(crate) file: FileNumber,
    /// Never zero.
    pub(crate) offset: u64,
}

impl DurableMark {
    /// Whether the byte at `offset` of `file` was durable.
    pub(crate) fn covers(self, file: FileNumber, offset: u64) -> bool {
        (self.file, self.offset) > (file, offset)
    }
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
    durable: Option<DurableMark>,
}

impl RecordHeader {
    /// The header's bytes for a record at `offset` of the file (`number`, `uid`).
    fn encode(&self, number: FileNumber, uid: FileUid, offset: u64) -> [u8; RECORD_HEADER_LEN] {
        // A mark too far behind for the lag's 16 bits is left out: not to claim is always right.
        let lag = |mark: &DurableMark| {
            let lag = number.0.checked_sub(mark.file.0)?;
            Some((u16::try_from(lag).ok()?, mark.offset))
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
            return Err("a record's durable mark is impossible");
        };
        Ok(RecordHeader {
            payload_crc,
            payload_len,
            kind,
            durable: (durable_offset != 0).then_some(DurableMark {
                file,
                offset: durable_offset,
            }),
        })
    }
}

#[cfg(test)]
mod tests;
