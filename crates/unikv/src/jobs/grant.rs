//! Making what reads have made worth its cost for a table: its pointer index, or reading all its
//! key blocks (see `key_table::reader::section::all_blocks` and `key_table::pointer_index`).
//!
//! It is for speed alone and in memory alone: nothing is committed, and a failure is none of the
//! database.

use crate::base::keys::FileNumber;
use crate::key_table::KeyTable;
use crate::version::Version;
use std::sync::Arc;

/// Makes what tables want, until it could be made once. `next` names a table that wants it, and the
/// version of that moment. Tables that are gone want nothing. False: none is left.
pub(crate) fn grant(
    next: impl Fn() -> Option<(FileNumber, Arc<Version>)>,
    make: impl Fn(&Arc<KeyTable>) -> bool,
) -> bool {
    while let Some((number, version)) = next() {
        let mut tables = version.key_tables();
        let table = tables.find(|table| table.meta().number == number);
        if table.is_some_and(&make) {
            return true;
        }
    }
    false
}
