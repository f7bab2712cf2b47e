//! Fences that stay with their table.
//!
//! Every lookup and every seek reads a table's fences, so a look for them in the cache is worth
//! saving. A share of the cache's bytes is set aside for fences that are kept by their tables for as
//! long as these live; those beyond it take their chances in the cache.

use super::cache::ReadCache;
use super::fences::Fences;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// The bytes set aside for pinned fences.
#[derive(Debug)]
pub(super) struct PinBudget {
    used: AtomicU64,
    limit: u64,
}

impl PinBudget {
    pub(super) fn new(limit: u64) -> PinBudget {
        PinBudget {
            used: AtomicU64::new(0),
            limit,
        }
    }

    pub(super) fn used(&self) -> u64 {
        self.used.load(Ordering::Relaxed)
    }

    pub(super) fn limit(&self) -> u64 {
        self.limit
    }

    fn take(&self, bytes: u64) -> bool {
        let taken = self
            .used
            .fetch_update(Ordering::Relaxed, Ordering::Relaxed, |used| {
                used.checked_add(bytes).filter(|used| *used <= self.limit)
            });
        taken.is_ok()
    }
}

/// Fences that count against the budget until they are dropped.
#[derive(Debug)]
pub(super) struct PinnedFences {
    fences: Arc<Fences>,
    cache: Arc<ReadCache>,
    bytes: u64,
}

impl PinnedFences {
    /// Pins `fences`, if there is room.
    pub(super) fn new(fences: &Arc<Fences>, cache: &Arc<ReadCache>) -> Option<PinnedFences> {
        let bytes = fences.memory_bytes() as u64;
        cache.pins().take(bytes).then(|| PinnedFences {
            fences: Arc::clone(fences),
            cache: Arc::clone(cache),
            bytes,
        })
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
