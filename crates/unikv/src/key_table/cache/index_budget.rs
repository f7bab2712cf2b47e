//! The memory of pointer indexes: a share of the read cache, taken before an index is made. When
//! the cache becomes smaller, indexes go that have been used least lately.
//!
//! Locks: `IndexBudget::holders`; nothing is locked under it.

use crate::base::sync::Mutex;
use crate::key_table::cache::byte_budget::ByteBudget;
use std::collections::VecDeque;
use std::fmt::Debug;
use std::sync::Weak;

/// What has an index of which it may have to give up the memory.
pub(in crate::key_table) trait IndexHolder: Debug + Send + Sync {
    /// Whether the index was used since this was last asked.
    fn take_use(&self) -> bool;

    /// Gives up the index.
    fn give_up(&self);
}

/// The bytes set aside for the indexes of all tables.
#[derive(Debug)]
pub(in crate::key_table) struct IndexBudget {
    bytes: ByteBudget,
    /// Tables that have an index, and some that had one.
    holders: Mutex<VecDeque<Weak<dyn IndexHolder>>>,
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

    /// Counts `holder`, which has an index now, among those that may have to give theirs up.
    pub(in crate::key_table) fn add(&self, holder: Weak<dyn IndexHolder>) {
        let mut holders = self.holders.lock();
        holders.retain(|held| held.strong_count() > 0);
        holders.push_back(holder);
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
            if let Some(holder) = held.upgrade() {
                if holder.take_use() {
                    holders.push_back(held);
                } else {
                    holder.give_up();
                }
            }
        }
    }

    /// As if no index had been used since the last look.
    #[cfg(test)]
    pub(in crate::key_table) fn forget_uses(&self) {
        let held = self.holders.lock();
        let slots = held.iter().filter_map(Weak::upgrade);
        slots.for_each(|slot| {
            slot.take_use();
        });
    }
}
