//! The range tombstones of a record file.

use super::RecordFile;
use crate::base::bounds::are_of_a_range;
use crate::base::keys::Kind;
use crate::base::range_tombstones::RangeTombstone;
use crate::error::{Error, Result};
use std::sync::Arc;

impl RecordFile {
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
