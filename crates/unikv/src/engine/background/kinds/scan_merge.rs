//! Running scan merges (see [`crate::jobs::compact::scan_merge`]): when one is worth its cost,
//! merge the keys of a partition's newest generation, and commit the run.
//!
//! A run is for speed alone. So a scan merge comes after splits and merges, and a failed one is no
//! failure of the database: nobody waits for it, and it is not tried again before scans have lost
//! again. It holds the partition's lease, so its generation stays until its edit is committed;
//! flushes may add tables meanwhile, which the run does not cover.

use crate::base::keys::PartitionId;
use crate::base::sync::atomic::Ordering;
use crate::engine::background::{Background, Ended};
use crate::engine::catalog::Indexes;
use crate::error::Result;
use crate::jobs::compact::scan_merge;
use crate::jobs::{Needs, written};
use crate::partition::scan_sources;
use crate::version::edit::VersionEdit;
use crate::version::{Generation, Partition};
use std::sync::Arc;

impl Background {
    /// Merges the keys of a leased partition's newest generation, if that is still worth its cost.
    pub(in crate::engine::background) fn scan_merge_in(&self, id: PartitionId) -> Result<Ended> {
        let version = Arc::clone(&self.read.view.load().version);
        let limit = self.core.options.scan_merge_limit as usize;
        let partition = version.partition(id);
        let partition = partition.filter(|p| scan_sources::is_merge_worth_it(p, limit));
        let newest = partition.and_then(|p| Some((p, p.generations.first()?)));
        let ended = newest.map_or(Ok(Ended::Nothing), |(partition, newest)| {
            let merged = self.scan_merge(partition, newest);
            // Whatever came of it: the next one is to become worth its cost again.
            newest.scan_cost.set(0);
            merged.map(|()| Ended::Done)
        });
        // It is not worth its cost any more.
        self.read.charged.report(id);
        ended
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
