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
//! much is chosen at a time as there may be garbage, key table by key table: of a file here and one
//! there nothing would move. In each the oldest come first; and because what has moved counts as
//! garbage, the next slice chooses the same files again.

use super::gc::named_by_tables;
use crate::base::keys::FileNumber;
use crate::jobs::space::garbage::record_bytes;
use crate::key_table::{KeyTableMeta, RecordFileRefs, STREAMED_BYTES};
use crate::partition::scan_sources::MOST_FILES;
use crate::record::RecordFile;
use crate::version::{Partition, Version};
use std::collections::{BTreeMap, HashMap, HashSet};
use std::sync::Arc;

/// More than garbage collection takes at a time.
const MOST_VICTIMS: usize = 1 << 10;

/// What may be clustered.
pub(crate) struct Wanted<'a> {
    /// Bytes that may live in the files.
    pub(crate) most_bytes: u64,
    /// Runs that a key table may have.
    pub(crate) most_runs: usize,
    /// Whether the key tables of a partition may be written again.
    pub(crate) may_be_written: &'a dyn Fn(&Partition) -> bool,
    /// Whether a file is left as it is.
    pub(crate) is_left_alone: &'a dyn Fn(FileNumber) -> bool,
}

/// Files to be clustered together. None: neighbours lie together, or what does not is less than the
/// key tables that would be written again.
pub(crate) fn choose(version: &Version, wanted: &Wanted<'_>) -> Vec<Arc<RecordFile>> {
    let files = Files::new(version, wanted);
    let mut chosen: BTreeMap<FileNumber, &Arc<RecordFile>> = BTreeMap::new();
    let (mut left, mut written) = (wanted.most_bytes, 0);
    let partitions = version.partitions().iter();
    let partitions = partitions.filter(|p| (wanted.may_be_written)(p));
    for table in partitions.flat_map(|p| &p.key_tables) {
        let mut of_table: Vec<_> = files.of(table.meta()).collect();
        of_table.sort_unstable_by_key(|file| file.meta().number);
        let (mut room, mut is_full) = (left, chosen.len() >= MOST_VICTIMS);
        of_table.retain(|file| {
            let number = file.meta().number;
            if chosen.contains_key(&number) {
                return true;
            }
            let rest = room.checked_sub(files.live(number));
            is_full |= rest.is_none();
            room = rest.filter(|_| !is_full).unwrap_or(room);
            !is_full
        });
        if of_table.len() > 1 {
            left = room;
            written += table.meta().len;
            chosen.extend(of_table.into_iter().map(|file| (file.meta().number, file)));
        }
    }
    // Of all that stands in them: what is dead may be what slices have left behind.
    let records: u64 = chosen.values().map(|file| record_bytes(file)).sum();
    if records >= written {
        chosen.into_values().cloned().collect()
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

/// The files of a version out of which values are to move.
struct Files<'a> {
    version: &'a Version,
    wanted: &'a Wanted<'a>,
    /// Those of an UnsortedStore, and those in which it has values: they would not be freed.
    unmerged: HashSet<FileNumber>,
    /// What of each is to move in all key tables.
    spread: HashMap<FileNumber, u64>,
}

impl<'a> Files<'a> {
    fn new(version: &'a Version, wanted: &'a Wanted<'a>) -> Files<'a> {
        let mut unmerged = version.tables();
        unmerged.extend(named_by_tables(version));
        let mut files = Files {
            version,
            wanted,
            unmerged,
            spread: HashMap::new(),
        };
        let mut spread: HashMap<FileNumber, u64> = HashMap::new();
        for table in version.key_tables() {
            for refs in files.refs(table.meta()) {
                *spread.entry(refs.file).or_default() += refs.bytes;
            }
        }
        files.spread = spread;
        files
    }

    /// Bytes of what lives in a file.
    fn live(&self, file: FileNumber) -> u64 {
        self.version.live().get(&file).map_or(0, |live| live.bytes)
    }

    /// Those that a key table names and that may be chosen.
    fn of(&self, table: &'a KeyTableMeta) -> impl Iterator<Item = &'a Arc<RecordFile>> {
        self.refs(table).filter_map(|RecordFileRefs { file, .. }| {
            // A file of which little is to move is one of a load in key order.
            let spread = self.spread.get(file).copied().unwrap_or_default();
            let may = spread >= self.live(*file) / 2 && !(self.wanted.is_left_alone)(*file);
            self.version.record_file(*file).filter(|_| may)
        })
    }

    /// What of a key table is to move.
    fn refs(&self, table: &'a KeyTableMeta) -> impl Iterator<Item = &'a RecordFileRefs> {
        // Large values are as good alone.
        let is_large =
            |refs: &RecordFileRefs| refs.bytes / refs.count.max(1) >= STREAMED_BYTES.into();
        let (mut flushed, mut runs) = (Vec::new(), Vec::new());
        for refs in &table.refs {
            let file = self.version.record_file(refs.file).map(|file| file.meta());
            match file {
                Some(_) if self.unmerged.contains(&refs.file) || is_large(refs) => {}
                Some(meta) if meta.key_section && meta.ingest_seq.is_none() => flushed.push(refs),
                Some(_) => runs.push(refs),
                None => {}
            }
        }
        if flushed.len() + runs.len() <= MOST_FILES {
            flushed.clear();
        }
        flushed
            .into_iter()
            .chain(smallest(runs, self.wanted.most_runs))
    }
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
