//! Making the pointer indexes of key tables (see `key_table::pointer_index`) for which look-ups have paid.
//!
//! An index is for speed alone and in memory alone: nothing is committed, a failure is none of the database, and
//! the next one has to be paid for anew. No lock is held while a table is read.

use super::engine::Engine;
use crate::base::sync::atomic::Ordering;
use crate::key_table::KeyTable;
use std::sync::Arc;

impl Engine {
    /// Wakes the background if a look-up has just paid the last of an index.
    pub(super) fn wake_if_index_is_wanted(&self) {
        let wanted = &self.reads.pointer_index_wanted;
        if wanted.load(Ordering::Relaxed) && wanted.swap(false, Ordering::Relaxed) {
            self.work.notify();
        }
    }

    /// A table for whose index look-ups have paid.
    pub(super) fn plan_index(&self) -> Option<Arc<KeyTable>> {
        let view = self.view.load();
        let mut tables = view.version.key_tables();
        tables.find(|table| table.wants_index()).cloned()
    }

    /// Makes the index of one such table. Whether there was one.
    pub(super) fn index_pointers_of_one(&self) -> bool {
        let Some(table) = self.plan_index() else {
            return false;
        };
        // What cannot be read now, look-ups tell.
        let _made = table.make_index(self.hash_seed);
        true
    }
}
