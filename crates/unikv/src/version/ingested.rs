//! Generations that an ingest made: sorted, disjoint tables, found through their fences.
//!
//! A generation holds what was flushed or what was ingested, never both. Of what was ingested,
//! slots ascend with the keys and have no gap, but where a split has left the first ones to the
//! other side.

use super::generation::{Generation, Table};
use super::state::Partition;
use crate::base::keys::Slot;
use crate::record::RecordFile;
use std::sync::Arc;

impl Generation {
    /// Whether its tables are those of an ingest: sorted, disjoint and in no index.
    pub(crate) fn is_ingested(&self) -> bool {
        self.is_ingested
    }

    /// The table of an ingest whose keys may include `key`. Slots without a table come first, as a
    /// split leaves them.
    pub(crate) fn ingested_table_for(&self, key: &[u8]) -> Option<&Arc<RecordFile>> {
        let is_before = |table: &Option<Table>| {
            let file = table.as_ref().map(|table| table.file.meta());
            file.is_none_or(|meta| meta.max_key.as_slice() < key)
        };
        let found = self.tables.get(self.tables.partition_point(is_before))?;
        let file = &found.as_ref()?.file;
        (file.meta().min_key.as_slice() <= key).then_some(file)
    }

    /// A generation holds what was flushed or what was ingested; of the latter, in order.
    pub(super) fn check_ingested(&self, file: &RecordFile, slot: Slot) -> Result<(), String> {
        let number = file.meta().number.0;
        if file.meta().ingest_seq.is_some() != self.is_ingested {
            return Err(format!("table {number} is in a generation of another kind"));
        }
        let last = self.tables.last().and_then(Option::as_ref);
        let follows = last.is_none_or(|last| {
            let adjoins = usize::from(slot.0) == self.tables.len();
            adjoins && last.file.meta().max_key < file.meta().min_key
        });
        if self.is_ingested && !follows {
            return Err(format!("ingested table {number} is out of order"));
        }
        Ok(())
    }
}

impl Partition {
    /// Bytes of the UnsortedStore that were flushed. What was ingested needs no index and costs
    /// scans little, so nobody is slowed because of it.
    pub(crate) fn flushed_bytes(&self) -> u64 {
        let flushed = self.generations.iter().filter(|g| !g.is_ingested);
        flushed.map(Generation::bytes).sum()
    }
}
