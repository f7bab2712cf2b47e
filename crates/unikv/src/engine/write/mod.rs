//! The write path: group commit (paper §III-B, "WAL").
//!
//! A writer enters the [`queue`] and leads, or its batch is committed by a leader in a [`group`].
//! Here is what goes on around that: room for a group, sealing, resuming after a failure, syncs.
//!
//! Invariants: a record is in the WAL before it is in the memtable, and in the memtable before
//! `visible_seq` covers it. A batch is one WAL record in one segment. A memtable and the segments
//! that hold its writes are sealed together, under the commit lock, so every write of a sealed
//! memtable is published.

mod admission;
pub(crate) mod blobs;
pub(crate) mod change_window;
pub(crate) mod commit_tags;
pub(crate) mod entry;
pub(crate) mod expiry;
mod full_disk;
pub(crate) mod group;
pub(crate) mod large_batch;
pub(crate) mod queue;
pub(crate) mod streams;
pub(crate) mod waits;
pub(crate) mod wal_sync;

use crate::base::keys::{FileNumber, SeqNo};
use crate::base::seeded::seeded;
use crate::base::sync::FairMutex;
use crate::base::sync::atomic::{AtomicBool, Ordering};
use crate::engine::backpressure::Backpressure;
use crate::engine::catalog::{Catalog, Indexes};
use crate::engine::core::Core;
use crate::engine::read::ReadState;
use crate::engine::recent::RecentWrites;
use crate::engine::space::DiskSpace;
use crate::engine::space::estimates::Freed;
use crate::engine::uses::Uses;
use crate::engine::write::queue::WriteQueue;
use crate::engine::write::wal_sync::{Begun, Segment, WalSync};
use crate::error::{Error, ErrorKind, Result};
use crate::events::Wait;
use crate::log::{SegmentEnd, WalWriter};
use crate::partition::{LargeFiles, MemtableHandle, View};
use crate::version::edit::VersionEdit;
use std::sync::Arc;

/// What the commit lock protects.
pub(crate) struct Commit {
    /// The WAL segment being written; `None` while the WAL is poisoned.
    pub(crate) wal: Option<(WalWriter, Arc<Segment>)>,
    pub(crate) last_seq: SeqNo,
    pub(crate) memtable: MemtableHandle,
    /// What the writes in the memtable free.
    pub(crate) freed: Freed,
    /// Whether the background knows that what is in the memtable may hide much.
    pub(crate) is_watched: bool,
}

/// The component that commits batches.
pub(crate) struct WritePath {
    core: Arc<Core>,
    space: Arc<DiskSpace>,
    backpressure: Arc<Backpressure>,
    pub(crate) recent: Arc<RecentWrites>,
    read: Arc<ReadState>,
    catalog: Arc<Catalog>,
    pub(crate) commit: FairMutex<Commit>,
    /// Writers that wait for the one that leads.
    pub(crate) queue: WriteQueue,
    pub(crate) wal_sync: WalSync,
    /// Whether values may expire that say nothing.
    has_default_ttl: AtomicBool,
    /// Files of large values whose batches are not committed yet.
    pub(crate) staged_large: LargeFiles,
    /// Each writing of large values is one, from before it begins a file until that is with a
    /// memtable or removed.
    pub(crate) staging: Uses,
}

impl WritePath {
    pub(crate) fn new(
        core: &Arc<Core>,
        space: &Arc<DiskSpace>,
        backpressure: &Arc<Backpressure>,
        read: &Arc<ReadState>,
        catalog: &Arc<Catalog>,
        commit: Commit,
        wal_sync: WalSync,
    ) -> Arc<WritePath> {
        let keyspaces = &read.view.load().version.keyspaces;
        let has_default_ttl = core.options.default_ttl.is_some()
            || keyspaces.all().any(|k| k.default_ttl_ms.is_some());
        if has_default_ttl {
            core.clock.need();
        }
        Arc::new(WritePath {
            recent: Arc::clone(&read.recent),
            core: Arc::clone(core),
            space: Arc::clone(space),
            backpressure: Arc::clone(backpressure),
            read: Arc::clone(read),
            catalog: Arc::clone(catalog),
            commit: FairMutex::new(commit),
            queue: WriteQueue::default(),
            wal_sync,
            has_default_ttl: AtomicBool::new(has_default_ttl),
            staged_large: LargeFiles::default(),
            staging: Uses::default(),
        })
    }

    /// Makes sure that the memtable can take `bytes` and that there is a segment to write to. If
    /// that takes a wait for the background that may not be, it is `WouldBlock`.
    pub(crate) fn make_room(
        &self,
        commit: &mut Commit,
        bytes: usize,
        may_wait: bool,
    ) -> Result<()> {
        self.ready_log(commit, may_wait)?;
        let filled = commit.memtable.table.bytes();
        let most_bytes = self.core.memory.memtable_bytes();
        let is_full = (filled + bytes) as u64
            > most_bytes.min(self.space.full_disk.memtable_bytes())
            || self.is_full_of_large(&commit.memtable)
            || commit.memtable.table.is_full_of_ranges()
            || self.space.hides_too_much(commit.freed);
        if filled > 0 && !commit.memtable.table.is_empty() && is_full {
            self.wait_for_flushes(may_wait)?;
            self.seal(commit)?;
        }
        Ok(())
    }

    /// Makes sure that there is a segment to write to.
    fn ready_log(&self, commit: &mut Commit, may_wait: bool) -> Result<()> {
        if self.core.health.is_suspended() {
            self.await_new_log(commit, may_wait)?;
            self.resume(commit)?;
        }
        Ok(())
    }

    /// Seals the memtable together with its WAL segment and begins new ones.
    pub(crate) fn seal(&self, commit: &mut Commit) -> Result<()> {
        let number = self.core.next_file_number();
        let prev = commit.wal.as_ref().map(|(wal, _)| wal.segment_end());
        // A segment that was begun and failed may be on disk and link the end of this one, so that
        // nothing written here later would be replayed: this one is given up, too.
        let wal = self.new_segment(number, prev, commit.last_seq);
        commit.wal = Some(wal.inspect_err(|error| self.poison_wal(error))?);
        self.seal_memtable(commit, number);
        Ok(())
    }

    pub(crate) fn new_segment(
        &self,
        number: FileNumber,
        prev: Option<SegmentEnd>,
        base: SeqNo,
    ) -> Result<Begun> {
        let edits = self.catalog.manifest_edits();
        let begun = self
            .wal_sync
            .begin(&self.core.store, number, prev, edits, base)?;
        let wal_bytes = &self.core.counters.wal_bytes;
        wal_bytes.fetch_add(begun.0.end(), Ordering::Relaxed);
        Ok(begun)
    }

    /// Has the log say how many edits the manifest has, before the writes that come later: a
    /// manifest that has lost the edit just committed is so found out, and no later write shows
    /// without it. `low_water`: where that edit says that the log begins from now on
    /// ([`WritePath::low_water_of_nothing`]); a new segment says it then, and the old ones go.
    pub(crate) fn note_edit(&self, commit: &mut Commit, low_water: Option<FileNumber>) {
        let Some(low_water) = low_water else {
            let edits = self.catalog.manifest_edits();
            // The edit stands; after a failure the next write finds the log poisoned and resumes.
            if !seeded!(EditUnnoted) {
                let _poisoned = self.append_note(commit, |wal| wal.stage_edits(edits));
            }
            return;
        };
        commit.memtable.wal = low_water;
        let Some((wal, _)) = &commit.wal else {
            return;
        };
        let prev = Some(wal.segment_end());
        let number = self.core.next_file_number();
        match self.new_segment(number, prev, commit.last_seq) {
            Ok(begun) => commit.wal = Some(begun),
            Err(error) => self.poison_wal(&error),
        }
        self.retire_below(low_water);
    }

    /// Appends a record that is no write, if there is a log.
    fn append_note(&self, commit: &mut Commit, stage: impl FnOnce(&mut WalWriter)) -> Result<()> {
        let Some((wal, segment)) = &mut commit.wal else {
            return Ok(());
        };
        let begin = wal.end();
        stage(wal);
        wal.write_staged()
            .inspect_err(|error| self.poison_wal(error))?;
        segment.written(wal.end());
        let wal_bytes = &self.core.counters.wal_bytes;
        wal_bytes.fetch_add(wal.end() - begin, Ordering::Relaxed);
        Ok(())
    }

    /// Puts an empty memtable, whose writes go to segment `number`, in the place of the full one.
    fn seal_memtable(&self, commit: &mut Commit, number: FileNumber) {
        let others = self.read.view.load().others_seq();
        let memtable = commit.memtable.table.next(&self.core.pool, others);
        commit.memtable = MemtableHandle::new(memtable, number);
        self.space
            .estimates
            .sealed(std::mem::take(&mut commit.freed));
        self.space.memtable_begins();
        commit.is_watched = false;
        let memtable = commit.memtable.clone();
        self.read.update_view(|view| {
            let full = std::mem::replace(&mut view.memtable, memtable);
            view.sealed.insert(0, full);
        });
        self.core.work.notify();
    }

    /// Resumes writing after the WAL was poisoned: once everything acknowledged is in tables and
    /// the manifest no longer needs the old segments, a new segment takes over.
    pub(crate) fn resume(&self, commit: &mut Commit) -> Result<()> {
        self.core.health.check_fatal()?;
        let Some(cause) = self.core.health.poisoned() else {
            return Ok(());
        };
        self.seal_without_wal(commit);
        if !self.read.view.load().sealed.is_empty() {
            let remedy = "retry: writing resumes once the memtables have been flushed";
            return Err(Error::writes_suspended(&cause, remedy));
        }
        let number = self.core.next_file_number();
        let mut catalog = self.catalog.lock();
        let visible = SeqNo(self.read.visible_seq.load(Ordering::Acquire));
        let edit = VersionEdit {
            wal_low_water: Some(number),
            later: self.window_ends(visible),
            ..VersionEdit::default()
        };
        self.catalog
            .commit_edit(&mut catalog, edit, &Indexes::new(), |view| {
                view.memtable.wal = number
            })?;
        drop(catalog);
        commit.memtable.wal = number;
        self.core.store.remove_files(self.wal_sync.restart(visible));
        self.core.window_files.forget_until(visible);
        let wal = self.new_segment(number, None, commit.last_seq);
        commit.wal = Some(wal.inspect_err(|error| self.space.note_full(error))?);
        self.core.unpoison();
        Ok(())
    }

    /// Gives up a poisoned segment and seals what it was to protect.
    pub(crate) fn seal_without_wal(&self, commit: &mut Commit) {
        commit.wal = None;
        if !commit.memtable.table.is_empty() {
            let number = self.core.next_file_number();
            self.seal_memtable(commit, number);
        }
    }

    /// Makes every acknowledged write durable.
    pub(crate) fn sync_wal(&self) -> Result<()> {
        self.flush_recovered(true)?;
        let visible = SeqNo(self.read.visible_seq.load(Ordering::Acquire));
        let sync = || self.sync_log(visible);
        let synced = self.core.counting_wait(Wait::Sync, sync);
        synced.inspect_err(|error| self.poison_wal(error))?;
        self.core.note_changes();
        Ok(())
    }

    /// Syncs the log, which has all of its writes up to `seq`, and lets secondaries know.
    pub(super) fn sync_log(&self, seq: SeqNo) -> Result<()> {
        self.wal_sync.sync(&self.core.store)?;
        self.core.visible_page.durable(seq);
        Ok(())
    }

    /// As [`Self::sync_wal`], and notes in the log how far it is durable, so that damage below
    /// that point is distinguished from a torn tail.
    pub(crate) fn sync_and_note(&self) -> Result<()> {
        if self.core.health.is_suspended() {
            // What is acknowledged becomes durable in tables; then the log begins again.
            self.flush_memtables()?;
        }
        self.sync_wal()?;
        let mut commit = self.commit.lock();
        let Some(commit_tag) = self.wal_sync.durable_point() else {
            return Ok(());
        };
        self.append_note(&mut commit, |wal| wal.stage_point(commit_tag))
    }
}

impl WritePath {
    /// Seals the memtable and waits until all memtables sealed so far are in tables. A poisoned log
    /// is then begun again.
    pub(crate) fn flush_memtables(&self) -> Result<()> {
        self.core.check_open()?;
        let newest = {
            let mut commit = self.commit.lock();
            self.core.check_open()?;
            if self.core.health.is_suspended() {
                self.core.health.check_fatal()?;
                self.seal_without_wal(&mut commit);
            } else if !commit.memtable.table.is_empty() {
                self.seal(&mut commit)?;
            }
            commit.memtable.wal
        };
        let flushed = || {
            let view = self.read.view.load();
            view.sealed.iter().all(|sealed| sealed.wal >= newest)
        };
        self.core.wait_while(flushed, || self.check_flushes())?;
        if self.core.health.is_suspended() {
            return self.resume(&mut self.commit.lock());
        }
        Ok(())
    }

    /// Wakes the flush worker once when the memtable has become worth a flush: it waits for writers
    /// to rest.
    pub(crate) fn watch_memtable(&self, commit: &mut Commit) {
        let is_due =
            || self.space.is_worth_a_flush(&commit.memtable) || self.space.has_many_deletes();
        if !commit.is_watched && is_due() {
            commit.is_watched = true;
            self.core.work.notify();
        }
    }

    /// Whether the memtable of `view`, which is the present one, may be sealed while writers are
    /// idle.
    pub(crate) fn may_seal_when_idle(&self, view: &View) -> bool {
        let is_flushed = view.sealed.is_empty() && !self.core.health.is_suspended();
        is_flushed && !view.memtable.table.is_empty()
    }

    /// Seals the memtable for the flush worker, if it still may be. False: the lock is not free, or
    /// there is no new log. A thread with the lock is no writer that is idle, and may wait for this
    /// worker.
    pub(crate) fn seal_when_idle(&self) -> bool {
        let Some(mut commit) = self.commit.try_lock() else {
            return false;
        };
        !self.may_seal_when_idle(&self.read.view.load()) || self.seal(&mut commit).is_ok()
    }

    /// Poisons the log after a failed append or sync. `DiskFull` from a write says that nothing has
    /// been written, which is not known here.
    pub(crate) fn unknown_outcome(&self, error: Error) -> Error {
        self.poison_wal(&error);
        if error.kind() == ErrorKind::DiskFull {
            let remedy = "free space, then read to see whether the write is there; it is not \
                          visible before the database has been reopened";
            return Error::writes_suspended(&error, remedy);
        }
        error
    }

    /// Gives up the log because of `error`: it goes on in a new segment once all is in tables.
    pub(crate) fn poison_wal(&self, error: &Error) {
        self.core.poison(error);
        self.space.note_full(error);
    }
}
