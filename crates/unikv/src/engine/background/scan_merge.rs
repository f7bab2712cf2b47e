//! Running scan merges (see [`crate::jobs::compact::scan_merge`]): when scans have paid for one,
//! merge the keys of a partition's newest generation, and commit the run.
//!
//! A run is for speed alone. So a scan merge comes after splits and merges, and a failed one is no
//! failure of the database: nobody waits for it, and it is not tried again before scans have paid
//! anew. It holds the partition's lease, so its generation stays until its edit is committed;
//! flushes may add tables meanwhile, which the run does not cover.

use crate::base::sync::atomic::Ordering;
use crate::engine::Engine;
use crate::engine::catalog::{Catalog, Indexes};
use crate::error::Result;
use crate::jobs::compact::scan_merge;
use crate::partition::scan_sources;
use crate::version::edit::VersionEdit;
use crate::version::{Generation, Partition};
use std::sync::Arc;

impl Engine {
    /// Merges the keys of a generation for which scans have paid, if there is one.
    pub(crate) fn scan_merge_one(&self) -> Result<bool> {
        self.health.check_fatal()?;
        let leased = {
            let mut catalog = self.catalog.lock();
            let found = self.plan_scan_merge(&catalog).cloned();
            catalog.merging.extend(found.iter().map(|p| p.id));
            found
        };
        let Some(partition) = leased else {
            return Ok(false);
        };
        let mut merged = Ok(());
        if let Some(newest) = partition.generations.first() {
            merged = self.scan_merge(&partition, newest);
            // Whatever came of it: the next one is to be paid for anew.
            newest.scan_cost.store(0, Ordering::Relaxed);
        }
        self.catalog.lock().merging.remove(&partition.id);
        if merged.is_err() {
            self.counters
                .failed_scan_merges
                .fetch_add(1, Ordering::Relaxed);
            // Unless writing is suspended, that was all: back to other work.
            self.health.check_fatal()?;
        }
        Ok(true)
    }

    /// The partition, among those that are free, in which scans have paid for a merge.
    pub(crate) fn plan_scan_merge<'a>(&self, catalog: &'a Catalog) -> Option<&'a Arc<Partition>> {
        let limit = self.options.scan_merge_limit as usize;
        let partitions = catalog.version.partitions().iter();
        let mut free = partitions.filter(|p| !catalog.merging.contains(&p.id));
        free.find(|partition| {
            let newest = partition.generations.first();
            newest.is_some_and(|newest| scan_sources::scans_have_paid(newest, limit))
        })
    }

    fn scan_merge(&self, partition: &Partition, generation: &Generation) -> Result<()> {
        let context = self.job_context();
        let run = scan_merge::scan_merge(&context, partition, generation);
        let run = self.or_clean_up(&context, run)?;
        let bytes: u64 = run.tables.iter().map(|table| table.len).sum();
        let edit = VersionEdit {
            scan_runs: vec![run],
            ..VersionEdit::default()
        };
        let mut catalog = self.catalog.lock();
        self.commit_edit(&mut catalog, edit, &Indexes::new(), |_| ())
            .inspect_err(|_| self.quarantine(&mut catalog, &context))?;
        drop(catalog);
        self.counters.scan_merges.fetch_add(1, Ordering::Relaxed);
        self.counters
            .scan_merge_bytes
            .fetch_add(bytes, Ordering::Relaxed);
        Ok(())
    }
}

#[cfg(test)]
mod tests;
