//! Reading key blocks and making pointer indexes that reads have made worth it.
//!
//! Both are for speed alone and in memory alone: nothing is committed, and a failure is none of the
//! database. No lock is held meanwhile.

use crate::engine::background::Background;
use crate::key_table::KeyTable;
use std::sync::Arc;

impl Background {
    /// Has the indexes of all tables made, if that is to be done when idle. Whether there were any
    /// to make.
    pub(crate) fn want_indexes_when_idle(&self) -> bool {
        let version = Arc::clone(&self.read.view.load().version);
        let due = self.schedule.are_indexes_due_when_idle(&version);
        if due {
            version.key_tables().for_each(|table| table.want_index());
        }
        due
    }

    /// Makes the index of a table for which look-ups have paid. Whether it made one.
    pub(crate) fn index_pointers_of_one(&self) -> bool {
        let version = Arc::clone(&self.read.view.load().version);
        let mut wanted = version.key_tables().filter(|table| table.wants_index());
        wanted.any(|table| table.make_index(self.core.hash_seed))
    }

    /// Reads the blocks of a table for which scans have paid. Whether it read any.
    pub(crate) fn read_blocks_of_one(&self) -> bool {
        let version = Arc::clone(&self.read.view.load().version);
        let bytes = KeyTable::bytes_of(version.key_tables());
        let has_room = self.core.cache.has_room_for_blocks(bytes);
        let mut wanted = version.key_tables().filter(|table| table.wants_blocks());
        wanted.any(|table| table.read_blocks(has_room))
    }
}
