//! What iterators can do beyond LevelDB's: bounds, many entries at once, keys alone.

use super::buffers::copy;
use crate::boundary::args::{Alone, Buffer, Bytes, OptionalBytes, Out};
use crate::boundary::capi;
use crate::boundary::fault::{Fault, Outcome};
use crate::leveldb::iterator::Iterator;
use crate::leveldb::reads_and_writes::ReadOptions;
use std::ffi::c_int;
use std::mem::MaybeUninit;

const REVERSE: c_int = 1;
const KEYS_ALONE: c_int = 2;
/// The lengths before each entry.
const HEADER_LEN: usize = 8;

/// The length of a key or a value: neither is as long as 4 GiB.
fn len_bytes(len: usize) -> [u8; 4] {
    u32::try_from(len).unwrap_or(u32::MAX).to_ne_bytes()
}

/// Puts the entry at hand into the buffer at `at`; its length there, also if it has no room.
fn put_entry(
    iter: &mut Iterator,
    keys_alone: bool,
    buffer: &mut [MaybeUninit<u8>],
    at: usize,
) -> Option<usize> {
    let value_len = if keys_alone { 0 } else { iter.value()?.len() };
    let key = iter.key()?;
    let len = HEADER_LEN + key.len() + value_len;
    let Some(room) = buffer.get_mut(at..).filter(|room| room.len() >= len) else {
        return Some(len);
    };
    let mut at = 0;
    let mut put = |bytes: &[u8]| {
        copy(bytes, room.get_mut(at..).unwrap_or_default());
        at += bytes.len();
    };
    put(&len_bytes(key.len()));
    put(&len_bytes(value_len));
    put(key);
    if !keys_alone {
        put(iter.value().unwrap_or_default());
    }
    Some(len)
}

/// Fills the buffer; how many bytes and how many entries.
fn fill(
    iter: &mut Iterator,
    flags: c_int,
    buffer: &mut [MaybeUninit<u8>],
) -> Outcome<(usize, usize)> {
    let (mut bytes, mut entries) = (0, 0);
    while iter.is_valid() {
        let Some(len) = put_entry(iter, flags & KEYS_ALONE != 0, buffer, bytes) else {
            break;
        };
        if bytes + len > buffer.len() {
            // The first entry alone is more than fits: say how much it takes.
            return Ok((if entries == 0 { len } else { bytes }, entries));
        }
        bytes += len;
        entries += 1;
        match flags & REVERSE {
            0 => iter.next(),
            _ => iter.prev(),
        }
    }
    match iter.fault() {
        // What came before the error is handed out first.
        Some(fault) if entries == 0 => Err(fault.clone()),
        _ => Ok((bytes, entries)),
    }
}

capi! { functions:
    /// Has iterators that are made with the options show only keys at or after this one; NULL
    /// stands for all.
    fn unikv_readoptions_set_lower_bound(
        options: Alone<ReadOptions>, key[keylen]: OptionalBytes
    ) {
        options.lower = key.map(<[u8]>::to_vec);
    }

    /// Has iterators that are made with the options show only keys before this one; NULL stands for
    /// all.
    fn unikv_readoptions_set_upper_bound(
        options: Alone<ReadOptions>, key[keylen]: OptionalBytes
    ) {
        options.upper = key.map(<[u8]>::to_vec);
    }

    /// Has iterators read values only when they are asked for (1): for those who want keys. If a
    /// value cannot be read, `unikv_iter_value` returns NULL, and the iterator is not valid any
    /// more.
    fn unikv_readoptions_set_values_on_demand(options: Alone<ReadOptions>, yes: u8) {
        options.values_on_demand = yes != 0;
    }

    /// Moves to the last entry at or before a key.
    fn unikv_iter_seek_for_prev(iter: Alone<Iterator>, k[klen]: Bytes) {
        iter.seek_for_prev(k);
    }

    /// Shows the database as it is now. The iterator is not valid before it is moved with a seek.
    fn unikv_iter_refresh(iter: Alone<Iterator>) {
        iter.refresh();
    }

    /// Copies entries from the one at hand on, as many as `buffer` has room for, and moves behind
    /// them: in one call what many calls of `unikv_iter_next`, `_key` and `_value` do. Each entry
    /// is the length of its key and that of its value, 4 bytes each in the machine's order, then
    /// the key and the value. Returns how many bytes were written, and in `*entries` how many
    /// entries: none at the end, where the iterator is not valid. If there is no room for even one,
    /// the bytes that it takes are returned, with 0 in `*entries`. `flags`: 1 to go backward, 2 for
    /// keys without values. On failure 0; entries before the damage are returned first.
    fn unikv_iter_fill(
        iter: Alone<Iterator>, flags: c_int, buffer[capacity]: Buffer,
        entries: Out<usize>; errptr
    ) -> usize {
        entries.set(0)?;
        if flags & !(REVERSE | KEYS_ALONE) != 0 {
            return Err(Fault::misuse("there is no such flag", "use 1, 2 or both"));
        }
        let (bytes, count) = fill(&mut iter, flags, buffer)?;
        entries.set(count)?;
        bytes
    }
}
