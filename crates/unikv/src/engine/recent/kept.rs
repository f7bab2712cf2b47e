//! The keys of flushed memtables, which are kept for transactions longer than the memtables.
//!
//! A comparison asks when a key was last written, and where ranges were deleted: so of each key its
//! newest number is kept, exactly, and the range tombstones. That takes a fraction of the memtable.
//!
//! Nothing here changes once it is built. No locks.

use crate::base::keys::SeqNo;
use crate::base::range_tombstones::RangeRef;
use crate::base::range_tombstones::lists::RangeLists;
use crate::memtable::Memtable;
use std::sync::Arc;

/// The keys of memtables that follow each other, ascending, with their newest numbers.
#[derive(Default)]
pub(super) struct KeptKeys {
    bytes: Vec<u8>,
    /// Where each key ends, and its newest number.
    keys: Vec<(usize, SeqNo)>,
    ranges: RangeLists,
    /// The last number of the memtables.
    last: SeqNo,
}

impl KeptKeys {
    pub(super) fn of(memtable: &Arc<Memtable>) -> KeptKeys {
        let mut kept = KeptKeys {
            last: memtable.max_seq().unwrap_or_default(),
            ..KeptKeys::default()
        };
        let mut entries = memtable.iter();
        entries.seek_to_first();
        while let Some(entry) = entries.entry() {
            // The newest version of a key comes first.
            if kept.keys.is_empty() || kept.last_key() != entry.key {
                kept.push(entry.key, entry.seq);
            }
            entries.next();
        }
        kept.ranges.push(&memtable.ranges());
        kept.shrink()
    }

    /// The keys of both, of which `newer` follows.
    pub(super) fn merged(&self, newer: &KeptKeys) -> KeptKeys {
        let mut kept = KeptKeys {
            last: self.last.max(newer.last),
            ranges: self.ranges.clone(),
            ..KeptKeys::default()
        };
        let (mut older, mut later) = (self.iter().peekable(), newer.iter().peekable());
        loop {
            let order = match (older.peek(), later.peek()) {
                (Some((a, _)), Some((b, _))) => a.cmp(b),
                (Some(_), None) => std::cmp::Ordering::Less,
                (None, Some(_)) => std::cmp::Ordering::Greater,
                (None, None) => break,
            };
            if order.is_eq() {
                older.next();
            }
            let next = if order.is_lt() {
                &mut older
            } else {
                &mut later
            };
            if let Some((key, seq)) = next.next() {
                kept.push(key, seq);
            }
        }
        newer
            .ranges
            .sets()
            .iter()
            .for_each(|set| kept.ranges.push(set));
        kept.shrink()
    }

    fn push(&mut self, key: &[u8], seq: SeqNo) {
        self.bytes.extend_from_slice(key);
        self.keys.push((self.bytes.len(), seq));
    }

    fn shrink(mut self) -> KeptKeys {
        self.bytes.shrink_to_fit();
        self.keys.shrink_to_fit();
        self
    }

    fn key(&self, at: usize) -> &[u8] {
        let before = at.checked_sub(1).and_then(|before| self.keys.get(before));
        let start = before.map_or(0, |(end, _)| *end);
        let end = self.keys.get(at).map_or(start, |(end, _)| *end);
        self.bytes.get(start..end).unwrap_or_default()
    }

    fn last_key(&self) -> &[u8] {
        self.key(self.keys.len().saturating_sub(1))
    }

    fn iter(&self) -> impl Iterator<Item = (&[u8], SeqNo)> {
        let keys = self.keys.iter().enumerate();
        keys.map(|(at, (_, seq))| (self.key(at), *seq))
    }

    /// The place of the first key that is not before `key`.
    fn seek(&self, key: &[u8]) -> usize {
        let (mut from, mut to) = (0, self.keys.len());
        while from < to {
            let middle = from + (to - from) / 2;
            if self.key(middle) < key {
                from = middle + 1;
            } else {
                to = middle;
            }
        }
        from
    }

    /// The last number of the memtables.
    pub(super) fn last(&self) -> SeqNo {
        self.last
    }

    pub(super) fn len(&self) -> usize {
        self.keys.len()
    }

    /// Memory that it takes.
    pub(super) fn memory_bytes(&self) -> usize {
        let keys = self.keys.capacity() * size_of::<(usize, SeqNo)>();
        self.bytes.capacity() + keys + self.ranges.memory_bytes()
    }

    /// Whether a key from `lower` to before `upper` was written after `since`.
    pub(super) fn is_written(&self, lower: &[u8], upper: &[u8], since: SeqNo) -> bool {
        if self.is_deleted(lower, upper, since) {
            return true;
        }
        let keys = self.keys.iter().enumerate().skip(self.seek(lower));
        let mut keys = keys.take_while(|(at, _)| self.key(*at) < upper);
        keys.any(|(_, (_, seq))| *seq > since)
    }

    /// Whether one of them was deleted with a range after `since`.
    fn is_deleted(&self, lower: &[u8], upper: &[u8], since: SeqNo) -> bool {
        let newest = self.ranges.newest_between(lower, upper);
        newest.is_some_and(|seq| seq > since)
    }

    /// Whether `is_met` holds for a key that was written after `since`.
    pub(super) fn any_newer(&self, since: SeqNo, mut is_met: impl FnMut(&[u8]) -> bool) -> bool {
        self.iter().any(|(key, seq)| seq > since && is_met(key))
    }

    /// The ranges that were deleted.
    pub(super) fn ranges(&self) -> impl Iterator<Item = RangeRef<'_>> {
        self.ranges.sets().iter().flat_map(|set| set.iter())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::base::keys::Kind;
    use crate::memtable::ArenaPool;
    use rand::rngs::SmallRng;
    use rand::{Rng, SeedableRng};

    fn key(n: u8) -> Vec<u8> {
        vec![0, 0, 0, 0, n]
    }

    #[test]
    fn keys_that_are_kept_say_what_was_written_as_the_memtables_do() {
        for seed in 0..60 {
            let mut rng = SmallRng::seed_from_u64(seed);
            let pool = ArenaPool::new(64 << 10, 0);
            let (mut newest, mut seq) = ([0; 100], 0);
            let mut kept: Option<KeptKeys> = None;
            for _ in 0..rng.random_range(1..5) {
                let memtable = Arc::new(Memtable::new(&pool, 7));
                for _ in 0..rng.random_range(0..60) {
                    seq += 1;
                    let n = rng.random_range(0..100_u8);
                    if rng.random_range(0..12) == 0 {
                        let end = (n + rng.random_range(0..9)).min(100);
                        (n..end).for_each(|n| newest[n as usize] = seq);
                        let kind = Kind::RangeDelete;
                        memtable.insert(&key(n), SeqNo(seq), kind, None, &key(end));
                    } else {
                        newest[n as usize] = seq;
                        memtable.insert(&key(n), SeqNo(seq), Kind::Put, None, b"value");
                    }
                }
                let keys = KeptKeys::of(&memtable);
                kept =
                    Some(kept.map_or_else(|| KeptKeys::of(&memtable), |kept| kept.merged(&keys)));
            }
            let kept = kept.unwrap();
            assert!(kept.last() <= SeqNo(seq));
            for _ in 0..200 {
                let since = SeqNo(rng.random_range(0..=seq));
                let from = rng.random_range(0..100_u8);
                let to = rng.random_range(from + 1..=100_u8);
                let newer = |n: u8| newest[n as usize] > since.0;
                let written = kept.is_written(&key(from), &key(to), since);
                assert_eq!(
                    written,
                    (from..to).any(newer),
                    "seed {seed}: {from} {to} {since:?}"
                );
                let among = |key: &[u8]| (from..to).contains(&key[4]);
                let in_range = kept.ranges().any(|range| {
                    range.seq > since
                        && (from..to).any(|n| range.start <= &key(n)[..] && &key(n)[..] < range.end)
                });
                assert_eq!(kept.any_newer(since, among) || in_range, written);
            }
        }
    }
}
