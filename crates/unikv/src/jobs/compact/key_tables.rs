//! The key tables that a job makes of a range, in their order, with bounds that keep them apart
//! from one another and from those around them ([`crate::key_table::builder::bounds`]).
//!
//! The bounds of a table are known when the next key is: until then it has its greatest key itself.

use crate::key_table::KeyTableMeta;
use crate::key_table::builder::bounds;

/// Key tables being made.
pub(crate) struct KeyTables {
    made: Vec<KeyTableMeta>,
    /// What the next table lies behind, if that is not the last one made.
    before: Option<Vec<u8>>,
}

impl KeyTables {
    /// Of a range that begins at `start`.
    pub(crate) fn new(start: &[u8]) -> KeyTables {
        KeyTables {
            made: Vec::new(),
            before: Some(start.to_vec()),
        }
    }

    /// Adds the next one.
    pub(crate) fn push(&mut self, mut table: KeyTableMeta) {
        match (self.before.take(), self.made.last_mut()) {
            (None, Some(last)) => {
                (last.max_key, table.min_key) = bounds::between(&last.max_key, &table.min_key);
            }
            (before, _) => table.min_key = bounds::lower(&table.min_key, before.as_deref()),
        }
        self.made.push(table);
    }

    /// A table stays that lies behind all that have been made.
    pub(crate) fn keep(&mut self, table: &KeyTableMeta) {
        self.end_before(Some(&table.min_key));
        self.before = Some(table.max_key.clone());
    }

    /// All of them; the range ends before `end`.
    pub(crate) fn finish(mut self, end: Option<&[u8]>) -> Vec<KeyTableMeta> {
        self.end_before(end);
        self.made
    }

    fn end_before(&mut self, behind: Option<&[u8]>) {
        if let (None, Some(last)) = (&self.before, self.made.last_mut()) {
            last.max_key = bounds::upper(&last.max_key, behind);
        }
    }
}
