//! The result of a lookup: candidates, newest first.

use super::entry::{Candidate, Entry};
use crate::base::seeded::seeded;

/// Candidates held without an allocation.
const INLINE: usize = 8;

/// The places where a key may stand, highest slot first; in one slot the lowest offset first.
pub(crate) struct Candidates {
    len: usize,
    inline: [Entry; INLINE],
    /// All entries, once there are more than fit inline.
    spilled: Vec<Entry>,
}

impl Candidates {
    pub(super) fn new() -> Candidates {
        Candidates {
            len: 0,
            inline: [Entry(0); INLINE],
            spilled: Vec::new(),
        }
    }

    /// Adds an entry, out of order.
    #[inline]
    pub(super) fn push(&mut self, entry: Entry) {
        match self.inline.get_mut(self.len) {
            Some(place) if self.spilled.is_empty() => *place = entry,
            _ => self.spill(entry),
        }
        self.len += 1;
    }

    #[cold]
    fn spill(&mut self, entry: Entry) {
        if self.spilled.is_empty() {
            self.spilled.reserve(4 * INLINE);
            self.spilled.extend_from_slice(&self.inline);
        }
        self.spilled.push(entry);
    }

    /// Puts all entries in order.
    #[inline]
    pub(super) fn sort(&mut self) {
        if self.len > 1 {
            self.entries_mut()
                .sort_unstable_by_key(|entry| entry.order());
        }
        if seeded!(OldestSlotFirst) {
            self.entries_mut().reverse();
        }
    }

    fn entries(&self) -> &[Entry] {
        if self.spilled.is_empty() {
            &self.inline[..self.len]
        } else {
            &self.spilled
        }
    }

    fn entries_mut(&mut self) -> &mut [Entry] {
        if self.spilled.is_empty() {
            &mut self.inline[..self.len]
        } else {
            &mut self.spilled
        }
    }

    /// The candidates, newest first.
    pub(crate) fn iter(&self) -> impl ExactSizeIterator<Item = Candidate> {
        self.entries().iter().map(|entry| entry.candidate())
    }
}
