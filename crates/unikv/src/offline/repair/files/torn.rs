//! Whether a manifest has lost edits although it ends at the border of a record, where nothing in
//! it shows that: the files are ahead of it then.
//!
//! A merge that was committed has removed its inputs, and a flush the log before it. So what is
//! listed, or linked, is not there, and beside it stands a file that is whole and has a number that
//! was not given yet when the last edit was written. A job that a crash has ended before its commit
//! leaves such a file, too, but has removed nothing.
//!
//! No locks; nothing is written.

use super::header::{Header, header_of};
use crate::base::file_header::{FileKind, RawHeader};
use crate::base::file_names;
use crate::base::keys::FileNumber;
use crate::error::{Error, Result};
use crate::key_table::FileFacts;
use crate::key_table::block::walk::facts;
use crate::log::replay;
use crate::version::Version;
use crate::version::file_names::{DirSurvey, FileName};
use crate::vfs::Access;
use crate::vfs::file_store::FileStore;
use std::collections::HashSet;
use std::sync::Arc;

/// Whether edits after those of `version` are missing, as far as files and log show that.
pub(super) fn lacks_edits(
    store: &Arc<FileStore>,
    version: &Version,
    survey: &DirSurvey,
    segments: &[FileNumber],
) -> Result<bool> {
    let next = FileNumber(version.counters.next_file);
    let newer = survey.names.iter().filter_map(|name| match *name {
        FileName::Record(number) if number >= next => Some((FileKind::Record, number)),
        FileName::KeyTable(number) if number >= next => Some((FileKind::KeyTable, number)),
        _ => None,
    });
    let newer: Vec<(FileKind, FileNumber)> = newer.collect();
    if newer.is_empty() {
        return Ok(false);
    }
    let lacks_file = lacks_file(version, survey);
    let low_water = version.counters.wal_low_water;
    if !lacks_file && !replay::lacks_segment(store, segments, low_water)? {
        return Ok(false);
    }
    let flushed = version.counters.flushed_seq;
    for (kind, number) in newer {
        // Without a word of its own, a file may be half of what a job was about to write.
        let Some(facts) = facts_of(store, kind, number)? else {
            continue;
        };
        let is_table = kind == FileKind::Record && facts.has_key_section;
        if lacks_file || is_table && facts.properties.max_seq() > flushed {
            return Ok(true);
        }
    }
    Ok(false)
}

/// Whether a file that is listed is not there. Scan runs are derived, and may go.
fn lacks_file(version: &Version, survey: &DirSurvey) -> bool {
    let there: HashSet<&FileName> = survey.names.iter().collect();
    let records = version.record_files().iter();
    let records = records.map(|file| FileName::Record(file.meta().number));
    let tables = version.key_tables();
    let mut listed = records.chain(tables.map(|table| FileName::KeyTable(table.meta().number)));
    listed.any(|name| !there.contains(&name))
}

/// What a file of this database says of itself, if it is whole as far as that shows.
fn facts_of(
    store: &Arc<FileStore>,
    kind: FileKind,
    number: FileNumber,
) -> Result<Option<FileFacts>> {
    let path = store.dir().join(match kind {
        FileKind::KeyTable => file_names::key_table(number),
        _ => file_names::record(number),
    });
    let header = header_of(store.env(), &path)?.filter(Header::is_whole);
    let is_it = |raw: &RawHeader| {
        raw.database == store.database() && (raw.kind, raw.number) == (kind as u8, number)
    };
    let Some(raw) = header.map(|header| header.raw).filter(is_it) else {
        return Ok(None);
    };
    let len = store.env().vfs.len(&path);
    let len = len.map_err(|e| Error::io("look at", &path, e))?;
    let file = Arc::new(store.data_file(path, number, raw.uid, Access::Sequential));
    Ok(facts(&file, len).ok())
}
