//! Bytes of a cache that are taken beforehand and given back by themselves.

use crate::base::sync::atomic::Ordering;
use crate::key_table::cache::ReadCache;
use crate::key_table::cache::byte_budget::ByteBudget;
use std::sync::Arc;

/// Bytes that count against one of a cache's budgets until this is dropped.
#[derive(Debug)]
pub(crate) struct Taken {
    cache: Arc<ReadCache>,
    budget: fn(&ReadCache) -> &ByteBudget,
    bytes: u64,
}

impl ReadCache {
    /// Leave to hold one block of the cache for long, unless too many are held: a caller that may
    /// not holds a copy.
    pub(in crate::key_table) fn hold_segment(self: &Arc<Self>) -> Option<Taken> {
        let bytes = self.items.segment_len() as u64;
        Taken::among_items(self, |cache| &cache.held, bytes)
    }
}

impl Taken {
    /// Takes `bytes` from this budget of `cache`, if that is allowed.
    pub(crate) fn new(
        cache: &Arc<ReadCache>,
        budget: fn(&ReadCache) -> &ByteBudget,
        bytes: u64,
    ) -> Option<Taken> {
        let taken = Taken::among_items(cache, budget, bytes)?;
        cache.fit();
        Some(taken)
    }

    /// The same of bytes that are counted among the items, which make no room for them.
    pub(crate) fn among_items(
        cache: &Arc<ReadCache>,
        budget: fn(&ReadCache) -> &ByteBudget,
        bytes: u64,
    ) -> Option<Taken> {
        budget(cache).take(bytes).then(|| Taken {
            cache: Arc::clone(cache),
            budget,
            bytes,
        })
    }

    /// Gives back all but `bytes`.
    pub(crate) fn keep(&mut self, bytes: u64) {
        let rest = self.bytes.saturating_sub(bytes);
        self.bytes -= rest;
        self.give_back(rest);
    }

    fn give_back(&self, bytes: u64) {
        let budget = (self.budget)(&self.cache);
        budget.used.fetch_sub(bytes, Ordering::Relaxed);
    }
}

impl Drop for Taken {
    fn drop(&mut self) {
        self.give_back(self.bytes);
    }
}
