//! Reading the key blocks of tables for which scans have paid (see
//! `key_table::section::all_blocks`), where those of all tables have room in the cache: else each
//! table would drive out the blocks of another.
//!
//! It is for speed alone: nothing is committed, and a failure is none of the database. No lock is
//! held meanwhile.

use crate::engine::Engine;
use crate::key_table::KeyTable;
use std::sync::Arc;

impl Engine {
    /// Whether the blocks of a table are to be read.
    pub(crate) fn are_blocks_wanted(&self) -> bool {
        let version = &self.view.load().version;
        version.key_tables().any(|table| table.wants_blocks())
    }

    /// Reads the blocks of a table for which scans have paid. Whether it read any.
    pub(crate) fn read_blocks_of_one(&self) -> bool {
        let version = Arc::clone(&self.view.load().version);
        let bytes = KeyTable::bytes_of(version.key_tables());
        let has_room = self.cache.has_room_for_blocks(bytes);
        let mut wanted = version.key_tables().filter(|table| table.wants_blocks());
        wanted.any(|table| table.read_blocks(has_room))
    }
}
