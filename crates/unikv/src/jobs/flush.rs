//! Flush: a sealed memtable becomes tables of the UnsortedStore (paper §III-B, "Data management").
//!
//! Each table is a record file sorted by key, cut at partition boundaries, with its keys in a
//! section behind the records. Then [`FlushTarget::place`] gives each table a slot of the
//! partition's newest generation and enters its keys into the generation's hash index. Entries go
//! in before the version that lists the slot is published; readers ignore slots above the high
//! water of their version. If the flush is aborted after that, its slots stay burned.

use super::JobContext;
use super::retention::Retention;
use crate::base::hash::key_hash;
use crate::base::keys::{GenerationId, PartitionId, Slot};
use crate::error::Result;
use crate::hash_index::HashIndex;
use crate::key_table::{EntryValue, KeyEntry, KeySectionBuilder};
use crate::memtable::{MemEntry, Memtable, MemtableIter};
use crate::record::{RecordFileMeta, RecordPointer, RecordRef, RecordWriter};
use crate::version::Version;
use crate::version::edit::TablePlace;
use crate::version::file_names;
use std::sync::Arc;

/// A table is ended when its records reach this many bytes: index entries hold 30-bit offsets.
const MAX_TABLE_BYTES: u64 = 512 << 20;
/// Slots of one generation; index entries hold ten bits.
const MAX_SLOTS: u16 = 1 << 10;

/// A key's place in a new table.
pub(crate) struct IndexEntry {
    hash: u64,
    offset: u64,
    len: u64,
}

/// A table that a flush has written.
pub(crate) struct FlushedTable {
    pub(crate) partition: PartitionId,
    pub(crate) meta: RecordFileMeta,
    /// One entry a key, at its newest version.
    pub(crate) entries: Vec<IndexEntry>,
}

/// Writes a memtable out as tables, cut at the partition boundaries of `version`.
pub(crate) fn flush(
    context: &JobContext<'_>,
    memtable: &Arc<Memtable>,
    version: &Version,
) -> Result<Vec<FlushedTable>> {
    let mut entries = Entries::new(memtable);
    let mut tables = Vec::new();
    while let Some(first) = entries.at.entry() {
        let Some(partition) = version.partition_for(first.key) else {
            break;
        };
        let end = partition.end.as_deref();
        tables.push(write_table(context, &mut entries, partition.id, end)?);
    }
    Ok(tables)
}

/// A position in the memtable and one ahead of it: a record says whether an older version of its
/// key stands right behind it, so the next kept version is sought before a record is written.
struct Entries {
    at: MemtableIter,
    ahead: MemtableIter,
}

impl Entries {
    fn new(memtable: &Arc<Memtable>) -> Entries {
        let mut entries = Entries {
            at: memtable.iter(),
            ahead: memtable.iter(),
        };
        entries.at.seek_to_first();
        entries.ahead.seek_to_first();
        entries
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
                    if retention.keep(next.seq) {
                        return (steps, true);
                    }
                }
                _ => return (steps, false),
            }
        }
    }
}

/// Writes entries up to the partition's end, or until the table is full.
fn write_table(
    context: &JobContext<'_>,
    entries: &mut Entries,
    partition: PartitionId,
    end: Option<&[u8]>,
) -> Result<FlushedTable> {
    let number = context.begin_file(file_names::record);
    let mut table = TableWriter {
        writer: RecordWriter::create(context.store, number, 0)?,
        section: KeySectionBuilder::new(context.block_bytes),
        entries: Vec::new(),
        hash_seed: context.hash_seed,
    };
    let mut retention = Retention::new(&context.snapshots);
    let mut newest = true;
    while let Some(entry) = entries.at.entry() {
        if newest {
            let full = table.writer.len() >= MAX_TABLE_BYTES;
            if full || end.is_some_and(|end| entry.key >= end) {
                break;
            }
            retention.next_key();
            retention.keep(entry.seq);
        }
        let (steps, older_follows) = entries.look_ahead(&mut retention);
        if let Some(entry) = entries.at.entry() {
            table.append(&entry, newest, older_follows)?;
        }
        (0..steps).for_each(|_| entries.at.next());
        newest = !older_follows;
    }
    let TableWriter {
        writer,
        section,
        entries,
        ..
    } = table;
    Ok(FlushedTable {
        partition,
        meta: writer.finish(Some(section))?,
        entries,
    })
}

/// A table being written.
struct TableWriter {
    writer: RecordWriter,
    section: KeySectionBuilder,
    entries: Vec<IndexEntry>,
    hash_seed: u64,
}

impl TableWriter {
    fn append(&mut self, entry: &MemEntry<'_>, newest: bool, older_follows: bool) -> Result<()> {
        let pointer = self.writer.append(&RecordRef {
            key: entry.key,
            seq: entry.seq,
            kind: entry.kind,
            value: entry.value,
            expiry_ms: entry.expiry_ms,
            host_type: 0,
            older_follows,
        })?;
        self.section.add(&KeyEntry {
            key: entry.key,
            seq: entry.seq,
            kind: entry.kind,
            expiry_ms: entry.expiry_ms,
            // Tombstones too: recovery finds the place of every record in the key section.
            value: EntryValue::Pointer(pointer),
        });
        if newest {
            let hash = key_hash(self.hash_seed, entry.key);
            let RecordPointer { offset, len, .. } = pointer;
            self.entries.push(IndexEntry {
                hash,
                offset,
                len: u64::from(len),
            });
        }
        Ok(())
    }
}

/// Where a partition's next table goes: its newest generation.
pub(crate) struct FlushTarget {
    pub(crate) generation: GenerationId,
    pub(crate) index: Arc<HashIndex>,
    next_slot: u16,
    bytes: u64,
}

/// How large generations may grow.
#[derive(Clone, Copy)]
pub(crate) struct GenerationLimits {
    /// Bytes of its tables (the paper's `UnsortedLimit`).
    pub(crate) unsorted_bytes: u64,
    /// Bytes of its hash index.
    pub(crate) index_bytes: u64,
}

impl GenerationLimits {
    /// A generation's index may take an eighth of the memory budget.
    pub(crate) fn of(unsorted_bytes: u64, memory_budget: u64) -> GenerationLimits {
        GenerationLimits {
            unsorted_bytes,
            index_bytes: memory_budget / 8,
        }
    }
}

impl FlushTarget {
    /// A new generation whose index is sized by its first table.
    pub(crate) fn begin(
        generation: GenerationId,
        first: &FlushedTable,
        limits: GenerationLimits,
    ) -> FlushTarget {
        let records = expected_records(first.entries.len(), first.meta.len, limits);
        let index = Arc::new(HashIndex::with_capacity(records));
        FlushTarget {
            generation,
            index,
            next_slot: 0,
            bytes: 0,
        }
    }

    /// A generation of a recovered version, to be continued.
    pub(crate) fn resume(
        generation: GenerationId,
        index: Arc<HashIndex>,
        high_water: Slot,
        bytes: u64,
    ) -> FlushTarget {
        FlushTarget {
            generation,
            index,
            next_slot: high_water.0 + 1,
            bytes,
        }
    }

    /// Whether the generation is to be merged before it takes more.
    pub(crate) fn is_full(&self, limits: GenerationLimits) -> bool {
        self.bytes >= limits.unsorted_bytes || self.next_slot >= MAX_SLOTS
    }

    /// Gives `table` the next slot and enters its keys into the index. `None`: the index is full,
    /// the slot is burned, and the table needs another generation.
    pub(crate) fn place(&mut self, table: &FlushedTable) -> Option<TablePlace> {
        if self.next_slot >= MAX_SLOTS {
            return None;
        }
        let slot = Slot(self.next_slot);
        self.next_slot += 1;
        let mut index = self.index.writer();
        for entry in &table.entries {
            index
                .insert(entry.hash, slot, entry.offset, entry.len)
                .ok()?;
        }
        drop(index);
        self.bytes += table.meta.len;
        let (partition, file) = (table.partition, table.meta.number);
        Some(TablePlace {
            partition,
            generation: self.generation,
            slot,
            file,
        })
    }
}

/// How many entries a full generation will have, judged by the table that begins it.
pub(crate) fn expected_records(entries: usize, bytes: u64, limits: GenerationLimits) -> usize {
    // A table of few records says little about those to come.
    const TELLING: usize = 1000;
    const TYPICAL_RECORD_BYTES: u64 = 512;
    // Bytes of index that an entry needs at the least.
    const ENTRY_BYTES: u64 = 10;
    let entries_u64 = entries as u64;
    let record_bytes = bytes / entries_u64.max(1);
    let record_bytes = if entries < TELLING {
        record_bytes.max(TYPICAL_RECORD_BYTES)
    } else {
        record_bytes
    };
    // The table that makes a generation full may overshoot the limit by its own size.
    let expected = (limits.unsorted_bytes + bytes) / record_bytes.max(1);
    let affordable = limits.index_bytes / ENTRY_BYTES;
    expected
        .min(affordable)
        .max(entries_u64 + entries_u64 / 8)
        .max(1024) as usize
}
