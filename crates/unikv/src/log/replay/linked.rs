//! The segments that link to one another back from the end of the log, those that recovery does not
//! need among them: what a change window is found by.
//!
//! Each is read up to the end that its successor names. No locks; nothing is written.

use super::segments::read_beginning;
use crate::base::file_header::HEADER_LEN;
use crate::base::keys::{FileNumber, SeqNo};
use crate::error::{Error, ErrorKind, Result};
use crate::log::wal::{KIND_WRITE, SegmentEnd, WalWrite};
use crate::log::{LogItem, LogReader};
use crate::vfs::file_store::FileStore;
use std::path::{Path, PathBuf};

/// A segment with its exact end.
#[derive(Debug)]
pub(crate) struct Linked {
    pub(crate) end: SegmentEnd,
    pub(crate) path: PathBuf,
    /// The number of its first write.
    pub(crate) first: Option<SeqNo>,
}

impl Linked {
    /// The number of its last write; reads all of it. `None`: it has none, or damage is in the way.
    ///
    /// # Errors
    /// It cannot be read.
    fn last_write(&self, store: &FileStore) -> Result<Option<SeqNo>> {
        let mut reader = reader(store, &self.path, self.end)?;
        let mut last = None;
        while let LogItem::Record { kind, payload, .. } = reader.next()? {
            if kind == KIND_WRITE {
                let write = WalWrite::decode(payload).ok();
                last = write.map(|write| write.last_seq()).or(last);
            }
        }
        Ok(last)
    }

    /// Reads all of its records.
    ///
    /// # Errors
    /// Corruption where a record is none, or the segment ends before its end.
    pub(crate) fn verify(&self, store: &FileStore) -> Result<()> {
        let Linked { end, path, .. } = self;
        let mut reader = reader(store, path, *end)?;
        loop {
            match reader.next()? {
                LogItem::Record {
                    kind,
                    payload,
                    offset,
                    ..
                } if kind == KIND_WRITE => {
                    WalWrite::decode(payload).map_err(|bad| bad.at(path, offset))?;
                }
                LogItem::Record { .. } => {}
                LogItem::Bad { offset, reason } => {
                    return Err(Error::corruption(path, offset, reason));
                }
                LogItem::End { offset } if offset < end.end => {
                    return Err(Error::corruption(path, offset, "the log ends early"));
                }
                LogItem::End { .. } => return Ok(()),
            }
        }
    }
}

/// The segments that end with `last`, newest first, as far as the links between them lead: also
/// those that recovery does not need, but none before the one that has the write after `until`.
/// `is_there` says which files there are. Where the oldest has none before it, the edits that were
/// durable when it began.
pub(crate) fn linked_before(
    store: &FileStore,
    last: SegmentEnd,
    until: SeqNo,
    is_there: impl Fn(FileNumber) -> bool,
) -> Result<(Vec<Linked>, Option<u64>)> {
    let (mut found, mut next) = (Vec::new(), Some(last));
    while let Some(end) = next.filter(|end| is_there(end.number)) {
        let segment = match read_beginning(store, end.number) {
            Ok(segment) => segment,
            Err(error) if error.kind() == ErrorKind::Io => return Err(error),
            // What recovery does not need keeps nobody from the data.
            Err(_) => break,
        };
        let Some((_, start)) = segment.begins().filter(|(uid, _)| *uid == end.uid) else {
            break;
        };
        let (prev, edits) = (start.prev, start.manifest_edits);
        if segment.len < end.end {
            break;
        }
        let first = first_write(store, &segment.path, end)?;
        found.push(Linked {
            first,
            path: segment.path,
            end,
        });
        next = prev.filter(|prev| prev.number < end.number);
        if prev.is_none() {
            return Ok((found, Some(edits)));
        }
        if first.is_some_and(|first| first.0 <= until.0 + 1) {
            break;
        }
    }
    Ok((found, None))
}

/// The newest of these segments whose beginning can be read, up to the end of its file. False: a
/// newer one is just being begun.
///
/// # Errors
/// A file cannot be read, or is gone.
pub(crate) fn newest(
    store: &FileStore,
    segments: &[FileNumber],
) -> Result<(Option<SegmentEnd>, bool)> {
    let mut is_settled = true;
    for number in segments.iter().rev() {
        let begins = match read_beginning(store, *number) {
            Ok(segment) => segment.begins().map(|(uid, _)| SegmentEnd {
                number: *number,
                uid,
                end: segment.len,
                chain: 0,
            }),
            // What is being written over has the header of another.
            Err(error) if error.kind() == ErrorKind::Corruption => None,
            Err(error) => return Err(error),
        };
        if begins.is_some() {
            return Ok((begins, is_settled));
        }
        is_settled = false;
    }
    Ok((None, is_settled))
}

/// The last write of these segments; reads those that it takes.
///
/// # Errors
/// One cannot be read.
pub(crate) fn last_logged(store: &FileStore, newest_first: &[Linked]) -> Result<Option<SeqNo>> {
    for linked in newest_first.iter().filter(|it| it.first.is_some()) {
        if let Some(last) = linked.last_write(store)? {
            return Ok(Some(last));
        }
    }
    Ok(None)
}

fn first_write(store: &FileStore, path: &Path, end: SegmentEnd) -> Result<Option<SeqNo>> {
    let mut reader = reader(store, path, end)?;
    while let LogItem::Record { kind, payload, .. } = reader.next()? {
        if kind == KIND_WRITE {
            let write = WalWrite::decode(payload).ok();
            return Ok(write.map(|write| write.base_seq));
        }
    }
    Ok(None)
}

/// Reads a segment from its first record to its end.
fn reader(store: &FileStore, path: &Path, end: SegmentEnd) -> Result<LogReader> {
    let (file, begin) = ((end.number, end.uid), HEADER_LEN as u64);
    let mut reader = LogReader::open_at(&*store.env().vfs, path, file, begin)?;
    reader.read_until(end.end);
    Ok(reader)
}
