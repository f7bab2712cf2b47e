//! What a walk over a record file finds of its range tombstones, and what is to be made of it.
//!
//! The manifest, or else the file's properties, say how many there are, where they stand and what
//! they span. If those that verify are not just these, what is lost may have deleted anything of
//! the span.
//!
//! No locks; nothing is written.

use crate::base::range_tombstones::RangeTombstone;
use crate::base::seeded::seeded;
use crate::key_table::range_section::RangeSection;
use crate::offline::repair::files::Found;
use crate::offline::repair::range_deletes::{RangeDeletes, both};
use crate::offline::repair::resolve::judge::{Judge, Written};
use crate::record::RecordFileMeta;

/// The range tombstones of one file that verified.
#[derive(Default)]
pub(super) struct SeenRanges {
    section: Option<RangeSection>,
    tombstones: Vec<RangeTombstone>,
    /// Places among them that did not verify.
    pub(super) faults: u64,
}

impl SeenRanges {
    /// The next one, at `offset`.
    pub(super) fn add(&mut self, tombstone: &RangeTombstone, offset: u64) {
        let section = self
            .section
            .get_or_insert_with(|| RangeSection::begin(offset));
        section.add(tombstone.as_ref());
        self.tombstones.push(tombstone.clone());
    }

    /// Hands on what was seen of `found`, and what is lost of it. False: those that are there are
    /// not those that are listed.
    pub(super) fn take(
        self,
        found: &Found,
        meta: &RecordFileMeta,
        judge: &Judge,
        ranges: &mut RangeDeletes,
    ) -> bool {
        let place = (found.number, found.file.path());
        let is_whole = self.faults == 0 && self.section == meta.ranges;
        if !is_whole
            && !seeded!(RepairLosesRanges)
            && let Some(lost) = both(meta.ranges.clone(), self.section)
        {
            ranges.lose(&lost, &judge.unmerged_ranges(found.number), place);
        }
        match judge.range_deletes(found.number) {
            Written::Yes => ranges.found.extend(self.tombstones),
            Written::Above(last) => {
                // They may have been written: the log that said so may be lost.
                let mut span = RangeSection::begin(0);
                let above = self.tombstones.iter().filter(|t| t.seq > last);
                above.for_each(|tombstone| span.add(tombstone.as_ref()));
                ranges.lose(&span, &[(Vec::new(), None)], place);
            }
        }
        is_whole
    }
}
