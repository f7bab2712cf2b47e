//! Choosing what is clustered: files between which the neighbours of a key table are spread.
//!
//! A flush writes the values of all keys that came meanwhile, so a range that many flushes have
//! touched has its values in as many files, and a scan of neighbours visits about as many places as
//! its range has files, up to one for each record. So where a key table has its values in more than
//! [`MOST_FILES`], those that lie as flushes wrote them are moved together: that copies each value
//! once. What a slice, a collection or an ingest has written is a *run*. Where runs are too many,
//! the smallest of them by their share become one, and with them whatever is no larger than half of
//! what moves: a value is copied again only when its run grows by half at least, as in a
//! size-tiered LSM-tree. Few sorted groups of values, sorted further only where scans want it, are
//! the idea of DiffKV (USENIX ATC 2021).
//!
//! Files are moved like victims of garbage collection ([`super::merge`]): when the last of its
//! values has moved, a file is dropped. Until then what was copied lies on the disk twice. So as
//! much is chosen at a time as there may be garbage; and because the oldest come first and what has
//! moved counts as garbage, the next slice chooses the same files again.

use super::gc::named_by_tables;
use crate::base::keys::FileNumber;
use crate::jobs::space::garbage::record_bytes;
use crate::key_table::{KeyTable, KeyTableMeta, RecordFileRefs, STREAMED_BYTES};
use crate::partition::scan_sources::MOST_FILES;
use crate::record::RecordFile;
use crate::version::Version;
use std::collections::HashMap;
use std::sync::Arc;

/// More than garbage collection takes at a time.
const MOST_VICTIMS: usize = 1 << 10;

/// Files to be clustered together, in which at most `most_bytes` live, so that no key table has
/// more than `most_runs`. None: neighbours lie together, or what does not is less than the key
/// tables that would be written again.
pub(crate) fn choose(version: &Version, most_bytes: u64, most_runs: usize) -> Vec<Arc<RecordFile>> {
    let live = version.live();
    let live = |file: FileNumber| live.get(&file).map_or(0, |live| live.bytes);
    // A file of which little is to move is one of a load in key order.
    let mut files: Vec<_> = spread(version, most_runs)
        .into_iter()
        .filter(|(file, spread)| *spread >= live(*file) / 2)
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
        .take(MOST_VICTIMS)
        .take_while(|file| fits(file));
    let chosen: Vec<_> = fitting.cloned().collect();
    // Of all that stands in them: what is dead may be what slices have left behind.
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
    if files > 1 { bytes } else { 0 }
}

/// Of each file that all partitions have merged, the bytes of key tables that are to move.
fn spread(version: &Version, most_runs: usize) -> HashMap<FileNumber, u64> {
    // Those of an UnsortedStore, and those in which it has values: they would not be freed.
    let mut unmerged = version.tables();
    unmerged.extend(named_by_tables(version));
    // Large values are as good alone.
    let is_large = |refs: &RecordFileRefs| refs.bytes / refs.count.max(1) >= STREAMED_BYTES.into();
    let mut spread = HashMap::new();
    for table in version.key_tables() {
        let (mut flushed, mut runs) = (Vec::new(), Vec::new());
        for refs in &table.meta().refs {
            let file = version.record_file(refs.file).map(|file| file.meta());
            match file {
                Some(_) if unmerged.contains(&refs.file) || is_large(refs) => {}
                Some(meta) if meta.key_section && meta.ingest_seq.is_none() => flushed.push(refs),
                Some(_) => runs.push(refs),
                None => {}
            }
        }
        if flushed.len() + runs.len() <= MOST_FILES {
            flushed.clear();
        }
        for refs in flushed.into_iter().chain(smallest(runs, most_runs)) {
            *spread.entry(refs.file).or_default() += refs.bytes;
        }
    }
    spread
}

/// The runs that become one so that there are no more than `most`.
fn smallest(mut runs: Vec<&RecordFileRefs>, most: usize) -> Vec<&RecordFileRefs> {
    if runs.len() <= most {
        return Vec::new();
    }
    runs.sort_unstable_by_key(|refs| refs.bytes);
    let least = (runs.len() + 1 - most).max(2);
    let mut bytes = 0;
    let grows = |(nth, refs): &(usize, &RecordFileRefs)| {
        let goes = *nth < least || refs.bytes <= bytes / 2;
        bytes += refs.bytes;
        goes
    };
    let moved = runs.into_iter().enumerate().take_while(grows);
    moved.map(|(_, refs)| refs).collect()
}
