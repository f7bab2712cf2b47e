//! A full disk: puts fail cleanly, reads and deletes go on, writing resumes by itself.
//!
//! Two things stand between a shrinking disk and a torn write. The *reserve* is free space that
//! puts leave alone: when less is free, the state *full* begins before anything has failed. The
//! *ballast* is a file of real blocks, at most a sixteenth of the data
//! ([`state::SpaceLimits::ballast_for`]): a small database has none, and no use for one, as deletes
//! make little room there. It is removed when the state begins, whoever has taken the reserve: what
//! it gives back serves the flush of what is in memory, a renewal of the manifest, deletes, and
//! merges and collections small enough to fit. The state also begins when a write of the background
//! or of the log is refused for want of space.
//!
//! While the disk is full:
//! - a batch with a put is refused before anything of it is written ([`Engine::admit`]); a batch of
//!   deletes is taken as long as what is then in memory could still be flushed;
//! - deletes are sealed and flushed once they pause, every generation is then merged, so that what
//!   they made garbage is known, and the value logs that need least space to reclaim are collected
//!   first ([`crate::jobs::compact::tight_gc`]);
//! - log segments are not kept to be written over, and values are not clustered.
//!
//! The flush worker looks after all this between its jobs ([`Engine::maintain_disk_space`]), each
//! second while the disk is full. When [`DiskFull::resume_bytes`] are free, the log and the
//! manifest are as they should be and the ballast has been made anew, the state ends. No call is
//! needed.
//!
//! Locks: `cause` is a leaf, but for the removal of the ballast under it. Nothing here waits for
//! the commit lock: the flush worker only tries it, because a leader may hold it while it waits for
//! a flush.

mod state;

pub(crate) use state::DiskFull;
#[cfg(test)]
use state::SpaceLimits;

use crate::base::sync::atomic::Ordering;
use crate::engine::Engine;
use crate::engine::write::Commit;
use crate::engine::write::queue::Request;
use crate::error::{Error, ErrorKind, Result};
use crate::memtable::Batch;
pub(crate) use state::free_bytes;
use std::sync::Arc;
use std::time::Duration;

/// Between two looks at the space while the disk is full.
const PROBE_EVERY: Duration = Duration::from_secs(1);
/// Between two attempts to make a ballast where there was no room for it.
const BALLAST_EVERY: Duration = Duration::from_secs(30);
/// With so many times the space that writing resumes with, failed jobs are tried again at once.
const PLENTY: u64 = 4;

/// Whether all that a batch does is to delete.
fn only_deletes(batch: &Batch) -> bool {
    batch.deletes() == batch.len()
}

impl Engine {
    /// Takes notice of an error: a full disk changes the state of the engine.
    pub(crate) fn note_full(&self, error: &Error) {
        if error.kind() == ErrorKind::DiskFull && self.space.begin(&self.store, error) {
            self.work.notify();
            self.progress.notify();
        }
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
        self.health.poison(error);
        self.note_full(error);
    }

    /// Looks at the free space before something large is written.
    pub(crate) fn probe_space(&self) {
        if !self.space.is_full() && self.space.probe(&self.store) {
            self.work.notify();
        }
    }

    /// Refuses what would grow the database while the disk is full. Nothing has been written.
    pub(crate) fn check_space(&self) -> Result<()> {
        if !self.space.is_full() {
            return Ok(());
        }
        let cause = self.space.cause.lock().clone();
        Err(self
            .space
            .error(&self.store, free_bytes(&self.store), cause.as_ref()))
    }

    /// Refuses a put while the disk is full, without waiting for who holds the commit lock.
    pub(crate) fn refuse_at_once(&self, batch: &Batch) -> Result<()> {
        if only_deletes(batch) {
            return Ok(());
        }
        self.check_space()
    }

    /// Sorts out what a full disk does not take, of `waiting` and of the leader's own batch: before
    /// anything of it is written, and without harm to the rest of the group.
    pub(crate) fn admit(
        &self,
        commit: &Commit,
        waiting: &mut Vec<Arc<Request>>,
        own: &Batch,
    ) -> Result<()> {
        let batches = waiting.iter().map(|request| &request.batch).chain([own]);
        let bytes: usize = batches.map(Batch::byte_len).sum();
        let space = &self.space;
        let unprobed = space
            .unprobed_bytes
            .fetch_add(bytes as u64, Ordering::Relaxed);
        if unprobed + bytes as u64 >= space.limits.probe_bytes() {
            space.unprobed_bytes.store(0, Ordering::Relaxed);
            self.probe_space();
        }
        if !space.is_full() {
            return Ok(());
        }
        let mut room = self.room_for_deletes(commit);
        let mut admit = |batch: &Batch| -> Result<()> {
            let need = 2 * batch.byte_len() as u64;
            if only_deletes(batch) && need > room && self.await_flushes().is_ok() {
                room = self.room_for_deletes(commit);
            }
            if !only_deletes(batch) || need > room {
                return self.check_space();
            }
            room -= need;
            space.reclaim.wanted.fetch_add(1, Ordering::Relaxed);
            Ok(())
        };
        let own = admit(own);
        waiting.retain(|request| {
            let refused = admit(&request.batch).err();
            let taken = refused.is_none();
            if let Some(error) = refused {
                request.answer(Err(error));
            }
            taken
        });
        own
    }

    /// Bytes of deletes that a full disk still takes: so many that the memtables can be flushed and
    /// the manifest renewed.
    fn room_for_deletes(&self, commit: &Commit) -> u64 {
        let view = self.view.load();
        let sealed: usize = view.sealed.iter().map(|m| m.table.bytes()).sum();
        let in_memory = (sealed + commit.memtable.table.bytes()) as u64;
        let free = free_bytes(&self.store).unwrap_or(u64::MAX);
        free.saturating_sub(2 * in_memory + self.space.limits.beside() / 2)
    }

    /// While the disk is full a delete waits for the flush after which a poisoned log begins anew.
    pub(crate) fn await_new_log(&self, commit: &mut Commit) -> Result<()> {
        if !self.space.is_full() || self.health.poisoned().is_none() {
            return Ok(());
        }
        self.health.check_fatal()?;
        self.seal_without_wal(commit);
        self.await_flushes()
    }

    /// Waits until no memtable is sealed.
    fn await_flushes(&self) -> Result<()> {
        let flushed = || self.view.load().sealed.is_empty();
        self.wait_while(flushed, Engine::check_flushes)
    }

    /// Looks after the space. Called by the flush worker before each job; says when to look again.
    pub(crate) fn maintain_disk_space(&self) -> Option<Duration> {
        let space = &self.space;
        if space.is_full() {
            self.tend_full_disk();
            return Some(PROBE_EVERY);
        }
        let free = || free_bytes(&self.store).unwrap_or(u64::MAX);
        let there = space.keep_ballast(&self.store, free);
        (!there).then_some(BALLAST_EVERY)
    }

    fn tend_full_disk(&self) {
        let space = &self.space;
        space.release_ballast(&self.store);
        self.store.remove_files(self.wal_sync.drop_spare());
        let free = free_bytes(&self.store).unwrap_or(u64::MAX);
        // It lasts for a moment at least: a job that fails for want of more than is free would else
        // begin and end it without a pause.
        let begun = Duration::from_nanos(space.begun_ns.load(Ordering::Relaxed));
        let lasted = self.now().saturating_sub(begun) >= PROBE_EVERY;
        let enough = lasted && free >= space.resume_bytes();
        if !enough {
            self.seal_deletes();
        }
        if self.mend_after_full_disk() && enough && space.keep_ballast(&self.store, || free) {
            space.end();
            // Where there is little more than that, jobs that found too little go on resting: they
            // would make the disk full again at once.
            if free >= PLENTY * space.resume_bytes() {
                self.health.forget_full_disk();
            }
            self.work.notify();
            self.progress.notify();
        }
    }

    /// Begins a new log and a new manifest where a full disk has broken the old ones. True: all is
    /// well, or beyond what space can mend.
    fn mend_after_full_disk(&self) -> bool {
        if self.health.check_fatal().is_err() {
            return true;
        }
        if self.health.poisoned().is_some() {
            let Some(mut commit) = self.commit.try_lock() else {
                return false;
            };
            let _tried_again = self.resume(&mut commit);
        }
        let renewed = self.renew_full_manifest(&mut self.catalog.lock());
        renewed.is_ok() && self.health.poisoned().is_none()
    }

    /// Once deletes pause, or fill a good part of the memtable, seals it, so that they are flushed
    /// and merged and what they deleted becomes garbage.
    fn seal_deletes(&self) {
        let reclaim = &self.space.reclaim;
        let wanted = reclaim.wanted.load(Ordering::Relaxed);
        let paused = reclaim.seen.swap(wanted, Ordering::Relaxed) == wanted;
        if reclaim.sealed.load(Ordering::Relaxed) == wanted {
            return;
        }
        let Some(mut commit) = self.commit.try_lock() else {
            return;
        };
        let bytes = commit.memtable.table.bytes() as u64;
        if !paused && bytes < self.space.limits.memtable_bytes / 4 {
            return;
        }
        if commit.wal.is_some() && !commit.memtable.table.is_empty() {
            // A failure poisons the log, which is mended next.
            let _mended_next = self.seal(&mut commit);
        }
        reclaim.sealed.store(wanted, Ordering::Relaxed);
        reclaim.freeze.store(true, Ordering::Release);
    }

    /// Whether all generations are to be frozen now, so that merges find what is garbage.
    pub(crate) fn takes_freeze_request(&self) -> bool {
        let freeze = &self.space.reclaim.freeze;
        self.space.is_full()
            && freeze.load(Ordering::Acquire)
            && self.view.load().sealed.is_empty()
            && freeze.swap(false, Ordering::AcqRel)
    }

    /// Bytes that a job may write while the disk is full; `None`: it is not.
    pub(crate) fn tight_space(&self) -> Option<u64> {
        let full = self.space.is_full();
        full.then(|| free_bytes(&self.store).unwrap_or(self.space.limits.most_ballast()))
    }
}

#[cfg(test)]
mod tests;
