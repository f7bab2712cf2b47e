//! The records of a segment of the write-ahead log, and of a manifest.

use super::{Part, Walk, edits, key_text};
use crate::base::file_header::{FileKind, RawHeader};
use crate::base::keys::Kind;
use crate::error::{Error, Result};
use crate::log::wal::SegmentStart;
use crate::log::wal::{self, BadPayload, KIND_EDITS, KIND_POINT, KIND_START, KIND_WRITE};
use crate::log::{DurablePoint, LogItem, LogReader, RECORD_HEADER_LEN, WalWrite};
use crate::memtable::OpsIter;
use crate::version::edit::VersionEdit;
use crate::version::manifest;
use crate::vfs::Access;
use std::path::Path;

/// How much is read at a time of what may be unused.
const ZEROS_BYTES: usize = 256 << 10;

/// What one step of the reader found, free of its buffer.
enum Step {
    Parts(Vec<Part>),
    Bad(u64, &'static str),
    End,
}

impl Walk<'_> {
    pub(super) fn log(&mut self, raw: Option<&RawHeader>) -> Result<()> {
        let vfs = &*self.env.vfs;
        let mut log = match (LogReader::open(vfs, self.path, self.kind, None), raw) {
            (Ok(log), _) => log,
            // Its header has been shown as damaged; what it says of number and uid may still be
            // true.
            (Err(_), Some(raw)) => LogReader::open_headless(vfs, self.path, raw.number, raw.uid)?,
            (Err(error), None) => {
                self.show(&Part::new("log", 0, self.len).faulty(error));
                return Ok(());
            }
        };
        loop {
            match step(&mut log, self.kind, self.path)? {
                Step::Parts(parts) => parts.iter().for_each(|part| self.show(part)),
                Step::End => {
                    self.remains(log.offset());
                    return Ok(());
                }
                Step::Bad(offset, reason) => {
                    let goes_on = log.resync()?;
                    let len = log.offset() - offset;
                    if !goes_on && self.is_zero(offset)? {
                        // The length reached the disk, and the bytes did not.
                        self.show(&Part::new("unused", offset, len));
                    } else {
                        self.show(&Part::new("no record", offset, len).faulty(reason));
                    }
                }
            }
        }
    }
}

impl Walk<'_> {
    /// What stands after the last record, at `offset`, of a log that is written over an old one.
    fn remains(&mut self, offset: u64) {
        let behind = offset + RECORD_HEADER_LEN as u64;
        if behind <= self.len {
            let end = Part::new("end", offset, behind - offset);
            self.show(&end.field("checksum", "right"));
        }
        if behind < self.len {
            self.show(&Part::new("unused", behind, self.len - behind));
        }
    }

    /// Whether there are only zeros from `offset` on.
    fn is_zero(&self, mut offset: u64) -> Result<bool> {
        let io = |e| Error::io("read this file", self.path, e);
        let file = self
            .env
            .vfs
            .open(self.path, Access::Sequential)
            .map_err(io)?;
        let mut bytes = vec![0; ZEROS_BYTES];
        loop {
            let got = file.read_at(&mut bytes, offset).map_err(io)?;
            let read = bytes.get(..got).unwrap_or_default();
            if got == 0 || read.iter().any(|&byte| byte != 0) {
                return Ok(got == 0);
            }
            offset += got as u64;
        }
    }
}

fn step(log: &mut LogReader, file_kind: FileKind, path: &Path) -> Result<Step> {
    Ok(match log.next()? {
        LogItem::Record {
            offset,
            end,
            kind,
            durable,
            payload,
        } => {
            let what = record_name(file_kind, kind);
            let part = Part::new(what, offset, end - offset).field("checksum", "right");
            let part = with_point(part, durable);
            Step::Parts(match file_kind {
                FileKind::Wal => wal_record(part, kind, payload),
                _ => manifest_record(part, kind, payload, path),
            })
        }
        LogItem::End { .. } => Step::End,
        LogItem::Bad { offset, reason } => Step::Bad(offset, reason),
    })
}

fn record_name(file_kind: FileKind, kind: u8) -> &'static str {
    match (file_kind, kind) {
        (FileKind::Wal, KIND_START) => "segment start",
        (FileKind::Wal, KIND_WRITE) => "write",
        (FileKind::Wal, KIND_POINT) => "durable point",
        (FileKind::Wal, KIND_EDITS) => "edits",
        (FileKind::Manifest, manifest::KIND_EDIT) => "edit",
        (FileKind::Manifest, manifest::KIND_POINT) => "durable point",
        _ => "record of an unknown kind",
    }
}

fn with_point(part: Part, durable: Option<DurablePoint>) -> Part {
    match durable {
        None => part,
        Some(point) => part.field(
            "durable",
            format!("file {} up to {}", point.file.0, point.offset),
        ),
    }
}

fn wal_record(part: Part, kind: u8, payload: &[u8]) -> Vec<Part> {
    let bad = |part: Part, bad| match bad {
        BadPayload::Malformed(what) => vec![part.faulty(what)],
        BadPayload::Unknown(what) => vec![part.faulty(what)],
    };
    match kind {
        KIND_START => match SegmentStart::decode(payload) {
            Ok(start) => {
                let part = part.field("manifest edits", start.manifest_edits);
                vec![match start.prev {
                    None => part.field("predecessor", "none"),
                    Some(prev) => part.field(
                        "predecessor",
                        format!(
                            "{} (uid {:016x}) up to {}, chain {:08x}",
                            prev.number.0, prev.uid.0, prev.end, prev.chain
                        ),
                    ),
                }]
            }
            Err(error) => bad(part, error),
        },
        KIND_WRITE => match WalWrite::decode(payload) {
            Ok(write) => write_parts(part, &write, payload.len()),
            Err(error) => bad(part, error),
        },
        KIND_EDITS => match wal::decode_edits(payload) {
            Ok(edits) => vec![part.field("manifest edits", edits)],
            Err(error) => bad(part, error),
        },
        _ => vec![part],
    }
}

fn write_parts(part: Part, write: &WalWrite<'_>, payload_len: usize) -> Vec<Part> {
    let ops_offset = part.offset + (RECORD_HEADER_LEN + payload_len - write.ops.len()) as u64;
    let mut part = part
        .field("first sequence number", write.base_seq.0)
        .field("operations", write.count);
    if let Some(tag) = write.commit_tag {
        part = part.field("commit tag", format!("{} bytes", tag.len()));
    }
    let mut parts = vec![part];
    for op in OpsIter::new(write.ops) {
        parts.push(match op {
            Ok(op) => {
                // Both are slices of the operations.
                let key_at = op.key.as_ptr() as usize - write.ops.as_ptr() as usize;
                let part = Part::new(
                    "operation",
                    ops_offset + key_at as u64,
                    (op.key.len() + op.value.len()) as u64,
                );
                let part = part.field("kind", format!("{:?}", op.kind).to_lowercase());
                let part = match op.kind {
                    Kind::RangeDelete => part
                        .field("from", key_text(op.key))
                        .field("to before", key_text(op.value)),
                    _ => part
                        .field("key", key_text(op.key))
                        .field("value", format!("{} bytes", op.value.len())),
                };
                match op.expiry_ms {
                    None => part.within(),
                    Some(ms) => part.field("expires", ms).within(),
                }
            }
            Err(bad) => {
                let offset = ops_offset + bad.offset as u64;
                Part::new("operation", offset, 0).within().faulty(bad)
            }
        });
    }
    parts
}

fn manifest_record(part: Part, kind: u8, payload: &[u8], path: &Path) -> Vec<Part> {
    if kind != manifest::KIND_EDIT {
        return vec![part];
    }
    match VersionEdit::decode(payload, path, part.offset) {
        Ok(edit) => edits::parts(part, &edit),
        Err(error) => vec![part.faulty(error)],
    }
}
