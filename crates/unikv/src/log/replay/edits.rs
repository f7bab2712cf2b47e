//! How many edits of the manifest the log knows of: a manifest with fewer has lost some.
//!
//! No locks; nothing is written.

use super::segments::read_beginning;
use crate::base::keys::FileNumber;
use crate::error::{ErrorKind, Result};
use crate::log::wal::{KIND_EDITS, decode_edits};
use crate::log::{LogItem, LogReader};
use crate::vfs::file_store::FileStore;

/// The greatest number of manifest edits that the segments name. Cheap: reads their beginnings
/// only, so that a manifest which lost edits can be named before anything it misplaces is. What is
/// wrong with a segment is not judged here: those below the low-water mark are not needed.
pub(crate) fn max_manifest_edits(store: &FileStore, segments: &[FileNumber]) -> Result<u64> {
    let mut most = 0;
    for &number in segments {
        match read_beginning(store, number) {
            Ok(segment) => {
                let begins = segment.begins();
                most = most.max(begins.map_or(0, |(_, start)| start.manifest_edits));
            }
            Err(error) if error.kind() == ErrorKind::Corruption => {}
            Err(error) => return Err(error),
        }
    }
    Ok(most)
}

/// The greatest number in any record of the segments that verifies, also behind damage. Reads all
/// of them.
pub(crate) fn manifest_edits_anywhere(store: &FileStore, segments: &[FileNumber]) -> Result<u64> {
    let mut most = max_manifest_edits(store, segments)?;
    for &number in segments {
        let segment = match read_beginning(store, number) {
            Err(error) if error.kind() == ErrorKind::Corruption => continue,
            segment => segment?,
        };
        let Some((uid, _)) = segment.begins() else {
            continue;
        };
        let vfs = &*store.env().vfs;
        let mut reader = LogReader::open_headless(vfs, &segment.path, number, uid)?;
        loop {
            match reader.next()? {
                LogItem::Record {
                    kind: KIND_EDITS,
                    payload,
                    ..
                } => most = most.max(decode_edits(payload).unwrap_or(0)),
                LogItem::Record { .. } => {}
                LogItem::Bad { .. } => {
                    if !reader.resync()? {
                        break;
                    }
                }
                LogItem::End { .. } => break,
            }
        }
    }
    Ok(most)
}
