//! A set of keys that grows by ranges.
//!
//! Ranges that overlap or meet are one, so that many of them over the same keys take the memory of
//! one. No locks.

use std::collections::BTreeMap;
use std::ops::Bound;

/// The keys of some ranges.
#[derive(Clone, Debug, Default)]
pub(crate) struct RangeSet {
    /// From each first key to the first one after; disjoint, and no two meet.
    ranges: BTreeMap<Vec<u8>, Vec<u8>>,
}

/// What an addition has changed: see [`RangeSet::take_back`].
pub(crate) struct Added {
    /// Where the range begins that the addition has made.
    start: Vec<u8>,
    /// The ranges that have become part of it.
    merged: Vec<(Vec<u8>, Vec<u8>)>,
}

impl RangeSet {
    /// Adds the keys from `start` to before `end`; `None` if there are none.
    pub(crate) fn add(&mut self, mut start: Vec<u8>, mut end: Vec<u8>) -> Option<Added> {
        if start >= end {
            return None;
        }
        let mut merged = Vec::new();
        // From the last one that begins at or before the end, backwards.
        while let Some((from, to)) = self.last_upto(&end).filter(|(_, to)| *to >= &start[..]) {
            let (from, to) = (from.to_vec(), to.to_vec());
            self.ranges.remove(&from);
            merged.push((from.clone(), to.clone()));
            start = start.min(from);
            end = end.max(to);
        }
        self.ranges.insert(start.clone(), end);
        Some(Added { start, merged })
    }

    /// Takes the newest addition back that has not been taken back.
    pub(crate) fn take_back(&mut self, added: Added) {
        self.ranges.remove(&added.start);
        self.ranges.extend(added.merged);
    }

    /// Whether it has a key.
    pub(crate) fn holds(&self, key: &[u8]) -> bool {
        self.last_upto(key).is_some_and(|(_, end)| key < end)
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.ranges.is_empty()
    }

    /// The ranges in their order: of each the first key, and the first one after.
    pub(crate) fn iter(&self) -> impl Iterator<Item = (&[u8], &[u8])> {
        let ranges = self.ranges.iter();
        ranges.map(|(start, end)| (start.as_slice(), end.as_slice()))
    }

    /// How many ranges it takes.
    #[cfg(test)]
    pub(crate) fn len(&self) -> usize {
        self.ranges.len()
    }

    /// The last range that begins at or before `key`.
    fn last_upto(&self, key: &[u8]) -> Option<(&[u8], &[u8])> {
        let upto = (Bound::Unbounded, Bound::Included(key));
        let last = self.ranges.range::<[u8], _>(upto).next_back();
        last.map(|(start, end)| (start.as_slice(), end.as_slice()))
    }
}
