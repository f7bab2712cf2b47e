//! What open iterators take: how many there are, and what each of them holds.
//!
//! Keys may be long, so an iterator counts what it has: its buffers, and beside its view what its
//! cursors hold ([`IteratorBytes`]). While all together take more than their part of the budget,
//! all release their cursors, and each does so after every batch.

use super::arbiter::{Arbiter, FEW_ITERATORS, LEAST_BATCH_BYTES, MOST_BATCH_BYTES};
use super::plan::READ_PART;
use crate::base::sync::atomic::Ordering;
use crate::error::{Error, Result};
use std::sync::Arc;

/// When iterators take this part of the budget, they release their cursors.
const MOST_PART: u64 = 8;

/// When they take three quarters of it all the same, there is none for one more.
const FULL: (u64, u64) = (3, 4);
/// They may take this much whatever the budget: it is kept from 64 MiB on.
const LEAST_FULL: u64 = 16 << 20;

/// Bytes that count as an iterator's until this is dropped.
pub(crate) struct IteratorBytes {
    arbiter: Arc<Arbiter>,
    bytes: u64,
}

impl IteratorBytes {
    pub(crate) fn new(arbiter: &Arc<Arbiter>) -> IteratorBytes {
        IteratorBytes {
            arbiter: Arc::clone(arbiter),
            bytes: 0,
        }
    }

    /// This many it is now.
    pub(crate) fn set(&mut self, bytes: usize) {
        let before = std::mem::replace(&mut self.bytes, bytes as u64);
        // Together they are never less than nothing: each takes away what it has added.
        let more = self.bytes.wrapping_sub(before);
        self.arbiter
            .iterators_used
            .fetch_add(more, Ordering::Relaxed);
    }
}

impl Drop for IteratorBytes {
    fn drop(&mut self) {
        let used = &self.arbiter.iterators_used;
        used.fetch_sub(self.bytes, Ordering::Relaxed);
    }
}

/// Counts an open iterator.
pub(crate) struct IteratorCharge {
    arbiter: Arc<Arbiter>,
    /// Of its own buffers.
    bytes: IteratorBytes,
}

impl Arbiter {
    /// Counts an iterator until what is returned is dropped.
    pub(crate) fn open_iterator(self: &Arc<Self>) -> IteratorCharge {
        let open = self.iterators.fetch_add(1, Ordering::Relaxed) + 1;
        if open > self.iterators_room.load(Ordering::Relaxed) {
            self.make_room();
        }
        IteratorCharge::new(self)
    }
}

impl IteratorCharge {
    pub(super) fn new(arbiter: &Arc<Arbiter>) -> IteratorCharge {
        IteratorCharge {
            arbiter: Arc::clone(arbiter),
            bytes: IteratorBytes::new(arbiter),
        }
    }

    /// Refuses one more iterator where those that are open leave no memory for it.
    pub(crate) fn check(&self) -> Result<()> {
        let used = self.arbiter.iterators_used.load(Ordering::Relaxed);
        let budget = self.arbiter.plan.budget_bytes;
        if used > (budget / FULL.1 * FULL.0).max(LEAST_FULL) {
            Err(Error::too_many_iterators(used, budget))
        } else {
            Ok(())
        }
    }

    /// Bytes of values that the iterator may fetch ahead at present.
    pub(crate) fn batch_bytes(&self) -> u64 {
        let open = self.arbiter.iterators.load(Ordering::Relaxed).max(1) as u64;
        let share = self.arbiter.plan.budget_bytes / READ_PART / open;
        share.clamp(LEAST_BATCH_BYTES, MOST_BATCH_BYTES)
    }

    /// The buffers of the iterator take this much now. Whether all iterators together take this
    /// much that they are to release their cursors.
    pub(crate) fn note(&mut self, bytes: usize) -> bool {
        self.bytes.set(bytes);
        let arbiter = &self.arbiter;
        let charged = arbiter.iterators_charged.load(Ordering::Relaxed);
        if arbiter.used_by_iterators() > charged {
            arbiter.make_room();
        }
        let used = arbiter.iterators_used.load(Ordering::Relaxed);
        used > arbiter.plan.budget_bytes / MOST_PART
    }
}

impl Drop for IteratorCharge {
    fn drop(&mut self) {
        let open = self.arbiter.iterators.fetch_sub(1, Ordering::Relaxed) - 1;
        let room_for = self.arbiter.iterators_room.load(Ordering::Relaxed);
        if room_for > FEW_ITERATORS && open < room_for / 4 {
            self.arbiter.make_room();
        }
    }
}
