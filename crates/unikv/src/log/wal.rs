//! The segments of the write-ahead log: their records and their writer. See `docs/format.md`,
//! "WAL".
//!
//! A segment `NNNNNN.wal` is a log whose first record names its predecessor and where that one
//! ended ([`SegmentStart`]); others are writes ([`WalWrite`]), durable points, and counts of edits.
//!
//! # Invariants
//! - A write is one record in one segment: it is replayed whole or not at all.
//! - The link is written when the predecessor will never grow again, and its end lies after the
//!   last record that was written without an error.
//!
//! One owner, no locks.

use super::{DurablePoint, LogWriter};
use crate::base::coding::Decoder;
use crate::base::file_header::FileKind;
use crate::base::file_names;
use crate::base::keys::{FileNumber, FileUid, SeqNo};
use crate::error::{Error, Result};
use crate::vfs::SyncFile;
use crate::vfs::file_store::FileStore;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// The kinds of record in a segment.
pub(crate) const KIND_START: u8 = 1;
pub(crate) const KIND_WRITE: u8 = 2;
pub(crate) const KIND_POINT: u8 = 3;
// 4 is the end of a log: see [`super::KIND_END`].
pub(crate) const KIND_EDITS: u8 = 5;

const START_HAS_PREV: u8 = 1;
const WRITE_HAS_COMMIT_TAG: u8 = 1;

/// Base sequence number, count, flags.
const WRITE_PREFIX_LEN: usize = 8 + 4 + 1;

/// Payloads larger than this are not copied into the staging buffer.
const LARGE_BYTES: usize = 1 << 20;

/// The exact end of a segment: what its successor links to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct SegmentEnd {
    pub(crate) number: FileNumber,
    pub(crate) uid: FileUid,
    pub(crate) end: u64,
    pub(crate) chain: u32,
}

/// Why the payload of a record that verified was not understood.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum BadPayload {
    /// It is not what this format says.
    Malformed(&'static str),
    /// It is of a later format.
    Unknown(String),
}

impl BadPayload {
    /// Of a record of a kind that this version does not know.
    pub(crate) fn of_kind(kind: u8) -> BadPayload {
        BadPayload::Unknown(format!("log record kind {kind} is unknown"))
    }

    /// The error for the record at `offset` of `path`. Its checksums match, so it is no torn write,
    /// and is never cut.
    pub(crate) fn at(self, path: &Path, offset: u64) -> Error {
        match self {
            BadPayload::Malformed(what) => Error::corruption(path, offset, what),
            BadPayload::Unknown(what) => {
                Error::incompatible(path, what, "open it with the newer release that wrote it")
            }
        }
    }
}

/// The first record of a segment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct SegmentStart {
    pub(crate) prev: Option<SegmentEnd>,
    /// How many edits the manifest had, durably, when the segment began.
    pub(crate) manifest_edits: u64,
}

impl SegmentStart {
    pub(crate) fn encode(&self) -> Vec<u8> {
        let mut out = Vec::with_capacity(37);
        out.push(if self.prev.is_some() {
            START_HAS_PREV
        } else {
            0
        });
        out.extend_from_slice(&self.manifest_edits.to_le_bytes());
        if let Some(prev) = &self.prev {
            out.extend_from_slice(&prev.number.0.to_le_bytes());
            out.extend_from_slice(&prev.uid.0.to_le_bytes());
            out.extend_from_slice(&prev.end.to_le_bytes());
            out.extend_from_slice(&prev.chain.to_le_bytes());
        }
        out
    }

    pub(crate) fn decode(payload: &[u8]) -> std::result::Result<SegmentStart, BadPayload> {
        let short = BadPayload::Malformed("a segment's first record is too short");
        let mut d = Decoder::new(payload);
        let flags = d.u8().ok_or(short.clone())?;
        if flags & !START_HAS_PREV != 0 {
            let what = format!("segment flags {flags:#x} are unknown");
            return Err(BadPayload::Unknown(what));
        }
        let manifest_edits = d.u64().ok_or(short.clone())?;
        let mut prev = || {
            Some(SegmentEnd {
                number: FileNumber(d.u64()?),
                uid: FileUid(d.u64()?),
                end: d.u64()?,
                chain: d.u32()?,
            })
        };
        let prev = match flags & START_HAS_PREV {
            0 => None,
            _ => Some(prev().ok_or(short)?),
        };
        if !d.is_empty() {
            return Err(BadPayload::Malformed(
                "a segment's first record is too long",
            ));
        }
        Ok(SegmentStart {
            prev,
            manifest_edits,
        })
    }
}

/// The payload of a write: `count` operations from `base_seq` on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct WalWrite<'a> {
    pub(crate) base_seq: SeqNo,
    pub(crate) count: u32,
    /// Opaque bytes of a host, committed with the write.
    pub(crate) commit_tag: Option<&'a [u8]>,
    /// The operations, encoded by `memtable`.
    pub(crate) ops: &'a [u8],
}

impl<'a> WalWrite<'a> {
    pub(crate) fn decode(payload: &'a [u8]) -> std::result::Result<WalWrite<'a>, BadPayload> {
        let short = BadPayload::Malformed("a write record is too short");
        let mut d = Decoder::new(payload);
        let base_seq = SeqNo(d.u64().ok_or(short.clone())?);
        let count = d.u32().ok_or(short.clone())?;
        let flags = d.u8().ok_or(short.clone())?;
        if flags & !WRITE_HAS_COMMIT_TAG != 0 {
            let what = format!("write flags {flags:#x} are unknown");
            return Err(BadPayload::Unknown(what));
        }
        let mut commit_tag = None;
        if flags & WRITE_HAS_COMMIT_TAG != 0 {
            let len = d.u32().ok_or(short.clone())?;
            commit_tag = Some(d.bytes(len as usize).ok_or(short.clone())?);
        }
        if last_of(base_seq, count).is_none_or(|last| last > SeqNo::MAX) {
            return Err(BadPayload::Malformed("a sequence number is out of range"));
        }
        Ok(WalWrite {
            base_seq,
            count,
            commit_tag,
            ops: d.bytes(d.remaining()).ok_or(short)?,
        })
    }

    /// The sequence number of the last operation. A write without operations, which only carries a
    /// commit tag, takes one number.
    pub(crate) fn last_seq(&self) -> SeqNo {
        last_of(self.base_seq, self.count).unwrap_or(SeqNo::MAX)
    }

    /// Refuses a write of the segment at `path` that says another number than the operations it
    /// holds.
    pub(crate) fn check_count(&self, holds: u64, path: impl FnOnce() -> PathBuf) -> Result<()> {
        if holds == u64::from(self.count) {
            return Ok(());
        }
        let says = self.count;
        let what = format!("a record holds {holds} operations and says {says}");
        Err(Error::corruption(&path(), 0, what))
    }

    /// What stands before the operations.
    #[cfg(any(test, fuzzing))]
    pub(crate) fn prefix(&self) -> Vec<u8> {
        let mut prefix = Vec::new();
        self.encode_prefix(&mut prefix);
        prefix
    }

    /// Replaces what is in `out` by what stands before the operations.
    fn encode_prefix(&self, out: &mut Vec<u8>) {
        out.clear();
        out.extend_from_slice(&self.base_seq.0.to_le_bytes());
        out.extend_from_slice(&self.count.to_le_bytes());
        match self.commit_tag {
            None => out.push(0),
            Some(commit_tag) => {
                out.push(WRITE_HAS_COMMIT_TAG);
                out.extend_from_slice(&(commit_tag.len() as u32).to_le_bytes());
                out.extend_from_slice(commit_tag);
            }
        }
    }
}

/// The number of edits that a record of [`KIND_EDITS`] says.
pub(crate) fn decode_edits(payload: &[u8]) -> std::result::Result<u64, BadPayload> {
    let bytes = payload.try_into();
    let bytes = bytes.map_err(|_| BadPayload::Malformed("a count of edits is not 8 bytes long"))?;
    Ok(u64::from_le_bytes(bytes))
}

fn last_of(base_seq: SeqNo, count: u32) -> Option<SeqNo> {
    let last = base_seq.0.checked_add(u64::from(count.saturating_sub(1)))?;
    Some(SeqNo(last))
}

/// Appends to one segment.
#[derive(Debug)]
pub(crate) struct WalWriter {
    log: LogWriter,
    /// Room for what stands before the operations of a write.
    prefix: Vec<u8>,
}

impl WalWriter {
    /// Begins segment `number`, which goes on where `prev` ended: in the place of `spare`, which is
    /// below the durable low-water mark, if that can be opened for it, or as a new file. The first
    /// segment of a chain is the one that the low-water mark may name, so its name is durable when
    /// this returns.
    ///
    /// No blocks are reserved for a new file. A file system that has to read first which are free
    /// would make the writer wait behind what is being flushed; written to a page, it chooses them
    /// later.
    ///
    /// After an error nothing more may be appended to the predecessor: see [`super::replay`]. A
    /// file that was made for the segment is gone then; the spare stays where it was.
    pub(crate) fn create(
        store: &FileStore,
        number: FileNumber,
        prev: Option<SegmentEnd>,
        manifest_edits: u64,
        durable: Option<DurablePoint>,
        spare: Option<&Path>,
    ) -> Result<WalWriter> {
        let path = store.dir().join(file_names::wal(number));
        let start = SegmentStart {
            prev,
            manifest_edits,
        };
        let begin = |mut log: LogWriter| {
            log.stage(KIND_START, &[&start.encode()], durable);
            log.write_staged().map(|()| log)
        };
        let remove = |path: &Path| drop(store.env().vfs.remove(path));
        let recycle = |old| LogWriter::recycle(store, old, FileKind::Wal, number).ok();
        let log = match spare.and_then(recycle) {
            Some(log) => {
                let mut log = begin(log)?;
                log.take_name(store, path.clone())?;
                log
            }
            None => {
                let log = LogWriter::create(store, path.clone(), FileKind::Wal, number)?;
                begin(log).inspect_err(|_| remove(&path))?
            }
        };
        if prev.is_none() {
            let named = store.sync_directory();
            named.inspect_err(|_| remove(log.path()))?;
        }
        Ok(WalWriter {
            log,
            prefix: Vec::with_capacity(WRITE_PREFIX_LEN),
        })
    }

    /// Frames a write.
    pub(crate) fn stage(&mut self, write: &WalWrite<'_>, durable: Option<DurablePoint>) {
        write.encode_prefix(&mut self.prefix);
        let parts = [self.prefix.as_slice(), write.ops];
        self.log.stage(KIND_WRITE, &parts, durable);
    }

    /// Writes one write at once, after what is staged. For large ones: `ops` is not copied.
    pub(crate) fn write_large(
        &mut self,
        write: &WalWrite<'_>,
        durable: Option<DurablePoint>,
    ) -> Result<()> {
        write.encode_prefix(&mut self.prefix);
        let parts = [self.prefix.as_slice(), write.ops];
        self.log.write_large(KIND_WRITE, &parts, durable)
    }

    /// Whether `ops` should go through [`WalWriter::write_large`].
    pub(crate) fn is_large(ops: &[u8]) -> bool {
        ops.len() > LARGE_BYTES
    }

    /// Frames a record that only carries the durable point.
    pub(crate) fn stage_point(&mut self, durable: DurablePoint) {
        self.log.stage(KIND_POINT, &[], Some(durable));
    }

    /// Frames a record which says that the manifest has this many edits, durably.
    pub(crate) fn stage_edits(&mut self, edits: u64) {
        self.log.stage(KIND_EDITS, &[&edits.to_le_bytes()], None);
    }

    /// Writes everything staged in one append; see [`LogWriter::write_staged`].
    pub(crate) fn write_staged(&mut self) -> Result<()> {
        self.log.write_staged()
    }

    /// Where the written segment ends.
    pub(crate) fn end(&self) -> u64 {
        self.log.end()
    }

    /// The end that the next segment links to.
    pub(crate) fn segment_end(&self) -> SegmentEnd {
        SegmentEnd {
            number: self.log.number(),
            uid: self.log.uid(),
            end: self.log.end(),
            chain: self.log.chain(),
        }
    }

    /// Whether it is written over a spare.
    pub(crate) fn is_recycled(&self) -> bool {
        self.log.is_recycled()
    }

    /// A handle for making the segment durable, usable beside the writer.
    pub(crate) fn sync_handle(&self) -> Arc<dyn SyncFile> {
        self.log.sync_handle()
    }

    /// The segment's path.
    pub(crate) fn path(&self) -> &Path {
        self.log.path()
    }
}
