//! Where a table has its pointer index.

use super::PointerIndex;
use crate::base::sync::atomic::{AtomicBool, Ordering};
use crate::base::sync::{ArcSwapOption, Guard};
use crate::key_table::cache::index_budget::IndexHolder;
use std::sync::Arc;

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

    pub(in crate::key_table) fn set(&self, index: PointerIndex) {
        self.index.store(Some(Arc::new(index)));
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

impl IndexHolder for IndexSlot {
    fn take_use(&self) -> bool {
        self.is_used.swap(false, Ordering::Relaxed)
    }

    fn give_up(&self) {
        self.index.store(None);
    }
}
