//! The range tombstones of a memtable.
//!
//! They are few beside the entries, and each look-up asks for them, so they stand apart: in lists
//! that never change. Those of a write are a new list, which is merged with the lists before it that
//! are less than twice as long, unless that makes more than [`MOST_MERGED`]. So there are a dozen
//! short lists at most, beside long ones; and adding a tombstone never merges more than
//! [`MOST_MERGED`].
//!
//! A reader that sees a sequence number sees the tombstones up to it: they are here before the
//! number is published.
//!
//! Lock: `lists`, while a tombstone is added. Readers take none.

use super::arena::ArenaPool;
use crate::base::keys::SeqNo;
use crate::base::range_tombstones::{Piece, RangeRef, RangeTombstones};
use crate::base::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use crate::base::sync::{ArcSwap, Mutex};
use std::sync::Arc;

/// Tombstones of a list that is made one with those before it. Longer ones stay as they are: merging
/// them would hold up a writer.
const MOST_MERGED: usize = 4096;

type Lists = Vec<Arc<RangeTombstones>>;

/// Range tombstones that grow in number.
pub(super) struct MemRanges {
    /// Whether there is one. Asked at each look-up.
    is_used: AtomicBool,
    lists: ArcSwap<Lists>,
    /// Memory that they take.
    bytes: AtomicUsize,
    max_seq: AtomicU64,
    len: AtomicUsize,
    adding: Mutex<()>,
    /// Counts their memory.
    pool: Arc<ArenaPool>,
}

impl MemRanges {
    pub(super) fn new(pool: &Arc<ArenaPool>) -> MemRanges {
        MemRanges {
            is_used: AtomicBool::new(false),
            lists: ArcSwap::from_pointee(Lists::new()),
            bytes: AtomicUsize::new(0),
            max_seq: AtomicU64::new(0),
            len: AtomicUsize::new(0),
            adding: Mutex::new(()),
            pool: Arc::clone(pool),
        }
    }

    /// Adds those of a write, as one list. No list is merged that would be longer than
    /// [`MOST_MERGED`], so what one of them costs is bounded.
    #[cold]
    pub(super) fn add_all(&self, tombstones: &[RangeRef<'_>]) {
        let _turn = self.adding.lock();
        let loaded = self.lists.load();
        let mut lists = Lists::clone(&loaded);
        let mut merged = tombstones.len();
        let mut kept = lists.len();
        while let Some(last) = kept.checked_sub(1).and_then(|last| lists.get(last))
            && last.len() < 2 * merged
            && last.len() + merged <= MOST_MERGED
        {
            merged += last.len();
            kept -= 1;
        }
        let before = lists.split_off(kept);
        let new = if before.is_empty() {
            RangeTombstones::of(tombstones)
        } else {
            let older = before.iter().flat_map(|list| list.iter());
            let all: Vec<RangeRef<'_>> = older.chain(tombstones.iter().copied()).collect();
            RangeTombstones::of(&all)
        };
        let Some(newest) = new.newest() else {
            return;
        };
        self.max_seq.fetch_max(newest.0, Ordering::Relaxed);
        self.pool.charge(new.memory_bytes());
        let merged: usize = before.iter().map(|list| list.memory_bytes()).sum();
        self.pool.discharge(merged);
        let bytes = self.bytes() + new.memory_bytes() - merged;
        self.bytes.store(bytes, Ordering::Relaxed);
        let added = new.len() - before.iter().map(|list| list.len()).sum::<usize>();
        self.len.fetch_add(added, Ordering::Relaxed);
        lists.push(Arc::new(new));
        self.lists.store(Arc::new(lists));
        self.is_used.store(true, Ordering::Release);
    }

    /// Whether there is one.
    #[inline(always)]
    pub(super) fn is_used(&self) -> bool {
        // Whoever needs one has seen its number, which was published after this.
        self.is_used.load(Ordering::Relaxed)
    }

    /// How many there are.
    pub(super) fn len(&self) -> usize {
        self.len.load(Ordering::Relaxed)
    }

    /// The greatest sequence number; `None` if there is none.
    pub(super) fn max_seq(&self) -> Option<SeqNo> {
        let max_seq = || SeqNo(self.max_seq.load(Ordering::Relaxed));
        self.is_used().then(max_seq)
    }

    /// The newest one at or below `snapshot` that covers `key`.
    pub(super) fn covering(&self, key: &[u8], snapshot: SeqNo) -> Option<SeqNo> {
        let lists = self.lists.load();
        let covering = lists.iter().filter_map(|list| list.covering(key, snapshot));
        covering.max()
    }

    /// The newest one that covers a key from `start` to before `end`.
    pub(super) fn newest_between(&self, start: &[u8], end: &[u8]) -> Option<SeqNo> {
        let lists = self.lists.load();
        let newest = lists
            .iter()
            .filter_map(|list| list.newest_between(start, end));
        newest.max()
    }

    /// Calls `each` with the piece of each list in which `key` lies.
    pub(super) fn each_piece(&self, key: &[u8], snapshot: SeqNo, mut each: impl FnMut(Piece<'_>)) {
        for list in self.lists.load().iter() {
            each(list.piece(key, snapshot));
        }
    }

    /// All of them, in one list.
    pub(super) fn all(&self) -> Arc<RangeTombstones> {
        let lists = self.lists.load();
        match lists.as_slice() {
            [] => Arc::default(),
            [list] => Arc::clone(list),
            lists => {
                let all: Vec<_> = lists.iter().flat_map(|list| list.iter()).collect();
                Arc::new(RangeTombstones::of(&all))
            }
        }
    }

    /// Memory that they take.
    pub(super) fn bytes(&self) -> usize {
        self.bytes.load(Ordering::Relaxed)
    }
}

impl Drop for MemRanges {
    fn drop(&mut self) {
        self.pool.discharge(self.bytes());
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rand::rngs::SmallRng;
    use rand::{Rng, SeedableRng};

    fn lens(ranges: &MemRanges) -> Vec<usize> {
        ranges.lists.load().iter().map(|list| list.len()).collect()
    }

    /// Adds writes with as many tombstones as `writes` says, and compares look-ups. How many lists
    /// there are then.
    fn add(writes: &[usize]) -> usize {
        let pool = ArenaPool::new(64 << 10, 0);
        let ranges = MemRanges::new(&pool);
        let mut rng = SmallRng::seed_from_u64(7);
        let (mut seq, mut all) = (0, Vec::new());
        for &len in writes {
            let before = lens(&ranges);
            let of_write: Vec<_> = (0..len)
                .map(|_| {
                    seq += 1;
                    let start: u32 = rng.random_range(0..1 << 30);
                    let end = start + rng.random_range(1..1 << 22);
                    (start.to_be_bytes(), end.to_be_bytes(), SeqNo(seq))
                })
                .collect();
            let refs = of_write.iter().map(|(start, end, seq)| RangeRef {
                start,
                end,
                seq: *seq,
            });
            ranges.add_all(&refs.collect::<Vec<_>>());
            all.extend(of_write);
            let after = lens(&ranges);
            let built = after.last().copied().unwrap_or_default();
            assert!(built <= MOST_MERGED.max(len), "{before:?} {len} {after:?}");
            assert!(before.starts_with(&after[..after.len() - 1]));
        }
        assert_eq!(ranges.len(), all.len());
        assert_eq!(ranges.all().len(), all.len());
        assert_eq!(ranges.max_seq(), Some(SeqNo(seq)));
        for _ in 0..300 {
            let key = rng.random_range(0..1_u32 << 30).to_be_bytes();
            let snapshot = SeqNo(rng.random_range(0..=seq));
            let covers = |(start, end, seq): &&([u8; 4], [u8; 4], SeqNo)| {
                *start <= key && key < *end && *seq <= snapshot
            };
            let expected = all.iter().filter(covers).map(|(_, _, seq)| *seq).max();
            assert_eq!(ranges.covering(&key, snapshot), expected);
        }
        let lists = lens(&ranges).len();
        let loaded = ranges.lists.load();
        let bytes: usize = loaded.iter().map(|list| list.memory_bytes()).sum();
        assert_eq!(ranges.bytes(), bytes);
        assert_eq!(pool.allocated_bytes(), ranges.bytes());
        drop(ranges);
        assert_eq!(pool.allocated_bytes(), 0);
        lists
    }

    #[test]
    fn no_write_merges_long_lists_and_there_are_few() {
        let falling = (1..300).rev().collect();
        for writes in [vec![1; 20_000], falling, vec![3_000; 8], vec![1, 30_000, 1]] {
            let all: usize = writes.iter().sum();
            assert!(add(&writes) <= 12 + 2 * all / MOST_MERGED);
        }
    }
}
