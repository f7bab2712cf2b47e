//! The scan run of a generation: looking for it, setting it, dropping it.

use super::generation::Generation;
use super::state::Partition;
use crate::base::keys::GenerationId;
use crate::base::sync::atomic::Ordering;
use crate::version::scan_run::ScanRun;
use std::sync::Arc;

impl Generation {
    /// The run that is to be read in place of the tables below its end.
    pub(crate) fn sound_run(&self) -> Option<&Arc<ScanRun>> {
        let sound = |run: &&Arc<ScanRun>| !run.damaged.load(Ordering::Relaxed);
        self.run.as_ref().filter(sound)
    }

    /// How many sources a scan merges: the tables with keys that no run covers, and the run.
    pub(crate) fn scan_sources(&self) -> usize {
        if self.is_ingested() {
            return 1;
        }
        let run = self.sound_run();
        let covered = run.map_or(0, |run| usize::from(run.end.0));
        let uncovered = self.tables.iter().skip(covered).flatten();
        let with_keys = uncovered.filter(|table| table.file.meta().has_keys());
        with_keys.count() + usize::from(run.is_some())
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
