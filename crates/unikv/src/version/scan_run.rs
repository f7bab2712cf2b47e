//! Scan runs: the keys of several tables of a generation, merged into one sorted sequence of key
//! tables, so that scans read one source in place of many (paper §III-F, the size-based merge).
//!
//! A run belongs to its generation and goes with it. It is *derived*: it holds the key sections of
//! the tables below a slot once more, all versions, as far as they lie in the partition's range.
//! Its pointers lead into these tables, which the generation keeps; so they count nowhere, and a
//! scan that finds the run lost or damaged reads the sections instead. Point lookups do not know
//! it.

use crate::base::keys::{GenerationId, PartitionId, Slot};
use crate::base::sync::atomic::{AtomicBool, Ordering};
use crate::key_table::{KeyTable, KeyTableMeta};
use std::sync::Arc;

/// A scan run as an edit lists it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct ScanRunMeta {
    pub(crate) partition: PartitionId,
    pub(crate) generation: GenerationId,
    /// The tables in the slots below this one are covered.
    pub(crate) end: Slot,
    /// Ascending, disjoint; no key's versions span two.
    pub(crate) tables: Vec<KeyTableMeta>,
}

/// The keys of a generation's oldest tables in one sorted run.
pub(crate) struct ScanRun {
    pub(super) tables: Vec<Arc<KeyTable>>,
    pub(super) end: Slot,
    /// Set when damage was met in it: from then on it is not read.
    pub(super) damaged: AtomicBool,
}

impl ScanRun {
    pub(super) fn new(tables: Vec<Arc<KeyTable>>, end: Slot) -> Arc<ScanRun> {
        Arc::new(ScanRun {
            tables,
            end,
            damaged: AtomicBool::new(false),
        })
    }

    /// The merged keys: ascending, disjoint tables.
    pub(crate) fn tables(&self) -> &[Arc<KeyTable>] {
        &self.tables
    }

    /// Bytes of the tables.
    pub(crate) fn bytes(&self) -> u64 {
        self.tables.iter().map(|table| table.meta().len).sum()
    }

    /// The first slot whose table is not covered.
    pub(crate) fn end(&self) -> Slot {
        self.end
    }

    /// Lets everybody read the sections instead, from now on.
    pub(crate) fn mark_damaged(&self) {
        self.damaged.store(true, Ordering::Relaxed);
    }

    pub(super) fn meta(&self, partition: PartitionId, generation: GenerationId) -> ScanRunMeta {
        ScanRunMeta {
            partition,
            generation,
            end: self.end,
            tables: self.tables.iter().map(|t| t.meta().clone()).collect(),
        }
    }
}
