//! Choosing what is clustered while writers are idle: files as flushes wrote them, oldest first.
//!
//! A flush writes the values of all keys that came meanwhile, so a range that many flushes have
//! touched has its values in as many files. Such files are moved like victims of garbage
//! collection: one pass over a partition writes what lives in them again, in key order
//! ([`super::merge`]), and when each partition has had its pass, they are dropped. So a value is
//! copied once, and never again for scans alone; the files that a pass writes have no key section,
//! by which they are distinguished from those of flushes.
//!
//! What is copied lies on the disk twice until the last partition is through. So as much is chosen
//! at a time as there may be garbage; and because the oldest come first, a group that some
//! partitions have left behind is what the next pass goes on with.

use crate::base::keys::FileNumber;
use crate::jobs::space::garbage::record_bytes;
use crate::key_table::{KeyTable, RecordFileRefs, STREAMED_BYTES};
use crate::record::RecordFile;
use crate::version::Version;
use std::collections::HashMap;
use std::sync::Arc;

/// In this many files the values of a key table may stay: to copy them would save a scan little.
pub(crate) const FEW_FILES: usize = 3;

/// More than garbage collection takes at a time: each pass writes the keys of a partition again.
const MOST_FILES: usize = 1 << 10;

/// Files to be clustered together, in which at most `most_bytes` live. None: neighbours lie
/// together, or what does not is less than the key tables that a pass would write again.
pub(crate) fn choose(version: &Version, most_bytes: u64) -> Vec<Arc<RecordFile>> {
    let apart = apart(version);
    let live = version.live();
    let live = |file: FileNumber| live.get(&file).map_or(0, |live| live.bytes);
    // A file of which little is fragmented is one of a load in key order.
    let mut files: Vec<_> = apart
        .into_iter()
        .filter(|(file, apart)| *apart >= live(*file) / 2)
        .filter_map(|(file, _)| version.record_file(file))
        .collect();
    files.sort_unstable_by_key(|file| file.meta().number);
    let mut bytes = 0;
    let mut fits = |file: &Arc<RecordFile>| {
        bytes += live(file.meta().number);
        bytes <= most_bytes
    };
    let fitting = files
        .into_iter()
        .take(MOST_FILES)
        .take_while(|file| fits(file));
    let chosen: Vec<_> = fitting.cloned().collect();
    // Of all that stands in them: what is dead may be what partitions have left behind that had
    // their pass.
    let records: u64 = chosen.iter().map(|file| record_bytes(file)).sum();
    if chosen.len() > FEW_FILES && records >= KeyTable::bytes_of(version.key_tables()) {
        chosen
    } else {
        Vec::new()
    }
}

/// Of each file of a flush that is in no UnsortedStore any more, the bytes that key tables have
/// there beside those in too many others.
fn apart(version: &Version) -> HashMap<FileNumber, u64> {
    let unsorted = version.tables();
    // Large values are as good alone.
    let is_large = |refs: &RecordFileRefs| refs.bytes / refs.count.max(1) >= STREAMED_BYTES.into();
    let is_flushed = |refs: &&RecordFileRefs| {
        let file = version.record_file(refs.file);
        file.is_some_and(|file| file.meta().key_section && file.meta().ingest_seq.is_none())
            && !unsorted.contains(&refs.file)
            && !is_large(refs)
    };
    let mut apart = HashMap::new();
    for table in version.key_tables() {
        let flushed: Vec<_> = table.meta().refs.iter().filter(is_flushed).collect();
        if flushed.len() > FEW_FILES {
            for refs in flushed {
                *apart.entry(refs.file).or_default() += refs.bytes;
            }
        }
    }
    apart
}
