//! An iterator below a transaction's own writes: its entries, and going past some of them.
//!
//! No locks.

use super::overlay::{Base, Found};
use super::{Iter, Toward};
use crate::error::Result;

/// The entries of an iterator below a transaction's own writes.
pub(super) struct Entries<'a>(pub(super) &'a mut Iter);

/// The same, of whose values only those are handed out that have been fetched.
pub(super) struct KeysAlone<'a>(pub(super) &'a mut Iter);

impl Base for Entries<'_> {
    fn next(&mut self, toward: Toward) -> Result<Option<Found>> {
        let entry = self.0.next_entry(toward)?;
        Ok(entry.map(|(key, value)| (key, Some(value))))
    }

    fn skip(&mut self, toward: Toward, to: &[u8]) {
        self.0.skip(toward, to);
    }
}

impl Base for KeysAlone<'_> {
    fn next(&mut self, toward: Toward) -> Result<Option<Found>> {
        self.0.hand_out_key(toward)
    }

    fn skip(&mut self, toward: Toward, to: &[u8]) {
        self.0.skip(toward, to);
    }
}

impl Iter {
    /// Goes on at the engine key `to`, or before it going back, unless it is past that already.
    fn skip(&mut self, toward: Toward, to: &[u8]) {
        let is_in_batch = match toward {
            Toward::Upper => self.front.skip(|key| key < to),
            Toward::Lower => self.back.skip(|key| key >= to),
        };
        if is_in_batch {
            return;
        }
        self.raise_lower();
        match toward {
            Toward::Upper if self.lower.as_slice() < to => {
                self.lower = to.to_vec();
                self.holder.forget(|position| position.front = None);
            }
            Toward::Lower if self.upper.as_slice() > to => {
                self.upper = to.to_vec();
                self.has_upper_moved = true;
                self.holder.forget(|position| position.back = None);
            }
            _ => {}
        }
    }
}
