//! A full disk: puts fail cleanly, reads and deletes go on, writing resumes by itself.
//! `docs/crashes.md`, "A full disk", has the mechanism.
//!
//! Invariants: the state begins when less is free than the reserve that puts leave alone, before
//! anything has failed, or when a write is refused for want of space. Puts are refused before
//! anything of them is written; deletes are taken while what is in memory could still be flushed.
//! The state ends when `DiskFull::resume_bytes` are free, log and manifest are as they should be
//! and the ballast is back. No call is needed.
//!
//! Locks: `cause` is a leaf, but for the removal of the ballast under it. Nothing here waits for
//! the commit lock: the flush worker only tries it, as a leader may hold it during its wait for a
//! flush.

#[cfg(test)]
use crate::engine::space::full::SpaceLimits;

use crate::engine::space::DiskSpace;
use crate::engine::space::full::free_bytes;
use crate::error::{Error, ErrorKind, Result};
use crate::events::Event;

impl DiskSpace {
    /// Takes notice of an error: a full disk changes the state of the engine.
    pub(crate) fn note_full(&self, error: &Error) {
        if error.kind() == ErrorKind::DiskFull && self.full.begin(&self.core.store, error) {
            self.report_full();
            self.core.work.notify();
            self.core.progress.notify();
        }
    }

    /// Looks at the free space before something large is written.
    pub(crate) fn probe_space(&self) {
        let (store, pool) = (&self.core.store, &self.core.pool);
        if !self.full.is_full() && self.full.probe(store, pool.used_bytes()) {
            self.report_full();
            self.core.work.notify();
        }
    }

    /// Has the listener hear that the disk is full.
    pub(crate) fn report_full(&self) {
        if let Err(error) = self.check_space() {
            self.core.events.emit(|| Event::DiskFull { error });
        }
    }

    /// As [`Self::probe_space`], before `bytes` are written, once enough were.
    pub(crate) fn probe_after(&self, bytes: u64) {
        if self.full.is_probe_due(bytes) {
            self.probe_space();
        }
    }

    /// Free space that puts leave alone.
    pub(crate) fn reserve_bytes(&self) -> u64 {
        self.full.reserve_bytes(self.core.pool.used_bytes())
    }

    /// Refuses a batch of these bytes if log and tables have no room for it. Nothing has been
    /// written.
    pub(crate) fn check_room(&self, bytes: u64) -> Result<()> {
        // Each write comes here.
        if bytes <= self.full.limits().reserve_bytes() / 2 {
            return Ok(());
        }
        let reserve = self.reserve_bytes();
        let needed = bytes.saturating_mul(2).saturating_add(reserve);
        if self.free_bytes() < needed {
            return Err(self.no_room());
        }
        Ok(())
    }

    /// Bytes of deletes that a full disk still takes beside `in_memory` bytes of memtables:
    /// what leaves room to flush the memtables and to renew the manifest.
    pub(crate) fn room_for_deletes(&self, in_memory: u64) -> u64 {
        let needed = in_memory + self.full.least_reserve() / 4;
        self.free_bytes().saturating_sub(needed)
    }

    /// Refuses what would grow the database while the disk is full. Nothing has been written.
    pub(crate) fn check_space(&self) -> Result<()> {
        if self.full.is_full() {
            Err(self.no_room())
        } else {
            Ok(())
        }
    }

    /// The error of what does not fit.
    pub(crate) fn no_room(&self) -> Error {
        let cause = self.full.cause.lock().clone();
        let (store, free) = (&self.core.store, free_bytes(&self.core.store));
        self.full.error(store, free, cause.as_ref())
    }

    /// Bytes that a job may write while the disk is full; `None`: it is not.
    pub(crate) fn tight_space(&self) -> Option<u64> {
        let full = self.full.is_full();
        full.then(|| free_bytes(&self.core.store).unwrap_or(self.full.limits().most_ballast()))
    }
}

#[cfg(test)]
mod tests;
