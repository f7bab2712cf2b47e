//! What a transaction has read.
//!
//! Keys that it asked for, present or not, and the ranges that its iterators have passed over: from
//! where one began to the last entry that it has handed out, or to its end once it has found that
//! there is nothing more.
//!
//! Lock: `seen`, a leaf.

use crate::base::keys::SeqNo;
use crate::base::sync::{Mutex, MutexGuard};
use std::collections::BTreeSet;

/// What a transaction has read since its moment, in engine keys.
pub(crate) struct ReadSet {
    since: SeqNo,
    seen: Mutex<Seen>,
}

#[derive(Default)]
struct Seen {
    keys: BTreeSet<Vec<u8>>,
    /// From the first key to the first one after.
    ranges: Vec<(Vec<u8>, Vec<u8>)>,
}

impl ReadSet {
    /// Nothing, as of a moment.
    pub(crate) fn new(since: SeqNo) -> ReadSet {
        ReadSet {
            since,
            seen: Mutex::default(),
        }
    }

    /// The moment: what is newer conflicts.
    pub(crate) fn since(&self) -> SeqNo {
        self.since
    }

    pub(crate) fn add_key(&self, key: &[u8]) {
        let mut seen = self.seen.lock();
        if !seen.keys.contains(key) {
            seen.keys.insert(key.to_vec());
        }
    }

    /// An iterator begins to read here. Returns the number of its range.
    pub(crate) fn begin_range(&self, from: &[u8]) -> usize {
        let mut seen = self.seen.lock();
        seen.ranges.push((from.to_vec(), from.to_vec()));
        seen.ranges.len() - 1
    }

    /// The range with this number goes on up to before `upper`.
    pub(crate) fn extend_up(&self, range: usize, upper: &[u8]) {
        if let Some((_, to)) = self.seen.lock().ranges.get_mut(range)
            && to.as_slice() < upper
        {
            to.clear();
            to.extend_from_slice(upper);
        }
    }

    /// The range with this number goes on down to `lower`.
    pub(crate) fn extend_down(&self, range: usize, lower: &[u8]) {
        if let Some((from, _)) = self.seen.lock().ranges.get_mut(range)
            && from.as_slice() > lower
        {
            from.clear();
            from.extend_from_slice(lower);
        }
    }

    /// All of it.
    pub(crate) fn observed(&self) -> Observed<'_> {
        Observed(self.seen.lock())
    }
}

/// What has been read, for a comparison.
pub(crate) struct Observed<'a>(MutexGuard<'a, Seen>);

impl Observed<'_> {
    pub(crate) fn is_empty(&self) -> bool {
        self.0.keys.is_empty() && self.ranges().next().is_none()
    }

    pub(crate) fn keys(&self) -> impl Iterator<Item = &[u8]> {
        self.0.keys.iter().map(Vec::as_slice)
    }

    pub(crate) fn ranges(&self) -> impl Iterator<Item = (&[u8], &[u8])> {
        let ranges = self.0.ranges.iter();
        let ranges = ranges.map(|(lower, upper)| (lower.as_slice(), upper.as_slice()));
        ranges.filter(|(lower, upper)| lower < upper)
    }

    /// Whether a key is among what has been read.
    pub(crate) fn holds(&self, key: &[u8]) -> bool {
        let mut ranges = self.ranges();
        self.0.keys.contains(key) || ranges.any(|(lower, upper)| lower <= key && key < upper)
    }
}
