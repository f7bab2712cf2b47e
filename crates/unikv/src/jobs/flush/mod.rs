//! Flush: sealed memtables become tables of the UnsortedStore (paper §III-B, "Data management").
//!
//! A table is a record file sorted by key, with its keys in a section after the records. It is not
//! cut at the borders of partitions: those that stand when the flush commits share it, each for its
//! own keys (see [`crate::jobs::flush::placing`]). So a thousand partitions do not make a thousand
//! small files, and a split beside the flush does no harm. The keys are kept in memory until then.

pub(crate) mod index_build;
mod merged;
mod pace;
pub(crate) mod placing;

use super::JobContext;
use crate::base::hash::key_hash;
use crate::base::keys::Kind;
use crate::base::range_tombstones::RangeTombstones;
use crate::base::seeded::{seeded, slip};
use crate::error::Result;
use crate::jobs::compact::retention::Retention;
use crate::jobs::flush::merged::Merged;
use crate::jobs::flush::pace::Pace;
use crate::key_table::{EntryValue, KeyEntry, KeySectionBuilder, ReadCache};
use crate::memtable::{MemEntry, Memtable};
use crate::partition::MemtableHandle;
use crate::record::{RecordFileMeta, RecordPointer, RecordRef, RecordWriter};
use crate::version::edit::TableShare;
use crate::version::{KeyRange, file_names};
use std::ops::Range;
use std::sync::Arc;

/// A table is ended when its records reach this many bytes: index entries hold 30-bit offsets.
pub(super) const MAX_TABLE_BYTES: u64 = 512 << 20;
/// A key's place in a new table.
pub(crate) struct IndexEntry {
    pub(crate) hash: u64,
    pub(crate) offset: u64,
    /// Of the newest version's frame.
    pub(crate) len: u32,
    /// Where the key ends in [`TableKeys::bytes`].
    key_end: u32,
    /// Records before it.
    records_before: u32,
}

/// The keys of a new table in their order, one entry each, at the newest version.
#[derive(Default)]
pub(crate) struct TableKeys {
    /// The keys, one after the other.
    bytes: Vec<u8>,
    entries: Vec<IndexEntry>,
}

impl TableKeys {
    /// Room for the keys of memtables.
    fn for_keys(memtables: &[Arc<Memtable>]) -> TableKeys {
        TableKeys {
            bytes: Vec::with_capacity(memtables.iter().map(|m| m.key_bytes()).sum()),
            entries: Vec::with_capacity(memtables.iter().map(|m| m.len()).sum()),
        }
    }

    fn key(&self, i: usize) -> &[u8] {
        let end = |i: usize| self.entries.get(i).map_or(0, |e| e.key_end as usize);
        let start = i.checked_sub(1).map_or(0, end);
        self.bytes.get(start..end(i)).unwrap_or_default()
    }

    /// The entries whose keys lie in `range`.
    pub(crate) fn within(&self, range: KeyRange<'_>) -> Range<usize> {
        let first_not = |before: &dyn Fn(&[u8]) -> bool| {
            let (mut low, mut high) = (0, self.entries.len());
            while low < high {
                let middle = low + (high - low) / 2;
                if before(self.key(middle)) {
                    low = middle + 1;
                } else {
                    high = middle;
                }
            }
            low
        };
        let start =
            first_not(&|key| slip!(FirstKeyUnindexed, key <= range.start, key < range.start));
        start..first_not(&|key| range.is_before_end(key)).max(start)
    }

    /// Some of the entries, with their keys.
    pub(super) fn with_keys(
        &self,
        range: Range<usize>,
    ) -> impl Iterator<Item = (&[u8], &IndexEntry)> {
        range.filter_map(|i| Some((self.key(i), self.entries.get(i)?)))
    }

    /// Some of the entries.
    pub(crate) fn entries(&self, range: Range<usize>) -> &[IndexEntry] {
        self.entries.get(range).unwrap_or_default()
    }
}

/// A table that a flush has written.
pub(crate) struct FlushedTable {
    pub(crate) meta: RecordFileMeta,
    pub(crate) keys: TableKeys,
    /// The range tombstones that it has.
    pub(crate) ranges: Arc<RangeTombstones>,
}

impl FlushedTable {
    /// All of the table, with its large values elsewhere: they are unsorted as it is.
    pub(crate) fn whole(&self) -> TableShare {
        TableShare {
            records: self.meta.count,
            bytes: self.meta.referenced_bytes(),
        }
    }

    /// Whether something of it lies in the range of a partition: a key, or a range that is deleted.
    pub(super) fn has_part_in(&self, range: KeyRange<'_>) -> bool {
        let deletes = || self.ranges.meet(range.start, range.end) && !seeded!(RangeNeedsKey);
        !self.keys.within(range).is_empty() || deletes()
    }

    /// What the entries of `range` make of the table: their records, and in proportion to these
    /// what stands after the records and elsewhere.
    pub(crate) fn share(&self, range: Range<usize>) -> TableShare {
        let entries = &self.keys.entries;
        if range.len() == entries.len() {
            return self.whole();
        }
        let (count, records_end) = (self.meta.count, self.meta.records_end);
        let at = |i: usize| {
            let entry = entries.get(i);
            entry.map_or((count, records_end), |e| {
                (u64::from(e.records_before), e.offset)
            })
        };
        let ((before, start), (behind, end)) = (at(range.start), at(range.end));
        let records = behind - before;
        let tail = u128::from(self.meta.referenced_bytes() - records_end) * u128::from(records);
        TableShare {
            records,
            bytes: end - start + (tail / u128::from(count.max(1))) as u64,
        }
    }
}

/// How many of the sealed memtables, which stand newest first, are flushed together: the oldest,
/// and those after it that are no larger with it than one full memtable.
pub(crate) fn flushed_together(sealed: &[MemtableHandle], memtable_bytes: u64) -> usize {
    let mut bytes = 0;
    let fit = sealed.iter().rev().take_while(|handle| {
        bytes += handle.table.bytes() as u64;
        bytes <= memtable_bytes
    });
    fit.count().max(1).min(sealed.len())
}

/// Writes memtables out as a table, or as several if they are very large.
pub(crate) fn flush(
    context: &JobContext<'_>,
    memtables: &[Arc<Memtable>],
) -> Result<Vec<FlushedTable>> {
    let mut entries = Entries::new(memtables);
    let has_ranges = memtables.iter().any(|memtable| memtable.has_ranges());
    let mut tables = Vec::new();
    while entries.at.entry().is_some() || (has_ranges && tables.is_empty()) {
        let keys = TableKeys::for_keys(memtables);
        tables.push(write_table(context, &mut entries, keys)?);
    }
    Ok(tables)
}

/// A position in the memtables and one ahead of it: a record says whether an older version of its
/// key stands right after it, so the next kept version is sought before a record is written.
struct Entries<'a> {
    memtables: &'a [Arc<Memtable>],
    at: Merged,
    ahead: Merged,
}

impl Entries<'_> {
    fn new(memtables: &[Arc<Memtable>]) -> Entries<'_> {
        Entries {
            memtables,
            at: Merged::new(memtables),
            ahead: Merged::new(memtables),
        }
    }

    /// Moves `ahead` to the next kept version of the key at `at`, or else to the next key. Returns
    /// the steps taken and whether it is the same key.
    fn look_ahead(&mut self, retention: &mut Retention<'_>) -> (usize, bool) {
        let Some(entry) = self.at.entry() else {
            return (0, false);
        };
        let mut steps = 0;
        loop {
            self.ahead.next();
            steps += 1;
            match self.ahead.entry() {
                Some(next) if next.key == entry.key => {
                    if retention.keeps(next.seq) {
                        return (steps, true);
                    }
                }
                _ => return (steps, false),
            }
        }
    }
}

/// Writes entries until there are no more, or the table is full. The last table has the range
/// tombstones of the memtable.
fn write_table(
    context: &JobContext<'_>,
    entries: &mut Entries<'_>,
    keys: TableKeys,
) -> Result<FlushedTable> {
    let create = |number| RecordWriter::create(context.store, number, 0);
    let writer = context.begin_file(file_names::record, create)?;
    let pace = Pace::new(context);
    let dictionary = pace.dictionary(entries.memtables);
    let mut table = TableWriter {
        writer: writer.with_dictionary(dictionary),
        pace,
        section: KeySectionBuilder::new(context.block_bytes),
        keys,
        records: 0,
        hash_seed: context.hash_seed,
        cache: context.cache,
    };
    let mut retention = Retention::new(&context.readers);
    let mut newest = true;
    while let Some(entry) = entries.at.entry() {
        if newest {
            if table.writer.len() >= MAX_TABLE_BYTES {
                break;
            }
            retention.next_key();
            retention.keeps(entry.seq);
        }
        let (steps, older_follows) = entries.look_ahead(&mut retention);
        if let Some(entry) = entries.at.entry() {
            table.append(&entry, newest, older_follows, steps > 1)?;
        }
        (0..steps).for_each(|_| entries.at.next());
        newest = !older_follows;
    }
    let is_last = entries.at.entry().is_none();
    let ranges = if is_last {
        ranges_of(entries.memtables)
    } else {
        Arc::default()
    };
    let TableWriter {
        mut writer,
        section,
        keys,
        cache,
        ..
    } = table;
    for tombstone in ranges.by_start() {
        writer.append_range(tombstone)?;
    }
    let meta = writer.finish(Some(section))?.bounded();
    if let Some(section) = &meta.ranges {
        // Whoever reads the table finds them.
        section.in_memory.set(&ranges);
    }
    // Not before: what is rewritten because this failed has not been written lately.
    for entry in &keys.entries {
        cache.note_written(entry.hash);
    }
    Ok(FlushedTable { meta, keys, ranges })
}

/// The range tombstones of all memtables.
fn ranges_of(memtables: &[Arc<Memtable>]) -> Arc<RangeTombstones> {
    let with_ranges = memtables.iter().filter(|memtable| memtable.has_ranges());
    let sets: Vec<_> = with_ranges.map(|memtable| memtable.ranges()).collect();
    match sets.as_slice() {
        [one] => Arc::clone(one),
        several => {
            let all: Vec<_> = several.iter().flat_map(|set| set.iter()).collect();
            Arc::new(RangeTombstones::of(&all))
        }
    }
}

/// A table being written.
struct TableWriter<'a> {
    writer: RecordWriter,
    section: KeySectionBuilder,
    keys: TableKeys,
    records: u32,
    hash_seed: u64,
    cache: &'a ReadCache,
    pace: Pace<'a>,
}

impl TableWriter<'_> {
    fn append(
        &mut self,
        entry: &MemEntry<'_>,
        newest: bool,
        older_follows: bool,
        again: bool,
    ) -> Result<()> {
        let hash = key_hash(self.hash_seed, entry.key);
        let record = RecordRef {
            key: entry.key,
            seq: entry.seq,
            kind: entry.kind,
            value: entry.value,
            expiry_ms: entry.expiry_ms,
            host_type: 0,
            older_follows,
        };
        let keeps = newest
            && entry.kind == Kind::Put
            && self
                .cache
                .keeps_written(hash, record.frame_len() as usize, again);
        let compression = self.pace.compression(&record, self.writer.len());
        let pointer = self.writer.append_as(&record, compression)?;
        if keeps {
            self.writer.keep_last(&record, pointer, self.cache, true);
        }
        self.section.add(&KeyEntry {
            key: entry.key,
            seq: entry.seq,
            kind: entry.kind,
            expiry_ms: entry.expiry_ms,
            // Tombstones too: recovery finds the place of every record in the key section.
            value: EntryValue::Pointer(pointer),
        });
        if newest {
            let RecordPointer { offset, len, .. } = pointer;
            self.keys.bytes.extend_from_slice(entry.key);
            self.keys.entries.push(IndexEntry {
                hash,
                offset,
                len,
                // A table's records, and so its keys and their number, stay below 2 GiB.
                key_end: self.keys.bytes.len() as u32,
                records_before: self.records,
            });
        }
        self.records += 1;
        Ok(())
    }
}
