//! The memory of pointer indexes: a share of the read cache, taken before an index is made. When
//! the cache becomes smaller, indexes go that have been used least lately.
//!
//! Locks: `IndexBudget::holders`; nothing is locked under it.

use super::PointerIndex;
use crate::base::sync::atomic::{AtomicBool, Ordering};
use crate::base::sync::{ArcSwapOption, Guard, Mutex};
use crate::key_table::cache::byte_budget::ByteBudget;
use std::collections::VecDeque;
use std::sync::{Arc, Weak};

/// Where a table has its index.
#[derive(Debug)]
pub(in crate::key_table) struct IndexSlot {
    index: ArcSwapOption<PointerIndex>,
    /// Since the budget looked last.
    is_used: AtomicBool,
}

impl IndexSlot {
    pub(in crate::key_table) fn new() -> IndexSlot {
        IndexSlot {
            index: ArcSwapOption::empty(),
            is_used: AtomicBool::new(false),
        }
    }

    /// Whether there is an index. That is no use of it.
    pub(in crate::key_table) fn is_set(&self) -> bool {
        self.index.load().is_some()
    }

    /// Whether there is an index that has been used since the budget looked last.
    pub(in crate::key_table) fn is_used(&self) -> bool {
        self.is_set() && self.is_used.load(Ordering::Relaxed)
    }

    pub(in crate::key_table) fn load(&self) -> Guard<Option<Arc<PointerIndex>>> {
        let index = self.index.load();
        if index.is_some() && !self.is_used.load(Ordering::Relaxed) {
            self.is_used.store(true, Ordering::Relaxed);
        }
        index
    }
}

/// The bytes set aside for the indexes of all tables.
#[derive(Debug)]
pub(in crate::key_table) struct IndexBudget {
    bytes: ByteBudget,
    /// Tables that have an index, and some that had one.
    holders: Mutex<VecDeque<Weak<IndexSlot>>>,
}

impl IndexBudget {
    pub(in crate::key_table) fn new(limit: u64) -> IndexBudget {
        IndexBudget {
            bytes: ByteBudget::new(limit),
            holders: Mutex::default(),
        }
    }

    pub(in crate::key_table) fn bytes(&self) -> &ByteBudget {
        &self.bytes
    }

    pub(in crate::key_table) fn used(&self) -> u64 {
        self.bytes.used()
    }

    /// Changes what may be taken. What is taken beyond that goes.
    pub(in crate::key_table) fn set_limit(&self, bytes: u64) {
        self.bytes.set_limit(bytes);
        if self.used() > bytes {
            self.shrink();
        }
    }

    /// Gives `slot` its index.
    pub(in crate::key_table) fn set(&self, slot: &Arc<IndexSlot>, index: PointerIndex) {
        slot.index.store(Some(Arc::new(index)));
        let mut holders = self.holders.lock();
        holders.retain(|held| held.strong_count() > 0);
        holders.push_back(Arc::downgrade(slot));
    }

    fn shrink(&self) {
        let mut holders = self.holders.lock();
        // Each gets a second chance.
        for _ in 0..2 * holders.len() {
            if self.used() <= self.bytes.limit() {
                return;
            }
            let Some(held) = holders.pop_front() else {
                return;
            };
            if let Some(slot) = held.upgrade() {
                if slot.is_used.swap(false, Ordering::Relaxed) {
                    holders.push_back(held);
                } else {
                    slot.index.store(None);
                }
            }
        }
    }

    /// As if no index had been used since the last look.
    #[cfg(test)]
    pub(in crate::key_table) fn forget_uses(&self) {
        let held = self.holders.lock();
        let slots = held.iter().filter_map(Weak::upgrade);
        slots.for_each(|slot| slot.is_used.store(false, Ordering::Relaxed));
    }
}
