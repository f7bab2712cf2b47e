//! The range tombstones of a memtable.
//!
//! They are few beside the entries, and each look-up asks for them, so they stand apart: in lists
//! that never change, each longer than the one after it. A new tombstone is a list of one, and is
//! made one with the lists before it that are no longer than it is then. So n tombstones are in at
//! most log n lists, and each has been copied log n times at most.
//!
//! A reader that sees a sequence number sees the tombstones up to it: they are here before the
//! number is published.
//!
//! Lock: `lists`, while a tombstone is added. Readers take none.

use super::arena::ArenaPool;
use crate::base::keys::SeqNo;
use crate::base::range_tombstones::{Piece, RangeTombstone, RangeTombstones};
use crate::base::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use crate::base::sync::{ArcSwap, Mutex};
use std::sync::Arc;

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

    /// Adds one.
    pub(super) fn add(&self, tombstone: RangeTombstone) {
        let _turn = self.adding.lock();
        self.max_seq.fetch_max(tombstone.seq.0, Ordering::Relaxed);
        let mut lists = Lists::clone(&self.lists.load());
        let mut new = Arc::new(RangeTombstones::new(vec![tombstone]));
        while let Some(last) = lists.pop_if(|last| last.len() <= new.len()) {
            let both = last.iter().chain(new.iter());
            new = Arc::new(RangeTombstones::new(both.collect()));
        }
        lists.push(new);
        let bytes = lists.iter().map(|list| list.memory_bytes()).sum();
        self.pool.charge(bytes);
        let before = self.bytes.swap(bytes, Ordering::Relaxed);
        self.pool.discharge(before);
        self.lists.store(Arc::new(lists));
        self.len.fetch_add(1, Ordering::Relaxed);
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

    /// All of them.
    pub(super) fn all(&self) -> Vec<RangeTombstone> {
        let lists = self.lists.load();
        let mut all: Vec<_> = lists.iter().flat_map(|list| list.iter()).collect();
        all.sort_unstable();
        all
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
