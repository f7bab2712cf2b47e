//! The cache of verified blocks, decoded fences and verified records, of one size in bytes for a
//! whole database.
//!
//! Keyed ⟨file number, offset⟩, never by a user's key; file numbers are never reused, so what
//! belongs to a dropped file is never found again and ages out. Its shards have their own locks;
//! none is held while a file is read, so two readers that miss together may both read.

use super::block::Block;
use super::byte_budget::ByteBudget;
use super::fences::Fences;
use super::pointer_index::IndexBudget;
use super::read_buffers::{ReadBuffer, ReadBuffers};
use crate::base::keys::FileNumber;
use crate::base::seeded::slip;
use crate::base::sync::atomic::{AtomicU64, Ordering};
use crate::base::sync::unseen::AtomicBool;
use bytes::Bytes;
use quick_cache::{Lifecycle, OptionsBuilder, Weighter, sync::Cache};
use std::fmt;
use std::hash::{BuildHasher, Hasher};
use std::sync::Arc;

/// What the cache itself keeps per item, roughly: its tables grow by doubling.
const ITEM_OVERHEAD_BYTES: usize = 160;
/// What sharing a buffer takes.
const SHARED_BYTES: usize = 24;
/// What an average item is expected to take.
const AVERAGE_ITEM_BYTES: u64 = 4 << 10;
/// The fences of one table must fit into a shard.
const SHARD_BYTES: u64 = 8 << 20;
const MAX_SHARDS: u64 = 32;
/// The share of the bytes that pinned fences may take.
const PINNED_SHARE: u64 = 8;
/// The share of the bytes that the pointer indexes of tables may take.
const INDEXES_SHARE: u64 = 4;
/// A record that takes more than this share of the cache would drive out too much else.
const RECORD_SHARE: u64 = 1 << 10;
/// The share of the bytes that is for what has been asked for again; the rest is for what has come lately. So large a
/// rest gives a record that was read once the time to be asked for once more (`docs/paper.md`).
const HOT_SHARE: f64 = 0.5;
/// The share of the bytes that idle buffers take at most, and how many they take at most.
const BUFFERS_SHARE: u64 = 64;
const MOST_BUFFER_BYTES: u64 = 1 << 20;
/// The share of what items may take that holes between them may take: where a block comes in the place of records, the
/// allocator cannot use their room for it (30 to 60 MB in 330, measured with glibc's).
const HOLES_SHARE: u64 = 5;
/// What items may take changes by this part of the bytes at a time, and is never less than this.
const CAPACITY_STEPS: u64 = 128;
const LEAST_ITEMS_BYTES: u64 = 1 << 10;
/// The cache's own tables are looked at once in so many misses.
const MISSES_PER_FIT: u64 = 1 << 10;
/// Where fences are cached: an offset at which no block stands.
const FENCES: u64 = u64::MAX;

/// A cache shared by all tables of a database.
pub(crate) struct ReadCache {
    items: Cache<Place, Item, ItemWeight, PlaceHash, Evictions>,
    /// Set once an item had to go, under the lock of a shard.
    is_full: Arc<AtomicBool>,
    /// For what passes by the cache.
    buffers: Arc<ReadBuffers>,
    hits: AtomicU64,
    misses: AtomicU64,
    pins: ByteBudget,
    indexes: IndexBudget,
    /// Of everything.
    capacity_bytes: AtomicU64,
}

type Place = (u64, u64);

#[derive(Clone)]
enum Item {
    Block(Arc<Block>),
    Fences(Arc<Fences>),
    Record(Bytes),
}

impl Item {
    fn block(self) -> Option<Arc<Block>> {
        match self {
            Item::Block(block) => Some(block),
            Item::Fences(_) | Item::Record(_) => None,
        }
    }

    fn fences(self) -> Option<Arc<Fences>> {
        match self {
            Item::Fences(fences) => Some(fences),
            Item::Block(_) | Item::Record(_) => None,
        }
    }

    fn record(self) -> Option<Bytes> {
        match self {
            Item::Record(frame) => Some(frame),
            Item::Block(_) | Item::Fences(_) => None,
        }
    }
}

impl ReadCache {
    /// A cache of about `capacity_bytes`.
    pub(crate) fn new(capacity_bytes: u64) -> Arc<ReadCache> {
        let whole_bytes = capacity_bytes;
        let buffer_bytes = (capacity_bytes / BUFFERS_SHARE).min(MOST_BUFFER_BYTES);
        let pins = ByteBudget::new(capacity_bytes / PINNED_SHARE);
        let capacity_bytes = capacity_bytes - pins.limit();
        let items = capacity_bytes / AVERAGE_ITEM_BYTES + 1;
        let items = usize::try_from(items).unwrap_or(usize::MAX);
        let shards = (capacity_bytes / SHARD_BYTES).clamp(1, MAX_SHARDS);
        let options = OptionsBuilder::new()
            .shards(shards as usize)
            .estimated_items_capacity(items)
            .weight_capacity(capacity_bytes)
            .hot_allocation(HOT_SHARE)
            .build();
        let is_full = Arc::<AtomicBool>::default();
        let lifecycle = Evictions(Arc::clone(&is_full));
        let items = match options {
            Ok(options) => Cache::with_options(options, ItemWeight, PlaceHash, lifecycle),
            Err(_) => Cache::with(items, capacity_bytes, ItemWeight, PlaceHash, lifecycle),
        };
        Arc::new(ReadCache {
            items,
            is_full,
            buffers: ReadBuffers::new(buffer_bytes as usize),
            hits: AtomicU64::new(0),
            misses: AtomicU64::new(0),
            pins,
            indexes: IndexBudget::new(whole_bytes / INDEXES_SHARE),
            capacity_bytes: AtomicU64::new(whole_bytes),
        })
    }

    /// Changes what the cache may hold. When it becomes less, items go at once, except for fences
    /// that are pinned: they stay with their tables, and the others make room for them.
    pub(crate) fn set_capacity(&self, capacity_bytes: u64) {
        self.capacity_bytes.store(capacity_bytes, Ordering::SeqCst);
        self.fit();
    }

    /// Sizes what holds the items by what they leave of the capacity.
    pub(super) fn fit(&self) {
        let mut fitted = None;
        loop {
            // Who fits it at the same time may have known an earlier capacity.
            let capacity_bytes = self.capacity_bytes.load(Ordering::SeqCst);
            if fitted.replace(capacity_bytes) == Some(capacity_bytes) {
                return;
            }
            self.fit_to(capacity_bytes);
        }
    }

    fn fit_to(&self, capacity_bytes: u64) {
        self.pins.set_limit(capacity_bytes / PINNED_SHARE);
        self.indexes.set_limit(capacity_bytes / INDEXES_SHARE);
        let beside = self.pins.used() + self.indexes.used() + self.beside_weight();
        let left = capacity_bytes.saturating_sub(beside);
        let left = left - left / HOLES_SHARE;
        // In steps: each change visits all shards, and makes what they remember of items that have gone shorter by
        // rounding. Of nothing they would not know any more how it was divided.
        let step = capacity_bytes / CAPACITY_STEPS + 1;
        let capacity = (left / step * step).max(LEAST_ITEMS_BYTES);
        let now = self.items.capacity();
        if capacity < now || capacity > now + now / 64 {
            self.items.set_capacity(capacity);
        }
        if capacity > now {
            self.is_full.store(false, Ordering::Relaxed);
        }
    }

    /// Memory that the weights of the items do not tell: the tables of the cache never shrink, so
    /// they may be made for more items than there are.
    fn beside_weight(&self) -> u64 {
        let tables = self.items.memory_used();
        let counted = self.items.len() * ITEM_OVERHEAD_BYTES;
        let more = (tables.entries + tables.map).saturating_sub(counted);
        (more + self.buffers.idle_bytes()) as u64
    }

    /// A buffer for `len` bytes that pass by the cache.
    pub(crate) fn buffer(&self, len: usize) -> ReadBuffer {
        self.buffers.take(len)
    }

    /// Bytes held now.
    pub(crate) fn used_bytes(&self) -> u64 {
        self.items.weight() + self.pins.used() + self.indexes.used()
    }

    /// Memory taken for that.
    pub(crate) fn memory_bytes(&self) -> u64 {
        self.used_bytes() + self.beside_weight()
    }

    /// Bytes that may be held.
    pub(crate) fn capacity(&self) -> u64 {
        self.items.capacity() + self.pins.used() + self.indexes.used()
    }

    /// What is set aside for fences that stay with their tables.
    pub(super) fn pins(&self) -> &ByteBudget {
        &self.pins
    }

    /// What is set aside for the pointer indexes of tables.
    pub(super) fn index_budget(&self) -> &IndexBudget {
        &self.indexes
    }

    /// The bytes of the same.
    pub(super) fn index_bytes(&self) -> &ByteBudget {
        self.indexes.bytes()
    }

    /// What the pointer indexes of tables may take.
    pub(crate) fn pointer_index_limit(&self) -> u64 {
        self.indexes.bytes().limit()
    }

    /// Bytes of the pointer indexes of tables.
    pub(crate) fn pointer_index_bytes(&self) -> u64 {
        self.indexes.used()
    }

    /// Look-ups that found what they looked for.
    pub(crate) fn hits(&self) -> u64 {
        self.hits.load(Ordering::Relaxed)
    }

    /// Look-ups that led to a read of a file.
    pub(crate) fn misses(&self) -> u64 {
        self.misses.load(Ordering::Relaxed)
    }

    pub(super) fn block(&self, file: FileNumber, offset: u64) -> Option<Arc<Block>> {
        self.find((file.0, offset))?.block()
    }

    /// As [`ReadCache::block`], and no look-up.
    pub(super) fn peek_block(&self, file: FileNumber, offset: u64) -> Option<Arc<Block>> {
        self.items.peek(&(file.0, offset))?.block()
    }

    pub(super) fn insert_block(&self, file: FileNumber, offset: u64, block: Arc<Block>) {
        self.items.insert((file.0, offset), Item::Block(block));
    }

    /// Keeps a block that nobody has asked for yet, if it is not here.
    pub(super) fn offer_block(&self, file: FileNumber, offset: u64, block: Arc<Block>) {
        if !self.items.contains_key(&(file.0, offset)) {
            self.insert_block(file, offset, block);
        }
    }

    /// Whether nothing had to go yet.
    pub(super) fn has_room(&self) -> bool {
        !self.is_full.load(Ordering::Relaxed)
    }

    pub(super) fn fences(&self, file: FileNumber) -> Option<Arc<Fences>> {
        self.find((file.0, FENCES))?.fences()
    }

    /// As [`ReadCache::fences`], and no look-up.
    pub(super) fn peek_fences(&self, file: FileNumber) -> Option<Arc<Fences>> {
        self.items.peek(&(file.0, FENCES))?.fences()
    }

    pub(super) fn insert_fences(&self, file: FileNumber, fences: Arc<Fences>) {
        self.items.insert((file.0, FENCES), Item::Fences(fences));
    }

    /// Whether the record at `offset` is here. This is no look-up.
    pub(crate) fn holds_record(&self, file: FileNumber, offset: u64) -> bool {
        self.items.contains_key(&(file.0, offset))
    }

    /// The verified frame of the record at `offset`.
    pub(crate) fn record(&self, file: FileNumber, offset: u64) -> Option<Bytes> {
        let file = slip!(CacheForgetsFile, 0, file.0);
        self.find((file, offset))?.record()
    }

    /// Keeps the verified `frame` of the record at `offset` if it is not too large. It must be a whole allocation: of a part, the rest would stay in memory uncounted.
    pub(crate) fn offer_record(&self, file: FileNumber, offset: u64, frame: Bytes) {
        if frame.len() as u64 <= self.capacity() / RECORD_SHARE {
            let file = slip!(CacheForgetsFile, 0, file.0);
            self.items.insert((file, offset), Item::Record(frame));
        }
    }

    /// Keeps the verified `frame` of a record that has come to `offset` of `file`.
    pub(crate) fn insert_record(&self, file: FileNumber, offset: u64, frame: Bytes) {
        self.items.insert((file.0, offset), Item::Record(frame));
    }

    /// Forgets the record at `offset`.
    pub(crate) fn remove_record(&self, file: FileNumber, offset: u64) {
        self.items.remove(&(file.0, offset));
    }

    fn find(&self, place: Place) -> Option<Item> {
        let found = self.items.get(&place);
        let counter = if found.is_some() {
            &self.hits
        } else {
            &self.misses
        };
        let before = counter.fetch_add(1, Ordering::Relaxed);
        if found.is_none() && before % MISSES_PER_FIT == MISSES_PER_FIT - 1 {
            self.fit();
        }
        found
    }
}

impl fmt::Debug for ReadCache {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut out = f.debug_struct("ReadCache");
        out.field("used_bytes", &self.used_bytes());
        out.field("capacity", &self.capacity())
            .finish_non_exhaustive()
    }
}

/// Notes that there are evictions, and drops what was evicted outside the lock.
#[derive(Clone)]
struct Evictions(Arc<AtomicBool>);

impl Lifecycle<Place, Item> for Evictions {
    type RequestState = [Option<Item>; 2];

    fn begin_request(&self) -> Self::RequestState {
        [None, None]
    }

    fn on_evict(&self, evicted: &mut Self::RequestState, _place: Place, item: Item) {
        self.0.store(true, Ordering::Relaxed);
        // A third, which is rare, is dropped here.
        if let Some(free) = evicted.iter_mut().find(|slot| slot.is_none()) {
            *free = Some(item);
        }
    }
}

#[derive(Clone)]
struct ItemWeight;

impl Weighter<Place, Item> for ItemWeight {
    fn weight(&self, _place: &Place, item: &Item) -> u64 {
        let bytes = match item {
            Item::Block(block) => block.memory_bytes(),
            Item::Fences(fences) => fences.memory_bytes(),
            Item::Record(frame) => frame.len() + SHARED_BYTES,
        };
        (bytes + ITEM_OVERHEAD_BYTES) as u64
    }
}

/// Hashes the two numbers of a place; nobody outside can choose them to collide.
#[derive(Clone, Copy, Default)]
struct PlaceHash;

impl BuildHasher for PlaceHash {
    type Hasher = PlaceHasher;

    fn build_hasher(&self) -> PlaceHasher {
        PlaceHasher(0)
    }
}

struct PlaceHasher(u64);

impl Hasher for PlaceHasher {
    fn finish(&self) -> u64 {
        let x = (self.0 ^ (self.0 >> 32)).wrapping_mul(0xd6e8_feb8_6659_fd93);
        x ^ (x >> 32)
    }

    fn write(&mut self, bytes: &[u8]) {
        for &byte in bytes {
            self.write_u64(u64::from(byte));
        }
    }

    fn write_u64(&mut self, n: u64) {
        self.0 = (self.0.rotate_left(23) ^ n).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_hash_of_a_place_depends_on_both_numbers_and_on_their_order() {
        let places: [Place; 5] = [(1, 2), (2, 1), (1, 3), (1 << 32, 2), (0, FENCES)];
        for (i, place) in places.iter().enumerate() {
            for other in &places[i + 1..] {
                assert_ne!(PlaceHash.hash_one(place), PlaceHash.hash_one(other));
            }
        }
        // Bytes are hashed one by one.
        assert_ne!(PlaceHash.hash_one(b"ab"), PlaceHash.hash_one(b"ba"));
    }
}
