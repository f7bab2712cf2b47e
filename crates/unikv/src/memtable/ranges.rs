//! The range tombstones of a memtable.
//!
//! They are few beside the entries, and each look-up asks for them, so they stand apart, in sets
//! that never change (`base/range_tombstones/lists.rs`). Those of a write are a new set; with it,
//! at most a few thousand are merged.
//!
//! A reader that sees a sequence number sees the tombstones up to it: they are here before the
//! number is published.
//!
//! Lock: `lists`, while a tombstone is added. Readers take none.

use super::arena::ArenaPool;
use super::{Contents, Growing, MOST_RANGES, Memtable};
use crate::base::keys::SeqNo;
use crate::base::range_tombstones::lists::RangeLists;
use crate::base::range_tombstones::{Piece, RangeRef, RangeTombstones};
use crate::base::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use crate::base::sync::{ArcSwap, Mutex};
use std::sync::Arc;

/// Range tombstones that grow in number.
pub(super) struct MemRanges {
    /// Whether there is one. Asked at each look-up.
    is_used: AtomicBool,
    lists: ArcSwap<RangeLists>,
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
            lists: ArcSwap::from_pointee(RangeLists::default()),
            bytes: AtomicUsize::new(0),
            max_seq: AtomicU64::new(0),
            len: AtomicUsize::new(0),
            adding: Mutex::new(()),
            pool: Arc::clone(pool),
        }
    }

    /// Adds those of a write, in one step.
    #[cold]
    pub(super) fn add_all(&self, tombstones: &[RangeRef<'_>]) {
        let _turn = self.adding.lock();
        let mut lists = RangeLists::clone(&self.lists.load());
        lists.add(tombstones);
        let newest = lists.sets().last().and_then(|set| set.newest());
        let Some(newest) = newest else {
            return;
        };
        self.max_seq.fetch_max(newest.0, Ordering::Relaxed);
        let bytes = lists.memory_bytes();
        self.pool.charge(bytes);
        let before = self.bytes.swap(bytes, Ordering::Relaxed);
        self.pool.discharge(before);
        self.len.store(lists.len(), Ordering::Relaxed);
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
        self.lists.load().covering(key, snapshot)
    }

    /// The newest one that covers a key from `start` to before `end`.
    pub(super) fn newest_between(&self, start: &[u8], end: &[u8]) -> Option<SeqNo> {
        self.lists.load().newest_between(start, end)
    }

    /// Calls `each` with the piece of each list in which `key` lies.
    pub(super) fn each_piece(&self, key: &[u8], snapshot: SeqNo, each: impl FnMut(Piece<'_>)) {
        self.lists.load().each_piece(key, snapshot, each);
    }

    /// All of them, in one list.
    pub(super) fn all(&self) -> Arc<RangeTombstones> {
        let lists = self.lists.load();
        match lists.sets() {
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

/// Range tombstones, be they of single writes or of a large batch.
impl Memtable {
    /// Adds the range tombstones of one write, in one step. Writers take turns.
    #[inline]
    pub(crate) fn add_ranges(&self, tombstones: &[RangeRef<'_>]) {
        if let Contents::Growing(growing) = &self.contents
            && !tombstones.is_empty()
        {
            growing.ranges.add_all(tombstones);
        }
    }

    /// Whether reads are better served by a table, for there are many range tombstones: in a table
    /// they are one list.
    pub(crate) fn is_full_of_ranges(&self) -> bool {
        match &self.contents {
            Contents::Growing(growing) => growing.ranges.len() >= MOST_RANGES,
            Contents::Batch(_) => false,
        }
    }

    /// Whether there is a range tombstone.
    #[inline(always)]
    pub(crate) fn has_ranges(&self) -> bool {
        match &self.contents {
            Contents::Growing(growing) => growing.ranges.is_used(),
            Contents::Batch(batch) => batch.has_ranges(),
        }
    }

    /// The newest range tombstone at or below `snapshot` that covers `key`.
    pub(crate) fn covering(&self, key: &[u8], snapshot: SeqNo) -> Option<SeqNo> {
        match &self.contents {
            Contents::Growing(Growing { ranges, .. }) if ranges.is_used() => {
                ranges.covering(key, snapshot)
            }
            Contents::Growing(_) => None,
            Contents::Batch(batch) => batch.covering(key, snapshot),
        }
    }

    /// The newest range tombstone that covers a key from `start` to before `end`.
    pub(crate) fn newest_range_between(&self, start: &[u8], end: &[u8]) -> Option<SeqNo> {
        match &self.contents {
            Contents::Growing(Growing { ranges, .. }) if ranges.is_used() => {
                ranges.newest_between(start, end)
            }
            Contents::Growing(_) => None,
            Contents::Batch(batch) => batch.newest_range_between(start, end),
        }
    }

    /// As [`Memtable::covering`], with the keys around `key` for which that is so: `each` is called
    /// with several pieces, and their intersection and their newest tombstone are meant.
    pub(crate) fn each_piece(&self, key: &[u8], snapshot: SeqNo, mut each: impl FnMut(Piece<'_>)) {
        match &self.contents {
            Contents::Growing(growing) => growing.ranges.each_piece(key, snapshot, each),
            Contents::Batch(batch) => batch.piece(key, snapshot).into_iter().for_each(&mut each),
        }
    }

    /// The range tombstones.
    pub(crate) fn ranges(&self) -> Arc<RangeTombstones> {
        match &self.contents {
            Contents::Growing(growing) => growing.ranges.all(),
            Contents::Batch(batch) => batch.ranges(),
        }
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
    use crate::base::range_tombstones::lists::MOST_MERGED;
    use rand::rngs::SmallRng;
    use rand::{Rng, SeedableRng};

    fn lens(ranges: &MemRanges) -> Vec<usize> {
        ranges
            .lists
            .load()
            .sets()
            .iter()
            .map(|list| list.len())
            .collect()
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
        let bytes: usize = loaded.sets().iter().map(|list| list.memory_bytes()).sum();
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
