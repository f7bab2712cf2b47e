//! The memtable: the newest writes, in order, in memory. And the batch that carries writes to it.
//!
//! One memtable holds the entries of all keyspaces, keyed by engine key and sequence number. It
//! only grows until it is sealed and flushed; its memory then goes back to the [`ArenaPool`] as a
//! whole.
//!
//! Invariants: entries stand in internal order; an entry is whole from the moment a reader can see
//! it, and never changes. Callers hide the entries of unfinished batches by the visible number.
//!
//! Locks: one mutex for inserts (see `entries`), one in the pool beneath it, one for the commit
//! tags of callers, one for gaps. Reads take none, except that the first scan puts the entries in
//! order (`entries/ordering.rs`), and that iterators look for gaps where there are any.

mod arena;
mod batch;
mod buckets;
mod entries;
mod iter;
#[cfg(all(test, unikv_model = "loom"))]
mod models;
mod node;
mod op_order;
mod ops;
mod ranges;
mod skiplist;
mod sorted_batch;
#[cfg(test)]
mod tests;

pub(crate) use arena::ArenaPool;
pub use batch::Batch;
pub(crate) use batch::lifetime::Lifetime;
pub(crate) use batch::limits::{check_commit_tag, check_put};
pub use batch::operation::Operation;
pub(crate) use batch::ranges::deletable;
pub(crate) use iter::MemtableIter;
pub(crate) use ops::{BadOp, BatchOp, LEAST_OP_LEN, OpsIter, encode_op};

use crate::base::hash::key_hash;
use crate::base::keys::{Kind, SeqNo};
use crate::base::range_tombstones::RangeRef;
use crate::base::sync::atomic::{AtomicUsize, Ordering};
use crate::base::sync::{self, Mutex};
use crate::error::Result;
use bytes::Bytes;
use entries::Entries;
pub(crate) use entries::gaps::GapReader;
pub(crate) use op_order::OpOrder;
use ranges::MemRanges;
#[cfg(test)]
pub(crate) use sorted_batch::MOST_OPERATIONS;
use sorted_batch::NumberedBatch;
pub(crate) use sorted_batch::{BatchSorter, Reserved, SortedBatch};
use std::sync::Arc;

/// Range tombstones of a memtable that is to be flushed for them.
const MOST_RANGES: usize = 16_384;
/// What a write takes in the log beside its operations and its commit tag, about.
const COMMIT_TAG_BYTES: usize = 64;

/// An entry of a memtable.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct MemEntry<'a> {
    /// The engine key.
    pub(crate) key: &'a [u8],
    pub(crate) seq: SeqNo,
    pub(crate) kind: Kind,
    pub(crate) expiry_ms: Option<u64>,
    pub(crate) value: &'a [u8],
}

/// The writes of a memtable.
enum Contents {
    /// They come one after the other.
    Growing(Growing),
    /// They are one large batch.
    Batch(NumberedBatch),
}

/// Writes that come one after the other.
struct Growing {
    entries: sync::Arc<Entries>,
    ranges: MemRanges,
}

impl Growing {
    fn new(pool: &Arc<ArenaPool>, ordered: bool) -> Growing {
        Growing {
            entries: sync::Arc::new(Entries::new(pool, ordered)),
            ranges: MemRanges::new(pool),
        }
    }
}

/// The newest writes, in order, in memory.
pub(crate) struct Memtable {
    contents: Contents,
    hash_seed: u64,
    /// The newest two commit tags of a caller, newest first, each at the number of its last write.
    /// The newer one may belong to writes that are not yet visible.
    commit_tags: Mutex<[Option<(SeqNo, Bytes)>; 2]>,
    /// What all commit tags took in the log.
    commit_tag_bytes: AtomicUsize,
}

impl Memtable {
    /// An empty memtable whose memory comes from `pool` and goes back to it. `hash_seed` is the
    /// database's.
    pub(crate) fn new(pool: &Arc<ArenaPool>, hash_seed: u64) -> Memtable {
        Memtable::holding(Contents::Growing(Growing::new(pool, false)), hash_seed)
    }

    /// The memtable of a large batch, whose first operation has the number `first`. Nothing can be
    /// added to it.
    pub(crate) fn of_batch(batch: SortedBatch, first: SeqNo, hash_seed: u64) -> Memtable {
        let batch = NumberedBatch::new(Arc::new(batch), first);
        Memtable::holding(Contents::Batch(batch), hash_seed)
    }

    /// Whether it is the memtable of a large batch.
    pub(crate) fn is_batch(&self) -> bool {
        matches!(self.contents, Contents::Batch(_))
    }

    /// The memtable after this one, to which nothing is added any more. No table and no other
    /// memtable has a number above `others`.
    pub(crate) fn next(&self, pool: &Arc<ArenaPool>, others: SeqNo) -> Memtable {
        let Contents::Growing(Growing { entries, .. }) = &self.contents else {
            return Memtable::new(pool, self.hash_seed);
        };
        let is_scanned = entries.is_scanned();
        let after = Growing::new(pool, is_scanned);
        if is_scanned && let Some(last) = self.max_seq() {
            entries.gaps().hand_on(after.entries.gaps(), last, others);
        }
        Memtable::holding(Contents::Growing(after), self.hash_seed)
    }

    fn holding(contents: Contents, hash_seed: u64) -> Memtable {
        Memtable {
            contents,
            hash_seed,
            commit_tags: Mutex::default(),
            commit_tag_bytes: AtomicUsize::new(0),
        }
    }

    /// Remembers the commit tag of the writes up to `seq`. Of writes that become visible together
    /// only the newest commit tag is noted.
    pub(crate) fn note_commit_tag(&self, seq: SeqNo, commit_tag: &[u8]) {
        let mut commit_tags = self.commit_tags.lock();
        self.commit_tag_bytes
            .fetch_add(COMMIT_TAG_BYTES + commit_tag.len(), Ordering::Relaxed);
        commit_tags.swap(0, 1);
        commit_tags[0] = Some((seq, Bytes::copy_from_slice(commit_tag)));
    }

    /// The newest commit tag at or below `seq`.
    pub(crate) fn commit_tag(&self, seq: SeqNo) -> Option<Bytes> {
        self.numbered_commit_tag(seq)
            .map(|(_, commit_tag)| commit_tag)
    }

    /// The newest commit tag at or below `seq`, and its number.
    pub(crate) fn numbered_commit_tag(&self, seq: SeqNo) -> Option<(SeqNo, Bytes)> {
        let commit_tags = self.commit_tags.lock();
        commit_tags
            .iter()
            .flatten()
            .find(|(at, _)| *at <= seq)
            .cloned()
    }

    /// Calls `each` with what was written after the number `after` and up to `until`, in that
    /// order. A range tombstone stands as in [`Memtable::insert`].
    pub(crate) fn each_written(
        &self,
        after: SeqNo,
        until: SeqNo,
        mut each: impl FnMut(&MemEntry<'_>) -> Result<()>,
    ) -> Result<()> {
        let entries = match &self.contents {
            Contents::Growing(growing) => &growing.entries,
            Contents::Batch(batch) => {
                return batch
                    .by_number(after, until)
                    .try_for_each(|entry| each(&entry));
            }
        };
        let ranges = self.ranges();
        let ranges = ranges
            .iter()
            .filter(|range| range.seq > after && range.seq <= until);
        let mut ranges = ranges.peekable();
        let tombstone = |range: RangeRef<'_>, each: &mut dyn FnMut(&MemEntry<'_>) -> _| {
            each(&MemEntry {
                key: range.start,
                seq: range.seq,
                kind: Kind::RangeDelete,
                expiry_ms: None,
                value: range.end,
            })
        };
        for (seq, node) in entries.by_number(after, until) {
            while let Some(range) = ranges.next_if(|range| range.seq < seq) {
                tombstone(range, &mut each)?;
            }
            each(&node.entry())?;
        }
        ranges.try_for_each(|range| tombstone(range, &mut each))
    }

    /// Adds an entry, or a range tombstone, whose value is the end of its range. Writers take
    /// turns; readers go on meanwhile. Key and value must be within the limits that a [`Batch`]
    /// enforces, and the memtable is none of a large batch.
    pub(crate) fn insert(
        &self,
        key: &[u8],
        seq: SeqNo,
        kind: Kind,
        expiry_ms: Option<u64>,
        value: &[u8],
    ) {
        let Contents::Growing(Growing { entries, ranges }) = &self.contents else {
            debug_assert!(false, "a large batch does not grow");
            return;
        };
        if kind == Kind::RangeDelete {
            let (start, end) = (key, value);
            return ranges.add_all(&[RangeRef { start, end, seq }]);
        }
        let entry = MemEntry {
            key,
            seq,
            kind,
            expiry_ms,
            value,
        };
        entries.insert(&entry, key_hash(self.hash_seed, key));
    }

    /// The newest version of `key`, which has this hash in the database, at or below `snapshot`.
    #[inline(always)]
    pub(crate) fn get(&self, key: &[u8], hash: u64, snapshot: SeqNo) -> Option<MemEntry<'_>> {
        debug_assert_eq!(hash, key_hash(self.hash_seed, key));
        match &self.contents {
            Contents::Growing(growing) => growing.entries.get(key, hash, snapshot),
            Contents::Batch(batch) => batch.get(key, snapshot),
        }
    }

    /// Whether `is_met` holds for a key that has a version newer than `after`. Keys come in no
    /// order.
    pub(crate) fn any_newer(&self, after: SeqNo, mut is_met: impl FnMut(&[u8]) -> bool) -> bool {
        match &self.contents {
            Contents::Growing(growing) => growing.entries.any_newer(after, is_met),
            Contents::Batch(batch) => {
                let mut newer = batch.by_number(after, SeqNo::MAX);
                newer.any(|entry| entry.kind != Kind::RangeDelete && is_met(entry.key))
            }
        }
    }

    /// An iterator over all versions, standing nowhere yet.
    pub(crate) fn iter(self: &Arc<Self>) -> MemtableIter {
        match &self.contents {
            Contents::Growing(growing) => MemtableIter::growing(&growing.entries),
            Contents::Batch(batch) => MemtableIter::batch(batch),
        }
    }

    fn entries(&self) -> Option<&Entries> {
        match &self.contents {
            Contents::Growing(growing) => Some(&growing.entries),
            Contents::Batch(_) => None,
        }
    }

    /// Whether there may be gaps.
    #[inline(always)]
    pub(crate) fn has_gaps(&self) -> bool {
        self.entries()
            .is_some_and(|entries| entries.gaps().is_used())
    }

    /// The end of what is known to be empty for `reader` from `key` on.
    #[cold]
    pub(crate) fn end_of_gap(&self, key: &[u8], reader: &GapReader) -> Option<Vec<u8>> {
        self.entries()?.gaps().end_of(key, reader)
    }

    /// The start of what is known to be empty for `reader` up to before `upper`.
    #[cold]
    pub(crate) fn start_of_gap(&self, upper: &[u8], reader: &GapReader) -> Option<Vec<u8>> {
        self.entries()?.gaps().start_of(upper, reader)
    }

    /// `reader` has found, by as many steps, that nothing in the range is visible to it.
    pub(crate) fn add_gap(&self, range: (&[u8], &[u8]), reader: &GapReader, steps: u64) {
        if let Some(entries) = self.entries() {
            entries.add_gap(range, reader, steps);
        }
    }

    /// Memory used for entries. Commit tags count with what they took in the log, so that it ends
    /// and is flushed also when there is nothing but commit tags.
    pub(crate) fn bytes(&self) -> usize {
        let bytes = match &self.contents {
            Contents::Growing(Growing { entries, ranges }) => entries.bytes() + ranges.bytes(),
            Contents::Batch(batch) => batch.bytes(),
        };
        bytes + self.commit_tag_bytes.load(Ordering::Relaxed)
    }

    /// Memory that the first scan takes to put the entries in order.
    pub(crate) fn ordering_bytes(&self) -> usize {
        self.entries().map_or(0, Entries::ordering_bytes)
    }

    /// Bytes of the keys.
    pub(crate) fn key_bytes(&self) -> usize {
        match &self.contents {
            Contents::Growing(growing) => growing.entries.key_bytes(),
            Contents::Batch(batch) => batch.key_bytes(),
        }
    }

    /// Number of entries, without range tombstones.
    pub(crate) fn len(&self) -> usize {
        match &self.contents {
            Contents::Growing(growing) => growing.entries.len(),
            Contents::Batch(batch) => batch.len(),
        }
    }

    /// Whether there is an entry. There may be range tombstones without one.
    pub(crate) fn has_entries(&self) -> bool {
        let len = self.len();
        len > 0
    }

    /// Whether there is neither an entry nor a range tombstone nor a commit tag.
    pub(crate) fn is_empty(&self) -> bool {
        self.len() == 0 && !self.has_ranges() && self.commit_tags.lock()[0].is_none()
    }

    /// The highest sequence number, if there is anything.
    pub(crate) fn max_seq(&self) -> Option<SeqNo> {
        let marked = self.commit_tags.lock()[0].as_ref().map(|(seq, _)| *seq);
        let written = match &self.contents {
            Contents::Growing(Growing { entries, ranges }) => {
                entries.max_seq().max(ranges.max_seq())
            }
            Contents::Batch(batch) => batch.max_seq(),
        };
        written.max(marked)
    }
}
