//! The range tombstones of a record file.

use super::RecordFile;
use crate::base::bounds::are_of_a_range;
use crate::base::keys::Kind;
use crate::base::range_tombstones::{RangeTombstone, RangeTombstones};
use crate::error::{Error, Result};
use std::sync::Arc;

impl RecordFile {
    /// The range tombstones of the file, if they are in memory.
    pub(crate) fn range_set_in_memory(&self) -> Option<&Arc<RangeTombstones>> {
        self.meta().ranges.as_ref()?.in_memory.get()
    }

    /// The range tombstones of the file, which are read unless they are in memory.
    pub(crate) fn range_set(self: &Arc<Self>) -> Result<Arc<RangeTombstones>> {
        if let Some(known) = self.range_set_in_memory() {
            return Ok(Arc::clone(known));
        }
        let read = Arc::new(RangeTombstones::new(&self.range_tombstones()?));
        if let Some(section) = &self.meta().ranges {
            section.in_memory.set(&read);
        }
        Ok(read)
    }

    /// Reads all range tombstones of the file, which has a list of them if it has any.
    pub(crate) fn range_tombstones(self: &Arc<Self>) -> Result<Vec<RangeTombstone>> {
        let Some(section) = &self.meta().ranges else {
            return Ok(Vec::new());
        };
        let wrong = |what: &str| Error::corruption(self.path(), section.offset, what);
        let mut tombstones = Vec::new();
        let mut frames = self.stream_from(section.offset);
        while let Some(record) = frames.next()? {
            if record.kind() != Kind::RangeDelete {
                return Err(wrong("a record stands among the range tombstones"));
            }
            let (start, end) = (record.key(), record.value_slice());
            if !are_of_a_range(start, end) {
                let what = "what a range tombstone bounds is no range";
                return Err(Error::corruption(self.path(), record.offset(), what));
            }
            tombstones.push(RangeTombstone {
                start: start.to_vec(),
                end: end.to_vec(),
                seq: record.seq(),
            });
        }
        let within = |t: &RangeTombstone| {
            t.start >= section.start
                && t.end <= section.end
                && (section.min_seq..=section.max_seq).contains(&t.seq)
        };
        if tombstones.len() as u64 != section.count || !tombstones.iter().all(within) {
            return Err(wrong("the range tombstones are not those that are listed"));
        }
        Ok(tombstones)
    }
}
