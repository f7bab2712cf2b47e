//! A set of keys that grows by ranges.
//!
//! Ranges that overlap or meet are one, so that many of them over the same keys take the memory of
//! one. Its copies are cheap, as those of the [`Map`] are that it stands on. No locks.

use super::Map;
use bytes::Bytes;

/// The keys of some ranges.
#[derive(Clone, Debug, Default)]
pub(crate) struct RangeSet {
    /// From each first key to the first one after; disjoint, and no two meet.
    ranges: Map<Bytes>,
    /// Of the keys that bound them.
    key_bytes: usize,
}

/// What an addition has changed: see [`RangeSet::take_back`].
pub(crate) struct Added {
    /// Where the range begins that the addition has made.
    start: Bytes,
    /// The ranges that have become part of it.
    merged: Vec<(Bytes, Bytes)>,
}

impl RangeSet {
    /// Adds the keys from `start` to before `end`; `None` if there are none.
    pub(crate) fn add(&mut self, start: impl Into<Bytes>, end: impl Into<Bytes>) -> Option<Added> {
        let (mut start, mut end) = (start.into(), end.into());
        if start >= end {
            return None;
        }
        let mut merged = Vec::new();
        // From the last one that begins at or before the end, backwards.
        while let Some((from, to)) = self.ranges.last_upto(&end).filter(|(_, to)| **to >= start) {
            let (from, to) = (from.clone(), to.clone());
            self.take(&from);
            start = start.min(from.clone());
            end = end.max(to.clone());
            merged.push((from, to));
        }
        self.put(start.clone(), end);
        Some(Added { start, merged })
    }

    /// Takes the newest addition back that has not been taken back.
    pub(crate) fn take_back(&mut self, added: Added) {
        self.take(&added.start);
        for (start, end) in added.merged {
            self.put(start, end);
        }
    }

    /// Takes a key out.
    pub(crate) fn cut(&mut self, key: &[u8]) {
        let Some((start, end)) = self.range_with(key) else {
            return;
        };
        let (start, end) = (start.clone(), end.clone());
        self.take(&start);
        if start < key {
            self.put(start, Bytes::copy_from_slice(key));
        }
        let after = [key, &[0]].concat();
        if after.as_slice() < &end[..] {
            self.put(after.into(), end);
        }
    }

    fn put(&mut self, start: Bytes, end: Bytes) {
        self.key_bytes += start.len() + end.len();
        self.ranges.insert(start, end);
    }

    fn take(&mut self, start: &[u8]) {
        if let Some((start, end)) = self.ranges.remove(start) {
            self.key_bytes -= start.len() + end.len();
        }
    }

    /// Whether it has a key.
    pub(crate) fn holds(&self, key: &[u8]) -> bool {
        self.range_with(key).is_some()
    }

    /// Whether it has a key from `start` to before `end`.
    pub(crate) fn meets(&self, start: &[u8], end: &[u8]) -> bool {
        let last = self.ranges.last_before(end);
        start < end && last.is_some_and(|(_, to)| start < &to[..])
    }

    /// The range that has a key: its first one, and the first one after.
    pub(crate) fn range_with(&self, key: &[u8]) -> Option<(&Bytes, &Bytes)> {
        let last = self.ranges.last_upto(key);
        last.filter(|(_, end)| key < &end[..])
    }

    /// The range that has the keys just before `end`.
    pub(crate) fn range_before(&self, end: &[u8]) -> Option<(&Bytes, &Bytes)> {
        let last = self.ranges.last_before(end);
        last.filter(|(_, to)| end <= &to[..])
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.ranges.is_empty()
    }

    /// The ranges in their order: of each the first key, and the first one after.
    pub(crate) fn iter(&self) -> impl Iterator<Item = (&Bytes, &Bytes)> {
        self.ranges.iter()
    }

    /// How many ranges it takes.
    pub(crate) fn len(&self) -> usize {
        self.ranges.len()
    }

    /// Bytes of the keys that bound them.
    pub(crate) fn key_bytes(&self) -> usize {
        self.key_bytes
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rand::rngs::SmallRng;
    use rand::{Rng, SeedableRng};

    #[test]
    fn it_has_what_was_added_and_not_cut_and_knows_where_that_ends() {
        for seed in 0..100 {
            let mut rng = SmallRng::seed_from_u64(seed);
            let (mut set, mut held) = (RangeSet::default(), [false; 102]);
            for _ in 0..60 {
                let (from, to) = (rng.random_range(0..100), rng.random_range(0..100));
                if rng.random_range(0..3) == 0 {
                    set.cut(&[from]);
                    held[usize::from(from)] = false;
                    // The keys between it and the next one stay.
                    let next = [from + 1];
                    assert_eq!(set.holds(&[from, 0]), set.meets(&[from, 0], &next));
                    set.add(vec![from, 0], next.to_vec());
                    continue;
                }
                let undo = rng.random_range(0..4) == 0;
                let before: Vec<_> = set.iter().map(|(a, b)| (a.clone(), b.clone())).collect();
                let added = set.add(vec![from], vec![to]);
                if let Some(added) = added.filter(|_| undo) {
                    set.take_back(added);
                    let after = set.iter().map(|(a, b)| (a.clone(), b.clone()));
                    assert!(after.eq(before));
                } else if from < to {
                    (from..to).for_each(|n| held[usize::from(n)] = true);
                }
            }
            for n in 0..100u8 {
                let at = usize::from(n);
                assert_eq!(set.holds(&[n]), held[at], "seed {seed}: {n}");
                let range = set.range_with(&[n]);
                assert_eq!(range.is_some(), held[at]);
                if let Some((start, end)) = range {
                    assert!(start[..] <= [n][..] && [n][..] < end[..]);
                    assert!(set.meets(&[n], &[n, 0]) && set.meets(&[n], &[255]));
                }
                if let Some((start, end)) = set.range_before(&[n]) {
                    assert!(start[..] < [n][..] && [n][..] <= end[..]);
                }
            }
            let ranges: Vec<_> = set.iter().collect();
            assert!(ranges.windows(2).all(|pair| pair[0].1 < pair[1].0));
            let bytes = ranges.iter().map(|(a, b)| a.len() + b.len()).sum::<usize>();
            assert_eq!((set.len(), set.key_bytes()), (ranges.len(), bytes));
        }
    }
}
