//! A full disk: puts fail cleanly, reads and deletes go on, writing resumes by itself.
//!
//! Two things stand between a shrinking disk and a torn write. The *reserve* is free space that
//! puts leave alone: when less is free, the state *full* begins before anything has failed. The
//! *ballast* is a file of real blocks, at most a sixteenth of the data
//! ([`SpaceLimits::ballast_for`](super::full::SpaceLimits::ballast_for)): a small database has
//! none, and no use for one, as deletes make little room there. It is removed when the state
//! begins, whatever has taken the reserve: what it gives back serves the flush of what is in
//! memory, a renewal of the manifest, deletes, and merges and collections small enough to fit. The
//! state also begins when a write of the background or of the log is refused for want of space.
//!
//! While the disk is full:
//! - a batch with a put is refused before anything of it is written (`write::admission`); a batch
//!   of deletes is taken as long as what is then in memory could still be flushed;
//! - deletes are sealed and flushed once they pause, every generation is then merged, so that what
//!   they made garbage is known, and the value logs that need least space to reclaim are collected
//!   first ([`crate::jobs::compact::tight_gc`]);
//! - log segments are not kept to be written over, and values are not clustered.
//!
//! The flush worker looks after all this between its jobs (`background::full_disk`), each
//! second while the disk is full. When [`DiskFull::resume_bytes`] are free, the log and the
//! manifest are as they should be and the ballast has been made again, the state ends. No call is
//! needed.
//!
//! Locks: `cause` is a leaf, but for the removal of the ballast under it. Nothing here waits for
//! the commit lock: the flush worker only tries it, because a leader may hold it while it waits for
//! a flush.

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
        if !self.full.is_full() && self.full.probe(&self.core.store) {
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

    /// Bytes of deletes that a full disk still takes beside `in_memory` bytes of memtables:
    /// what leaves room to flush the memtables and to renew the manifest.
    pub(crate) fn room_for_deletes(&self, in_memory: u64) -> u64 {
        let needed = 2 * in_memory + self.full.limits.beside() / 2;
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
        full.then(|| free_bytes(&self.core.store).unwrap_or(self.full.limits.most_ballast()))
    }
}

#[cfg(test)]
mod tests;
