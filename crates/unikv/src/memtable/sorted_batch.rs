//! A large batch as a memtable of its own: its encoded operations, and their order.
//!
//! A large batch is sorted before its writer takes the commit lock. Under the lock it gets its
//! sequence numbers and its place in the view, at the same cost however many operations it has.
//!
//! Invariants: nothing here changes once it is built. Every operation decodes. `entries` has all of
//! them but the range deletes, in internal order. Numbers here are relative: the first operation
//! has 0, and a [`NumberedBatch`] adds the number that the log gave to it.
//!
//! No locks.

use super::MemEntry;
use super::arena::ArenaPool;
use super::op_order::{OpOrder, op_at};
use super::ops::{BadOp, BatchOp, OpsIter};
use crate::base::keys::SeqNo;
use crate::base::range_tombstones::{Piece, RangeRef, RangeTombstones};
use crate::base::seeded::slip;
use crate::base::sync::OnceLock;
use std::sync::Arc;

/// A batch of more operations is large, however short they are: inserting as many takes some
/// milliseconds.
pub(crate) const MOST_OPERATIONS: usize = 32 << 10;

/// Memory that is counted for memtables until this is dropped.
pub(crate) struct Reserved {
    pool: Arc<ArenaPool>,
    bytes: usize,
}

impl Reserved {
    /// Counts `bytes` for memtables.
    pub(crate) fn new(pool: &Arc<ArenaPool>, bytes: usize) -> Reserved {
        pool.charge(bytes);
        Reserved {
            pool: Arc::clone(pool),
            bytes,
        }
    }

    /// Counts `bytes` in the place of as many as it counted before.
    pub(crate) fn set(&mut self, bytes: usize) {
        self.pool.charge(bytes);
        self.pool.discharge(self.bytes);
        self.bytes = bytes;
    }
}

impl Drop for Reserved {
    fn drop(&mut self) {
        self.pool.discharge(self.bytes);
    }
}

/// The operations of a batch, sorted.
pub(crate) struct SortedBatch {
    ops: Vec<u8>,
    order: OpOrder,
    ranges: RangeTombstones,
    count: u32,
    key_bytes: usize,
    reserved: Reserved,
}

impl SortedBatch {
    /// Whether a batch of `len` operations that take `bytes` in the log is large, where others take
    /// `most_bytes`.
    pub(crate) fn is_large(bytes: usize, len: usize, most_bytes: u64) -> bool {
        bytes as u64 > most_bytes || len > MOST_OPERATIONS
    }

    /// Memory for a batch of `len` operations, of which `ranges` are range deletes, and which take
    /// `bytes` in the log.
    pub(crate) fn memory_bytes(bytes: usize, len: usize, ranges: usize) -> usize {
        // The tombstones are estimated; what they take is known once they are built.
        bytes + OpOrder::memory_bytes(len.saturating_sub(ranges)) + ranges * RANGE_BYTES
    }

    /// Sorts the operations `ops`. `reserved` counts about what that takes.
    pub(crate) fn new(ops: &[u8], len: usize, reserved: Reserved) -> Result<SortedBatch, BadOp> {
        let mut sorter = BatchSorter::new(len, reserved);
        for op in OpsIter::new(ops) {
            sorter.add(&op?);
        }
        Ok(sorter.finish(ops))
    }

    /// The ranges that it deletes, those that meet joined to one.
    pub(crate) fn deleted(&self) -> Vec<(&[u8], &[u8])> {
        let mut joined: Vec<(&[u8], &[u8])> = Vec::new();
        let Some((first, last)) = self.ranges.span() else {
            return joined;
        };
        for (start, end) in self.ranges.covered(first, last) {
            match joined.last_mut() {
                Some(before) if before.1 == start => before.1 = end,
                _ => joined.push((start, end)),
            }
        }
        joined
    }

    fn seek(&self, key: &[u8], number: u64) -> usize {
        self.order.seek(&self.ops, key, number)
    }
}

/// What a range tombstone takes, about, beside its bounds.
const RANGE_BYTES: usize = 80;

/// Takes the operations of a batch one after the other, and sorts them.
pub(crate) struct BatchSorter<'a> {
    order: OpOrder,
    ranges: Vec<RangeRef<'a>>,
    /// Of the operations so far.
    bytes: usize,
    count: u32,
    key_bytes: usize,
    reserved: Reserved,
}

impl<'a> BatchSorter<'a> {
    /// Room for `len` operations. `reserved` counts about what they take.
    pub(crate) fn new(len: usize, reserved: Reserved) -> BatchSorter<'a> {
        BatchSorter {
            order: OpOrder::with_capacity(len),
            ranges: Vec::new(),
            bytes: 0,
            count: 0,
            key_bytes: 0,
            reserved,
        }
    }

    /// Takes the next operation.
    pub(crate) fn add(&mut self, op: &BatchOp<'a>) {
        match op.as_range(SeqNo(u64::from(self.count))) {
            Some(range) => self.ranges.push(range),
            None => {
                self.key_bytes += op.key.len();
                self.order.add(self.bytes, self.count, op.key);
            }
        }
        self.bytes += op.encoded_len();
        self.count += 1;
    }

    /// All of them, whose encoding is `ops`.
    pub(crate) fn finish(self, ops: &[u8]) -> SortedBatch {
        let (mut order, mut reserved) = (self.order, self.reserved);
        order.sort(ops);
        let (ops, ranges) = (ops.to_vec(), RangeTombstones::of(&self.ranges));
        let in_order = OpOrder::memory_bytes(order.entries.capacity());
        reserved.set(ops.capacity() + in_order + ranges.memory_bytes());
        SortedBatch {
            ops,
            order,
            ranges,
            count: self.count,
            key_bytes: self.key_bytes,
            reserved,
        }
    }
}

/// A sorted batch whose operations have their sequence numbers.
#[derive(Clone)]
pub(super) struct NumberedBatch {
    batch: Arc<SortedBatch>,
    /// That of the first operation.
    first: SeqNo,
    /// The range tombstones with their numbers, once somebody has asked for all of them.
    ranges: Arc<OnceLock<NumberedRanges>>,
}

/// A copy of range tombstones, and what it counts.
type NumberedRanges = (Arc<RangeTombstones>, Reserved);

impl NumberedBatch {
    pub(super) fn new(batch: Arc<SortedBatch>, first: SeqNo) -> NumberedBatch {
        NumberedBatch {
            batch,
            first,
            ranges: Arc::default(),
        }
    }

    /// The number in the batch up to which a reader of `snapshot` sees it, if it sees any.
    fn seen_by(&self, snapshot: SeqNo) -> Option<u64> {
        slip!(
            BatchSeenEarly,
            Some(snapshot.0),
            snapshot.0.checked_sub(self.first.0)
        )
    }

    fn numbered(&self, relative: SeqNo) -> SeqNo {
        SeqNo(self.first.0 + relative.0)
    }

    /// The newest version of `key` at or below `snapshot`.
    #[cold]
    pub(super) fn get(&self, key: &[u8], snapshot: SeqNo) -> Option<MemEntry<'_>> {
        let place = self.batch.seek(key, self.seen_by(snapshot)?);
        self.entry(place).filter(|entry| entry.key == key)
    }

    /// The entry in this place of the internal order.
    pub(super) fn entry(&self, place: usize) -> Option<MemEntry<'_>> {
        let entry = self.batch.order.entries.get(place)?;
        let op = op_at(&self.batch.ops, entry)?;
        Some(self.entry_of(entry.index, op))
    }

    fn entry_of<'a>(&self, index: u32, op: BatchOp<'a>) -> MemEntry<'a> {
        MemEntry {
            key: op.key,
            seq: self.numbered(SeqNo(u64::from(index))),
            kind: op.kind,
            expiry_ms: op.expiry_ms,
            value: op.value,
        }
    }

    /// The place of the first entry at or after (`key`, `seq`) in internal order.
    pub(super) fn seek(&self, key: &[u8], seq: SeqNo) -> usize {
        match seq.0.checked_sub(self.first.0) {
            Some(number) => self.batch.seek(key, number),
            // All versions of the key are newer, and stand before.
            None => self.batch.seek(&[key, &[0]].concat(), u64::MAX),
        }
    }

    /// The operations with numbers after `after` and up to `until`, range deletes among them, in
    /// the order of their numbers.
    pub(super) fn by_number(
        &self,
        after: SeqNo,
        until: SeqNo,
    ) -> impl Iterator<Item = MemEntry<'_>> {
        let ops = OpsIter::new(&self.batch.ops).map_while(Result::ok);
        let entries = (0..).zip(ops).map(|(index, op)| self.entry_of(index, op));
        entries.filter(move |entry| entry.seq > after && entry.seq <= until)
    }

    pub(super) fn has_ranges(&self) -> bool {
        !self.batch.ranges.is_empty()
    }

    /// See `Memtable::covering`.
    pub(super) fn covering(&self, key: &[u8], snapshot: SeqNo) -> Option<SeqNo> {
        let seen = SeqNo(self.seen_by(snapshot)?);
        let newest = self.batch.ranges.covering(key, seen)?;
        Some(self.numbered(newest))
    }

    /// See `Memtable::newest_range_between`.
    pub(super) fn newest_range_between(&self, start: &[u8], end: &[u8]) -> Option<SeqNo> {
        let newest = self.batch.ranges.newest_between(start, end)?;
        Some(self.numbered(newest))
    }

    /// See `Memtable::each_piece`.
    pub(super) fn piece(&self, key: &[u8], snapshot: SeqNo) -> Option<Piece<'_>> {
        let seen = SeqNo(self.seen_by(snapshot)?);
        let piece = self.batch.ranges.piece(key, seen);
        Some(Piece {
            seq: piece.seq.map(|seq| self.numbered(seq)),
            ..piece
        })
    }

    /// The range tombstones.
    pub(super) fn ranges(&self) -> Arc<RangeTombstones> {
        let (ranges, _) = self.ranges.get_or_init(|| {
            let ranges = self.batch.ranges.numbered_from(self.first);
            let counted = Reserved::new(&self.batch.reserved.pool, ranges.memory_bytes());
            (Arc::new(ranges), counted)
        });
        Arc::clone(ranges)
    }

    pub(super) fn bytes(&self) -> usize {
        self.batch.reserved.bytes
    }

    pub(super) fn key_bytes(&self) -> usize {
        self.batch.key_bytes
    }

    pub(super) fn len(&self) -> usize {
        self.batch.order.entries.len()
    }

    pub(super) fn max_seq(&self) -> Option<SeqNo> {
        let last = self.batch.count.checked_sub(1)?;
        Some(self.numbered(SeqNo(u64::from(last))))
    }
}
