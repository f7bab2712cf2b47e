//! Fences that stay with their table.
//!
//! Every lookup and every seek reads a table's fences, so a look for them in the cache is worth
//! saving. Up to a share of the cache's bytes, fences are kept by their tables for as long as these
//! live, and what else is cached makes room for them; those beyond it take their chances in the cache.
//!
//! Pinned fences also know where the table's blocks are while the cache keeps them. They do not own
//! them: what the cache drops is gone. Now and then a block is looked for in the cache all the same,
//! so that the cache sees which ones are wanted.

#[cfg(all(test, unikv_model = "loom"))]
mod models;

use super::block::Block;
use super::cache::ReadCache;
use super::fences::Fences;
use crate::base::sync::ArcSwapWeak;
use crate::base::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use std::sync::{Arc, Weak};

/// One access in so many to a table's blocks goes through the cache.
const ACCESSES_PER_TOUCH: u32 = 16;

/// The two counts in front of what is shared.
const WEAK_BYTES: usize = 16;

/// The bytes of pinned fences, and how many there may be.
#[derive(Debug)]
pub(super) struct PinBudget {
    used: AtomicU64,
    limit: AtomicU64,
}

impl PinBudget {
    pub(super) fn new(limit: u64) -> PinBudget {
        PinBudget {
            used: AtomicU64::new(0),
            limit: AtomicU64::new(limit),
        }
    }

    pub(super) fn used(&self) -> u64 {
        self.used.load(Ordering::Relaxed)
    }

    pub(super) fn limit(&self) -> u64 {
        self.limit.load(Ordering::Relaxed)
    }

    /// What is pinned beyond a lower limit stays.
    pub(super) fn set_limit(&self, bytes: u64) {
        self.limit.store(bytes, Ordering::Relaxed);
    }

    fn take(&self, bytes: u64) -> bool {
        let limit = self.limit();
        let taken = self
            .used
            .fetch_update(Ordering::Relaxed, Ordering::Relaxed, |used| {
                used.checked_add(bytes).filter(|used| *used <= limit)
            });
        taken.is_ok()
    }
}

/// Fences that count against the budget until they are dropped.
#[derive(Debug)]
pub(super) struct PinnedFences {
    fences: Arc<Fences>,
    /// One for each block.
    blocks: Box<[ArcSwapWeak<Block>]>,
    accesses: AtomicU32,
    cache: Arc<ReadCache>,
    bytes: u64,
}

impl PinnedFences {
    /// Pins `fences`, if there is room.
    pub(super) fn new(fences: &Arc<Fences>, cache: &Arc<ReadCache>) -> Option<PinnedFences> {
        let blocks = fences.len();
        // Of a block that is gone the place of its head stays until another is remembered.
        let per_block = size_of::<ArcSwapWeak<Block>>() + size_of::<Block>() + WEAK_BYTES;
        let bytes = fences.memory_bytes() + blocks * per_block;
        let bytes = bytes as u64;
        cache.pins().take(bytes).then(|| {
            cache.fit();
            PinnedFences {
                fences: Arc::clone(fences),
                blocks: (0..blocks).map(|_| ArcSwapWeak::new(Weak::new())).collect(),
                accesses: AtomicU32::new(0),
                cache: Arc::clone(cache),
                bytes,
            }
        })
    }

    /// The `i`th block, if the cache still keeps it.
    pub(super) fn block(&self, i: usize) -> Option<Arc<Block>> {
        // Counting need not be exact: threads that race touch a little more or less often.
        let accesses = self.accesses.load(Ordering::Relaxed).wrapping_add(1);
        self.accesses.store(accesses, Ordering::Relaxed);
        if accesses.is_multiple_of(ACCESSES_PER_TOUCH) {
            return None;
        }
        self.blocks.get(i)?.load().upgrade()
    }

    /// Notes where the `i`th block is.
    pub(super) fn remember(&self, i: usize, block: &Arc<Block>) {
        if let Some(slot) = self.blocks.get(i)
            && !std::ptr::eq(slot.load().as_ptr(), Arc::as_ptr(block))
        {
            slot.store(Arc::downgrade(block));
        }
    }

    pub(super) fn get(&self) -> &Arc<Fences> {
        &self.fences
    }
}

impl Drop for PinnedFences {
    fn drop(&mut self) {
        self.cache
            .pins()
            .used
            .fetch_sub(self.bytes, Ordering::Relaxed);
    }
}
