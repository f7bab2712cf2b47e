//! What the cache may hold, and how that is divided.

use super::{Granted, HELD_SHARE, INDEXES_SHARE, PINNED_SHARE, ReadCache};
use crate::base::sync::atomic::Ordering;

/// The share of what items may take that holes between small parts of them may take, as the heads
/// of blocks.
const HOLES_SHARE: u64 = 32;
/// What items may take changes by this part of the bytes at a time.
const CAPACITY_STEPS: u64 = 128;

impl ReadCache {
    /// Changes what the cache may hold. When it becomes less, items go at once, except for fences
    /// that are pinned: they stay with their tables, and the others make room for them.
    pub(crate) fn set_capacity(&self, capacity_bytes: u64) {
        self.lend(capacity_bytes, 0);
    }

    /// As [`ReadCache::set_capacity`], where `lent_bytes` of it will be taken back before long:
    /// what is costly to make is not made to fill them.
    pub(crate) fn lend(&self, capacity_bytes: u64, lent_bytes: u64) {
        let mut granted = self.granted.lock();
        *granted = Granted {
            bytes: capacity_bytes,
            lent_bytes,
        };
        self.fit_to(*granted);
    }

    /// Sizes what holds the items by what they leave of the capacity.
    pub(in crate::key_table) fn fit(&self) {
        let granted = self.granted.lock();
        self.fit_to(*granted);
    }

    /// Under the lock.
    pub(super) fn fit_to(&self, granted: Granted) {
        let capacity_bytes = granted.bytes;
        let lasting_bytes = capacity_bytes.saturating_sub(granted.lent_bytes);
        self.pins.set_limit(lasting_bytes / PINNED_SHARE);
        self.indexes.set_limit(lasting_bytes / INDEXES_SHARE);
        let beside = self.pins.used() + self.indexes.used() + self.beside_weight();
        let left = capacity_bytes.saturating_sub(beside);
        let left = left - left / HOLES_SHARE;
        // In steps: each change visits all shards.
        let step = capacity_bytes / CAPACITY_STEPS + 1;
        let capacity = left / step * step;
        let now = self.items.capacity();
        let grows = capacity > now + now / 64;
        if grows || capacity < now {
            self.items.set_capacity(capacity);
            self.held.set_limit(capacity / HELD_SHARE);
        }
        if grows {
            self.is_full.store(false, Ordering::Relaxed);
        }
    }

    /// Memory of the cache for what it does not hold.
    pub(super) fn beside_weight(&self) -> u64 {
        let idle = self.items.idle_bytes() + self.buffers.idle_bytes();
        (size_of_val(&*self.written) + idle + self.decoders.memory_bytes()) as u64
    }
}
