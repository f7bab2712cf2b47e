//! How many edits of the manifest the log knows of: a manifest with fewer has lost some.
//!
//! No locks; nothing is written.

use super::segments::{each_sound, undamaged};
use crate::base::keys::FileNumber;
use crate::error::Result;
use crate::log::LogReader;
use crate::log::wal::{KIND_EDITS, decode_edits};
use crate::vfs::file_store::FileStore;

/// The greatest number of manifest edits that the segments name. Cheap: reads their beginnings
/// only, so that a manifest which lost edits can be named before anything it misplaces is. Damage
/// of a segment is not judged here: those below the low-water mark are not needed.
pub(crate) fn max_manifest_edits(store: &FileStore, segments: &[FileNumber]) -> Result<u64> {
    let mut most = 0;
    for segment in undamaged(store, segments) {
        let segment = segment?;
        let begins = segment.begins();
        most = most.max(begins.map_or(0, |(_, start)| start.manifest_edits));
    }
    Ok(most)
}

/// The greatest number in any record of the segments that verifies, also behind damage. Reads all
/// of them.
pub(crate) fn manifest_edits_anywhere(store: &FileStore, segments: &[FileNumber]) -> Result<u64> {
    let (vfs, mut most) = (&*store.env().vfs, 0);
    for segment in undamaged(store, segments) {
        let segment = segment?;
        let Some((uid, start)) = segment.begins() else {
            continue;
        };
        most = most.max(start.manifest_edits);
        let mut reader = LogReader::open_headless(vfs, &segment.path, segment.number, uid)?;
        each_sound(&mut reader, |_, kind, payload| {
            if kind == KIND_EDITS {
                most = most.max(decode_edits(payload).unwrap_or(0));
            }
            Ok(())
        })?;
    }
    Ok(most)
}
