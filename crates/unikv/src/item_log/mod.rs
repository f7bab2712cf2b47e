//! The items of the read cache, and their memory: a log of *segments*, each with what came one
//! after the other. A full segment has its items' bytes in memory of its own, so memory is taken in
//! pieces of one size without holes. Items go with their segment, the oldest first; what has been
//! asked for since it came goes to the log's end instead (a *second chance*), with a count less.
//!
//! Invariants:
//! - An item shows the bytes that were put there for its place; they never change. A reader that
//!   holds them keeps their segment's memory, which counts until nobody does: of what is handed out
//!   to stay, a copy is made.
//! - After every insertion and change of the capacity the memory is within it, or no item is left.
//!
//! Locks: each shard has its own; under it only that of idle memory is taken.

mod item;
mod place;
pub(crate) mod read_buffers;
mod segment_memory;
mod shard;
mod slots;

pub(crate) use self::place::Place;
use self::place::PlaceHash;
use self::segment_memory::SegmentMemory;
pub(crate) use self::shard::MOST_ASKED;
use self::shard::Shard;
use crate::base::sync::RwLock;
use crate::base::sync::atomic::{AtomicU64, Ordering};
pub(crate) use item::LogItem;
use std::hash::BuildHasher;
use std::sync::Arc;

/// There are many, so that what is half empty or about to go counts little; but not without end:
/// each may be a mapping of its own to the system, which has a limit.
const SEGMENTS_PER_SHARD: usize = 512;
const SEGMENT_BYTES: usize = 64 << 10;
const MOST_SEGMENT_BYTES: usize = 1 << 20;
/// A shard has at least this many segments, however short they are.
const LEAST_SEGMENTS_PER_SHARD: usize = 32;
/// Segments of which items get a second chance, one after the other, until one goes without; and
/// when there is to be less memory, which is waited for.
const MOST_CHANCES: usize = 8;
const SHRINKING_CHANCES: usize = 2;
/// The share of all segments that may be idle, and how many.
const IDLE_SHARE: usize = 64;
const MOST_IDLE: usize = 16;

/// The items of a cache.
pub(crate) struct ItemLog<T> {
    shards: Box<[RwLock<Shard<T>>]>,
    memory: Arc<SegmentMemory>,
    capacity_bytes: AtomicU64,
}

impl<T: LogItem> ItemLog<T> {
    pub(crate) fn new(shards: usize, capacity_bytes: u64) -> ItemLog<T> {
        let of_shard = capacity_bytes as usize / shards;
        let segment_len = (of_shard / SEGMENTS_PER_SHARD).clamp(SEGMENT_BYTES, MOST_SEGMENT_BYTES);
        let segment_len = segment_len.min(of_shard / LEAST_SEGMENTS_PER_SHARD);
        let segments = capacity_bytes as usize / segment_len.max(1);
        let most_idle = (segments / IDLE_SHARE).min(MOST_IDLE);
        let memory = Arc::new(SegmentMemory::new(segment_len, most_idle));
        let shards = (0..shards).map(|_| RwLock::new(Shard::new(of_shard, Arc::clone(&memory))));
        ItemLog {
            shards: shards.collect(),
            memory,
            capacity_bytes: AtomicU64::new(capacity_bytes),
        }
    }

    fn shard(&self, place: &Place) -> &RwLock<Shard<T>> {
        // The lower bits choose among the entries of the shard.
        let hash = PlaceHash.hash_one(place) >> u32::BITS;
        let shard = (hash * self.shards.len() as u64) >> u32::BITS;
        &self.shards[shard as usize]
    }

    /// What `take` makes of the item at `place`, which has been asked for now, and of whether its
    /// bytes stand in a segment. Under the lock of a shard.
    #[inline(always)]
    pub(crate) fn get<R>(&self, place: &Place, take: impl FnOnce(&T, bool) -> R) -> Option<R> {
        self.shard(place).read().get(place, take)
    }

    /// The same, which does not count as asked for.
    pub(crate) fn peek(&self, place: &Place) -> Option<T> {
        self.shard(place).read().peek(place).cloned()
    }

    pub(crate) fn contains(&self, place: &Place) -> bool {
        self.shard(place).read().peek(place).is_some()
    }

    /// Keeps `item` in the place of what was there, as if it had been asked for already if it
    /// `is_wanted`; unless it would leave no room for others. Whether others had to go for it.
    pub(crate) fn insert(&self, place: Place, item: T, is_wanted: bool) -> bool {
        let mut shard = self.shard(&place).write();
        if !shard.admits(&item) {
            shard.remove(&place);
            return false;
        }
        shard.append(place, item, is_wanted.into());
        shard.make_room(MOST_CHANCES)
    }

    pub(crate) fn remove(&self, place: &Place) {
        self.shard(place).write().remove(place);
    }

    /// How many shards there are.
    pub(crate) fn shards(&self) -> usize {
        self.shards.len()
    }

    /// Shows `visit` the items of a shard, the newest segment first, and how often each was asked
    /// for lately: up to [`MOST_ASKED`] times. The lock is held for one segment at a time, so what
    /// comes or goes meanwhile may be left out.
    pub(crate) fn for_each(&self, shard: usize, mut visit: impl FnMut(&Place, &T, u8)) {
        let Some(shard) = self.shards.get(shard) else {
            return;
        };
        let mut end = u64::MAX;
        while let Some(number) = shard.read().visit_before(end, &mut visit) {
            end = number;
        }
    }

    /// Memory taken.
    pub(crate) fn memory_bytes(&self) -> u64 {
        let shards = self.shards.iter();
        shards.map(|shard| shard.read().memory_bytes() as u64).sum()
    }

    /// Bytes that who holds an item of few bytes may hold with it.
    pub(crate) fn segment_len(&self) -> usize {
        self.memory.segment_len()
    }

    /// Memory that waits for items, and is no part of the same.
    pub(crate) fn idle_bytes(&self) -> usize {
        self.memory.idle_bytes()
    }

    /// Whether there is no item.
    #[cfg(test)]
    fn is_empty(&self) -> bool {
        self.shards.iter().all(|shard| shard.read().is_empty())
    }

    /// Memory that may be taken.
    pub(crate) fn capacity(&self) -> u64 {
        self.capacity_bytes.load(Ordering::Relaxed)
    }

    /// Changes what may be taken. When it becomes less, items go at once.
    pub(crate) fn set_capacity(&self, bytes: u64) {
        self.capacity_bytes.store(bytes, Ordering::Relaxed);
        for shard in &self.shards {
            let of_shard = bytes as usize / self.shards.len();
            shard.write().set_capacity(of_shard, SHRINKING_CHANCES);
        }
    }
}

#[cfg(test)]
mod tests;
