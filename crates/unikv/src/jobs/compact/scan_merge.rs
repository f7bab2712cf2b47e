//! Scan merge: the key sections of a generation's tables become one sorted run (paper §III-F, the
//! size-based merge).
//!
//! The paper merges the tables whole; here only keys are merged, and all versions of them: the run
//! is for scans, which take it in place of the sections, and for the merge of the generation, which
//! then has one source for many. A former run is an input, in place of the tables that it covers,
//! so each run costs one pass over the keys that there are. Records are not read, nothing is
//! decided about what is visible, and the hash index does not notice.

use super::key_tables::KeyTables;
use crate::base::keys::{Kind, SeqNo, Slot};
use crate::base::seeded::seeded;
use crate::error::Result;
use crate::jobs::JobContext;
use crate::key_table::{KeySectionBuilder, write_key_table};
use crate::partition::merging::{MergingCursor, follows};
use crate::partition::scan_sources;
use crate::version::file_names;
use crate::version::scan_run::ScanRunMeta;
use crate::version::{Generation, Partition};

/// Merges the keys that `generation` of `partition` has now.
pub(crate) fn scan_merge(
    context: &JobContext<'_>,
    partition: &Partition,
    generation: &Generation,
) -> Result<ScanRunMeta> {
    let buffer = context.read_buffer_bytes(generation.scan_sources());
    let sources = scan_sources::for_job(generation, buffer).collect::<Result<_>>()?;
    let mut keys = MergingCursor::new(sources);
    let mut output = Output {
        context,
        builder: KeySectionBuilder::new(context.block_bytes),
        tables: KeyTables::new(&partition.start),
        last_key: Vec::new(),
        last_seq: SeqNo::MAX,
    };
    let mut count = 0u64;
    let range = partition.range();
    keys.seek(range.start, SeqNo::MAX)?;
    while let Some(entry) = keys.entry().filter(|entry| range.is_before_end(entry.key)) {
        if !follows((&output.last_key, output.last_seq), &entry, keys.path())? {
            keys.next()?;
            continue;
        }
        // A key's versions stay together.
        if output.is_full() && output.last_key != entry.key {
            output.cut_table()?;
        }
        if entry.kind != Kind::Delete || !seeded!(DropTombstonesInRun) {
            output.builder.add(&entry);
        }
        output.last_key.clear();
        output.last_key.extend_from_slice(entry.key);
        output.last_seq = entry.seq;
        keys.next()?;
        count += 1;
        if count.is_multiple_of(1024) {
            context.check_cancelled()?;
        }
    }
    output.cut_table()?;
    Ok(ScanRunMeta {
        partition: partition.id,
        generation: generation.id,
        end: Slot(generation.high_water().0 + 1),
        tables: output.tables.finish(range.end),
    })
}

/// The key tables of the run: as small as those of a SortedStore, because each is built in memory.
struct Output<'a> {
    context: &'a JobContext<'a>,
    builder: KeySectionBuilder,
    tables: KeyTables,
    last_key: Vec<u8>,
    last_seq: SeqNo,
}

impl Output<'_> {
    fn is_full(&self) -> bool {
        self.builder.estimated_len() >= self.context.key_table_bytes
    }

    /// Ends the key table being built, if it has keys.
    fn cut_table(&mut self) -> Result<()> {
        if self.builder.is_empty() {
            return Ok(());
        }
        let next = KeySectionBuilder::new(self.context.block_bytes);
        let section = std::mem::replace(&mut self.builder, next);
        let write = |number| write_key_table(self.context.store, number, section);
        let table = self.context.begin_file(file_names::key_table, write)?;
        self.tables.push(table);
        Ok(())
    }
}
