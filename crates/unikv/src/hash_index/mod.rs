//! The light two-level hash index of a generation of the UnsortedStore (paper §III-B): entries of 8
//! bytes in buckets of a cache line. It holds no keys; the reader compares the key in the record.
//!
//! Invariants:
//! - No entry is changed, moved, removed or replaced by an equal tag; the index dies as a whole.
//! - Slots ascend in a generation, so the highest slot is the newest, whatever the bucket. (The
//!   paper's order of buckets returns stale versions once buckets have been freed.)
//! - An entry is in overflow only if both its buckets are full, and full buckets stay full.
//! - A key in a table and not in the index is in an *unindexed* slot: damage kept keys from it.
//! - All memory together stays below 11 bytes for each record of the capacity.
//!
//! Lock: `HashIndex::writer`, held while entries are added. Lookups take none.

mod buckets;
mod candidates;
mod counted;
mod entry;
#[cfg(all(test, unikv_model = "loom"))]
mod models;
#[cfg(test)]
mod tests;

pub(crate) use candidates::Candidates;
pub(crate) use entry::Candidate;

use crate::base::keys::Slot;
use crate::base::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use crate::base::sync::{Mutex, MutexGuard};
use buckets::{BUCKET_PLACES, Bucket, Overflow, new_buckets};
use counted::Counted;
use entry::{Entry, Tag};
use std::sync::Arc;

/// Records per hundred main places at capacity. Fuller, and overflow grows quickly.
const FILL_PERCENT: usize = 88;
/// What the index may take for each record of its capacity.
pub(crate) const MAX_BYTES_PER_RECORD: usize = 11;
/// An index of a few records gets this much overflow nevertheless.
const MIN_OVERFLOW_BUCKETS: usize = 8;

/// An entry does not fit: no place is left for it, or its slot or offset is out of range. The
/// generation must be frozen and merged.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct IndexFull;

/// The hash index of one generation.
pub(crate) struct HashIndex {
    main: Box<[Bucket]>,
    overflow: Overflow,
    capacity: usize,
    len: AtomicUsize,
    writer: Mutex<()>,
    /// Tables that may have keys which were not entered, newest first.
    unindexed: Vec<Slot>,
    counted: Counted,
}

impl HashIndex {
    /// An index for about `records` entries. It takes more while its overflow lasts.
    pub(crate) fn with_capacity(records: usize) -> HashIndex {
        let main_buckets = (records * 100)
            .div_ceil(FILL_PERCENT * BUCKET_PLACES)
            .max(2);
        let main_bytes = main_buckets * size_of::<Bucket>();
        let rest = (records * MAX_BYTES_PER_RECORD)
            .saturating_sub(main_bytes + Overflow::heads_len_bytes(main_buckets));
        let overflow_buckets = (rest / size_of::<Bucket>()).max(MIN_OVERFLOW_BUCKETS);
        HashIndex {
            main: new_buckets(main_buckets),
            overflow: Overflow::new(main_buckets, overflow_buckets),
            capacity: records,
            len: AtomicUsize::new(0),
            writer: Mutex::new(()),
            unindexed: Vec::new(),
            counted: Counted::default(),
        }
    }

    /// Notes tables, newest first, whose keys could not all be read: no entry says nothing of them.
    pub(crate) fn set_unindexed(&mut self, slots: Vec<Slot>) {
        self.unindexed = slots;
    }

    /// The tables that have to be searched without the index, newest first.
    #[inline]
    pub(crate) fn unindexed_slots(&self) -> &[Slot] {
        &self.unindexed
    }

    /// Takes the writer's lock, for adding entries.
    pub(crate) fn writer(&self) -> HashIndexWriter<'_> {
        HashIndexWriter {
            index: self,
            _lock: self.writer.lock(),
        }
    }

    /// All entries with the tag of `hash` in slots up to `high_water`, newest first.
    #[inline]
    pub(crate) fn lookup(&self, hash: u64, high_water: Slot) -> Candidates {
        let tag = Tag::of(hash);
        let mut candidates = Candidates::new();
        let mut gather = |entry: Entry| {
            if entry.matches(tag) && entry.slot() <= high_water {
                candidates.push(entry);
            }
        };
        let [first, second] = self.bucket_numbers(hash);
        let mut full = true;
        for number in [first, second] {
            let mut len = 0;
            for entry in self.main[number].entries() {
                gather(entry);
                len += 1;
            }
            full &= len == BUCKET_PLACES;
        }
        if full {
            self.overflow.for_each(second, gather);
        }
        candidates.sort();
        candidates
    }

    /// Two different buckets, by multiply-shift on the upper bits of the hash and of its lower
    /// half.
    fn bucket_numbers(&self, hash: u64) -> [usize; 2] {
        let count = self.main.len();
        let scale = |bits: u64| ((u128::from(bits) * count as u128) >> 64) as usize;
        let first = scale(hash);
        let second = scale(hash.rotate_left(32));
        if second != first {
            [first, second]
        } else {
            [first, if first + 1 == count { 0 } else { first + 1 }]
        }
    }

    /// The records that it was made for.
    pub(crate) fn capacity(&self) -> usize {
        self.capacity
    }

    /// Number of entries.
    pub(crate) fn len(&self) -> usize {
        self.len.load(Ordering::Relaxed)
    }

    /// Memory allocated.
    pub(crate) fn memory_bytes(&self) -> usize {
        size_of::<HashIndex>() + size_of_val(&*self.main) + self.overflow.memory_bytes()
    }

    /// Has `sum` count the memory that it takes now, until it is dropped or counted again.
    pub(crate) fn count_in(&self, sum: &Arc<AtomicU64>) {
        self.counted.set(sum, self.memory_bytes() as u64);
    }

    /// Entries per place, overflow included.
    pub(crate) fn utilisation(&self) -> f64 {
        let places = self.main.len() * BUCKET_PLACES + self.overflow.places();
        self.len() as f64 / places as f64
    }
}

/// The right to add entries; one at a time.
pub(crate) struct HashIndexWriter<'a> {
    index: &'a HashIndex,
    _lock: MutexGuard<'a, ()>,
}

impl HashIndexWriter<'_> {
    /// Adds an entry for a record of `frame_len` bytes at `offset` of the table at `slot`.
    /// It goes to the emptier of the two buckets that the hash names, or, when both are full, to an
    /// overflow chain.
    pub(crate) fn insert(
        &mut self,
        hash: u64,
        slot: Slot,
        offset: u64,
        frame_len: u64,
    ) -> Result<(), IndexFull> {
        let index = self.index;
        let entry = Entry::new(Tag::of(hash), slot, offset, frame_len).ok_or(IndexFull)?;
        let [first, second] = index.bucket_numbers(hash);
        let (first_len, second_len) = (index.main[first].len(), index.main[second].len());
        let (number, len) = if first_len <= second_len {
            (first, first_len)
        } else {
            (second, second_len)
        };
        if len < BUCKET_PLACES {
            index.main[number].publish(len, entry);
        } else if !index.overflow.insert(second, entry) {
            return Err(IndexFull);
        }
        index
            .len
            .store(index.len.load(Ordering::Relaxed) + 1, Ordering::Relaxed);
        Ok(())
    }
}
