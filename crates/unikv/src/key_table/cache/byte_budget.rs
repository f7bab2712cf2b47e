//! Bytes of the read cache that tables keep for themselves: taken beforehand, never more than there
//! may be, and given back when who took them goes. The items of the cache make room for them.

#[cfg(all(test, unikv_model = "loom"))]
mod models;

use crate::base::sync::atomic::{AtomicU64, Ordering};

/// How many bytes of one kind are taken, and how many may be.
#[derive(Debug)]
pub(crate) struct ByteBudget {
    pub(super) used: AtomicU64,
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

    pub(super) fn take(&self, bytes: u64) -> bool {
        let limit = self.limit();
        let more = |used: u64| used.checked_add(bytes).filter(|used| *used <= limit);
        let (success, failure) = (Ordering::Relaxed, Ordering::Relaxed);
        self.used.fetch_update(success, failure, more).is_ok()
    }
}
