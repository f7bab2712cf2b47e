//! Scan merge: the key sections of a generation's tables become one sorted run (paper §III-F, the
//! size-based merge).
//!
//! The paper merges the tables whole; here only keys are merged, and all versions of them: the run
//! is for scans, which take it in place of the sections, and for the merge of the generation, which
//! then has one source for many. A former run is an input, in place of the tables that it covers,
//! so each run costs one pass over the keys that there are. Records are not read, nothing is
//! decided about what is visible, and the hash index does not notice.

use super::key_tables::KeyTableCutter;
use crate::base::keys::{Kind, SeqNo, Slot};
use crate::base::seeded::seeded;
use crate::error::Result;
use crate::jobs::JobContext;
use crate::partition::merging::{MergingCursor, follows};
use crate::partition::scan_sources;
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
    let mut tables = KeyTableCutter::new(
        context,
        &partition.start,
        context.key_table_referenced_bytes,
    );
    let (mut last_key, mut last_seq) = (Vec::new(), SeqNo::MAX);
    let mut count = 0u64;
    let range = partition.range();
    keys.seek(range.start, SeqNo::MAX)?;
    while let Some(entry) = keys.entry().filter(|entry| range.is_before_end(entry.key)) {
        if !follows((&last_key, last_seq), &entry, keys.path())? {
            keys.next()?;
            continue;
        }
        // A key's versions stay together.
        if tables.is_long_by(1) && last_key != entry.key {
            tables.cut()?;
        }
        if entry.kind != Kind::Delete || !seeded!(DropTombstonesInRun) {
            tables.add(&entry);
        }
        last_key.clear();
        last_key.extend_from_slice(entry.key);
        last_seq = entry.seq;
        keys.next()?;
        count += 1;
        if count.is_multiple_of(1024) {
            context.check_cancelled()?;
        }
    }
    Ok(ScanRunMeta {
        partition: partition.id,
        generation: generation.id,
        end: Slot(generation.high_water().0 + 1),
        tables: tables.finish(range.end)?,
    })
}
