//! The cache of verified blocks, decoded fences and verified records, of one size in bytes for a
//! whole database.
//!
//! Keyed ⟨file number, offset⟩, never by a user's key; file numbers are never reused, so what
//! belongs to a dropped file is never found again and ages out. Its shards have their own locks;
//! none is held while a file is read, so two readers that miss together may both read.

mod alarm;
pub(crate) mod build_cost;
pub(crate) mod byte_budget;
mod hot;
pub(in crate::key_table) mod index_budget;
mod item;
pub(crate) mod pin;
pub(crate) mod read_terms;
mod sizing;
pub(crate) mod taken;
pub(crate) mod wishes;

use self::alarm::Alarm;
pub(crate) use self::item::CachedFrame;
use self::item::Item;
use super::block::Block;
use crate::base::keys::FileNumber;
use crate::base::seeded::slip;
use crate::base::sync::Mutex;
use crate::base::sync::atomic::{AtomicU64, Ordering};
use crate::base::sync::unseen::{AtomicBool, AtomicU16};
use crate::codec::Decoders;
use crate::item_log::read_buffers::{ReadBuffer, ReadBuffers};
use crate::item_log::{ItemLog, Place};
use crate::key_table::block::fences::Fences;
use crate::key_table::cache::byte_budget::ByteBudget;
use crate::key_table::cache::index_budget::IndexBudget;
use crate::key_table::cache::wishes::Wishes;
use crate::vfs::Event;
use bytes::Bytes;
use std::fmt;
use std::sync::Arc;

/// The fences of one table must fit into half a shard.
const SHARD_BYTES: u64 = 8 << 20;
const MAX_SHARDS: u64 = 32;
/// The share of the bytes that pinned fences may take.
const PINNED_SHARE: u64 = 8;
/// The share of the bytes that the pointer indexes of tables may take.
const INDEXES_SHARE: u64 = 4;
/// A record that takes more than this share of the cache would drive out too much else.
const RECORD_SHARE: u64 = 1 << 10;
/// The share of the bytes that idle buffers take at most, and how many they take at most.
const BUFFERS_SHARE: u64 = 64;
const MOST_BUFFER_BYTES: u64 = 1 << 20;
/// The share of the bytes beyond which no more buffers are shared by what is handed out. It is more
/// than iterators fetch ahead.
const SHARED_SHARE: u64 = 6;
/// The share of what items may take that the blocks of all tables may, if they are read because
/// scans want them.
const BLOCKS_SHARE: (u64, u64) = (3, 4);
/// The bytes for each key that was written lately and is remembered.
const WRITTEN_SHARE: u64 = 512;
/// The share of what items may take that may be held for long, in segments of which little is used.
const HELD_SHARE: u64 = 16;
/// What is taken beside the items is looked at once in this many misses.
const MISSES_PER_FIT: u64 = 1 << 10;
/// Where fences are cached: an offset at which no block stands.
const FENCES: u64 = u64::MAX;

/// A cache shared by all tables of a database.
pub(crate) struct ReadCache {
    items: ItemLog<Item>,
    /// Set once an item had to go.
    is_full: AtomicBool,
    /// To read all blocks of a table has become worth its cost.
    blocks_wanted: AtomicBool,
    /// For what passes by the cache.
    buffers: Arc<ReadBuffers>,
    /// For what is compressed on disk: the cache holds it raw.
    decoders: Decoders,
    /// Keys that were written lately, each a tag in the slot of its hash.
    written: Box<[AtomicU16]>,
    hits: AtomicU64,
    misses: AtomicU64,
    alarm: Alarm,
    wishes: Wishes,
    pins: ByteBudget,
    indexes: IndexBudget,
    /// Of the items, what may be held for long.
    held: ByteBudget,
    /// Held while the parts are fitted to it.
    granted: Mutex<Granted>,
}

/// What the cache may hold, of everything.
#[derive(Clone, Copy)]
struct Granted {
    bytes: u64,
    /// Of these, what it has for a while only.
    lent_bytes: u64,
}

impl ReadCache {
    /// A cache of about `capacity_bytes`.
    pub(crate) fn new(capacity_bytes: u64) -> Arc<ReadCache> {
        let whole_bytes = capacity_bytes;
        let buffer_bytes = (capacity_bytes / BUFFERS_SHARE).min(MOST_BUFFER_BYTES);
        let pins = ByteBudget::new(capacity_bytes / PINNED_SHARE);
        let capacity_bytes = capacity_bytes - pins.limit();
        let shards = (capacity_bytes / SHARD_BYTES).clamp(1, MAX_SHARDS);
        Arc::new(ReadCache {
            items: ItemLog::new(shards as usize, capacity_bytes),
            is_full: AtomicBool::new(false),
            blocks_wanted: AtomicBool::new(false),
            buffers: ReadBuffers::new(buffer_bytes as usize, (whole_bytes / SHARED_SHARE) as usize),
            decoders: Decoders::default(),
            written: (0..whole_bytes / WRITTEN_SHARE + 1)
                .map(|_| AtomicU16::new(0))
                .collect(),
            hits: AtomicU64::new(0),
            misses: AtomicU64::new(0),
            alarm: Alarm::new(),
            wishes: Wishes::default(),
            pins,
            indexes: IndexBudget::new(whole_bytes / INDEXES_SHARE),
            held: ByteBudget::new(capacity_bytes / HELD_SHARE),
            granted: Mutex::new(Granted {
                bytes: whole_bytes,
                lent_bytes: 0,
            }),
        })
    }

    /// A buffer for `len` bytes that pass by the cache.
    pub(crate) fn buffer(&self, len: usize) -> ReadBuffer {
        self.buffers.take(len)
    }

    /// Where those come from, and which of them are shared.
    pub(crate) fn buffers(&self) -> &Arc<ReadBuffers> {
        &self.buffers
    }

    /// For what is compressed on disk.
    pub(crate) fn decoders(&self) -> &Decoders {
        &self.decoders
    }

    /// Bytes held now.
    pub(crate) fn used_bytes(&self) -> u64 {
        self.items.memory_bytes() + self.pins.used() + self.indexes.used()
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

    /// Notifies `event` when look-ups have missed about this often in all.
    pub(crate) fn wake_at(&self, misses: u64, event: &Arc<dyn Event>) {
        self.alarm.set(misses, event);
    }

    /// Look-ups that led to a read of a file.
    pub(crate) fn misses(&self) -> u64 {
        self.misses.load(Ordering::Relaxed)
    }

    pub(super) fn block(&self, file: FileNumber, offset: u64) -> Option<Arc<Block>> {
        // Blocks stay within the engine; see `hold_segment`.
        self.find((file.0, offset), |item, _| item.clone().block())
    }

    /// As [`ReadCache::block`], and no look-up.
    pub(super) fn peek_block(&self, file: FileNumber, offset: u64) -> Option<Arc<Block>> {
        self.items.peek(&(file.0, offset))?.block()
    }

    /// Keeps a block that was asked for.
    pub(super) fn insert_block(&self, file: FileNumber, offset: u64, block: Arc<Block>) {
        if read_terms::fill_cache() {
            self.insert((file.0, offset), Item::Block(block), false);
        }
    }

    /// Keeps a block that nobody has asked for yet, if it is not here; `is_wanted`: somebody will.
    pub(super) fn offer_block(
        &self,
        file: FileNumber,
        offset: u64,
        block: Arc<Block>,
        is_wanted: bool,
    ) {
        if !self.holds(file, offset) && read_terms::fill_cache() {
            self.insert((file.0, offset), Item::Block(block), is_wanted);
        }
    }

    /// What tables want.
    pub(crate) fn wishes(&self) -> &Wishes {
        &self.wishes
    }

    /// To read all blocks of a table has become worth its cost.
    pub(super) fn want_blocks(&self) {
        if read_terms::fill_cache() {
            self.blocks_wanted.store(true, Ordering::Relaxed);
        }
    }

    /// Whether to read all blocks of a table has become worth its cost since this was asked last.
    pub(crate) fn are_blocks_wanted(&self) -> bool {
        let wanted = &self.blocks_wanted;
        wanted.load(Ordering::Relaxed) && wanted.swap(false, Ordering::Relaxed)
    }

    /// Whether key tables of this many bytes leave room for other items, with all their blocks
    /// here.
    pub(crate) fn has_room_for_blocks(&self, bytes: u64) -> bool {
        bytes <= self.items.capacity() / BLOCKS_SHARE.1 * BLOCKS_SHARE.0
    }

    /// Whether nothing had to go yet.
    pub(crate) fn has_room(&self) -> bool {
        !self.is_full.load(Ordering::Relaxed)
    }

    pub(super) fn fences(&self, file: FileNumber) -> Option<Arc<Fences>> {
        self.find((file.0, FENCES), |item, _| item.clone().fences())
    }

    /// As [`ReadCache::fences`], and no look-up.
    pub(super) fn peek_fences(&self, file: FileNumber) -> Option<Arc<Fences>> {
        self.items.peek(&(file.0, FENCES))?.fences()
    }

    pub(super) fn insert_fences(&self, file: FileNumber, fences: Arc<Fences>) {
        self.insert((file.0, FENCES), Item::Fences(fences), false);
    }

    /// Whether the block or record at `offset` is here. This is no look-up.
    pub(crate) fn holds(&self, file: FileNumber, offset: u64) -> bool {
        self.items.contains(&(file.0, offset))
    }

    /// What `take` makes of the verified frame of the record at `offset`. It holds up others who
    /// want to change something in the cache.
    #[inline(always)]
    pub(crate) fn record<R>(
        &self,
        file: FileNumber,
        offset: u64,
        take: impl FnOnce(CachedFrame<'_>) -> Option<R>,
    ) -> Option<R> {
        let file = slip!(CacheForgetsFile, 0, file.0);
        self.find((file, offset), |item, is_stored| {
            take(item.frame(is_stored)?)
        })
    }

    /// Keeps the verified `frame` of the record at `offset` if it is not too large. It must be a
    /// whole allocation: for a while the cache keeps that.
    pub(crate) fn offer_record(&self, file: FileNumber, offset: u64, frame: Bytes) {
        if self.admits(frame.len()) && read_terms::fill_cache() {
            let file = slip!(CacheForgetsFile, 0, file.0);
            self.insert((file, offset), Item::Record(frame), false);
        }
    }

    /// Keeps the verified `frame` of a record that has come to `offset` of `file`, and `is_wanted`
    /// if it will soon be asked for.
    pub(crate) fn insert_record(
        &self,
        file: FileNumber,
        offset: u64,
        frame: Bytes,
        is_wanted: bool,
    ) {
        self.insert((file.0, offset), Item::Record(frame), is_wanted);
    }

    /// Whether a record of `len` bytes is not too large.
    pub(crate) fn admits(&self, len: usize) -> bool {
        len as u64 <= self.capacity() / RECORD_SHARE
    }

    /// Whether a record of `len` bytes of a key with this hash, which is being written, is worth
    /// keeping: it was written `again`, or lately.
    pub(crate) fn keeps_written(&self, hash: u64, len: usize, again: bool) -> bool {
        let (slot, tag) = self.written_slot(hash);
        (again || slot.load(Ordering::Relaxed) == tag) && self.admits(len)
    }

    /// A key with this hash has been written.
    pub(crate) fn note_written(&self, hash: u64) {
        let (slot, tag) = self.written_slot(hash);
        if slot.load(Ordering::Relaxed) != tag {
            slot.store(tag, Ordering::Relaxed);
        }
    }

    fn written_slot(&self, hash: u64) -> (&AtomicU16, u16) {
        let slot = &self.written[hash as usize % self.written.len()];
        (slot, (hash >> 48) as u16 | 1)
    }

    /// Forgets the record at `offset`.
    pub(crate) fn remove_record(&self, file: FileNumber, offset: u64) {
        self.items.remove(&(file.0, offset));
    }

    fn insert(&self, place: Place, item: Item, is_wanted: bool) {
        if self.items.insert(place, item, is_wanted) {
            self.is_full.store(true, Ordering::Relaxed);
        }
    }

    // Each caller has its own: apart, what was found would go through memory.
    #[inline(always)]
    fn find<R>(&self, place: Place, take: impl FnOnce(&Item, bool) -> Option<R>) -> Option<R> {
        let found = self.items.get(&place, take);
        let counter = if found.is_some() {
            &self.hits
        } else {
            &self.misses
        };
        let before = counter.fetch_add(1, Ordering::Relaxed);
        if found.is_none() && before % MISSES_PER_FIT == MISSES_PER_FIT - 1 {
            self.alarm.ring(before);
            // Who holds the lock fits it.
            if let Some(granted) = self.granted.try_lock() {
                self.fit_to(*granted);
            }
        }
        found.flatten()
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

#[cfg(test)]
mod tests;
