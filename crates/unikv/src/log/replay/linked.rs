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
    pub(crate) fn last_write(&self, store: &FileStore) -> Result<Option<SeqNo>> {
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
/// those that recovery does not need. `is_there` says which files there are. True: the oldest has
/// none before it.
pub(crate) fn linked_before(
    store: &FileStore,
    last: SegmentEnd,
    is_there: impl Fn(FileNumber) -> bool,
) -> Result<(Vec<Linked>, bool)> {
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
        let prev = start.prev;
        if segment.len < end.end {
            break;
        }
        found.push(Linked {
            first: first_write(store, &segment.path, end)?,
            path: segment.path,
            end,
        });
        next = prev.filter(|prev| prev.number < end.number);
        if prev.is_none() {
            return Ok((found, true));
        }
    }
    Ok((found, false))
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
