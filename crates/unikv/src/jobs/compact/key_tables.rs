//! The key tables that a job makes of a range, in their order, with bounds that keep them apart
//! from one another and from those around them ([`crate::key_table::builder::bounds`]).
//!
//! The bounds of a table are known when the next key is: until then it has its greatest key itself.

use crate::base::file_names;
use crate::error::Result;
use crate::jobs::JobContext;
use crate::key_table::builder::bounds;
use crate::key_table::{KeyEntry, KeySectionBuilder, KeyTableMeta, write_key_table};

/// Makes key tables of keys that come in order: each is built in memory, and cut where the caller
/// says.
pub(crate) struct KeyTableCutter<'a> {
    context: &'a JobContext<'a>,
    /// A table is ended also when its newest records take this much.
    referenced_bytes: u64,
    builder: KeySectionBuilder,
    tables: KeyTables,
}

impl<'a> KeyTableCutter<'a> {
    /// For a range that begins at `start`. A table is ended also when its newest records take
    /// `referenced_bytes`.
    pub(crate) fn new(
        context: &'a JobContext<'a>,
        start: &[u8],
        referenced_bytes: u64,
    ) -> KeyTableCutter<'a> {
        KeyTableCutter {
            context,
            referenced_bytes,
            builder: KeySectionBuilder::new(context.block_bytes),
            tables: KeyTables::new(start),
        }
    }

    /// Adds the next entry to the table being built.
    pub(crate) fn add(&mut self, entry: &KeyEntry<'_>) {
        if self.builder.is_empty() {
            // A table has keys of one keyspace that is there.
            let compression = self.context.compressions.of(entry.key);
            self.builder.compress(compression);
        }
        self.builder.add(entry);
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.builder.is_empty()
    }

    /// Whether the table has a `part`th of the length at which it is ended.
    pub(crate) fn is_long_by(&self, part: u64) -> bool {
        self.builder.estimated_len() as u64 >= self.context.key_table_bytes as u64 / part
    }

    /// The same, or of the bytes of records at which it is.
    pub(crate) fn is_full_by(&self, part: u64) -> bool {
        let records = self.builder.newest_record_bytes();
        self.is_long_by(part) || records >= self.referenced_bytes / part
    }

    /// Ends the key table being built, if it has keys.
    pub(crate) fn cut(&mut self) -> Result<()> {
        if self.builder.is_empty() {
            return Ok(());
        }
        let next = KeySectionBuilder::new(self.context.block_bytes);
        let section = std::mem::replace(&mut self.builder, next);
        let write = |number| write_key_table(self.context.store, number, section);
        let (table, file) = self.context.begin_file(file_names::key_table, write)?;
        self.context.sync(file)?;
        self.tables.push(table);
        Ok(())
    }

    /// Ends the key table being built: `table` comes next, and stays.
    pub(crate) fn keep(&mut self, table: &KeyTableMeta) -> Result<()> {
        self.cut()?;
        self.tables.keep(table);
        Ok(())
    }

    /// All tables that were made; the range ends before `end`.
    pub(crate) fn finish(mut self, end: Option<&[u8]>) -> Result<Vec<KeyTableMeta>> {
        self.cut()?;
        Ok(self.tables.finish(end))
    }
}

/// Key tables being made.
struct KeyTables {
    made: Vec<KeyTableMeta>,
    /// What the next table lies after, if that is not the last one made.
    before: Option<Vec<u8>>,
}

impl KeyTables {
    /// Of a range that begins at `start`.
    fn new(start: &[u8]) -> KeyTables {
        KeyTables {
            made: Vec::new(),
            before: Some(start.to_vec()),
        }
    }

    /// Adds the next one.
    fn push(&mut self, mut table: KeyTableMeta) {
        match (self.before.take(), self.made.last_mut()) {
            (None, Some(last)) => {
                (last.max_key, table.min_key) = bounds::between(&last.max_key, &table.min_key);
            }
            (before, _) => table.min_key = bounds::lower(&table.min_key, before.as_deref()),
        }
        self.made.push(table);
    }

    /// A table stays that lies after all that have been made.
    fn keep(&mut self, table: &KeyTableMeta) {
        self.end_before(Some(&table.min_key));
        self.before = Some(table.max_key.clone());
    }

    /// All of them; the range ends before `end`.
    fn finish(mut self, end: Option<&[u8]>) -> Vec<KeyTableMeta> {
        self.end_before(end);
        self.made
    }

    fn end_before(&mut self, behind: Option<&[u8]>) {
        if let (None, Some(last)) = (&self.before, self.made.last_mut()) {
            last.max_key = bounds::upper(&last.max_key, behind);
        }
    }
}
