//! Committing what jobs have made: the edit, and what follows from it, in one place. Jobs whose
//! edit depends on the catalog alone (clearing, splits, notes of the time) are done here.
//!
//! Invariant: the catalog's lock is held from the look at the version by which an edit is made
//! until the edit is committed, but where leases keep others from changing what it is made by.

use super::{Background, Ended};
use crate::base::keys::PartitionId;
use crate::base::seeded::seeded;
use crate::base::sync::atomic::Ordering;
use crate::engine::catalog::{CatalogState, Indexes};
use crate::error::Result;
use crate::jobs::compact::scan_merge;
use crate::jobs::partitioning::join;
use crate::jobs::partitioning::split::Split;
use crate::jobs::{JobContext, Needs, written};
use crate::partition::scan_sources;
use crate::version::edit::VersionEdit;
use crate::version::{Generation, Partition};
use std::sync::Arc;

/// What an attempt to commit a join came to.
pub(super) enum Attempt {
    Joined,
    /// Its open generations are frozen.
    ToBeMerged,
    GivenUp,
}

impl Background {
    /// Commits an edit. The generations of partitions that it drops take no more tables. Where it
    /// fails, the files that the job of `context` has begun are removed, or kept aside if the edit
    /// may be durable.
    pub(super) fn commit(
        &self,
        catalog: &mut CatalogState,
        edit: VersionEdit,
        indexes: &Indexes,
        context: Option<&JobContext<'_>>,
    ) -> Result<()> {
        let dropped = edit.dropped_partitions.clone();
        let committed = self.catalog.commit_edit(catalog, edit, indexes, |_| ());
        if let (Err(_), Some(context)) = (&committed, context) {
            self.catalog.quarantine(catalog, context);
        }
        committed?;
        for id in dropped {
            catalog.end_target(id);
        }
        Ok(())
    }

    /// Notes the time, while there is something that expires. The manifest has the job clock, from
    /// which the next opening goes on ([`crate::vfs::clock`]). Each edit notes it, and where a
    /// minute has passed without one, an edit that does nothing else. So a crash takes a minute of
    /// it at most.
    pub(super) fn note_clock(&self) -> Result<Ended> {
        let view = self.read.view.load_full();
        let is_empty = view.memtable.table.is_empty() && view.sealed.is_empty();
        if is_empty && !view.version.expires() {
            // Nothing expires any more.
            self.core.clock.noted(self.core.now());
            return Ok(Ended::Nothing);
        }
        let mut catalog = self.catalog.lock();
        // Another worker may have noted it, or another edit.
        let now = self.core.now();
        let is_later = |at| at > now;
        if self.core.clock.note_at().is_none_or(is_later) {
            return Ok(Ended::Nothing);
        }
        let edit = VersionEdit::default();
        self.commit(&mut catalog, edit, &Indexes::new(), None)?;
        Ok(Ended::Done)
    }

    /// Empties partitions whose leases are held.
    pub(super) fn clear(&self, ids: &[PartitionId]) -> Result<Ended> {
        let mut catalog = self.catalog.lock();
        let edit = catalog.clearing(ids);
        let dropped = edit.dropped_partitions.iter();
        let cleared = dropped.filter_map(|id| catalog.version.partition(*id).cloned());
        let cleared: Vec<Arc<Partition>> = cleared.collect();
        if cleared.is_empty() {
            return Ok(Ended::Nothing);
        }
        self.commit(&mut catalog, edit, &Indexes::new(), None)?;
        catalog.freeze_beside(&cleared);
        Ok(Ended::Done)
    }

    /// Puts one partition in the place of neighbours whose leases are held, if these still list
    /// nothing, and nothing can come to them.
    pub(super) fn join_gone(&self, ids: &[PartitionId]) -> Result<Ended> {
        let mut catalog = self.catalog.lock();
        let Some(edit) = catalog.joining_gone(ids) else {
            return Ok(Ended::Nothing);
        };
        self.commit(&mut catalog, edit, &Indexes::new(), None)?;
        self.core.counters.count_join(ids);
        Ok(Ended::Done)
    }

    /// Commits the join of leased neighbours if neither side has an UnsortedStore, or else freezes
    /// what they have.
    pub(super) fn try_to_join(&self, sides: [PartitionId; 2]) -> Result<Attempt> {
        let mut catalog = self.catalog.lock();
        let [left, right] = sides.map(|id| catalog.version.partition(id).cloned());
        let Some((left, right)) = left.zip(right) else {
            return Ok(Attempt::GivenUp);
        };
        // What came meanwhile may be too much for one partition.
        let limits = self.space.partition_limits();
        if !catalog.may_be_joined(&left, &right) || !join::is_due(&left, &right, limits) {
            return Ok(Attempt::GivenUp);
        }
        let id = PartitionId(catalog.version.counters.next_partition);
        let Some(edit) = join::edit(&left, &right, id) else {
            if self.catalog.flush_is_blocked(&catalog) {
                return Ok(Attempt::GivenUp);
            }
            catalog.freeze(&left);
            catalog.freeze(&right);
            return Ok(Attempt::ToBeMerged);
        };
        self.commit(&mut catalog, edit, &Indexes::new(), None)?;
        self.core.counters.count_join(&sides);
        Ok(Attempt::Joined)
    }

    /// Splits a partition whose lease is held (see [`crate::jobs::partitioning::split`]).
    pub(super) fn split(&self, id: PartitionId) -> Result<Ended> {
        let version = Arc::clone(&self.read.view.load().version);
        let leased = version.partition(id);
        leased.map_or(Ok(Ended::Nothing), |leased| self.split_leased(leased))
    }

    /// The same, `leased` being what it was some time ago.
    pub(crate) fn split_leased(&self, leased: &Partition) -> Result<Ended> {
        let Some(mut split) = Split::choose(leased) else {
            return Ok(Ended::Nothing);
        };
        split.divide_tables(leased)?;
        loop {
            let mut catalog = self.catalog.lock();
            let Some(partition) = catalog.version.partition(leased.id).cloned() else {
                return Ok(Ended::Nothing);
            };
            if !split.is_complete(&partition) && !seeded!(SplitForgetsNewTables) {
                // A flush has added tables, which are looked at without the lock.
                drop(catalog);
                split.divide_tables(&partition)?;
                continue;
            }
            let next = catalog.version.counters.next_partition;
            let ids = [PartitionId(next), PartitionId(next + 1)];
            let edit = split.edit(&partition, ids);
            // The sides share their parent's indexes, so nothing more is entered there.
            let generations = partition.generations.iter();
            let indexes: Indexes = generations
                .flat_map(|g| ids.map(|id| ((id, g.id), Arc::clone(&g.index))))
                .collect();
            self.commit(&mut catalog, edit, &indexes, None)?;
            self.core.counters.count_split(leased.id);
            return Ok(Ended::Done);
        }
    }

    /// Merges the keys of a leased partition's newest generation, if that is still worth its cost
    /// (see [`crate::jobs::compact::scan_merge`]). The run is for speed alone. The lease keeps the
    /// generation until the edit is committed; flushes may add tables meanwhile, which the run does
    /// not cover.
    pub(super) fn scan_merge_in(&self, id: PartitionId) -> Result<Ended> {
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
        let (mut catalog, indexes) = (self.catalog.lock(), Indexes::new());
        self.commit(&mut catalog, edit, &indexes, Some(&context))?;
        drop(catalog);
        let counters = &self.core.counters;
        counters.scan_merges.fetch_add(1, Ordering::Relaxed);
        counters
            .scan_merge_bytes
            .fetch_add(bytes, Ordering::Relaxed);
        written::add(bytes);
        Ok(())
    }
}

#[cfg(test)]
mod scan_merge_tests;
#[cfg(test)]
mod split_tests;
