//! What a transaction has read.
//!
//! Keys that it asked for, present or not, and the ranges that its iterators have passed over: from
//! where one began to the last entry that it has handed out, or to its end once it has found that
//! there is nothing more. A range grows while its iterator goes on; ranges that have ended are
//! merged, so that many short walks over the same keys take the memory of one.
//!
//! Lock: `seen`, a leaf.

use crate::base::keys::SeqNo;
use crate::base::range_set::RangeSet;
use crate::base::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use crate::base::sync::{Mutex, MutexGuard};
use std::collections::{BTreeMap, BTreeSet};
use std::ops::Bound;

/// What a transaction has read since its moment, in engine keys.
pub(crate) struct ReadSet {
    /// What is not newer has been compared, or was there at the moment.
    since: AtomicU64,
    /// Others wait for the transaction.
    is_alone: AtomicBool,
    seen: Mutex<Seen>,
}

#[derive(Default)]
struct Seen {
    keys: BTreeSet<Vec<u8>>,
    /// The ranges that iterators have ended.
    ranges: RangeSet,
    /// The ranges that iterators go on with, by their numbers.
    growing: BTreeMap<u64, (Vec<u8>, Vec<u8>)>,
    next: u64,
    /// Nobody asks any more.
    has_ended: bool,
}

impl ReadSet {
    /// Nothing, as of a moment.
    pub(crate) fn new(since: SeqNo) -> ReadSet {
        ReadSet {
            since: AtomicU64::new(since.0),
            is_alone: AtomicBool::new(false),
            seen: Mutex::default(),
        }
    }

    /// What is newer conflicts.
    pub(crate) fn since(&self) -> SeqNo {
        SeqNo(self.since.load(Ordering::Relaxed))
    }

    /// What was written up to here does not conflict.
    pub(super) fn compared(&self, until: SeqNo) {
        self.since.fetch_max(until.0, Ordering::Relaxed);
    }

    /// Others wait for the transaction.
    pub(crate) fn stay_alone(&self) {
        self.is_alone.store(true, Ordering::Relaxed);
    }

    pub(crate) fn is_alone(&self) -> bool {
        self.is_alone.load(Ordering::Relaxed)
    }

    pub(crate) fn add_key(&self, key: &[u8]) {
        let mut seen = self.seen.lock();
        if !seen.keys.contains(key) {
            seen.keys.insert(key.to_vec());
        }
    }

    /// An iterator begins to read here. Returns the number of its range.
    pub(crate) fn begin_range(&self, from: &[u8]) -> u64 {
        let mut seen = self.seen.lock();
        let number = seen.next;
        seen.next += 1;
        seen.growing.insert(number, (from.to_vec(), from.to_vec()));
        number
    }

    /// The range with this number goes on up to before `upper`.
    pub(crate) fn extend_up(&self, range: u64, upper: &[u8]) {
        let mut seen = self.seen.lock();
        if !seen.has_ended
            && let Some((_, to)) = seen.growing.get_mut(&range)
            && to.as_slice() < upper
        {
            to.clear();
            to.extend_from_slice(upper);
        }
    }

    /// The range with this number goes on down to `lower`.
    pub(crate) fn extend_down(&self, range: u64, lower: &[u8]) {
        let mut seen = self.seen.lock();
        if !seen.has_ended
            && let Some((from, _)) = seen.growing.get_mut(&range)
            && from.as_slice() > lower
        {
            from.clear();
            from.extend_from_slice(lower);
        }
    }

    /// The range with this number grows no more.
    pub(crate) fn end_range(&self, range: u64) {
        // It counts as it is, too. In the child of a fork a thread that is not there may hold it.
        let Some(mut seen) = self.seen.try_lock() else {
            return;
        };
        if let Some((from, to)) = seen.growing.remove(&range)
            && !seen.has_ended
        {
            seen.ranges.add(from, to);
        }
    }

    /// The transaction has ended: what iterators still read is nobody's business.
    pub(crate) fn end(&self) {
        let mut seen = self.seen.lock();
        *seen = Seen {
            has_ended: true,
            ..Seen::default()
        };
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
        let growing = self.0.growing.values();
        let growing = growing.map(|(lower, upper)| (lower.as_slice(), upper.as_slice()));
        let ranges = growing.chain(self.0.ranges.iter());
        ranges.filter(|(lower, upper)| lower < upper)
    }

    /// Whether a key from `start` to before `end` is among what has been read.
    pub(crate) fn meets(&self, start: &[u8], end: &[u8]) -> bool {
        let bounds = (Bound::Included(start), Bound::Excluded(end));
        let has_key = || start < end && self.0.keys.range::<[u8], _>(bounds).next().is_some();
        has_key() || self.ranges().any(|(from, to)| from < end && start < to)
    }

    /// Whether a key is among what has been read.
    pub(crate) fn holds(&self, key: &[u8]) -> bool {
        let seen = &*self.0;
        let is_in = |(from, to): &(Vec<u8>, Vec<u8>)| from.as_slice() <= key && key < to.as_slice();
        seen.keys.contains(key) || seen.ranges.holds(key) || seen.growing.values().any(is_in)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rand::rngs::SmallRng;
    use rand::{Rng, SeedableRng};

    fn key(n: u32) -> Vec<u8> {
        n.to_be_bytes().to_vec()
    }

    #[test]
    fn ranges_that_have_ended_are_merged_and_hold_what_they_held() {
        for seed in 0..50 {
            let mut rng = SmallRng::seed_from_u64(seed);
            let reads = ReadSet::new(SeqNo(7));
            let mut held = [false; 100];
            let mut growing = None;
            for _ in 0..40 {
                let (from, to) = (rng.random_range(0..100), rng.random_range(0..100));
                let range = if rng.random() {
                    let range = reads.begin_range(&key(from));
                    reads.extend_up(range, &key(to));
                    range
                } else {
                    let range = reads.begin_range(&key(to));
                    reads.extend_down(range, &key(from));
                    range
                };
                (from..to).for_each(|n| held[n as usize] = true);
                if let Some(last) = growing.replace(range) {
                    reads.end_range(last);
                }
            }
            let observed = reads.observed();
            for n in 0..100 {
                assert_eq!(
                    observed.holds(&key(n)),
                    held[n as usize],
                    "seed {seed}: {n}"
                );
            }
            assert!(observed.0.ranges.len() < 20);
            let ranges: Vec<_> = observed.0.ranges.iter().collect();
            let disjoint = ranges.windows(2).all(|pair| pair[0].1 < pair[1].0);
            assert!(disjoint, "{ranges:?}");
        }
    }

    #[test]
    fn many_walks_over_the_same_keys_take_the_memory_of_one() {
        let reads = ReadSet::new(SeqNo(7));
        for n in 0..10_000 {
            let range = reads.begin_range(&key(n % 10));
            reads.extend_up(range, &key(n % 10 + 5));
            reads.end_range(range);
        }
        assert_eq!(reads.observed().0.ranges.len(), 1);
        reads.end();
        let late = reads.begin_range(&key(1));
        reads.extend_up(late, &key(9));
        reads.end_range(late);
        assert!(reads.observed().is_empty());
    }
}
