//! Cache-line buckets, and the overflow buckets that are linked after groups of them.
//!
//! A main bucket holds eight entries, filled from the front. An overflow bucket holds seven and a
//! link to the next one of its chain. One chain serves [`GROUP_LEN`] main buckets, so the heads
//! are few enough to stay in the processor's cache, and a lookup needs them only if both its
//! buckets are full.
//!
//! A word that is not 0 never changes. The words are written by one writer (the caller holds its
//! lock) with `Release` and read with `Acquire`: a reader that sees a link sees the bucket after
//! it.

use super::entry::Entry;
use crate::base::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use crate::base::sync::{OnceLock, Weakness, order};

pub(super) const BUCKET_PLACES: usize = 8;
const OVERFLOW_PLACES: usize = BUCKET_PLACES - 1;
/// The word of an overflow bucket that links to the next.
const LINK: usize = OVERFLOW_PLACES;
/// Main buckets that share an overflow chain.
const GROUP_LEN: usize = 16;
/// Overflow buckets are allocated in this many steps.
const CHUNKS: usize = 16;

/// One cache line of words; 0 is free.
#[derive(Default)]
#[repr(align(64))]
pub(super) struct Bucket([AtomicU64; BUCKET_PLACES]);

impl Bucket {
    /// The entries, in the order in which they came.
    pub(super) fn entries(&self) -> impl Iterator<Item = Entry> {
        taken(&self.0)
    }

    /// Number of entries.
    pub(super) fn len(&self) -> usize {
        self.entries().count()
    }

    /// Puts `entry` at `place`, which is free.
    pub(super) fn publish(&self, place: usize, entry: Entry) {
        debug_assert_eq!(self.0[place].load(Ordering::Relaxed), 0);
        self.0[place].store(entry.0, Ordering::Release);
    }
}

/// The words up to the first free one.
fn taken(words: &[AtomicU64]) -> impl Iterator<Item = Entry> {
    words
        .iter()
        .map(|word| Entry(word.load(Ordering::Acquire)))
        .take_while(|entry| entry.0 != 0)
}

/// Zeroed buckets.
pub(super) fn new_buckets(count: usize) -> Box<[Bucket]> {
    std::iter::repeat_with(Bucket::default)
        .take(count)
        .collect()
}

/// The overflow chains of all groups.
pub(super) struct Overflow {
    /// For each group the number of its newest overflow bucket plus 1, or 0.
    heads: Box<[AtomicU32]>,
    chunks: [OnceLock<Box<[Bucket]>>; CHUNKS],
    chunk_len: usize,
    max_buckets: usize,
    /// Buckets handed out. Changed by the writer only.
    used: AtomicU32,
}

impl Overflow {
    /// Chains for `main_buckets` main buckets with at most `max_buckets` overflow buckets.
    pub(super) fn new(main_buckets: usize, max_buckets: usize) -> Overflow {
        let max_buckets = max_buckets.min(u32::MAX as usize - 1);
        Overflow {
            heads: std::iter::repeat_with(AtomicU32::default)
                .take(Self::heads_for(main_buckets))
                .collect(),
            chunks: Default::default(),
            chunk_len: max_buckets.div_ceil(CHUNKS).max(1),
            max_buckets,
            used: AtomicU32::new(0),
        }
    }

    /// Bytes that the heads take.
    pub(super) fn heads_len_bytes(main_buckets: usize) -> usize {
        Self::heads_for(main_buckets) * size_of::<AtomicU32>()
    }

    fn heads_for(main_buckets: usize) -> usize {
        main_buckets.div_ceil(GROUP_LEN)
    }

    /// Adds `entry` to the chain of `main_bucket`; false if no overflow bucket is left. The caller
    /// holds the writer's lock.
    pub(super) fn insert(&self, main_bucket: usize, entry: Entry) -> bool {
        let head = &self.heads[main_bucket / GROUP_LEN];
        let newest = head.load(Ordering::Relaxed);
        if let Some(bucket) = self.bucket(newest) {
            let place = taken(&bucket.0[..OVERFLOW_PLACES]).count();
            if place < OVERFLOW_PLACES {
                bucket.publish(place, entry);
                return true;
            }
        }
        let number = self.used.load(Ordering::Relaxed);
        if number as usize >= self.max_buckets {
            return false;
        }
        let chunk = &self.chunks[number as usize / self.chunk_len];
        let bucket =
            &chunk.get_or_init(|| new_buckets(self.chunk_len))[number as usize % self.chunk_len];
        bucket.publish(0, entry);
        bucket.0[LINK].store(u64::from(newest), Ordering::Relaxed);
        self.used.store(number + 1, Ordering::Relaxed);
        head.store(number + 1, order(Weakness::OverflowHead, Ordering::Release));
        true
    }

    /// Calls `visit` with every entry of `main_bucket`'s chain.
    pub(super) fn for_each(&self, main_bucket: usize, mut visit: impl FnMut(Entry)) {
        let mut link = self.heads[main_bucket / GROUP_LEN].load(Ordering::Acquire);
        while let Some(bucket) = self.bucket(link) {
            taken(&bucket.0[..OVERFLOW_PLACES]).for_each(&mut visit);
            link = bucket.0[LINK].load(Ordering::Acquire) as u32;
        }
    }

    /// The bucket that a head or link names.
    fn bucket(&self, link: u32) -> Option<&Bucket> {
        let number = link.checked_sub(1)? as usize;
        self.chunks
            .get(number / self.chunk_len)?
            .get()?
            .get(number % self.chunk_len)
    }

    /// Places for entries in the buckets handed out.
    pub(super) fn places(&self) -> usize {
        self.used.load(Ordering::Relaxed) as usize * OVERFLOW_PLACES
    }

    /// Memory allocated.
    pub(super) fn memory_bytes(&self) -> usize {
        let chunks = self
            .chunks
            .iter()
            .filter(|chunk| chunk.get().is_some())
            .count();
        size_of_val(&*self.heads) + chunks * self.chunk_len * size_of::<Bucket>()
    }
}
