//! The range deletes of a damaged database.
//!
//! A range delete that was written has deleted every older record of its keys for good, so it is
//! applied to all of them, wherever it is found and whatever has been merged since: what it covered
//! then is dead in any case. Which were written, the judge says of a file, and the log of a batch.
//! Of those that are lost, a hole over their span puts in doubt what they may have deleted.
//!
//! All of them are in memory, as they are in the engine.
//!
//! No locks.

use super::files::holes::Hole;
use super::ranges::Range;
use crate::base::keys::FileNumber;
use crate::base::range_tombstones::RangeTombstone;
use crate::key_table::range_section::{InMemory, RangeSection};
use std::path::Path;

/// What files and log say of range deletes.
#[derive(Default)]
pub(super) struct RangeDeletes {
    /// Those that were written.
    pub(super) found: Vec<RangeTombstone>,
    /// Where some are lost, or are there and may not have been written.
    pub(super) holes: Vec<Hole>,
}

impl RangeDeletes {
    /// `lost`, of a file, may have deleted something in one of `ranges`.
    pub(super) fn lose(
        &mut self,
        lost: &RangeSection,
        ranges: &[Range],
        (file, path): (FileNumber, &Path),
    ) {
        for (start, end) in ranges {
            let from = lost.start.as_slice().max(start);
            let to = end
                .as_deref()
                .map_or(lost.end.as_slice(), |end| lost.end.as_slice().min(end));
            if from < to {
                self.holes.push(Hole {
                    from: from.to_vec(),
                    to: Some(to.to_vec()),
                    sorted: false,
                    max_seq: lost.max_seq,
                    file,
                    path: path.to_owned(),
                    missing: Some(lost.count),
                    of_range_deletes: true,
                });
            }
        }
    }
}

/// The span of both, with as many as the one that has more.
pub(super) fn both(a: Option<RangeSection>, b: Option<RangeSection>) -> Option<RangeSection> {
    let (Some(a), Some(b)) = (&a, &b) else {
        return a.or(b);
    };
    Some(RangeSection {
        in_memory: InMemory::default(),
        offset: a.offset.min(b.offset),
        count: a.count.max(b.count),
        start: a.start.clone().min(b.start.clone()),
        end: a.end.clone().max(b.end.clone()),
        min_seq: a.min_seq.min(b.min_seq),
        max_seq: a.max_seq.max(b.max_seq),
    })
}

#[cfg(test)]
mod tests;
