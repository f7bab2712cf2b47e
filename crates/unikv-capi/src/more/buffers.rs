//! Reads into memory of the caller's, one or many at a time.

use crate::boundary::args::{Array, ArrayOut, Buffer, Bytes, Optional, Out, Shared, strings};
use crate::boundary::capi;
use crate::leveldb::database::Database;
use crate::leveldb::reads_and_writes::{ReadOptions, get, read};
use std::ffi::c_char;
use std::mem::MaybeUninit;

/// What the options say is read from.
macro_rules! source {
    ($db:ident, $options:ident) => {
        match $options {
            None => $db.source(),
            Some(options) => options.source($db)?,
        }
    };
}

/// Copies as much as there is room for.
#[inline]
pub(crate) fn copy(value: &[u8], buffer: &mut [MaybeUninit<u8>]) {
    for (to, byte) in buffer.iter_mut().zip(value) {
        to.write(*byte);
    }
}

capi! { functions:
    /// Copies the value of a key into `buffer`, at most `capacity` bytes of it, and its whole
    /// length into `*vallen`. 1 if it has one; else, and on failure, 0. No memory is allocated for
    /// C.
    fn unikv_get_into(
        db: Shared<Database>, options: Optional<ReadOptions>, key[keylen]: Bytes,
        buffer[capacity]: Buffer, vallen: Out<usize>; errptr
    ) -> u8 {
        let value = get(db, options, key)?;
        vallen.set(value.as_ref().map_or(0, |value| value.len()))?;
        if let Some(value) = &value {
            copy(value, buffer);
        }
        u8::from(value.is_some())
    }

    /// As `unikv_get_into`, of the bytes of the value from `offset` on; `*vallen` is how many were
    /// copied, 0 past the end. Of a large value little more is read than these.
    fn unikv_get_range_into(
        db: Shared<Database>, options: Optional<ReadOptions>, key[keylen]: Bytes,
        offset: u64, buffer[capacity]: Buffer, vallen: Out<usize>; errptr
    ) -> u8 {
        let start = usize::try_from(offset).unwrap_or(usize::MAX);
        let range = start..start.saturating_add(buffer.len());
        let part = read!(source!(db, options), from, from.get_range(key, range)?);
        vallen.set(part.as_ref().map_or(0, |part| part.len()))?;
        if let Some(part) = &part {
            copy(part, buffer);
        }
        u8::from(part.is_some())
    }

    /// The values of `count` keys, all as of one moment, one after the other in `buffer`; the
    /// length of each in `vallens[i]`, `SIZE_MAX` where the key has none. Returns their length in
    /// all: if it is more than `capacity`, nothing was copied. What is not in memory the device
    /// reads for many keys at once. 0 on failure.
    fn unikv_multi_get(
        db: Shared<Database>, options: Optional<ReadOptions>, count: usize,
        keys: Array<*const c_char>, keylens: Array<usize>,
        buffer[capacity]: Buffer, vallens: ArrayOut<usize>; errptr
    ) -> usize {
        let keys = strings(count, &keys, &keylens)?;
        let values = read!(source!(db, options), from, from.multi_get(&keys)?);
        let lens = values.iter().map(|value| value.as_ref().map(|value| value.len()));
        vallens.write(lens.clone().map(|len| len.unwrap_or(usize::MAX)))?;
        let total = lens.flatten().sum();
        if total <= buffer.len() {
            let mut at = 0;
            for value in values.iter().flatten() {
                copy(value, buffer.get_mut(at..).unwrap_or_default());
                at += value.len();
            }
        }
        total
    }

    /// Whether a key has a value, without reading it.
    fn unikv_contains(
        db: Shared<Database>, options: Optional<ReadOptions>, key[keylen]: Bytes; errptr
    ) -> u8 {
        u8::from(read!(source!(db, options), from, from.contains_key(key)?))
    }

    /// The length of the value of a key in `*vallen`, without reading it. 1 if it has one.
    fn unikv_value_length(
        db: Shared<Database>, options: Optional<ReadOptions>, key[keylen]: Bytes,
        vallen: Out<usize>; errptr
    ) -> u8 {
        let len = read!(source!(db, options), from, from.value_len(key)?);
        vallen.set(len.unwrap_or(0))?;
        u8::from(len.is_some())
    }
}
