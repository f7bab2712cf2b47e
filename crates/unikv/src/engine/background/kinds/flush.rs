//! Flushing the oldest sealed memtable, and giving its tables their places.

use crate::base::keys::SeqNo;
use crate::base::seeded::{seeded, slip};
use crate::base::sync::MutexGuard;
use crate::base::sync::atomic::Ordering;
use crate::engine::background::{Background, Ended};
use crate::engine::catalog::{CatalogState, Indexes};
use crate::engine::write::blobs;
use crate::error::Result;
use crate::jobs::flush::placing::{Placed, PlacingContext};
use crate::jobs::flush::{FlushedTable, flush, flushed_together, placing};
use crate::jobs::{Needs, written};
use crate::partition::MemtableHandle;
use crate::version::edit::VersionEdit;
use crate::version::edit::history::History;
use std::sync::Arc;

impl Background {
    /// Flushes the oldest sealed memtable, and those after it that are short.
    pub(in crate::engine::background) fn flush_oldest(&self) -> Result<Ended> {
        let view = self.read.view.load_full();
        let sealed = &view.sealed;
        if sealed.is_empty() {
            return Ok(Ended::Nothing);
        }
        let count = flushed_together(sealed, self.core.memory.memtable_bytes());
        let newer_count = sealed.len() - count;
        // Newest first, as they are sealed.
        let oldest = slip!(FlushNewestFirst, &sealed[..count], &sealed[newer_count..]);
        let tables: Vec<_> = oldest
            .iter()
            .map(|handle| Arc::clone(&handle.table))
            .collect();
        let filled: usize = tables.iter().map(|table| table.bytes()).sum();
        let last_seq = tables.iter().filter_map(|table| table.max_seq()).max();
        let mark = tables.iter().find_map(|table| table.mark(SeqNo::MAX));
        let limits = self.space.generation_limits(&view.version);
        self.space.probe_space();
        let begin = self.core.now();
        let waiting = || self.read.view.load().sealed.len().saturating_sub(count);
        let needs = Needs {
            waiting: Some(&waiting),
            ..Needs::default()
        };
        let context = self.job_context(self.until_closed(), needs);
        let flushed = flush(&context, &tables);
        let tables = self.core.or_clean_up(&context, flushed)?;
        let time = self.core.now().saturating_sub(begin);
        // A small one takes what a flush takes in any case, which says nothing of its bytes.
        let least = self.core.memory.plan.memtable_bytes / 4;
        let bytes = (filled as u64).max(least);
        self.backpressure.state.note_flush(bytes, time);
        self.write.recent.make_room(filled);
        let placed = self.place_tables(&tables);
        let (mut catalog, placed) = self.core.or_clean_up(&context, placed)?;
        let indexes = indexes_of(&placed);
        // Segments are needed from the one where the next newer memtable begins.
        let newer = newer_count.checked_sub(1).and_then(|next| sealed.get(next));
        let newer = newer.unwrap_or(&view.memtable);
        let newer = slip!(LowWaterTooHigh, view.memtable.wal, newer.wal);
        let low_water = Some(newer).filter(|newer| self.write.wal_sync.may_begin_with(*newer));
        let bytes: u64 = tables.iter().map(|t| t.meta.len).sum();
        let mut record_files: Vec<_> = tables.into_iter().map(|t| t.meta).collect();
        let large = oldest.iter().flat_map(|handle| handle.large.all());
        let (large, overwritten) = blobs::named_by(&record_files, large);
        record_files.extend(large);
        let later = self.keep_for_followers(oldest);
        self.write.sync_for_window();
        let visible = || Some(SeqNo(self.read.visible_seq.load(Ordering::Acquire)));
        let edit = VersionEdit {
            record_files,
            tables: placed.iter().flat_map(|p| p.places.clone()).collect(),
            last_seq: slip!(FlushedSeqTooHigh, visible(), last_seq),
            host_mark: slip!(NewestMark, view.mark(SeqNo::MAX), mark).map(Vec::from),
            wal_low_water: low_water,
            later,
            ..VersionEdit::default()
        };
        if seeded!(LogRemovedBeforeEdit) {
            self.core
                .store
                .remove_files(self.write.wal_sync.retire_below(newer, 0));
        }
        if seeded!(LogRecycledBeforeEdit) {
            self.write.retire_below(newer);
        }
        self.catalog
            .commit_edit(&mut catalog, edit, &indexes, |view| {
                // More may have been sealed meanwhile.
                let kept = view.sealed.len().saturating_sub(count);
                let kept = slip!(FlushDropsUnflushed, newer_count, kept);
                for flushed in view.sealed.drain(kept..).rev() {
                    self.write.recent.flushed(&flushed.table);
                }
            })
            .inspect_err(|_| self.catalog.quarantine(&mut catalog, &context))?;
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
        self.core.counters.flushes.fetch_add(1, Ordering::Relaxed);
        self.core
            .counters
            .flush_bytes
            .fetch_add(bytes, Ordering::Relaxed);
        written::add(bytes);
        if let Some(low_water) = low_water {
            self.write.retire_below(low_water);
        }
        Ok(Ended::Done)
    }

    /// Keeps the files of large values for those that follow the changes; what the manifest is to
    /// hold of them. Newest first, as the memtables are sealed.
    fn keep_for_followers(&self, memtables: &[MemtableHandle]) -> Option<Box<History>> {
        if self.core.options.change_window_bytes == 0 {
            return None;
        }
        let mut files = Vec::new();
        for memtable in memtables.iter().rev() {
            let large = memtable.large.all();
            let Some(until) = memtable.table.max_seq() else {
                continue;
            };
            self.core.window_files.keep(until, &large);
            files.extend(large.iter().map(|file| (until, file.meta().number)));
        }
        let (until, _) = *files.last()?;
        Some(Box::new(History {
            // No further than the tables reach: a crash may take the rest.
            from: self.write.wal_sync.window_from().min(until),
            files,
            ..History::default()
        }))
    }

    /// Gives tables their places in the partitions. This may read key sections, so it is done
    /// without the lock; what was split or frozen meanwhile is gone over with it, and that reads no
    /// section, because new generations begin there, and little of key tables that a merge has just
    /// made.
    pub(crate) fn place_tables(
        &self,
        tables: &[FlushedTable],
    ) -> Result<(MutexGuard<'_, CatalogState>, Vec<Placed>)> {
        let mut catalog = self.catalog.lock();
        let (version, targets) = catalog.reserve(tables);
        let last_generation = Arc::clone(&catalog.last_generation);
        drop(catalog);
        let context = PlacingContext {
            limits: self.space.generation_limits(&version),
            hash_seed: self.core.hash_seed,
            last_generation: &last_generation,
        };
        let placed = placing::place(&context, tables, &version, &targets, Vec::new())?;
        let catalog = self.catalog.lock();
        let (version, targets) = (&catalog.version, &catalog.targets);
        let placed = placing::place(&context, tables, version, targets, placed)?;
        Ok((catalog, placed))
    }
}

/// The hash indexes that are published with placed tables.
pub(crate) fn indexes_of(placed: &[Placed]) -> Indexes {
    let each = placed.iter().flat_map(|p| {
        let of = p.partition;
        p.indexes
            .iter()
            .map(move |(g, index)| ((of, *g), Arc::clone(index)))
    });
    each.collect()
}
