//! The write path: group commit (paper §III-B, "WAL"; design §3 "put").
//!
//! A writer enters the [`queue`] and leads, or its batch is committed by a leader in a [`group`].
//! Here is what goes on around that: room for a group, sealing, resuming after a failure, syncs.
//!
//! Invariants: a record is in the WAL before it is in the memtable, and in the memtable before
//! `visible_seq` covers it. A batch is one WAL record in one segment. A memtable and the segments
//! that hold its writes are sealed together, under the commit lock, so every write of a sealed
//! memtable is published.

pub(crate) mod backpressure;
pub(crate) mod blobs;
pub(crate) mod group;
pub(crate) mod marks;
pub(crate) mod queue;
pub(crate) mod stalls;
pub(crate) mod wal_sync;

use super::catalog::Indexes;
use crate::base::keys::{FileNumber, SeqNo};
use crate::base::sync::atomic::Ordering;
use crate::engine::Engine;
use crate::engine::write::wal_sync::{Begun, Segment};
use crate::error::{Error, Result};
use crate::log::{SegmentEnd, WalWriter};
use crate::partition::MemtableHandle;
use crate::version::edit::VersionEdit;
use std::sync::Arc;

/// What the commit lock protects.
pub(crate) struct Commit {
    /// The WAL segment being written; `None` while the WAL is poisoned.
    pub(crate) wal: Option<(WalWriter, Arc<Segment>)>,
    pub(crate) last_seq: SeqNo,
    pub(crate) memtable: MemtableHandle,
    /// Bytes that the writes in the memtable free, about.
    pub(crate) freed_bytes: u64,
    /// Whether the background knows that what is in the memtable may hide much.
    pub(crate) is_watched: bool,
}

impl Engine {
    /// Makes sure that the memtable can take `bytes` and that there is a segment to write to.
    pub(crate) fn make_room(&self, commit: &mut Commit, bytes: usize) -> Result<()> {
        if self.health.is_suspended() {
            self.await_new_log(commit)?;
            self.resume(commit)?;
        }
        let filled = commit.memtable.table.bytes();
        let is_full = (filled + bytes) as u64 > self.memory.memtable_bytes()
            || self.is_full_of_large(&commit.memtable)
            || self.hides_too_much(commit);
        if filled > 0 && !commit.memtable.table.is_empty() && is_full {
            self.wait_for_flushes()?;
            self.seal(commit)?;
        }
        if bytes as u64 > self.memory.plan.group_bytes {
            self.wait_for_memory(bytes as u64)?;
        }
        Ok(())
    }

    /// Seals the memtable together with its WAL segment and begins new ones.
    pub(crate) fn seal(&self, commit: &mut Commit) -> Result<()> {
        let number = FileNumber(self.next_file.fetch_add(1, Ordering::Relaxed));
        let prev = commit.wal.as_ref().map(|(wal, _)| wal.segment_end());
        // A segment that was begun and failed may be on disk and link the end of this one, so that
        // nothing written here later would be replayed: this one is given up, too.
        let wal = self.new_segment(number, prev);
        commit.wal = Some(wal.inspect_err(|error| self.poison_wal(error))?);
        self.seal_memtable(commit, number);
        Ok(())
    }

    pub(crate) fn new_segment(
        &self,
        number: FileNumber,
        prev: Option<SegmentEnd>,
    ) -> Result<Begun> {
        let edits = self.manifest_edits.load(Ordering::Acquire);
        let begun = self.wal_sync.begin(&self.store, number, prev, edits)?;
        let wal_bytes = &self.counters.wal_bytes;
        wal_bytes.fetch_add(begun.0.end(), Ordering::Relaxed);
        Ok(begun)
    }

    /// Puts an empty memtable, whose writes go to segment `number`, in the place of the full one.
    fn seal_memtable(&self, commit: &mut Commit, number: FileNumber) {
        let memtable = commit.memtable.table.next(&self.pool);
        commit.memtable = MemtableHandle::new(memtable, number);
        self.tombstone_debt
            .sealed(std::mem::take(&mut commit.freed_bytes));
        commit.is_watched = false;
        let memtable = commit.memtable.clone();
        self.update_view(|view| {
            let full = std::mem::replace(&mut view.memtable, memtable);
            view.sealed.insert(0, full);
        });
        self.work.notify();
    }

    /// Resumes writing after the WAL was poisoned: once everything acknowledged is in tables and
    /// the manifest no longer needs the old segments, a new segment takes over.
    pub(crate) fn resume(&self, commit: &mut Commit) -> Result<()> {
        self.health.check_fatal()?;
        let Some(cause) = self.health.poisoned() else {
            return Ok(());
        };
        self.seal_without_wal(commit);
        if !self.view.load().sealed.is_empty() {
            let remedy = "retry: writing resumes once the memtables have been flushed";
            return Err(Error::writes_suspended(&cause, remedy));
        }
        let number = FileNumber(self.next_file.fetch_add(1, Ordering::Relaxed));
        let mut catalog = self.catalog.lock();
        let edit = VersionEdit {
            wal_low_water: Some(number),
            ..VersionEdit::default()
        };
        self.commit_edit(&mut catalog, edit, &Indexes::new(), |view| {
            view.memtable.wal = number
        })?;
        drop(catalog);
        commit.memtable.wal = number;
        self.store.remove_files(self.wal_sync.restart());
        let wal = self.new_segment(number, None);
        commit.wal = Some(wal.inspect_err(|error| self.note_full(error))?);
        self.health.unpoison();
        Ok(())
    }

    /// Gives up a poisoned segment and seals what it was to protect.
    pub(crate) fn seal_without_wal(&self, commit: &mut Commit) {
        commit.wal = None;
        if !commit.memtable.table.is_empty() {
            let number = FileNumber(self.next_file.fetch_add(1, Ordering::Relaxed));
            self.seal_memtable(commit, number);
        }
    }

    /// Makes every acknowledged write durable.
    pub(crate) fn sync_wal(&self) -> Result<()> {
        self.flush_recovered()?;
        let synced = self.wal_sync.sync(&self.store);
        synced.inspect_err(|error| self.poison_wal(error))
    }

    /// Waits until what recovery read from the log of an earlier process is in tables.
    pub(crate) fn flush_recovered(&self) -> Result<()> {
        if !self.wal_sync.has_recovered() {
            return Ok(());
        }
        self.work.notify();
        let flushed = || !self.wal_sync.has_recovered();
        self.wait_while(flushed, Engine::check_flushes)
    }

    /// As [`Engine::sync_wal`], and notes in the log how far it is durable, so that damage below
    /// that point is told from a torn tail.
    pub(crate) fn sync_and_mark(&self) -> Result<()> {
        if self.health.is_suspended() {
            // What is acknowledged becomes durable in tables; then the log begins anew.
            self.flush_memtables()?;
        }
        self.sync_wal()?;
        let mut commit = self.commit.lock();
        let Some(mark) = self.wal_sync.durable_mark() else {
            return Ok(());
        };
        let Some((wal, segment)) = &mut commit.wal else {
            return Ok(());
        };
        let begin = wal.end();
        wal.stage_mark(mark);
        wal.write_staged()
            .inspect_err(|error| self.poison_wal(error))?;
        segment.written(wal.end());
        let wal_bytes = &self.counters.wal_bytes;
        wal_bytes.fetch_add(wal.end() - begin, Ordering::Relaxed);
        Ok(())
    }
}
