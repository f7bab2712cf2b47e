//! Iteration over a range, from both ends (paper §III-F).
//!
//! An [`Iter`] holds one view and one sequence number: it shows one moment, whatever happens
//! meanwhile, and keeps the files of that moment on disk. Each end gathers visible entries in
//! batches that grow as it goes on, and fetches the values of a batch file by file, in the order of
//! their offsets, neighbours in one read.

use super::engine::Engine;
use super::read::{DEFAULT_KEYSPACE, engine_key};
use crate::base::keys::{KEYSPACE_PREFIX_LEN, Kind, SeqNo};
use crate::error::{Error, Result};
use crate::key_table::{EntryValue, KeyEntry, RecordPointer};
use crate::partition::View;
use crate::partition::sorted_store::{dangling, verify};
use crate::partition::view_cursor::ViewCursor;
use bytes::Bytes;
use std::collections::VecDeque;
use std::ops::{Bound, RangeBounds};
use std::sync::Arc;

/// Entries gathered at first and at most. Short scans fetch little too much, long ones many at once.
const FIRST_BATCH: usize = 8;
const LAST_BATCH: usize = 128;
/// A batch ends early when its values reach this many bytes.
const BATCH_BYTES: u64 = 4 << 20;

/// An iterator over the entries of a range in key order; from the back with
/// [`Iterator::rev`] or [`DoubleEndedIterator::next_back`].
///
/// It shows the database as it was when it was made. An error ends the iteration.
pub struct Iter {
    view: Arc<View>,
    seq: SeqNo,
    /// Keeps the sequence number registered while a snapshot's iterator lives.
    _snapshot: Option<Arc<super::snapshot::Registered>>,
    /// The first engine key of the range.
    begin: Vec<u8>,
    /// The first engine key of what is left.
    lower: Vec<u8>,
    /// The first engine key behind what is left.
    upper: Vec<u8>,
    front: Option<End>,
    back: Option<End>,
    /// An error to be handed out next.
    error: Option<Error>,
    ended: bool,
}

/// One end of an iteration.
struct End {
    cursor: ViewCursor,
    pending: VecDeque<Entry>,
    batch: usize,
    /// The key that the cursor has dealt with last.
    last: Option<Vec<u8>>,
}

/// A visible entry: its engine key and its value.
struct Entry {
    key: Vec<u8>,
    value: Value,
}

enum Value {
    Ready(Bytes),
    Stored(RecordPointer, SeqNo),
}

/// What a range of user keys is in engine keys: from the first key to the first key behind.
pub(crate) fn engine_bounds<K: AsRef<[u8]>>(range: &impl RangeBounds<K>) -> (Vec<u8>, Vec<u8>) {
    let after = |key: &K| {
        let mut key = engine_key(DEFAULT_KEYSPACE, key.as_ref());
        key.push(0);
        key
    };
    let at = |key: &K| engine_key(DEFAULT_KEYSPACE, key.as_ref());
    let lower = match range.start_bound() {
        Bound::Included(key) => at(key),
        Bound::Excluded(key) => after(key),
        Bound::Unbounded => engine_key(DEFAULT_KEYSPACE, b""),
    };
    let upper = match range.end_bound() {
        Bound::Included(key) => after(key),
        Bound::Excluded(key) => at(key),
        Bound::Unbounded => (DEFAULT_KEYSPACE.0 + 1).to_be_bytes().to_vec(),
    };
    (lower, upper)
}

/// The engine keys that begin with a user prefix.
pub(crate) fn prefix_bounds(prefix: &[u8]) -> (Vec<u8>, Vec<u8>) {
    let lower = engine_key(DEFAULT_KEYSPACE, prefix);
    let mut upper = lower.clone();
    // The next string after all that begin with the prefix; the keyspace id leaves room to count up.
    while upper.last() == Some(&u8::MAX) {
        upper.pop();
    }
    if let Some(last) = upper.last_mut() {
        *last += 1;
    }
    (lower, upper)
}

impl Iter {
    pub(crate) fn new(
        engine: &Engine,
        view: Arc<View>,
        seq: SeqNo,
        snapshot: Option<Arc<super::snapshot::Registered>>,
        (lower, upper): (Vec<u8>, Vec<u8>),
    ) -> Iter {
        Iter {
            view,
            seq,
            _snapshot: snapshot,
            begin: lower.clone(),
            lower,
            upper,
            front: None,
            back: None,
            error: engine.check_open().err(),
            ended: false,
        }
    }

    /// Moves the front to the first entry of the range at or behind `key`, forward or back. Entries
    /// that the back has handed out stay gone.
    pub fn seek(&mut self, key: impl AsRef<[u8]>) {
        let lower = engine_key(DEFAULT_KEYSPACE, key.as_ref()).max(self.begin.clone());
        if lower < self.lower {
            // The back may have dropped entries because the front had handed them out.
            self.back = None;
        }
        self.lower = lower;
        self.front = None;
    }

    fn next_entry(&mut self) -> Result<Option<(Bytes, Bytes)>> {
        let mut front = match self.front.take() {
            Some(front) => front,
            None => {
                let mut cursor = ViewCursor::new(Arc::clone(&self.view));
                cursor.seek(&self.lower, SeqNo::MAX)?;
                End::new(cursor)
            }
        };
        if front.pending.is_empty() {
            front.gather_forward(self.seq, &self.upper)?;
            front.fetch(&self.view)?;
        }
        let entry = front
            .pending
            .pop_front()
            .filter(|entry| entry.key < self.upper);
        self.front = Some(front);
        let Some(entry) = entry else { return Ok(None) };
        self.lower.clone_from(&entry.key);
        self.lower.push(0);
        Ok(Some(entry.into_pair()))
    }

    fn next_back_entry(&mut self) -> Result<Option<(Bytes, Bytes)>> {
        let mut back = match self.back.take() {
            Some(back) => back,
            None => {
                let mut cursor = ViewCursor::new(Arc::clone(&self.view));
                cursor.seek_before(&self.upper, SeqNo::MAX)?;
                End::new(cursor)
            }
        };
        if back.pending.is_empty() {
            back.gather_backward(self.seq, &self.lower)?;
            back.fetch(&self.view)?;
        }
        let entry = back
            .pending
            .pop_front()
            .filter(|entry| entry.key >= self.lower);
        self.back = Some(back);
        let Some(entry) = entry else { return Ok(None) };
        self.upper.clone_from(&entry.key);
        Ok(Some(entry.into_pair()))
    }

    fn or_end(
        &mut self,
        next: impl FnOnce(&mut Iter) -> Result<Option<(Bytes, Bytes)>>,
    ) -> Option<Result<(Bytes, Bytes)>> {
        if let Some(error) = self.error.take() {
            self.ended = true;
            return Some(Err(error));
        }
        if self.ended || self.lower >= self.upper {
            return None;
        }
        let next = next(self);
        self.ended = next.is_err();
        next.transpose()
    }
}

impl Iterator for Iter {
    type Item = Result<(Bytes, Bytes)>;

    fn next(&mut self) -> Option<Self::Item> {
        self.or_end(Iter::next_entry)
    }
}

impl DoubleEndedIterator for Iter {
    fn next_back(&mut self) -> Option<Self::Item> {
        self.or_end(Iter::next_back_entry)
    }
}

impl std::fmt::Debug for Iter {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Iter")
            .field("seq", &self.seq.0)
            .finish_non_exhaustive()
    }
}

impl Entry {
    fn into_pair(self) -> (Bytes, Bytes) {
        let value = match self.value {
            Value::Ready(value) => value,
            // Fetched before any entry is handed out.
            Value::Stored(..) => Bytes::new(),
        };
        (Bytes::from(self.key).slice(KEYSPACE_PREFIX_LEN..), value)
    }
}

impl End {
    fn new(cursor: ViewCursor) -> End {
        End {
            cursor,
            pending: VecDeque::new(),
            batch: FIRST_BATCH,
            last: None,
        }
    }

    /// Gathers the next visible entries before `upper`.
    fn gather_forward(&mut self, seq: SeqNo, upper: &[u8]) -> Result<()> {
        let mut bytes = 0;
        while let Some(entry) = self.cursor.entry() {
            if entry.key >= upper || self.batch_is_full(bytes) {
                break;
            }
            // The first version at or below the snapshot decides; older ones are passed over.
            if entry.seq <= seq && self.last.as_deref() != Some(entry.key) {
                let last = self.last.get_or_insert_default();
                last.clear();
                last.extend_from_slice(entry.key);
                bytes += push_live(&mut self.pending, &entry);
            }
            self.cursor.next()?;
        }
        self.batch = (self.batch * 2).min(LAST_BATCH);
        Ok(())
    }

    /// Gathers the next visible entries at or behind `lower`, going back. Versions of a key come
    /// oldest first, so the last one at or below the snapshot decides.
    fn gather_backward(&mut self, seq: SeqNo, lower: &[u8]) -> Result<()> {
        let mut bytes = 0;
        let mut key = Vec::new();
        while let Some(entry) = self.cursor.entry() {
            if entry.key < lower || self.batch_is_full(bytes) {
                break;
            }
            key.clear();
            key.extend_from_slice(entry.key);
            let mut newest = VecDeque::new();
            while let Some(entry) = self.cursor.entry().filter(|e| e.key == key) {
                if entry.seq <= seq {
                    newest.clear();
                    push_live(&mut newest, &entry);
                }
                self.cursor.prev()?;
            }
            bytes += newest.iter().map(Entry::value_bytes).sum::<u64>();
            self.pending.append(&mut newest);
        }
        self.batch = (self.batch * 2).min(LAST_BATCH);
        Ok(())
    }

    fn batch_is_full(&self, bytes: u64) -> bool {
        self.pending.len() >= self.batch || bytes >= BATCH_BYTES
    }

    /// Fetches the values of the gathered entries, file by file.
    fn fetch(&mut self, view: &View) -> Result<()> {
        let stored = self.pending.iter().enumerate();
        let mut wanted: Vec<(RecordPointer, usize)> = stored
            .filter_map(|(i, entry)| match entry.value {
                Value::Stored(pointer, _) => Some((pointer, i)),
                Value::Ready(_) => None,
            })
            .collect();
        wanted.sort_unstable_by_key(|(pointer, _)| (pointer.file, pointer.offset));
        let mut records = Vec::new();
        for run in wanted.chunk_by(|a, b| a.0.file == b.0.file) {
            let Some(&(first, _)) = run.first() else {
                continue;
            };
            let file = view.version.record_file(first.file);
            let file = file.ok_or_else(|| dangling(std::path::Path::new("MANIFEST"), first))?;
            let pointers: Vec<RecordPointer> = run.iter().map(|(pointer, _)| *pointer).collect();
            records.clear();
            file.read_many(&pointers, &mut records);
            for (&(pointer, i), record) in run.iter().zip(records.drain(..)) {
                let record = record?;
                let Some(entry) = self.pending.get_mut(i) else {
                    continue;
                };
                if let Value::Stored(_, seq) = entry.value {
                    verify(&record, &entry.key, seq, file.path(), pointer)?;
                    entry.value = Value::Ready(record.value());
                }
            }
        }
        Ok(())
    }
}

impl Entry {
    fn value_bytes(&self) -> u64 {
        match &self.value {
            Value::Ready(value) => value.len() as u64,
            Value::Stored(pointer, _) => u64::from(pointer.len),
        }
    }
}

/// Adds an entry unless it is a tombstone. Returns the bytes of its value.
fn push_live(pending: &mut VecDeque<Entry>, entry: &KeyEntry<'_>) -> u64 {
    if entry.kind == Kind::Delete {
        return 0;
    }
    let value = match entry.value {
        EntryValue::None => return 0,
        EntryValue::Inline(value) => Value::Ready(Bytes::copy_from_slice(value)),
        EntryValue::Pointer(pointer) => Value::Stored(pointer, entry.seq),
    };
    let entry = Entry {
        key: entry.key.to_vec(),
        value,
    };
    let bytes = entry.value_bytes();
    pending.push_back(entry);
    bytes
}
