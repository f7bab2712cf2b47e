//! Committing what jobs have made: the edit, and what follows from it, in one place. Jobs whose
//! edit depends on the catalog alone (clearing, splits, joins, notes of the time) are done here.
//!
//! Invariant: the catalog's lock is held from the look at the version by which an edit is made
//! until the edit is committed, but where leases keep others from changing what it is made by.

use super::{Background, Ended};
use crate::base::keys::{PartitionId, SeqNo};
use crate::base::seeded::{seeded, slip};
use crate::base::sync::atomic::Ordering;
use crate::engine::catalog::{CatalogState, Indexes, indexes_of};
use crate::engine::health::JobName;
use crate::engine::write::blobs;
use crate::error::Result;
use crate::jobs::compact::parts::{MergePlan, Merged, Purpose, partitions_of};
use crate::jobs::compact::scan_merge;
use crate::jobs::compact::together::Together;
use crate::jobs::flush::FlushedTable;
use crate::jobs::partitioning::join;
use crate::jobs::partitioning::split::Split;
use crate::jobs::{JobContext, Needs, written};
use crate::partition::{MemtableHandle, View, scan_sources};
use crate::version::edit::VersionEdit;
use crate::version::{Generation, Partition};
use std::sync::Arc;
use std::time::Duration;

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
        self.commit_and(catalog, edit, indexes, context, |_| ())
    }

    /// The same; `publish` changes the view with it.
    fn commit_and(
        &self,
        catalog: &mut CatalogState,
        edit: VersionEdit,
        indexes: &Indexes,
        context: Option<&JobContext<'_>>,
        publish: impl FnOnce(&mut View),
    ) -> Result<()> {
        let dropped = edit.dropped_partitions.clone();
        let committed = self.catalog.commit_edit(catalog, edit, indexes, publish);
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
            if !split.is_complete(&partition) {
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
        self.core.counters.count_scan_merge(bytes);
        written::add(bytes);
        Ok(())
    }
}

impl Background {
    /// Commits the tables that `oldest`, the oldest sealed memtables of `view`, have become.
    pub(super) fn commit_flush(
        &self,
        context: &JobContext<'_>,
        view: &View,
        oldest: &[MemtableHandle],
        tables: Vec<FlushedTable>,
    ) -> Result<()> {
        let limits = self.space.generation_limits(&view.version);
        let placed = self.catalog.place_tables(&tables);
        let (mut catalog, placed) = self.core.or_clean_up(context, placed)?;
        let newer_count = view.sealed.len() - oldest.len();
        // Segments are needed from the one where the next newer memtable begins.
        let newer = newer_count.checked_sub(1);
        let newer = newer.and_then(|next| view.sealed.get(next));
        let newer = newer.unwrap_or(&view.memtable);
        let newer = slip!(LowWaterTooHigh, view.memtable.wal, newer.wal);
        let low_water = Some(newer).filter(|newer| self.write.wal_sync.may_begin_with(*newer));
        let bytes: u64 = tables.iter().map(|t| t.meta.len).sum();
        let mut record_files: Vec<_> = tables.into_iter().map(|t| t.meta).collect();
        let large = oldest.iter().flat_map(|handle| handle.large.all());
        let (large, overwritten) = blobs::named_by(&record_files, large);
        record_files.extend(large);
        let later = self.write.keep_for_feed(oldest);
        self.write.sync_for_window();
        let memtables = || oldest.iter().map(|handle| &handle.table);
        let commit_tag = memtables().find_map(|table| table.commit_tag(SeqNo::MAX));
        let last_seq = memtables().filter_map(|table| table.max_seq()).max();
        let visible = || Some(SeqNo(self.read.visible_seq.load(Ordering::Acquire)));
        let edit = VersionEdit {
            record_files,
            tables: placed.iter().flat_map(|p| p.places.clone()).collect(),
            last_seq: slip!(FlushedSeqTooHigh, visible(), last_seq),
            commit_tag: slip!(NewestMark, view.commit_tag(SeqNo::MAX), commit_tag).map(Vec::from),
            wal_low_water: low_water,
            later,
            ..VersionEdit::default()
        };
        if seeded!(LogRemovedBeforeEdit) {
            let retired = self.write.wal_sync.retire_below(newer, 0);
            self.core.store.remove_files(retired);
        }
        if seeded!(LogRecycledBeforeEdit) {
            self.write.retire_below(newer);
        }
        let indexes = indexes_of(&placed);
        self.commit_and(&mut catalog, edit, &indexes, Some(context), |view| {
            // More may have been sealed meanwhile.
            let kept = view.sealed.len().saturating_sub(oldest.len());
            let kept = slip!(FlushDropsUnflushed, newer_count, kept);
            for flushed in view.sealed.drain(kept..).rev() {
                self.write.recent.flushed(&flushed.table);
            }
        })?;
        // The log names them no more.
        let window_files = &self.core.window_files;
        overwritten
            .iter()
            .for_each(|file| window_files.mark_obsolete(file));
        let targets = placed.into_iter().map(|p| (p.partition, p.target));
        catalog.begin_targets(targets);
        // A full generation is frozen at once, so that its merge need not wait for the next flush.
        catalog.freeze_full(limits);
        let space = self.space.space_of(&catalog.version, self.space.horizon());
        let most = space.most_hidden(self.space.space_limit());
        catalog.freeze_hiding(space.unmerged_garbage(), most);
        drop(catalog);
        self.core.counters.count_flush(bytes);
        written::add(bytes);
        if let Some(low_water) = low_water {
            self.write.retire_below(low_water);
        }
        Ok(())
    }

    /// Commits the passes of a job of `name`, of its plans the first ones, as many as are done.
    pub(super) fn commit_passes(
        &self,
        name: JobName,
        context: &JobContext<'_>,
        plans: &[MergePlan],
        together: Together,
        began: Duration,
    ) -> Result<()> {
        let plans = &plans[..together.merged.len()];
        for (plan, merged) in plans.iter().zip(&together.merged) {
            // The edit is to say so, too.
            self.count_pass(plan, merged);
        }
        let generations = plans.iter().flat_map(|plan| &plan.inputs.generations);
        let bytes = generations.map(Generation::bytes).sum::<u64>();
        if bytes > 0 {
            let pressure = &self.backpressure.state;
            pressure.note_merge(bytes, began, self.core.now());
        }
        let (edit, moved) = together.edit(plans);
        let (mut catalog, indexes) = (self.catalog.lock(), Indexes::new());
        self.commit(&mut catalog, edit, &indexes, Some(context))?;
        let version = Arc::clone(&catalog.version);
        drop(catalog);
        for id in partitions_of(plans) {
            self.choices.merged(id);
            // Which records are much longer than the others: of what cannot be read nothing is
            // known.
            let partition = version.partition(id).into_iter();
            for table in partition.flat_map(|partition| &partition.key_tables) {
                let _nothing_known = table.outliers();
            }
            self.core.job_recovered(name, Some(id));
        }
        // Nobody asks for them there any more.
        for (file, offset) in moved {
            self.core.cache.remove_record(file, offset);
        }
        Ok(())
    }

    fn count_pass(&self, plan: &MergePlan, merged: &Merged) {
        let copied = merged.copied_bytes;
        let keys: u64 = merged.key_tables.iter().map(|table| table.len).sum();
        let (purpose, partition) = (plan.inputs.purpose, &plan.partition);
        let counters = &self.core.counters;
        counters.count_pass(purpose, partition.id, keys + copied, copied);
        if purpose == Purpose::Cluster {
            let spent = slip!(ClusterUnspent, 0, copied);
            partition.scan_cost.spend(spent);
        }
        written::add(keys + copied);
    }
}

#[cfg(test)]
mod scan_merge_tests;
#[cfg(test)]
mod split_tests;
