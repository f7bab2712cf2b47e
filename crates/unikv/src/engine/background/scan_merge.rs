//! Running scan merges (see [`crate::jobs::compact::scan_merge`]): when scans have paid for one,
//! merge the keys of a partition's newest generation, and commit the run.
//!
//! A run is for speed alone. So a scan merge comes after splits and merges, and a failed one is no
//! failure of the database: nobody waits for it, and it is not tried again before scans have paid
//! anew. It holds the partition's lease, so its generation stays until its edit is committed;
//! flushes may add tables meanwhile, which the run does not cover.

use crate::base::sync::atomic::Ordering;
use crate::engine::background::Background;
use crate::engine::catalog::Indexes;
use crate::error::Result;
use crate::jobs::compact::scan_merge;
use crate::version::edit::VersionEdit;
use crate::version::{Generation, Partition};

impl Background {
    /// Merges the keys of a generation for which scans have paid, if there is one.
    pub(crate) fn scan_merge_one(&self) -> Result<bool> {
        self.core.health.check_fatal()?;
        let leased = {
            let mut catalog = self.catalog.lock();
            let found = self.schedule.plan_scan_merge(&catalog).cloned();
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
            self.core
                .counters
                .failed_scan_merges
                .fetch_add(1, Ordering::Relaxed);
            // Unless writing is suspended, that was all: back to other work.
            self.core.health.check_fatal()?;
        }
        Ok(true)
    }

    fn scan_merge(&self, partition: &Partition, generation: &Generation) -> Result<()> {
        let context = self.job_context();
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
        Ok(())
    }
}

#[cfg(test)]
mod tests;
