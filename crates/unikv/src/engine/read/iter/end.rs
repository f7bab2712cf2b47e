//! One end of an iteration: gathers visible entries in batches and fetches their values.
//!
//! Batches grow as the iteration goes on. Large values are looked up one by one, when they are
//! handed out, so that an iteration never holds more of them than its caller.

mod batch;
mod fetch;
mod fill;

use super::toward::{Left, Toward};
use crate::base::keys::KEYSPACE_PREFIX_LEN;
use crate::error::Result;
use crate::key_table::ReadBuffers;
use crate::partition::view_cursor::ViewCursor;
use crate::partition::{SteppedOver, Visibility};
use crate::record::STREAMED_BYTES;
use batch::{Batch, Entry, Value};
use bytes::Bytes;
use fill::{Filling, remember};
use std::mem;
use std::ops::Range;
use std::sync::Arc;

/// Entries gathered at first and at most. Short scans fetch little too much, long ones many at
/// once.
const FIRST_BATCH: usize = 8;
const LAST_BATCH: usize = 1024;
/// Room is made for this many entries before the first of a batch is gathered, and for keys of this
/// length.
const ENTRIES_AT_ONCE: usize = 64;
const KEY_BYTES: usize = 32;

/// One end of an iteration and the batch that it hands out.
pub(super) struct End {
    /// The visible entries of the batch; those before `next` have been handed out, and those before
    /// `reported` were reported by [`End::passed`].
    entries: Vec<Entry>,
    next: usize,
    reported: usize,
    /// Their engine keys, one after the other.
    keys: Bytes,
    /// The keys handed out share that buffer, which counts for as long as any of them lives. Else
    /// they are copies.
    shares_keys: bool,
    buffers: Arc<ReadBuffers>,
    /// How many entries the next batch may have.
    batch_len: usize,
    /// Whether no batch was fetched yet.
    is_first: bool,
    /// Whether a batch was measured.
    is_measured: bool,
    /// How many batches still read ahead.
    ahead: usize,
    /// Whether the values of the next batches are left where they are.
    keys_alone: bool,
    forward: bool,
    /// Whether the range goes on after the batch.
    goes_on: bool,
    /// The key that the cursor has dealt with last, going forward, if it is not the last one of the
    /// batch.
    last: Option<Vec<u8>>,
    /// Bytes of values that the batch may still fetch: what is compressed may be longer than its
    /// record.
    room: u64,
}

impl End {
    pub(super) fn new(buffers: &Arc<ReadBuffers>) -> End {
        End {
            entries: Vec::new(),
            next: 0,
            reported: 0,
            keys: Bytes::new(),
            shares_keys: false,
            buffers: Arc::clone(buffers),
            batch_len: FIRST_BATCH,
            is_first: true,
            is_measured: false,
            ahead: 0,
            keys_alone: false,
            forward: true,
            goes_on: true,
            last: None,
            room: 0,
        }
    }

    /// Whether the batch that is gathered next is the first one that is measured.
    pub(super) fn begins_to_be_measured(&mut self) -> bool {
        !mem::replace(&mut self.is_measured, true)
    }

    /// This many entries are wanted from here.
    pub(super) fn expect(&mut self, entries: usize) {
        self.batch_len = entries.clamp(1, LAST_BATCH);
    }

    /// The values of the batches from here on are left where they are, or are not.
    pub(super) fn leave_values(&mut self, leave: bool) {
        self.keys_alone = leave;
    }

    /// Memory of its keys, and of the values that were fetched with it, beside what counts as
    /// shared.
    pub(super) fn memory_bytes(&self) -> usize {
        let last = self.last.as_ref().map_or(0, Vec::capacity);
        let entries = self.entries.capacity() * mem::size_of::<Entry>();
        let values = self.entries.iter().map(Entry::value_bytes);
        let keys = if self.shares_keys { 0 } else { self.keys.len() };
        keys + last + entries + values.sum::<usize>()
    }

    /// Whether nothing of the batch is left.
    pub(super) fn is_handed_out(&self) -> bool {
        self.next == self.entries.len()
    }

    /// The engine key to be handed out next.
    pub(super) fn key(&self) -> Option<&[u8]> {
        let entry = self.entries.get(self.next)?;
        Some(entry.key_in(&self.keys))
    }

    /// The engine key that was handed out last, unless it has been reported already.
    pub(super) fn passed(&mut self) -> Option<&[u8]> {
        let last = self
            .next
            .checked_sub(1)
            .filter(|_| self.reported < self.next)?;
        self.reported = self.next;
        let entry = self.entries.get(last)?;
        Some(entry.key_in(&self.keys))
    }

    /// Hands out the user's key and the value, which `look_up` fetches if it is large.
    pub(super) fn hand_out(
        &mut self,
        look_up: impl FnOnce(&[u8]) -> Result<Bytes>,
    ) -> Result<Option<(Bytes, Bytes)>> {
        let Some(entry) = self.entries.get_mut(self.next) else {
            return Ok(None);
        };
        let value = match &mut entry.value {
            Value::Ready(value) => mem::take(value),
            // What could not be fetched with its batch is looked up as well: that harms no other
            // entry, and it may work by now.
            Value::Large | Value::Stored { .. } | Value::Left => look_up(entry.key_in(&self.keys))?,
        };
        self.next += 1;
        let key = entry.key.start + KEYSPACE_PREFIX_LEN..entry.key.end;
        Ok(Some((self.user_key(key), value)))
    }

    /// Hands out the user's key, and the value if that has been fetched.
    pub(super) fn hand_out_key(&mut self) -> Option<(Bytes, Option<Bytes>)> {
        let entry = self.entries.get_mut(self.next)?;
        self.next += 1;
        let value = match &mut entry.value {
            Value::Ready(value) => Some(mem::take(value)),
            Value::Large | Value::Stored { .. } | Value::Left => None,
        };
        let key = entry.key.start + KEYSPACE_PREFIX_LEN..entry.key.end;
        Some((self.user_key(key), value))
    }

    /// Passes over the next entries as long as `is_passed` says so of their engine keys. Returns
    /// whether one is left.
    pub(super) fn skip(&mut self, is_passed: impl Fn(&[u8]) -> bool) -> bool {
        let left = self.entries.get(self.next..).unwrap_or_default();
        self.next += left.partition_point(|entry| is_passed(entry.key_in(&self.keys)));
        !self.is_handed_out()
    }

    /// A key of the batch, for somebody who may hold it for long.
    #[inline(always)]
    fn user_key(&self, place: Range<usize>) -> Bytes {
        if self.shares_keys {
            self.keys.slice(place)
        } else {
            Bytes::copy_from_slice(self.keys.get(place).unwrap_or_default())
        }
    }

    /// The next batch is gathered with a cursor that was newly placed.
    pub(super) fn anchor(&mut self) {
        self.last = None;
    }

    /// Gathers the next visible entries of what is left of a range, until their values reach
    /// `batch_bytes`. Of that nothing is visible before the cursor gets there. After an error the
    /// batch holds what was met before it, and the cursor is of no more use.
    pub(super) fn gather(
        &mut self,
        cursor: &mut ViewCursor,
        toward: Toward,
        at: Visibility,
        left: Left<'_>,
        batch_bytes: u64,
    ) -> Result<()> {
        self.forward = toward == Toward::Upper;
        let mut batch = self.begin_batch(batch_bytes);
        let filling = Filling {
            batch: &mut batch,
            cursor,
            toward,
            at,
            left,
            keys_alone: self.keys_alone,
            last: &mut self.last,
            run: SteppedOver::default(),
        };
        let filled = filling.fill();
        self.goes_on = matches!(filled, Ok(true));
        if self.forward
            && let Some(last) = batch.last_key().filter(|_| batch.ends_with_last)
        {
            remember(&mut self.last, last);
        }
        self.end_batch(batch);
        filled.map(|_| ())
    }

    fn begin_batch(&mut self, most_value_bytes: u64) -> Batch {
        let mut entries = mem::take(&mut self.entries);
        entries.clear();
        entries.reserve(self.batch_len.min(ENTRIES_AT_ONCE));
        self.room = most_value_bytes.saturating_add(STREAMED_BYTES.into());
        Batch {
            entries,
            keys: Vec::with_capacity(self.batch_len.min(ENTRIES_AT_ONCE) * KEY_BYTES),
            value_bytes: 0,
            most_value_bytes,
            len: self.batch_len,
            ends_with_last: false,
        }
    }

    fn end_batch(&mut self, batch: Batch) {
        self.entries = batch.entries;
        (self.next, self.reported) = (0, 0);
        self.shares_keys = self.buffers.may_share();
        self.keys = if self.shares_keys {
            self.buffers.share(batch.keys)
        } else {
            Bytes::from(batch.keys)
        };
        self.batch_len = (self.batch_len * 2).min(LAST_BATCH);
    }
}
