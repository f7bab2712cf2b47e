//! Sets of range tombstones that grow in number: a list of sets, which never change.
//!
//! What is added is a new set, which is merged with the sets before it that are less than twice as
//! long, unless that makes more than [`MOST_MERGED`] tombstones. So there are a dozen short sets at
//! most beside the long ones, and adding never merges more than [`MOST_MERGED`]: no long pause.

use super::{Piece, RangeRef, RangeTombstones};
use crate::base::keys::SeqNo;
use crate::base::seeded::seeded;
use std::sync::Arc;

/// Tombstones of a set that is made of several.
pub(crate) const MOST_MERGED: usize = 4096;

/// Sets of range tombstones, in the order in which they were added.
#[derive(Clone, Debug, Default)]
pub(crate) struct RangeLists(Vec<Arc<RangeTombstones>>);

impl RangeLists {
    /// Adds a set.
    pub(crate) fn push(&mut self, set: &Arc<RangeTombstones>) {
        if set.is_empty() {
            return;
        }
        match self.take_merged(set.len()) {
            before if before.is_empty() => self.0.push(Arc::clone(set)),
            before => self.push_merged(&before, set.iter()),
        }
    }

    /// Adds these, which become a set.
    pub(crate) fn add(&mut self, tombstones: &[RangeRef<'_>]) {
        let before = self.take_merged(tombstones.len());
        self.push_merged(&before, tombstones.iter().copied());
    }

    /// Takes away the sets with which one of `len` tombstones is merged.
    fn take_merged(&mut self, len: usize) -> Vec<Arc<RangeTombstones>> {
        let (mut merged, mut kept) = (len, self.0.len());
        while let Some(last) = kept.checked_sub(1).and_then(|last| self.0.get(last))
            && last.len() < 2 * merged
            && last.len() + merged <= MOST_MERGED
        {
            merged += last.len();
            kept -= 1;
        }
        self.0.split_off(kept)
    }

    fn push_merged<'a>(
        &mut self,
        before: &'a [Arc<RangeTombstones>],
        new: impl Iterator<Item = RangeRef<'a>>,
    ) {
        let merged = before.iter().filter(|_| !seeded!(MergedRangesLost));
        let older = merged.flat_map(|set| set.iter());
        let all: Vec<RangeRef<'_>> = older.chain(new).collect();
        let set = RangeTombstones::of(&all);
        if !set.is_empty() {
            self.0.push(Arc::new(set));
        }
    }

    /// The sets.
    pub(crate) fn sets(&self) -> &[Arc<RangeTombstones>] {
        &self.0
    }

    /// The newest one at or below `snapshot` that covers `key`.
    pub(crate) fn covering(&self, key: &[u8], snapshot: SeqNo) -> Option<SeqNo> {
        let covering = self.0.iter().filter_map(|set| set.covering(key, snapshot));
        covering.max()
    }

    /// The newest one that covers a key from `start` to before `end`.
    pub(crate) fn newest_between(&self, start: &[u8], end: &[u8]) -> Option<SeqNo> {
        let newest = self
            .0
            .iter()
            .filter_map(|set| set.newest_between(start, end));
        newest.max()
    }

    /// Calls `each` with the piece of each set in which `key` lies.
    pub(crate) fn each_piece(&self, key: &[u8], snapshot: SeqNo, each: impl FnMut(Piece<'_>)) {
        self.0
            .iter()
            .map(|set| set.piece(key, snapshot))
            .for_each(each);
    }

    /// How many tombstones there are.
    pub(crate) fn len(&self) -> usize {
        self.0.iter().map(|set| set.len()).sum()
    }

    /// Memory that they take.
    pub(crate) fn memory_bytes(&self) -> usize {
        self.0.iter().map(|set| set.memory_bytes()).sum()
    }
}
