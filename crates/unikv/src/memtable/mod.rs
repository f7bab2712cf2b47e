//! The memtable: the newest writes, in order, in memory. And the batch that carries writes to it.
//!
//! One memtable holds the entries of all keyspaces, keyed by engine key and sequence number. It
//! only grows until it is sealed and flushed, then it is dropped as a whole and its memory goes
//! back to the [`ArenaPool`].
//!
//! Invariants: entries stand in internal order; an entry is whole from the moment a reader can see
//! it, and never changes. Which entries a read may use is the caller's business (the visible
//! sequence number), as the entries of an unfinished batch are already here.
//!
//! Locks: one mutex for inserts (see `skiplist`), one in the pool beneath it, one for the marks of
//! callers. Reads of entries take none.
//!
//! - `batch`: the public [`Batch`]
//! - `ops`: the encoding of operations, shared with the WAL
//! - `skiplist`: the ordered list itself; `node`: its nodes
//! - `arena`: its memory

mod arena;
mod batch;
#[cfg(all(test, unikv_model = "loom"))]
mod models;
mod node;
mod ops;
mod skiplist;
#[cfg(test)]
mod tests;

pub(crate) use arena::ArenaPool;
pub use batch::Batch;
pub(crate) use batch::{check_mark, check_put};
pub(crate) use ops::{BadOp, BatchOp, OpsIter};

use crate::base::keys::{Kind, SeqNo};
use crate::base::sync::atomic::{AtomicUsize, Ordering};
use crate::base::sync::{self, Mutex};
use bytes::Bytes;
use skiplist::{Cursor, SkipList};
use std::sync::Arc;

/// What a write takes in the log beside its operations and its mark, about.
const MARK_BYTES: usize = 64;

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

/// The newest writes, in order, in memory.
pub(crate) struct Memtable {
    list: sync::Arc<SkipList>,
    /// The newest two marks of a caller, newest first, each at the number of its last write. The
    /// newer one may belong to writes that are not yet visible.
    marks: Mutex<[Option<(SeqNo, Bytes)>; 2]>,
    /// What all marks took in the log.
    mark_bytes: AtomicUsize,
}

impl Memtable {
    /// An empty memtable whose memory comes from `pool` and goes back to it.
    pub(crate) fn new(pool: &Arc<ArenaPool>) -> Memtable {
        Memtable {
            list: sync::Arc::new(SkipList::new(pool)),
            marks: Mutex::default(),
            mark_bytes: AtomicUsize::new(0),
        }
    }

    /// Remembers the mark of the writes up to `seq`. Of writes that become visible together only the
    /// newest mark is noted.
    pub(crate) fn note_mark(&self, seq: SeqNo, mark: &[u8]) {
        let mut marks = self.marks.lock();
        self.mark_bytes
            .fetch_add(MARK_BYTES + mark.len(), Ordering::Relaxed);
        marks.swap(0, 1);
        marks[0] = Some((seq, Bytes::copy_from_slice(mark)));
    }

    /// The newest mark at or below `seq`.
    pub(crate) fn mark(&self, seq: SeqNo) -> Option<Bytes> {
        let marks = self.marks.lock();
        let visible = marks.iter().flatten().find(|(at, _)| *at <= seq);
        visible.map(|(_, mark)| mark.clone())
    }

    /// Adds an entry. Writers take turns; readers go on meanwhile. Key and value must be within the
    /// limits that a [`Batch`] enforces.
    pub(crate) fn insert(
        &self,
        key: &[u8],
        seq: SeqNo,
        kind: Kind,
        expiry_ms: Option<u64>,
        value: &[u8],
    ) {
        self.list.insert(&MemEntry {
            key,
            seq,
            kind,
            expiry_ms,
            value,
        });
    }

    /// The newest version of `key` at or below `snapshot`.
    pub(crate) fn get(&self, key: &[u8], snapshot: SeqNo) -> Option<MemEntry<'_>> {
        self.list.get(key, snapshot)
    }

    /// An iterator over all versions, standing nowhere yet.
    pub(crate) fn iter(self: &Arc<Self>) -> MemtableIter {
        MemtableIter {
            cursor: Cursor::new(&self.list),
        }
    }

    /// Memory used for entries. Marks count with what they took in the log, so that it ends and is
    /// flushed also when there is nothing but marks.
    pub(crate) fn bytes(&self) -> usize {
        self.list.bytes() + self.mark_bytes.load(Ordering::Relaxed)
    }

    /// Bytes of the keys.
    pub(crate) fn key_bytes(&self) -> usize {
        self.list.key_bytes()
    }

    /// Number of entries.
    pub(crate) fn len(&self) -> usize {
        self.list.len()
    }

    /// Whether there is neither an entry nor a mark.
    pub(crate) fn is_empty(&self) -> bool {
        self.len() == 0 && self.marks.lock()[0].is_none()
    }

    /// The highest sequence number, if there is an entry or a mark.
    pub(crate) fn max_seq(&self) -> Option<SeqNo> {
        let marked = self.marks.lock()[0].as_ref().map(|(seq, _)| *seq);
        self.list.max_seq().max(marked)
    }
}

/// Walks a memtable in internal order, in both directions; keeps its memory alive. Entries that are
/// inserted meanwhile may or may not be met.
pub(crate) struct MemtableIter {
    cursor: Cursor,
}

impl MemtableIter {
    /// Stands at the first entry.
    pub(crate) fn seek_to_first(&mut self) {
        self.cursor.seek_to_first();
    }

    /// Stands at the last entry.
    pub(crate) fn seek_to_last(&mut self) {
        self.cursor.seek_to_last();
    }

    /// Stands at the first entry at or after (`key`, `seq`) in internal order.
    pub(crate) fn seek(&mut self, key: &[u8], seq: SeqNo) {
        self.cursor.seek(key, seq);
    }

    /// Steps forward; behind the last entry it stands nowhere.
    pub(crate) fn next(&mut self) {
        self.cursor.next();
    }

    /// Steps back; before the first entry it stands nowhere.
    pub(crate) fn prev(&mut self) {
        self.cursor.prev();
    }

    /// The entry it stands at.
    pub(crate) fn entry(&self) -> Option<MemEntry<'_>> {
        self.cursor.entry()
    }
}
