//! Scan runs: the keys of several tables of a generation, merged into one sorted sequence of key
//! tables, so that scans read one source in place of many (paper §III-F, the size-based merge).
//!
//! A run belongs to its generation and goes with it. It is *derived*: it holds the key sections of
//! the tables below a slot once more, all versions, as far as they lie in the partition's range.
//! Its pointers lead into these tables, which the generation keeps; so they count nowhere, and
//! whoever finds the run lost or damaged reads the sections instead. Point lookups do not know it.

use super::generation::Generation;
use super::state::Partition;
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
    tables: Vec<Arc<KeyTable>>,
    end: Slot,
    /// Set by whoever met damage in it: from then on nobody reads it.
    damaged: AtomicBool,
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

impl Generation {
    /// The run that is to be read in place of the tables below its end.
    pub(crate) fn sound_run(&self) -> Option<&Arc<ScanRun>> {
        let sound = |run: &&Arc<ScanRun>| !run.damaged.load(Ordering::Relaxed);
        self.run.as_ref().filter(sound)
    }

    /// How many sources a scan merges: the tables that no run covers, and the run.
    pub(crate) fn scan_sources(&self) -> usize {
        if self.is_ingested() {
            return 1;
        }
        let run = self.sound_run();
        let covered = run.map_or(0, |run| usize::from(run.end.0));
        let uncovered = self.tables.iter().skip(covered).flatten().count();
        uncovered + usize::from(run.is_some())
    }
}

impl Partition {
    /// Checks that `run` fits the generation that it is for, and puts it there. Returns the run
    /// that it takes the place of.
    pub(super) fn set_scan_run(
        &mut self,
        id: GenerationId,
        run: Arc<ScanRun>,
    ) -> Result<Option<Arc<ScanRun>>, String> {
        let metas = || run.tables.iter().map(|table| table.meta());
        let range = self.range();
        if metas().any(|t| t.min_key < self.start || !range.is_before_end(&t.max_key)) {
            return Err(format!("a scan run of partition {} leaves it", self.id.0));
        }
        let ordered = metas().zip(metas().skip(1));
        if ordered.into_iter().any(|(a, b)| a.max_key >= b.min_key) {
            return Err(format!("tables of a scan run overlap in {}", self.id.0));
        }
        let generation = self.generation_mut(id)?;
        if usize::from(run.end.0) > generation.tables.len() {
            return Err(format!(
                "a scan run of generation {} covers slots to come",
                id.0
            ));
        }
        Ok(generation.run.replace(run))
    }

    /// Takes the run of a generation away.
    pub(super) fn drop_scan_run(&mut self, id: GenerationId) -> Result<Arc<ScanRun>, String> {
        let run = self.generation_mut(id)?.run.take();
        run.ok_or_else(|| format!("generation {} has no scan run", id.0))
    }

    fn generation_mut(&mut self, id: GenerationId) -> Result<&mut Generation, String> {
        let found = self.generations.iter_mut().find(|g| g.id == id);
        found.ok_or_else(|| format!("generation {} is unknown", id.0))
    }
}
