//! Iterators: a position that moves both ways.
//!
//! A move reads the value with the key, unless the options say otherwise, so that what is valid can
//! be read whole: damage makes the iterator invalid, with an error, and never shows as an empty
//! value.

use super::database::Database;
use super::reads_and_writes::{ReadOptions, read};
use crate::boundary::args::{
    Alone, AloneConst, Bytes, Ending, ErrPtr, New, Optional, Out, Shared, Start, end,
};
use crate::boundary::capi;
use crate::boundary::fault::{Fault, Outcome, remember};
use crate::boundary::handles::object;
use std::ffi::c_char;
use unikv::{Bytes as Value, Cursor};

/// An iterator.
pub struct Iterator {
    /// None if it could not be made; `fault` says why.
    cursor: Option<Cursor>,
    lower: Option<Vec<u8>>,
    upper: Option<Vec<u8>>,
    values_on_demand: bool,
    /// Whether it is on an entry within the bounds.
    valid: bool,
    value: Option<Value>,
    fault: Option<Fault>,
}

object!(Iterator, "unikv_iterator_t", b"ukv:iter");

impl Iterator {
    /// An iterator with a cursor, or with why there is none.
    pub(crate) fn new(cursor: Outcome<Cursor>, options: Option<&ReadOptions>) -> Iterator {
        let (cursor, fault) = match cursor {
            Ok(cursor) => (Some(cursor), None),
            Err(fault) => {
                remember(fault.clone());
                (None, Some(fault))
            }
        };
        Iterator {
            cursor,
            lower: options.and_then(|options| options.lower.clone()),
            upper: options.and_then(|options| options.upper.clone()),
            values_on_demand: options.is_some_and(|options| options.values_on_demand),
            valid: false,
            value: None,
            fault,
        }
    }

    pub(crate) fn is_valid(&self) -> bool {
        self.valid
    }

    /// Moves, and forgets the error of an earlier move.
    fn go(&mut self, go: impl FnOnce(&mut Cursor) -> unikv::Result<bool>) {
        let Some(cursor) = &mut self.cursor else {
            return;
        };
        if self.fault.is_some() {
            self.fault = None;
        }
        self.value = None;
        let moved = go(cursor);
        let read = match moved {
            Ok(true) if self.is_within_bounds() => self.read(),
            Ok(_) => {
                self.valid = false;
                return;
            }
            Err(error) => Err(error),
        };
        self.valid = read.is_ok();
        if let Err(error) = read {
            self.fail(error);
        }
    }

    /// Reads the value of the entry at hand, if that is wanted.
    #[inline]
    fn read(&mut self) -> unikv::Result<()> {
        if !self.values_on_demand
            && let Some(cursor) = &mut self.cursor
        {
            self.value = cursor.value()?;
        }
        Ok(())
    }

    #[cold]
    fn fail(&mut self, error: unikv::Error) {
        self.valid = false;
        let fault = Fault::from(error);
        remember(fault.clone());
        self.fault = Some(fault);
    }

    #[inline]
    fn is_within_bounds(&self) -> bool {
        if self.lower.is_none() && self.upper.is_none() {
            return true;
        }
        let key = self
            .cursor
            .as_ref()
            .and_then(Cursor::key)
            .unwrap_or_default();
        let is_after = self.lower.as_deref().is_none_or(|lower| key >= lower);
        is_after && self.upper.as_deref().is_none_or(|upper| key < upper)
    }

    pub(crate) fn first(&mut self) {
        let lower = self.lower.take();
        self.go(|cursor| match &lower {
            Some(lower) => cursor.seek(lower),
            None => cursor.first(),
        });
        self.lower = lower;
    }

    pub(crate) fn last(&mut self) {
        let upper = self.upper.take();
        let seek = |cursor: &mut Cursor| match &upper {
            // The last key before the bound: that at or before it, or the one before that.
            Some(upper) => match cursor.seek_for_prev(upper)? {
                true if cursor.key() == Some(upper) => cursor.prev(),
                moved => Ok(moved),
            },
            None => cursor.last(),
        };
        // The bound must be there again when the entry is judged.
        let moved = self.cursor.as_mut().map(seek);
        self.upper = upper;
        self.go(|_| moved.unwrap_or(Ok(false)));
    }

    pub(crate) fn seek(&mut self, key: &[u8]) {
        let lower = self.lower.take();
        let from = lower.as_deref().map_or(key, |lower| key.max(lower));
        self.go(|cursor| cursor.seek(from));
        self.lower = lower;
    }

    pub(crate) fn seek_for_prev(&mut self, key: &[u8]) {
        match &self.upper {
            Some(upper) if key >= &upper[..] => self.last(),
            _ => self.go(|cursor| cursor.seek_for_prev(key)),
        }
    }

    #[inline]
    pub(crate) fn next(&mut self) {
        if self.valid {
            self.go(Cursor::next);
        }
    }

    pub(crate) fn prev(&mut self) {
        if self.valid {
            self.go(Cursor::prev);
        }
    }

    pub(crate) fn key(&self) -> Option<&[u8]> {
        let cursor = self.cursor.as_ref().filter(|_| self.valid)?;
        cursor.key()
    }

    /// The value of the entry; if it cannot be read, the iterator is not valid any more.
    pub(crate) fn value(&mut self) -> Option<&[u8]> {
        if !self.valid {
            return None;
        }
        if self.value.is_none() {
            let read = self.cursor.as_mut().map(Cursor::value);
            match read.unwrap_or(Ok(None)) {
                Ok(value) => self.value = value,
                Err(error) => self.fail(error),
            }
        }
        self.value.as_deref()
    }

    /// Shows the database as it is now, and is on no entry.
    pub(crate) fn refresh(&mut self) {
        if let Some(cursor) = &mut self.cursor {
            cursor.refresh();
            (self.valid, self.value, self.fault) = (false, None, None);
        }
    }

    /// The error that made it invalid.
    pub(crate) fn fault(&self) -> Option<&Fault> {
        self.fault.as_ref()
    }
}

/// Bytes that are lent to C.
fn lend(bytes: Option<&[u8]>, len: &Start<usize>) -> Outcome<*const c_char> {
    len.set(bytes.map_or(0, <[u8]>::len))?;
    Ok(bytes.map_or(std::ptr::null(), |bytes| bytes.as_ptr().cast()))
}

capi! { functions:
    /// An iterator over the database as it is now, or over the snapshot of the options. It is not
    /// valid before it is moved to an entry. Not NULL unless the handles are wrong: if there is
    /// another error, `unikv_iter_get_error` returns it.
    fn unikv_create_iterator(
        db: Shared<Database>, options: Optional<ReadOptions>
    ) -> New<Iterator> {
        let cursor = match options {
            None => Ok(read!(db.source(), from, from.cursor())),
            Some(options) => options.source(db).map(|source| {
                let reading = options.engine();
                read!(source, from, from.cursor_with(&reading))
            }),
        };
        New::of(Iterator::new(cursor, options))
    }

    /// Ends an iterator, also after its database was closed.
    fn unikv_iter_destroy(iter: Ending<Iterator>) {
        end(iter);
    }

    /// Whether the iterator is on an entry.
    fn unikv_iter_valid(iter: AloneConst<Iterator>) -> u8 {
        u8::from(iter.is_valid())
    }

    /// Moves to the first entry.
    fn unikv_iter_seek_to_first(iter: Alone<Iterator>) {
        iter.first();
    }

    /// Moves to the last entry.
    fn unikv_iter_seek_to_last(iter: Alone<Iterator>) {
        iter.last();
    }

    /// Moves to the first entry at or after a key.
    fn unikv_iter_seek(iter: Alone<Iterator>, k[klen]: Bytes) {
        iter.seek(k);
    }

    /// Moves to the next entry. An iterator that is not valid stays as it is.
    fn unikv_iter_next(iter: Alone<Iterator>) {
        iter.next();
    }

    /// Moves to the entry before. An iterator that is not valid stays as it is.
    fn unikv_iter_prev(iter: Alone<Iterator>) {
        iter.prev();
    }

    /// The key of the entry, which stays there until the iterator is moved or destroyed; NULL if it
    /// is not valid.
    fn unikv_iter_key(iter: AloneConst<Iterator>, klen: Out<usize>) -> *const c_char {
        lend(iter.key(), &klen)?
    }

    /// The value of the entry, as `unikv_iter_key`.
    fn unikv_iter_value(iter: AloneConst<Iterator>, vlen: Out<usize>) -> *const c_char {
        lend(iter.value(), &vlen)?
    }

    /// The error because of which the iterator is not valid, if there is one, in `*errptr`.
    fn unikv_iter_get_error(iter: AloneConst<Iterator>, errptr: ErrPtr) {
        if let Some(fault) = iter.fault() {
            errptr.set(fault);
        }
    }
}
