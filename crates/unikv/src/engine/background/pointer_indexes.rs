//! Making the pointer indexes of key tables (see `key_table::pointer_index`) for which look-ups
//! have paid; and, while writers are idle, of all tables, if there is room for all. The first
//! look-ups after an idle pass, which replaces the tables, are as fast as later ones then.
//!
//! An index is for speed alone and in memory alone: nothing is committed, and a failure is none of
//! the database. No lock is held while a table is read.

use crate::base::sync::atomic::Ordering;
use crate::engine::Engine;
use crate::key_table::KeyTable;
use crate::version::Version;
use std::sync::Arc;

impl Engine {
    /// Wakes the background if a look-up has just paid the last of an index.
    pub(crate) fn wake_if_index_is_wanted(&self) {
        let wanted = &self.reads.pointer_index_wanted;
        if wanted.load(Ordering::Relaxed) && wanted.swap(false, Ordering::Relaxed) {
            self.work.notify();
        }
    }

    /// Whether the index of a table is to be made.
    pub(crate) fn is_index_wanted(&self) -> bool {
        let version = &self.view.load().version;
        version.key_tables().any(|table| table.wants_index())
            || self.are_indexes_due_when_idle(version)
    }

    /// Whether writers are idle, and there is room for the indexes of all tables, of which some
    /// have none.
    fn are_indexes_due_when_idle(&self, version: &Version) -> bool {
        self.clusters_when_idle()
            && version.key_tables().any(|table| table.may_want_index())
            && KeyTable::index_bytes_of(version.key_tables()) <= self.cache.pointer_index_limit()
    }

    /// Has the indexes of all tables made, if that is to be done when idle. Whether there were any
    /// to make.
    pub(crate) fn want_indexes_when_idle(&self) -> bool {
        let version = Arc::clone(&self.view.load().version);
        let due = self.are_indexes_due_when_idle(&version);
        if due {
            version.key_tables().for_each(|table| table.want_index());
        }
        due
    }

    /// Makes the index of a table for which look-ups have paid. Whether it made one.
    pub(crate) fn index_pointers_of_one(&self) -> bool {
        let version = Arc::clone(&self.view.load().version);
        let mut wanted = version.key_tables().filter(|table| table.wants_index());
        wanted.any(|table| table.make_index(self.hash_seed))
    }
}
