//! Choosing what is clustered: files between which the neighbours of a key table are spread.
//! `docs/mechanisms.md`, "Clustering", argues for the choice; it follows from the version alone.
//!
//! Invariants:
//! - What lies as flushes wrote it is copied once. What a slice, a collection or an ingest has
//!   written, a *stretch*, is copied again only when it grows by half at least.
//! - As much is chosen at a time as there may be garbage: until the last of a file's values has
//!   moved it is on the disk twice. The oldest come first and what has moved counts as garbage, so
//!   the next slice chooses the same files again.
//!
//! No locks; nothing is read or written here.

use crate::base::keys::FileNumber;
use crate::base::seeded::slip;
use crate::key_table::{KeyTableMeta, RecordFileRefs, STREAMED_BYTES};
use crate::partition::scan_sources::MOST_FILES;
use crate::record::RecordFile;
use crate::version::Version;
use std::collections::{BTreeMap, HashMap, HashSet};
use std::sync::Arc;

/// More than garbage collection takes at a time.
const MOST_VICTIMS: usize = 1 << 10;

/// Files to be clustered together, in which at most `most_bytes` live, so that no key table has
/// more than `most_stretches`. None: neighbours lie together, or what does not is less than the key
/// tables that would be written again.
pub(crate) fn choose(
    version: &Version,
    most_bytes: u64,
    most_stretches: usize,
) -> Vec<Arc<RecordFile>> {
    let files = Files::new(version, most_stretches);
    if files.spread.is_empty() {
        return Vec::new();
    }
    let mut chosen = files.oldest(most_bytes);
    let mut written = files.written_again(&chosen);
    if written == 0 {
        chosen = files.table_by_table(most_bytes);
        written = files.written_again(&chosen);
    }
    // Of all that stands in them: what is dead may be what slices have left behind.
    let records: u64 = chosen.iter().map(|file| file.meta().record_bytes()).sum();
    if written > 0 && records >= written {
        chosen.into_iter().cloned().collect()
    } else {
        Vec::new()
    }
}

/// Bytes of records that lie as flushes wrote them: what may still be copied for the first time.
pub(crate) fn flushed_bytes(version: &Version) -> u64 {
    version.file_sums().flushed_bytes
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
    /// Stretches that a key table may have.
    most_stretches: usize,
    /// What is to move out of each, of all key tables.
    spread: HashMap<FileNumber, u64>,
}

impl<'a> Files<'a> {
    fn new(version: &'a Version, most_stretches: usize) -> Files<'a> {
        let mut files = Files {
            version,
            most_stretches,
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

    /// As many as fit, the oldest first.
    fn oldest(&self, most_bytes: u64) -> Vec<&'a Arc<RecordFile>> {
        let mut left = most_bytes;
        let files = self.by_age(self.spread.keys().copied());
        let fitting = files.into_iter().take(MOST_VICTIMS);
        let fitting = fitting.take_while(|file| self.fits(file, &mut left));
        fitting.collect()
    }

    /// As many of one key table as fit, and of the next, if they are several.
    fn table_by_table(&self, most_bytes: u64) -> Vec<&'a Arc<RecordFile>> {
        let (mut left, mut chosen) = (most_bytes, BTreeMap::new());
        for table in self.version.key_tables() {
            let of_table = self.by_age(self.refs(table.meta()).map(|refs| refs.file));
            let is_new = |file: &&Arc<RecordFile>| !chosen.contains_key(&file.meta().number);
            let (new, known): (Vec<_>, Vec<_>) = of_table.into_iter().partition(is_new);
            let mut after = left;
            let new = new.into_iter().take(MOST_VICTIMS - chosen.len());
            let new: Vec<_> = new.take_while(|file| self.fits(file, &mut after)).collect();
            if known.len() + new.len() > 1 {
                left = after;
                chosen.extend(new.into_iter().map(|file| (file.meta().number, file)));
            }
        }
        chosen.into_values().collect()
    }

    /// Those of `numbers` that may be chosen, the oldest first.
    fn by_age(&self, numbers: impl Iterator<Item = FileNumber>) -> Vec<&'a Arc<RecordFile>> {
        let mut files: Vec<_> = numbers
            // A file of which little is to move is one of a load in key order.
            .filter(|number| {
                self.spread
                    .get(number)
                    .is_some_and(|b| *b >= self.live(*number) / 2)
            })
            .filter_map(|number| self.version.record_file(number))
            .collect();
        files.sort_unstable_by_key(|file| file.meta().number);
        files
    }

    /// Takes what lives in the file from what is `left`, if it is not more.
    fn fits(&self, file: &RecordFile, left: &mut u64) -> bool {
        let rest = left.checked_sub(self.live(file.meta().number));
        *left = rest.unwrap_or(*left);
        rest.is_some()
    }

    fn live(&self, file: FileNumber) -> u64 {
        self.version.live(file).bytes
    }

    /// Bytes of the key tables out of which something moves when these files are chosen.
    fn written_again(&self, files: &[&Arc<RecordFile>]) -> u64 {
        let numbers: HashSet<_> = files.iter().map(|file| file.meta().number).collect();
        let tables = self.version.key_tables().map(|table| table.meta());
        let is_victim = |file| numbers.contains(&file);
        let written = tables.filter(|table| bytes_to_move(table, is_victim) > 0);
        written.map(|table| table.len).sum()
    }

    /// What of a key table is to move.
    fn refs(&self, table: &'a KeyTableMeta) -> impl Iterator<Item = &'a RecordFileRefs> {
        // Large values are as good alone.
        let large = slip!(ClusterLarge, u64::MAX, STREAMED_BYTES.into());
        let is_large = |refs: &RecordFileRefs| refs.bytes / refs.count.max(1) >= large;
        let (mut flushed, mut stretches) = (Vec::new(), Vec::new());
        for refs in &table.refs {
            match self.version.record_files().get(refs.file) {
                // Those of an UnsortedStore, and those in which it has values: they would not be
                // freed.
                Some(listed) if listed.is_table() || listed.is_named_by_tables() => {}
                Some(_) if is_large(refs) => {}
                Some(listed) if listed.file.meta().is_flushed() => flushed.push(refs),
                Some(_) => stretches.push(refs),
                None => {}
            }
        }
        if flushed.len() + stretches.len() <= MOST_FILES {
            flushed.clear();
        }
        flushed
            .into_iter()
            .chain(smallest(stretches, self.most_stretches))
    }
}

/// The stretches that become one so that there are no more than `most`.
fn smallest(mut stretches: Vec<&RecordFileRefs>, most: usize) -> Vec<&RecordFileRefs> {
    if stretches.len() <= most {
        return Vec::new();
    }
    stretches.sort_unstable_by_key(|refs| refs.bytes);
    let least = (stretches.len() + 1 - most).max(2);
    let mut bytes = 0;
    let grows = |(nth, refs): &(usize, &RecordFileRefs)| {
        let goes = *nth < least || refs.bytes <= bytes / 2;
        bytes += refs.bytes;
        goes
    };
    let moved = stretches.into_iter().enumerate().take_while(grows);
    moved.map(|(_, refs)| refs).collect()
}
