//! Generations: tables of one UnsortedStore that are found, frozen and merged together.

pub(super) mod table_ranges;

pub(crate) use table_ranges::{TableRanges, all_within};

use super::edit::{TablePlace, TableShare};
use super::scan_run::ScanRun;
use crate::base::account::Account;
use crate::base::keys::{GenerationId, Slot};
use crate::error::Result;
use crate::hash_index::HashIndex;
use crate::key_table::KeyIter;
use crate::record::RecordFile;
use crate::vfs::Access;
use std::sync::Arc;

/// A table of a generation: a record file, and what of it lies in the partition's range.
#[derive(Clone)]
pub(crate) struct Table {
    pub(crate) file: Arc<RecordFile>,
    /// `None`: all of it.
    pub(crate) share: Option<TableShare>,
    /// As in [`TablePlace::hidden_bytes`].
    pub(crate) hidden_bytes: u64,
}

impl Table {
    /// A file that has this place.
    pub(super) fn placed(place: &TablePlace, file: Arc<RecordFile>) -> Table {
        Table {
            file,
            share: place.share,
            hidden_bytes: place.hidden_bytes,
        }
    }

    /// Records and bytes in the partition's range.
    pub(crate) fn share(&self) -> TableShare {
        let meta = self.file.meta();
        self.share.unwrap_or(TableShare {
            records: meta.count,
            bytes: meta.referenced_bytes(),
        })
    }

    /// The keys, for a job that reads the share from its start to its end: a small share is read
    /// block by block, so that a thousand partitions do not each read the whole section.
    pub(crate) fn job_keys(&self) -> Result<KeyIter> {
        let small = self.share().records < self.file.meta().count / 8;
        self.file.keys(if small {
            Access::Random
        } else {
            Access::Sequential
        })
    }
}

/// Tables flushed one after the other, found through one hash index. Or else the tables of one
/// ingest, sorted and disjoint, which are searched through the fences and have no index.
#[derive(Clone)]
pub(crate) struct Generation {
    pub(crate) id: GenerationId,
    /// By slot; a slot whose flush was aborted stays empty for good.
    pub(super) tables: Vec<Option<Table>>,
    /// The sum of the tables' shares.
    pub(super) sum: TableShare,
    pub(super) is_ingested: bool,
    /// May hold entries of other partitions, after a split: their keys are never looked up here.
    pub(crate) index: Arc<HashIndex>,
    /// For scans, in place of the keys of the tables that it covers.
    pub(super) run: Option<Arc<ScanRun>>,
    /// What scans have lost since by merging sources that a run could have merged for them.
    pub(crate) scan_cost: Arc<Account>,
}

impl Generation {
    /// Adds a table in `slot`, after all others.
    pub(super) fn push(&mut self, slot: Slot, table: Table) {
        let TableShare { records, bytes } = table.share();
        self.sum.records = self.sum.records.saturating_add(records);
        self.sum.bytes = self.sum.bytes.saturating_add(bytes);
        self.tables.resize(usize::from(slot.0), None);
        self.tables.push(Some(table));
    }

    /// The table in `slot`.
    pub(crate) fn table(&self, slot: Slot) -> Option<&Arc<RecordFile>> {
        Some(&self.tables.get(usize::from(slot.0))?.as_ref()?.file)
    }

    /// The highest slot of this version; readers ignore index entries above it.
    pub(crate) fn high_water(&self) -> Slot {
        Slot(self.tables.len().saturating_sub(1) as u16)
    }

    /// The tables, newest first.
    pub(crate) fn tables(&self) -> impl DoubleEndedIterator<Item = (Slot, &Arc<RecordFile>)> {
        self.shares().map(|(slot, table)| (slot, &table.file))
    }

    /// The tables with their shares, newest first.
    pub(crate) fn shares(&self) -> impl DoubleEndedIterator<Item = (Slot, &Table)> {
        let slots = self.tables.iter().enumerate().rev();
        slots.filter_map(|(slot, table)| Some((Slot(slot as u16), table.as_ref()?)))
    }

    /// Bytes of the tables in the partition's range.
    pub(crate) fn bytes(&self) -> u64 {
        self.sum.bytes
    }

    /// Bytes of long records in the SortedStore that its tables supersede, beyond their own.
    pub(crate) fn hidden_bytes(&self) -> u64 {
        self.shares().map(|(_, table)| table.hidden_bytes).sum()
    }

    /// Records of the tables in the partition's range.
    pub(crate) fn records(&self) -> u64 {
        self.sum.records
    }
}
