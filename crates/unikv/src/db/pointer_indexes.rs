//! Making the pointer indexes of key tables (see `key_table::pointer_index`) for which look-ups have paid.
//!
//! An index is for speed alone and in memory alone: nothing is committed, and a failure is none of the database.
//! No lock is held while a table is read.

use super::engine::Engine;
use crate::base::sync::atomic::Ordering;
use std::sync::Arc;

impl Engine {
    /// Wakes the background if a look-up has just paid the last of an index.
    pub(super) fn wake_if_index_is_wanted(&self) {
        let wanted = &self.reads.pointer_index_wanted;
        if wanted.load(Ordering::Relaxed) && wanted.swap(false, Ordering::Relaxed) {
            self.work.notify();
        }
    }

    /// Whether look-ups have paid for the index of a table.
    pub(super) fn is_index_wanted(&self) -> bool {
        let view = self.view.load();
        view.version.key_tables().any(|table| table.wants_index())
    }

    /// Makes the index of a table for which look-ups have paid. Whether it made one.
    pub(super) fn index_pointers_of_one(&self) -> bool {
        let version = Arc::clone(&self.view.load().version);
        let mut wanted = version.key_tables().filter(|table| table.wants_index());
        wanted.any(|table| table.make_index(self.hash_seed))
    }
}
