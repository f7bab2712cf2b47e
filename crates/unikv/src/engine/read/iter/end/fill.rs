//! Filling a batch with what is visible, in one loop for both ways.
//!
//! The versions of a key come newest first going forward, where the first one at or below the
//! snapshot decides, and oldest first going back, where the last one does: one step for each way.

use super::batch::{Batch, Value, after};
use crate::base::keys::{Kind, SeqNo};
use crate::base::seeded::seeded;
use crate::engine::read::iter::toward::{Left, Toward};
use crate::error::Result;
use crate::key_table::KeyEntry;
use crate::partition::view_cursor::ViewCursor;
use crate::partition::{SteppedOver, Visibility};

/// A batch that is being filled from what is left of a range.
pub(super) struct Filling<'a> {
    pub(super) batch: &'a mut Batch,
    pub(super) cursor: &'a mut ViewCursor,
    pub(super) toward: Toward,
    pub(super) at: Visibility,
    pub(super) left: Left<'a>,
    /// Values are left where they are.
    pub(super) keys_alone: bool,
    /// The key that the cursor has dealt with last, going forward, if it is not the last one of the
    /// batch.
    pub(super) last: &'a mut Option<Vec<u8>>,
    /// What was hidden since the last visible entry.
    pub(super) run: SteppedOver,
}

/// What ends before the entry at the cursor.
enum End {
    OfRange,
    OfBatch,
}

impl Filling<'_> {
    /// Whether the range goes on after the batch.
    pub(super) fn fill(mut self) -> Result<bool> {
        let mut key = Vec::new();
        loop {
            let ended = match self.toward {
                Toward::Upper => self.take_version()?,
                Toward::Lower => self.take_key_back(&mut key)?,
            };
            match ended {
                None => {}
                Some(End::OfBatch) => return Ok(true),
                Some(End::OfRange) => break,
            }
        }
        if self.run.is_long() {
            self.leave_gap(self.left);
        }
        Ok(false)
    }

    /// Going forward, deals with the version at the cursor. Once one has decided, those that are
    /// older are passed over.
    #[inline(always)]
    fn take_version(&mut self) -> Result<Option<End>> {
        let entry = match entry_at(self.cursor, self.batch, self.left, self.toward) {
            Ok(entry) => entry,
            Err(end) => return Ok(Some(end)),
        };
        let last = if self.batch.ends_with_last {
            self.batch.last_key()
        } else {
            self.last.as_deref()
        };
        if entry.seq <= self.at.seq && last != Some(entry.key) {
            let value = self.value_of(&entry)?;
            self.batch.ends_with_last = value.is_some();
            match value {
                Some(value) => {
                    if self.run.is_long() {
                        self.leave_gap(self.left.before(entry.key));
                    }
                    self.run.end();
                    self.batch.push(entry.key, value);
                }
                None => {
                    self.run.hides(entry.kind);
                    remember(self.last, entry.key);
                }
            }
        }
        if self.run.step()
            && let Some(end) = self.cursor.view().end_of_gap(entry.key, self.at)
        {
            self.cursor.seek(&end, SeqNo::MAX)?;
            self.run = SteppedOver::after(end);
        } else {
            self.cursor.next_visible()?;
        }
        Ok(None)
    }

    /// Going back, deals with all versions of the key at the cursor.
    fn take_key_back(&mut self, key: &mut Vec<u8>) -> Result<Option<End>> {
        match entry_at(self.cursor, self.batch, self.left, self.toward) {
            Ok(entry) => {
                key.clear();
                key.extend_from_slice(entry.key);
            }
            Err(end) => return Ok(Some(end)),
        }
        let (mut newest, mut kind, mut is_time) = (None, Kind::Delete, false);
        while let Some(entry) = self.cursor.entry().filter(|entry| entry.key == *key) {
            let is_first = newest.is_none() || !seeded!(BackwardOldest);
            if entry.seq <= self.at.seq && is_first {
                kind = entry.kind;
                newest = self.value_of(&entry)?;
            }
            is_time |= self.run.step();
            self.cursor.prev()?;
        }
        if let Some(value) = newest {
            if self.run.is_long() {
                self.leave_gap(self.left.after(&after(key)));
            }
            self.run.end();
            self.batch.push(key, value);
            return Ok(None);
        }
        self.run.hides(kind);
        if is_time && let Some(start) = self.cursor.view().start_of_gap(key, self.at) {
            self.cursor.seek_before(&start, SeqNo::MAX)?;
            self.run = SteppedOver::after(start);
        } else if self.cursor.may_hide() {
            self.cursor.skip_hidden_back()?;
        }
        Ok(None)
    }

    /// What the version of a key that decides is for the iteration.
    #[inline(always)]
    fn value_of(&self, entry: &KeyEntry<'_>) -> Result<Option<Value>> {
        if self.cursor.may_hide() && self.cursor.hides(entry, self.at.seq)? {
            return Ok(None);
        }
        let clock = self.cursor.clock();
        let is_shown = self.at.shows(entry.kind, entry.expiry_ms, clock);
        Ok(is_shown
            .then(|| Value::of(entry, self.keys_alone))
            .flatten())
    }

    /// Leaves a gap in `left`, from the last entry of the batch on if there is one; going back, up
    /// to that entry.
    #[cold]
    fn leave_gap(&self, left: Left<'_>) {
        let from = self.run.from.as_deref();
        let (view, last) = (self.cursor.view(), self.batch.last_key());
        match (self.toward, from, last) {
            (Toward::Upper, None, Some(last)) => {
                view.note_gap(&after(last), left.upper, self.at, &self.run);
            }
            (Toward::Upper, from, _) => {
                let lower = from.unwrap_or(left.lower);
                view.note_gap(lower, left.upper, self.at, &self.run);
            }
            (Toward::Lower, from, last) => {
                let upper = from.or(last).unwrap_or(left.upper);
                view.note_gap(left.lower, upper, self.at, &self.run);
            }
        }
    }
}

/// The entry at the cursor, unless something ends before it.
#[inline(always)]
fn entry_at<'c>(
    cursor: &'c ViewCursor,
    batch: &Batch,
    left: Left<'_>,
    toward: Toward,
) -> std::result::Result<KeyEntry<'c>, End> {
    match cursor.entry() {
        Some(entry) if left.holds(entry.key, toward) => {
            if batch.is_full() {
                Err(End::OfBatch)
            } else {
                Ok(entry)
            }
        }
        _ => Err(End::OfRange),
    }
}

/// The cursor has dealt with `key`.
pub(super) fn remember(last: &mut Option<Vec<u8>>, key: &[u8]) {
    let last = last.get_or_insert_default();
    last.clear();
    last.extend_from_slice(key);
}
