//! Reading key blocks and making pointer indexes that reads have made worth it (see
//! `key_table::reader::section::all_blocks` and `key_table::pointer_index`); and, while writers are
//! idle, the indexes of all tables, if there is room for all. The first look-ups after an idle
//! pass, which replaces the tables, are as fast as later ones then.
//!
//! All is for speed alone and in memory alone: nothing is committed, and a failure is none of the
//! database.

use crate::engine::background::Background;
use crate::key_table::{KeyTable, Wish};
use std::sync::Arc;

impl Background {
    /// Makes the pointer index of a table that wants one. False: none does any more.
    pub(in crate::engine::background) fn make_index(&self) -> bool {
        self.grant(Wish::Index, |table| table.make_index(self.core.hash_seed))
    }

    /// Reads the key blocks of a table that wants them. False: none does any more.
    pub(in crate::engine::background) fn read_blocks(&self) -> bool {
        let version = Arc::clone(&self.read.view.load().version);
        let sums = version.partition_sums();
        let bytes = sums.key_table_bytes + sums.saved_bytes;
        let has_room = self.core.cache.has_room_for_blocks(bytes);
        self.grant(Wish::Blocks, |table| table.read_blocks(has_room))
    }

    /// Makes what tables want, until it could be made once. Tables that are gone want nothing.
    fn grant(&self, wish: Wish, make: impl Fn(&Arc<KeyTable>) -> bool) -> bool {
        let wishes = self.core.cache.wishes().of(wish);
        loop {
            // A commit has a table's successor want what it wants before it lists it.
            let catalog = self.catalog.lock();
            let Some(number) = wishes.take() else {
                return false;
            };
            let version = Arc::clone(&catalog.version);
            drop(catalog);
            let mut tables = version.key_tables();
            let table = tables.find(|table| table.meta().number == number);
            if table.is_some_and(&make) {
                return true;
            }
        }
    }

    /// Asks for the pointer indexes of all tables.
    pub(in crate::engine::background) fn want_indexes(&self) {
        let version = Arc::clone(&self.read.view.load().version);
        version.key_tables().for_each(|table| table.want_index());
    }
}
