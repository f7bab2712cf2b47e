//! Choosing what is clustered: files between which the neighbours of a key table are spread.
//!
//! A flush writes the values of all keys that came meanwhile, so a range that many flushes have
//! touched has its values in as many files; each slice and each collection adds one more. A scan of
//! neighbours visits about as many places as its range has files, up to one for each record. So
//! where a key table has its values in more than [`MOST_RUNS`] files, the smallest of them by their
//! share are moved together, and with them whatever is no larger than all that moves: a value is
//! copied again only when its run doubles at least (as in a size-tiered LSM-tree). The idea of few
//! sorted groups of values, sorted further only where scans want it, is DiffKV's (USENIX ATC 2021).
//!
//! Files are moved like victims of garbage collection ([`super::merge`]): when the last of its
//! values has moved, a file is dropped. Until then what was copied lies on the disk twice. So as
//! much is chosen at a time as there may be garbage; and because the oldest come first and what has
//! moved counts as garbage, the next slice chooses the same files again.

use crate::base::keys::FileNumber;
use crate::jobs::space::garbage::record_bytes;
use crate::key_table::{KeyTable, KeyTableMeta, RecordFileRefs, STREAMED_BYTES};
use crate::partition::scan_sources::MOST_RUNS;
use crate::record::RecordFile;
use crate::version::Version;
use std::collections::HashMap;
use std::sync::Arc;

/// More than garbage collection takes at a time.
const MOST_FILES: usize = 1 << 10;

/// Files to be clustered together, in which at most `most_bytes` live. None: neighbours lie
/// together, or what does not is less than the key tables that would be written again.
pub(crate) fn choose(version: &Version, most_bytes: u64) -> Vec<Arc<RecordFile>> {
    let apart = spread(version);
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
    if chosen.len() > 1 && records >= KeyTable::bytes_of(version.key_tables()) {
        chosen
    } else {
        Vec::new()
    }
}

/// Bytes that a slice moves of a key table: what it has in victims, if they are several.
pub(crate) fn bytes_to_move(table: &KeyTableMeta, is_victim: impl Fn(FileNumber) -> bool) -> u64 {
    let refs = table.refs.iter().filter(|refs| is_victim(refs.file));
    let (files, bytes) = refs.fold((0, 0), |(files, bytes), refs| {
        (files + 1, bytes + refs.bytes)
    });
    match files > 1 {
        true => bytes,
        false => 0,
    }
}

/// Of each file that is in no UnsortedStore, the bytes of those key tables that have their values
/// in too many, as far as these are to move.
fn spread(version: &Version) -> HashMap<FileNumber, u64> {
    let unsorted = version.tables();
    // Large values are as good alone, and what was ingested is in order.
    let is_large = |refs: &RecordFileRefs| refs.bytes / refs.count.max(1) >= STREAMED_BYTES.into();
    let is_movable = |refs: &&RecordFileRefs| {
        let file = version.record_file(refs.file);
        file.is_some_and(|file| file.meta().ingest_seq.is_none())
            && !unsorted.contains(&refs.file)
            && !is_large(refs)
    };
    let mut spread = HashMap::new();
    for table in version.key_tables() {
        let mut refs: Vec<_> = table.meta().refs.iter().filter(is_movable).collect();
        if refs.len() <= MOST_RUNS {
            continue;
        }
        refs.sort_unstable_by_key(|refs| refs.bytes);
        // One file takes the place of those that move.
        let least = refs.len() + 1 - MOST_RUNS;
        let mut bytes = 0;
        for (nth, refs) in refs.into_iter().enumerate() {
            if nth >= least && refs.bytes > bytes {
                break;
            }
            bytes += refs.bytes;
            *spread.entry(refs.file).or_default() += refs.bytes;
        }
    }
    spread
}
