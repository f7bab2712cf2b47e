//! Running scan merges (see [`crate::jobs::compact::scan_merge`]): when one is worth its cost,
//! merge the keys of a partition's newest generation, and commit the run.
//!
//! A run is for speed alone. So a scan merge comes after splits and merges, and a failed one is no
//! failure of the database: nobody waits for it, and it is not tried again before scans have lost
//! again. It holds the partition's lease, so its generation stays until its edit is committed;
//! flushes may add tables meanwhile, which the run does not cover.

use crate::base::keys::{GenerationId, PartitionId};
use crate::base::sync::atomic::Ordering;
use crate::engine::background::scheduler::Ask;
use crate::engine::background::{Background, Ended, JobKind};
use crate::engine::catalog::Indexes;
use crate::engine::health::JobName;
use crate::error::{Error, Result};
use crate::jobs::compact::scan_merge;
use crate::jobs::plan::{Job, Why};
use crate::jobs::{Needs, written};
use crate::partition::scan_sources;
use crate::version::edit::VersionEdit;
use crate::version::{Generation, Partition};
use std::sync::Arc;

/// Merges the keys of a partition's newest generation where that is worth its cost to scans.
pub(crate) struct ScanMerges;

impl JobKind for ScanMerges {
    fn name(&self) -> JobName {
        "scan merge"
    }

    fn is_for_reads(&self) -> bool {
        true
    }

    fn find(&self, background: &Background, ask: &Ask<'_>) -> Option<(Job, Why)> {
        let limit = background.core.options.scan_merge_limit as usize;
        let partitions = scan_sources::perhaps_many(&ask.catalog.version, limit);
        let mut due = partitions.filter(|partition| {
            let newest = partition.generations.first();
            newest.is_some_and(|newest| scan_sources::is_merge_worth_it(newest, limit))
        });
        let partition = due.find(|p| ask.is_free(p.id))?;
        let newest = partition.generations.first()?;
        Some((Job::ScanMerge(partition.id, newest.id), Why::WorthAScanRun))
    }

    fn failed(&self, background: &Background, _: Option<PartitionId>, _: &Error) {
        let failed = &background.core.counters.failed_scan_merges;
        failed.fetch_add(1, Ordering::Relaxed);
    }
}

impl Background {
    pub(in crate::engine::background) fn scan_merge_in(
        &self,
        id: PartitionId,
        generation: GenerationId,
    ) -> Result<Ended> {
        let version = Arc::clone(&self.read.view.load().version);
        let Some(partition) = version.partition(id) else {
            return Ok(Ended::Nothing);
        };
        let mut generations = partition.generations.iter();
        let Some(found) = generations.find(|found| found.id == generation) else {
            return Ok(Ended::Nothing);
        };
        let merged = self.scan_merge(partition, found);
        // Whatever came of it: the next one is to become worth its cost again.
        found.scan_cost.set(0);
        merged.map(|()| Ended::Done)
    }

    fn scan_merge(&self, partition: &Partition, generation: &Generation) -> Result<()> {
        let context = self.job_context(self.until_closed(), Needs::default());
        let run = scan_merge::scan_merge(&context, partition, generation);
        let run = self.core.or_clean_up(&context, run)?;
        let bytes: u64 = run.tables.iter().map(|table| table.len).sum();
        let edit = VersionEdit {
            scan_runs: vec![run],
            ..VersionEdit::default()
        };
        let mut catalog = self.catalog.lock();
        self.catalog
            .commit_edit(&mut catalog, edit, &Indexes::new(), |_| ())
            .inspect_err(|_| self.catalog.quarantine(&mut catalog, &context))?;
        drop(catalog);
        self.core
            .counters
            .scan_merges
            .fetch_add(1, Ordering::Relaxed);
        self.core
            .counters
            .scan_merge_bytes
            .fetch_add(bytes, Ordering::Relaxed);
        written::add(bytes);
        Ok(())
    }
}

#[cfg(test)]
mod tests;
