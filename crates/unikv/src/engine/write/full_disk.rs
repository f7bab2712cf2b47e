//! What is done about a full disk (see [`crate::engine::space::full_disk`]), and the ballast.
//!
//! The commit lock is only tried: a leader may hold it while it waits for a flush, and the flush
//! worker is what calls this.

use crate::engine::space::full_disk::PROBE_EVERY;
use crate::engine::write::WritePath;
use std::time::Duration;

impl WritePath {
    /// Looks after the space, with writers idle for `idle`. Whether all is as it should be now.
    pub(crate) fn look_after_disk(&self, idle: Duration) -> bool {
        let full = &self.space.full_disk;
        if full.is_full() {
            self.look_after_full_disk(idle);
        } else {
            let free = || self.space.free_bytes();
            let _seen_below = full.keep_ballast(&self.core.store, free);
        }
        !full.looked_after(self.core.now())
    }

    fn look_after_full_disk(&self, idle: Duration) {
        let full = &self.space.full_disk;
        full.release_ballast(&self.core.store);
        self.core.store.remove_files(self.wal_sync.drop_spare());
        let free = self.space.free_bytes();
        let needed = full.resume_bytes().max(self.space.reserve_bytes());
        let has_lasted = full.lasted(self.core.now()) >= PROBE_EVERY;
        let is_enough = has_lasted && free >= needed;
        if !is_enough {
            self.seal_deletes(idle);
        }
        if self.mend_after_full_disk() && is_enough && full.keep_ballast(&self.core.store, || free)
        {
            self.space.end_full(free);
        }
    }

    /// Begins a new log and a new manifest where a full disk has broken the old ones. True: all is
    /// well, or beyond what space can mend.
    fn mend_after_full_disk(&self) -> bool {
        if self.core.health.check_fatal().is_err() {
            return true;
        }
        if self.core.health.poisoned().is_some() {
            let Some(mut commit) = self.commit.try_lock() else {
                return false;
            };
            let _tried_again = self.resume(&mut commit);
        }
        let renewed = self.catalog.renew_full_manifest(&mut self.catalog.lock());
        renewed.is_ok() && self.core.health.poisoned().is_none()
    }

    /// Once deletes pause, or fill a good part of the memtable, seals it, so that they are flushed
    /// and merged and what they deleted becomes garbage.
    fn seal_deletes(&self, idle: Duration) {
        let reclaim = &self.space.full_disk.reclaim;
        let wanted = reclaim.wanted();
        let have_paused = idle >= PROBE_EVERY;
        if reclaim.is_sealed(wanted) {
            return;
        }
        let Some(mut commit) = self.commit.try_lock() else {
            return;
        };
        let bytes = commit.memtable.table.bytes() as u64;
        if !have_paused && bytes < self.space.full_disk.memtable_bytes() / 4 {
            return;
        }
        if commit.wal.is_some() && !commit.memtable.table.is_empty() {
            // A failure poisons the log, which is mended next.
            let _mended_next = self.seal(&mut commit);
        }
        reclaim.sealed(wanted);
    }
}
