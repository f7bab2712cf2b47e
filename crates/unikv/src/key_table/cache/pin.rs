//! Fences that stay with their table.
//!
//! Every lookup and every seek reads a table's fences, so a look for them in the cache is worth
//! saving. Up to a share of the cache's bytes, fences are kept by their tables for as long as these
//! live, and what else is cached makes room for them; those beyond it take their chances in the
//! cache.
//!
//! Pinned fences also know where the table's blocks are while the cache keeps them, and does not
//! move them. They do not own them: what the cache drops is gone. Now and then a block is looked
//! for in the cache all the same, so that the cache sees which ones are wanted.

use super::taken::Taken;
use crate::base::sync::ArcSwapWeak;
use crate::base::sync::atomic::{AtomicU32, Ordering};
use crate::key_table::block::Block;
use crate::key_table::block::fences::Fences;
use crate::key_table::cache::ReadCache;
use std::sync::{Arc, Weak};

/// One access in this many to a table's blocks goes through the cache.
const ACCESSES_PER_TOUCH: u32 = 16;

/// The two counts before what is shared.
const WEAK_BYTES: usize = 16;

/// Fences that count against the budget until they are dropped.
#[derive(Debug)]
pub(crate) struct PinnedFences {
    fences: Arc<Fences>,
    /// One for each block.
    blocks: Box<[ArcSwapWeak<Block>]>,
    accesses: AtomicU32,
    _taken: Taken,
}

impl PinnedFences {
    /// Pins `fences`, if there is room.
    pub(crate) fn new(fences: &Arc<Fences>, cache: &Arc<ReadCache>) -> Option<PinnedFences> {
        let blocks = fences.len();
        // Of a block that is gone the place of its head stays until another is remembered.
        let per_block = size_of::<ArcSwapWeak<Block>>() + size_of::<Block>() + WEAK_BYTES;
        let bytes = fences.memory_bytes() + blocks * per_block;
        let taken = Taken::new(cache, ReadCache::pins, bytes as u64)?;
        Some(PinnedFences {
            fences: Arc::clone(fences),
            blocks: (0..blocks).map(|_| ArcSwapWeak::new(Weak::new())).collect(),
            accesses: AtomicU32::new(0),
            _taken: taken,
        })
    }

    /// The `i`th block, if the cache still keeps it.
    pub(crate) fn block(&self, i: usize) -> Option<Arc<Block>> {
        // Counting need not be exact: threads that race touch a little more or less often.
        let accesses = self.accesses.load(Ordering::Relaxed).wrapping_add(1);
        self.accesses.store(accesses, Ordering::Relaxed);
        if accesses.is_multiple_of(ACCESSES_PER_TOUCH) {
            return None;
        }
        self.blocks.get(i)?.load().upgrade()
    }

    /// Notes where the `i`th block is.
    pub(crate) fn remember(&self, i: usize, block: &Arc<Block>) {
        if let Some(slot) = self.blocks.get(i)
            && !std::ptr::eq(slot.load().as_ptr(), Arc::as_ptr(block))
        {
            slot.store(Arc::downgrade(block));
        }
    }

    pub(crate) fn get(&self) -> &Arc<Fences> {
        &self.fences
    }
}
