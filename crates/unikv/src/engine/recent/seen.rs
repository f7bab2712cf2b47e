//! The keys and ranges that a transaction has read, and making fewer ranges of them.
//!
//! Invariants: what has been added is held until the whole is dropped: [`Seen::coarsen`] may add
//! keys that were not read, and takes none out. Ranges that meet are one, so that many short walks
//! over the same keys take the memory of one.
//!
//! Coarsening joins neighbours, those first that share the longest beginning: so what was read is
//! covered equally finely, whatever the order of the reads, and nothing is joined across keyspaces
//! before all of a keyspace is one range. No locks.

use crate::base::seeded::seeded;
use crate::base::sorted::key_set::KeySet;
use crate::base::sorted::range_set::RangeSet;
use std::cmp::Ordering;
use std::collections::BTreeMap;

/// Memory of a range beside the bytes of its keys: nodes that are partly filled, and what the
/// allocator takes.
const PER_RANGE: usize = 160;

#[derive(Default)]
pub(super) struct Seen {
    keys: KeySet,
    ranges: RangeSet,
}

/// A key or a range: the first key, and the last one, or if that is not in it the first one after.
#[derive(Clone, Copy)]
struct Item<'a> {
    from: &'a [u8],
    to: &'a [u8],
    has_last: bool,
}

impl Seen {
    pub(super) fn add_key(&mut self, key: &[u8]) {
        if !self.ranges.holds(key) {
            self.keys.insert(key);
        }
    }

    pub(super) fn add_range(&mut self, from: Vec<u8>, to: Vec<u8>) {
        self.ranges.add(from, to);
    }

    /// How many keys and ranges it takes.
    pub(super) fn counts(&self) -> (usize, usize) {
        (self.keys.len(), self.ranges.len())
    }

    pub(super) fn len(&self) -> usize {
        self.keys.len() + self.ranges.len()
    }

    pub(super) fn keys(&self) -> impl Iterator<Item = &[u8]> {
        self.keys.iter()
    }

    pub(super) fn ranges(&self) -> impl Iterator<Item = (&[u8], &[u8])> {
        self.ranges.iter().map(|(from, to)| (&from[..], &to[..]))
    }

    pub(super) fn holds(&self, key: &[u8]) -> bool {
        let has_key = || self.keys.contains(key) && !seeded!(KeysNotCompared);
        has_key() || self.ranges.holds(key) && !seeded!(RangesNotCompared)
    }

    /// Whether it has a key from `start` to before `end`.
    pub(super) fn meets(&self, start: &[u8], end: &[u8]) -> bool {
        self.keys.meets(start, end) || self.ranges.meets(start, end)
    }

    /// Memory that it takes.
    pub(super) fn bytes(&self) -> usize {
        self.keys.memory_bytes() + self.ranges.len() * PER_RANGE + self.ranges.key_bytes()
    }

    /// Joins neighbours until it takes at most `most` bytes, or is one range.
    pub(super) fn coarsen(&mut self, most: usize) {
        let mut len = self.len();
        while self.bytes() > most && len > 1 {
            let of_keys = 2 * (self.keys.key_bytes() + self.ranges.key_bytes()) / len;
            // Long keys may be among those that are left. Then there are to be fewer.
            let fit = (most / (PER_RANGE + of_keys)).clamp(1, len / 2);
            self.join(fit);
            len = self.len();
        }
    }

    /// Makes at most `most` keys and ranges of all.
    fn join(&mut self, most: usize) {
        // How many neighbours there are by what they have in common.
        let mut pairs = BTreeMap::<usize, usize>::new();
        let (mut left, mut last) = (0, None);
        for item in self.items() {
            left += 1;
            if let Some(last) = last {
                *pairs.entry(item.common_with(last)).or_default() += 1;
            }
            last = Some(last.map_or(item, |last| item.joined_with(last)));
        }
        let mut least = usize::MAX;
        while left > most
            && let Some((common, joined)) = pairs.pop_last()
        {
            least = common;
            left -= joined;
        }
        let (mut joined, mut group) = (Seen::default(), None);
        for item in self.items() {
            group = Some(match group {
                Some(group) if item.common_with(group) >= least => item.joined_with(group),
                Some(group) => {
                    joined.add_item(group);
                    item
                }
                None => item,
            });
        }
        group.into_iter().for_each(|group| joined.add_item(group));
        *self = joined;
    }

    /// Keys and ranges by where they begin.
    fn items(&self) -> impl Iterator<Item = Item<'_>> {
        let mut keys = self.keys().peekable();
        let mut ranges = self.ranges().peekable();
        let key = |key| Item {
            from: key,
            to: key,
            has_last: true,
        };
        let range = |(from, to)| Item {
            from,
            to,
            has_last: false,
        };
        std::iter::from_fn(move || match (keys.peek(), ranges.peek()) {
            (Some(first), Some((from, _))) if from <= first => ranges.next().map(range),
            (Some(_), _) => keys.next().map(key),
            (None, _) => ranges.next().map(range),
        })
    }

    fn add_item(&mut self, item: Item<'_>) {
        if item.has_last && item.from == item.to {
            return self.add_key(item.to);
        }
        let after: &[u8] = if item.has_last && !seeded!(CoarseEndsEarly) {
            &[0]
        } else {
            &[]
        };
        self.add_range(item.from.to_vec(), [item.to, after].concat());
    }
}

impl<'a> Item<'a> {
    /// How many bits this one and the one before it have in common.
    fn common_with(self, before: Item<'_>) -> usize {
        if self.from <= before.to {
            return usize::MAX;
        }
        let bytes = before.to.iter().zip(self.from);
        let common = bytes.clone().take_while(|(a, b)| a == b).count();
        let differ = bytes.clone().nth(common).map_or(0, |(a, b)| a ^ b);
        8 * common + differ.leading_zeros() as usize
    }

    /// This one and the one before it, with what lies between.
    fn joined_with(self, before: Item<'a>) -> Item<'a> {
        let has_last = match self.to.cmp(before.to) {
            Ordering::Less => before.has_last,
            Ordering::Equal => before.has_last || self.has_last,
            Ordering::Greater => self.has_last,
        };
        Item {
            from: before.from,
            to: self.to.max(before.to),
            has_last,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rand::rngs::SmallRng;
    use rand::{Rng, SeedableRng};

    fn key(n: u32) -> Vec<u8> {
        format!("{n:05}").into_bytes()
    }

    #[test]
    fn what_is_coarser_holds_what_it_held_and_takes_what_it_may() {
        for seed in 0..60 {
            let mut rng = SmallRng::seed_from_u64(seed);
            let (mut seen, mut held) = (Seen::default(), vec![false; 2000]);
            for _ in 0..rng.random_range(1..600) {
                let n = rng.random_range(0..2000);
                if rng.random_range(0..8) == 0 {
                    let to = (n + rng.random_range(0..30)).min(1999);
                    seen.add_range(key(n), key(to));
                    (n..to).for_each(|n| held[n as usize] = true);
                } else {
                    seen.add_key(&key(n));
                    held[n as usize] = true;
                }
            }
            let (most, len) = (rng.random_range(400..60_000), seen.len());
            seen.coarsen(most);
            assert!(seen.bytes() <= most, "seed {seed}: {most}");
            assert!(seen.len() <= len);
            for n in (0..2000).filter(|n| held[*n as usize]) {
                let of_it = [&key(n)[..], &[0]].concat();
                assert!(seen.holds(&key(n)), "seed {seed}: {n}");
                assert!(seen.meets(&key(n), &of_it), "seed {seed}: {n}");
            }
        }
    }

    #[test]
    fn near_keys_are_joined_first_whenever_they_were_read() {
        // In order, and made coarser again and again.
        let mut seen = Seen::default();
        for n in 0..40_000 {
            seen.add_key(&[&[7; 4], &key(n)[..]].concat());
            if n % 1000 == 0 {
                seen.add_key(&[&[8; 4], &key(n)[..]].concat());
                seen.add_key(&[&[9; 4], &key(n)[..]].concat());
            }
            if seen.bytes() > 40_000 {
                seen.coarsen(20_000);
            }
        }
        // Nothing reaches from one keyspace into another, and no range is far longer than it must.
        for (from, to) in seen.ranges() {
            assert_eq!(from[..4], to[..4]);
            let number = |key: &[u8]| {
                let digits = std::str::from_utf8(&key[4..9]).unwrap();
                digits.parse::<u32>().unwrap()
            };
            let long = number(to) - number(from);
            assert!(from[0] != 7 || long < 3000, "{from:?} to {to:?}");
        }
        assert!(seen.len() > 20);
    }

    #[test]
    fn long_keys_leave_one_range_at_least() {
        let mut seen = Seen::default();
        seen.add_key(&[1; 60_000]);
        seen.add_key(&[2; 60_000]);
        seen.add_key(&[3]);
        seen.coarsen(1000);
        assert_eq!(seen.len(), 1);
        assert!(seen.holds(&[1; 60_000]) && seen.holds(&[3]) && !seen.holds(&[3, 0]));
        seen.coarsen(1000);
    }
}
