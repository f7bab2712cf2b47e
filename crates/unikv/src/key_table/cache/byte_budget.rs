//! Bytes of the read cache that tables keep for themselves: taken beforehand, never more than there
//! may be, and given back when who took them goes. The items of the cache make room for them.

#[cfg(all(test, unikv_model = "loom"))]
mod models;

use crate::base::sync::atomic::{AtomicU64, Ordering};
use crate::key_table::cache::ReadCache;
use std::sync::Arc;

/// How many bytes of one kind are taken, and how many may be.
#[derive(Debug)]
pub(crate) struct ByteBudget {
    used: AtomicU64,
    limit: AtomicU64,
}

impl ByteBudget {
    pub(crate) fn new(limit: u64) -> ByteBudget {
        ByteBudget {
            used: AtomicU64::new(0),
            limit: AtomicU64::new(limit),
        }
    }

    pub(crate) fn used(&self) -> u64 {
        self.used.load(Ordering::Relaxed)
    }

    pub(crate) fn limit(&self) -> u64 {
        self.limit.load(Ordering::Relaxed)
    }

    /// What is taken beyond a lower limit stays taken.
    pub(crate) fn set_limit(&self, bytes: u64) {
        self.limit.store(bytes, Ordering::Relaxed);
    }

    fn take(&self, bytes: u64) -> bool {
        let limit = self.limit();
        let more = |used: u64| used.checked_add(bytes).filter(|used| *used <= limit);
        let (success, failure) = (Ordering::Relaxed, Ordering::Relaxed);
        self.used.fetch_update(success, failure, more).is_ok()
    }
}

/// Bytes that count against one of a cache's budgets until this is dropped.
#[derive(Debug)]
pub(crate) struct Taken {
    cache: Arc<ReadCache>,
    budget: fn(&ReadCache) -> &ByteBudget,
    bytes: u64,
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
