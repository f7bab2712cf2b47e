//! What the flush worker does about a full disk (see [`crate::engine::space::full_disk`]).

use crate::engine::background::Background;
use crate::events::Event;
use std::time::Duration;

/// Between two looks at the space while the disk is full.
const PROBE_EVERY: Duration = Duration::from_secs(1);
/// Between two attempts to make a ballast where there was no room for it.
const BALLAST_EVERY: Duration = Duration::from_secs(30);
/// With this many times the space that writing resumes with, failed jobs are tried again at once.
const PLENTY: u64 = 4;

impl Background {
    /// Looks after the space. Called by the flush worker before each job; says when to look again.
    pub(crate) fn maintain_disk_space(&self) -> Option<Duration> {
        let space = &self.space.full_disk;
        if space.is_full() {
            self.tend_full_disk();
            return Some(PROBE_EVERY);
        }
        self.space.probe_space();
        let free = || self.space.free_bytes();
        let there = space.keep_ballast(&self.core.store, free);
        (!there).then_some(BALLAST_EVERY)
    }

    fn tend_full_disk(&self) {
        let space = &self.space.full_disk;
        space.release_ballast(&self.core.store);
        self.core
            .store
            .remove_files(self.write.wal_sync.drop_spare());
        let free = self.space.free_bytes();
        // It lasts for a moment at least: a job that fails for want of more than is free would else
        // begin and end it without a pause.
        let lasted = self.core.now().saturating_sub(space.begun_at()) >= PROBE_EVERY;
        let needed = space.resume_bytes().max(self.space.reserve_bytes());
        let enough = lasted && free >= needed;
        if !enough {
            self.seal_deletes();
        }
        if self.mend_after_full_disk() && enough && space.keep_ballast(&self.core.store, || free) {
            space.end();
            let lasted = self.core.now().saturating_sub(space.begun_at());
            self.core.events.emit(|| Event::DiskFreed { lasted });
            // Where there is little more than that, jobs that found too little stay in backoff:
            // they would make the disk full again at once.
            if free >= PLENTY * space.resume_bytes() {
                self.core.forget_full_disk();
            }
            self.core.work.notify();
            self.core.progress.notify();
        }
    }

    /// Begins a new log and a new manifest where a full disk has broken the old ones. True: all is
    /// well, or beyond what space can mend.
    fn mend_after_full_disk(&self) -> bool {
        if self.core.health.check_fatal().is_err() {
            return true;
        }
        if self.core.health.poisoned().is_some() {
            let Some(mut commit) = self.write.commit.try_lock() else {
                return false;
            };
            let _tried_again = self.write.resume(&mut commit);
        }
        let renewed = self.catalog.renew_full_manifest(&mut self.catalog.lock());
        renewed.is_ok() && self.core.health.poisoned().is_none()
    }

    /// Once deletes pause, or fill a good part of the memtable, seals it, so that they are flushed
    /// and merged and what they deleted becomes garbage.
    fn seal_deletes(&self) {
        let reclaim = &self.space.full_disk.reclaim;
        let wanted = reclaim.wanted();
        let paused = self.idle_time(self.core.now()) >= PROBE_EVERY;
        if reclaim.is_sealed(wanted) {
            return;
        }
        let Some(mut commit) = self.write.commit.try_lock() else {
            return;
        };
        let bytes = commit.memtable.table.bytes() as u64;
        if !paused && bytes < self.space.full_disk.memtable_bytes() / 4 {
            return;
        }
        if commit.wal.is_some() && !commit.memtable.table.is_empty() {
            // A failure poisons the log, which is mended next.
            let _mended_next = self.write.seal(&mut commit);
        }
        reclaim.sealed(wanted);
    }
}
