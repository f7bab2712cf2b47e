//! The cache of verified blocks and decoded fences, of one size in bytes for a whole database.
//!
//! Keyed ⟨file number, offset⟩; file numbers are never reused, so what belongs to a dropped file
//! is never found again and ages out. Its shards have their own locks; none is held while a file
//! is read, so two readers that miss together may both read.

use super::block::Block;
use super::fences::Fences;
use crate::base::keys::FileNumber;
use quick_cache::sync::{Cache, DefaultLifecycle};
use quick_cache::{OptionsBuilder, Weighter};
use std::fmt;
use std::hash::{BuildHasher, Hasher};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// What the cache itself keeps per item, roughly.
const ITEM_OVERHEAD_BYTES: usize = 128;
/// What an average item is expected to take.
const AVERAGE_ITEM_BYTES: u64 = 4 << 10;
/// The fences of one table must fit into a shard.
const SHARD_BYTES: u64 = 8 << 20;
const MAX_SHARDS: u64 = 32;
/// Where fences are cached: an offset at which no block stands.
const FENCES: u64 = u64::MAX;

/// A cache shared by all tables of a database.
pub(crate) struct BlockCache {
    items: Cache<Place, Item, ItemWeight, PlaceHash>,
    hits: AtomicU64,
    misses: AtomicU64,
}

type Place = (u64, u64);

#[derive(Clone)]
enum Item {
    Block(Block),
    Fences(Arc<Fences>),
}

impl BlockCache {
    /// A cache of about `capacity_bytes`.
    pub(crate) fn new(capacity_bytes: u64) -> Arc<BlockCache> {
        let items = capacity_bytes / AVERAGE_ITEM_BYTES + 1;
        let items = usize::try_from(items).unwrap_or(usize::MAX);
        let shards = (capacity_bytes / SHARD_BYTES).clamp(1, MAX_SHARDS);
        let options = OptionsBuilder::new()
            .shards(shards as usize)
            .estimated_items_capacity(items)
            .weight_capacity(capacity_bytes)
            .build();
        let lifecycle = DefaultLifecycle::default();
        let items = match options {
            Ok(options) => Cache::with_options(options, ItemWeight, PlaceHash, lifecycle),
            Err(_) => Cache::with(items, capacity_bytes, ItemWeight, PlaceHash, lifecycle),
        };
        Arc::new(BlockCache {
            items,
            hits: AtomicU64::new(0),
            misses: AtomicU64::new(0),
        })
    }

    /// Bytes held now.
    pub(crate) fn used_bytes(&self) -> u64 {
        self.items.weight()
    }

    /// Bytes that may be held.
    pub(crate) fn capacity(&self) -> u64 {
        self.items.capacity()
    }

    /// Look-ups that found what they looked for.
    pub(crate) fn hits(&self) -> u64 {
        self.hits.load(Ordering::Relaxed)
    }

    /// Look-ups that led to a read of a file.
    pub(crate) fn misses(&self) -> u64 {
        self.misses.load(Ordering::Relaxed)
    }

    pub(super) fn block(&self, file: FileNumber, offset: u64) -> Option<Block> {
        match self.find((file.0, offset))? {
            Item::Block(block) => Some(block),
            Item::Fences(_) => None,
        }
    }

    pub(super) fn insert_block(&self, file: FileNumber, offset: u64, block: Block) {
        self.items.insert((file.0, offset), Item::Block(block));
    }

    pub(super) fn fences(&self, file: FileNumber) -> Option<Arc<Fences>> {
        match self.find((file.0, FENCES))? {
            Item::Fences(fences) => Some(fences),
            Item::Block(_) => None,
        }
    }

    pub(super) fn insert_fences(&self, file: FileNumber, fences: Arc<Fences>) {
        self.items.insert((file.0, FENCES), Item::Fences(fences));
    }

    fn find(&self, place: Place) -> Option<Item> {
        let found = self.items.get(&place);
        let counter = if found.is_some() {
            &self.hits
        } else {
            &self.misses
        };
        counter.fetch_add(1, Ordering::Relaxed);
        found
    }
}

impl fmt::Debug for BlockCache {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut out = f.debug_struct("BlockCache");
        out.field("used_bytes", &self.used_bytes());
        out.field("capacity", &self.capacity())
            .finish_non_exhaustive()
    }
}

#[derive(Clone)]
struct ItemWeight;

impl Weighter<Place, Item> for ItemWeight {
    fn weight(&self, _place: &Place, item: &Item) -> u64 {
        let bytes = match item {
            Item::Block(block) => block.bytes().len(),
            Item::Fences(fences) => fences.memory_bytes(),
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
