//! Memory for large batches, and how many memtables may be sealed beside them.
//!
//! Invariants: one large batch gets memory in any case once nothing is sealed, so none waits for
//! ever. While one waits, other writers leave it room.
//!
//! Lock: `tracked` of the arbiter.

use super::arbiter::Arbiter;
use super::plan::{MAX_SEALED, MEMTABLE_PART, MEMTABLES};
use crate::base::sync::atomic::Ordering;
use crate::memtable::Reserved;
use crate::partition::View;
use crate::vfs::Event;
use std::sync::Arc;

/// A sealed memtable counts at least as this part of a full one.
const SHORT_MEMTABLE_PART: u64 = 8;
/// How full the room for sealed memtables may be when one more is sealed.
const LAST_FILL: f64 = (MAX_SEALED as f64 - 0.5) / MAX_SEALED as f64;

/// A large batch waits for memory. Meanwhile other writers seal fewer memtables, so that it gets
/// some in the end however fast they write.
pub(crate) struct LargeBatchWait<'a> {
    arbiter: &'a Arbiter,
    progress: &'a Arc<dyn Event>,
    bytes: u64,
}

impl Drop for LargeBatchWait<'_> {
    fn drop(&mut self) {
        let waiting = &self.arbiter.large_waiting;
        waiting.fetch_sub(self.bytes, Ordering::Relaxed);
        self.progress.notify();
    }
}

/// A large batch has memory, and is not linked yet.
pub(crate) struct LargeBatchTurn<'a> {
    arbiter: &'a Arbiter,
    progress: &'a Arc<dyn Event>,
}

impl Drop for LargeBatchTurn<'_> {
    fn drop(&mut self) {
        self.arbiter.tracked.lock().large_batches -= 1;
        self.progress.notify();
    }
}

impl Arbiter {
    /// How full the room for sealed memtables is. A short one counts as a part of a full one,
    /// because every read looks into it; a large batch as a full one, because its writer has waited
    /// for the rest of its memory ([`Arbiter::reserve`]).
    pub(crate) fn sealed_fill(&self, view: &View) -> f64 {
        let memtable_bytes = self.memtable_bytes();
        let least = memtable_bytes / SHORT_MEMTABLE_PART;
        let sealed = view.sealed.iter().map(|m| m.table.bytes() as u64);
        let bytes: u64 = sealed.map(|bytes| bytes.clamp(least, memtable_bytes)).sum();
        bytes as f64 / (MAX_SEALED as u64 * memtable_bytes) as f64
    }

    /// Whether one more memtable may be sealed. A full one takes a little more or less than it is
    /// made for.
    pub(crate) fn may_seal(&self, view: &View) -> bool {
        let waiting = self.large_waiting.load(Ordering::Relaxed);
        if waiting == 0 {
            return self.sealed_fill(view) < LAST_FILL;
        }
        // The open memtable takes room, too.
        let most = MAX_SEALED as u64 * self.memtable_bytes();
        let waiting = waiting.saturating_add(2 * self.memtable_bytes());
        view.sealed.is_empty()
            || self.sealed_fill(view) + waiting as f64 / (most as f64) < LAST_FILL
    }

    /// Says that a large batch waits for `bytes`, until the returned guard is dropped. Then
    /// `progress` is notified.
    pub(crate) fn wait_for_large<'a>(
        &'a self,
        bytes: usize,
        progress: &'a Arc<dyn Event>,
    ) -> LargeBatchWait<'a> {
        let bytes = bytes as u64;
        self.large_waiting.fetch_add(bytes, Ordering::Relaxed);
        LargeBatchWait {
            arbiter: self,
            progress,
            bytes,
        }
    }

    /// Counts `bytes` for a large batch, if memtables leave room for it. One may take more than
    /// there is room for if nothing is sealed that a flush would give back. When the batch has been
    /// linked or given up, `progress` is notified.
    pub(crate) fn reserve<'a>(
        &'a self,
        bytes: usize,
        view: &View,
        progress: &'a Arc<dyn Event>,
    ) -> Option<(Reserved, LargeBatchTurn<'a>)> {
        if self.sealed_fill(view) >= LAST_FILL {
            return None;
        }
        let nothing_sealed = view.sealed.is_empty();
        let mut tracked = self.tracked.lock();
        let used = self
            .pool
            .allocated_bytes()
            .saturating_sub(self.pool.idle_bytes());
        // A memtable's worth is left to the other writers.
        let room = (MEMTABLES - 2) * (self.plan.budget_bytes / MEMTABLE_PART);
        let fits = (used + bytes) as u64 <= room;
        let is_alone = nothing_sealed && tracked.large_batches == 0;
        if !fits && !is_alone {
            return None;
        }
        tracked.large_batches += 1;
        let reserved = Reserved::new(&self.pool, bytes);
        self.divide(&tracked);
        let turn = LargeBatchTurn {
            arbiter: self,
            progress,
        };
        Some((reserved, turn))
    }
}
