//! The first and the last entry: reading them, and removing them.

use crate::boundary::args::{Optional, OptionalBytes, Out, Shared, Start};
use crate::boundary::capi;
use crate::boundary::fault::Outcome;
use crate::boundary::memory::{free, malloc_copy};
use crate::leveldb::database::{Database, range};
use crate::leveldb::reads_and_writes::{ReadOptions, WriteOptions, read};
use crate::more::compare::in_keyspace;
use std::ffi::c_char;
use std::ptr;
use unikv::Bytes;

/// Where an entry goes.
struct Places {
    key: Start<*mut c_char>,
    key_len: Start<usize>,
    value: Start<*mut c_char>,
    value_len: Start<usize>,
}

impl Places {
    /// With nothing there yet.
    fn of(
        key: Start<*mut c_char>,
        key_len: Start<usize>,
        value: Start<*mut c_char>,
        value_len: Start<usize>,
    ) -> Outcome<Places> {
        let places = Places {
            key,
            key_len,
            value,
            value_len,
        };
        places.set((ptr::null_mut(), 0), (ptr::null_mut(), 0))?;
        Ok(places)
    }

    /// Puts an entry there, in memory from `malloc`; 1 if there is one.
    fn fill(&self, entry: Option<(Bytes, Bytes)>) -> Outcome<u8> {
        let Some((key, value)) = entry else {
            return Ok(0);
        };
        let of_key = malloc_copy(&key)?;
        let of_value = malloc_copy(&value).inspect_err(|_| free(of_key.cast()))?;
        self.set((of_key, key.len()), (of_value, value.len()))?;
        Ok(1)
    }

    fn set(&self, key: (*mut c_char, usize), value: (*mut c_char, usize)) -> Outcome<()> {
        self.key.set(key.0)?;
        self.key_len.set(key.1)?;
        self.value.set(value.0)?;
        self.value_len.set(value.1)
    }
}

/// The entry at one end of what the options show.
fn read_end(
    db: &Database,
    options: Option<&ReadOptions>,
    last: bool,
) -> Outcome<Option<(Bytes, Bytes)>> {
    let mut entries = match options {
        None => read!(db.source(), from, from.iter()),
        Some(options) => {
            let shown = options.within_bounds();
            read!(options.source(db)?, from, from.iter_with(&shown))
        }
    };
    let entry = if last {
        entries.next_back()
    } else {
        entries.next()
    };
    Ok(entry.transpose()?)
}

capi! { functions:
    /// The entry with the least key, within the bounds of the options: key and value in memory that
    /// the caller frees, with their lengths. 1 if there is one; else, and on failure, 0, and NULL
    /// and 0 are put into all four places.
    fn unikv_first_key_value(
        db: Shared<Database>, options: Optional<ReadOptions>, key: Out<*mut c_char>,
        keylen: Out<usize>, val: Out<*mut c_char>, vallen: Out<usize>; errptr
    ) -> u8 {
        let places = Places::of(key, keylen, val, vallen)?;
        places.fill(read_end(db, options, false)?)?
    }

    /// The entry with the greatest key, as `unikv_first_key_value`.
    fn unikv_last_key_value(
        db: Shared<Database>, options: Optional<ReadOptions>, key: Out<*mut c_char>,
        keylen: Out<usize>, val: Out<*mut c_char>, vallen: Out<usize>; errptr
    ) -> u8 {
        let places = Places::of(key, keylen, val, vallen)?;
        places.fill(read_end(db, options, true)?)?
    }

    /// Removes the entry with the least key, and hands it out as `unikv_first_key_value` does. Each
    /// entry is taken once, however many threads take entries. Of the options the keyspace counts.
    /// If malloc fails, the entry has been removed.
    fn unikv_pop_first(
        db: Shared<Database>, options: Optional<WriteOptions>, key: Out<*mut c_char>,
        keylen: Out<usize>, val: Out<*mut c_char>, vallen: Out<usize>; errptr
    ) -> u8 {
        let places = Places::of(key, keylen, val, vallen)?;
        places.fill(in_keyspace!(db, options, from, from.pop_first()?))?
    }

    /// Removes the entry with the greatest key, as `unikv_pop_first`.
    fn unikv_pop_last(
        db: Shared<Database>, options: Optional<WriteOptions>, key: Out<*mut c_char>,
        keylen: Out<usize>, val: Out<*mut c_char>, vallen: Out<usize>; errptr
    ) -> u8 {
        let places = Places::of(key, keylen, val, vallen)?;
        places.fill(in_keyspace!(db, options, from, from.pop_last()?))?
    }

    /// As `unikv_pop_first`, of the keys from `start` to before `limit`; NULL stands for the first
    /// key, or for the end.
    fn unikv_pop_first_in_range(
        db: Shared<Database>, options: Optional<WriteOptions>,
        start[startlen]: OptionalBytes, limit[limitlen]: OptionalBytes, key: Out<*mut c_char>,
        keylen: Out<usize>, val: Out<*mut c_char>, vallen: Out<usize>; errptr
    ) -> u8 {
        let (places, keys) = (Places::of(key, keylen, val, vallen)?, range(start, limit));
        places.fill(in_keyspace!(db, options, from, from.pop_first_in_range(keys)?))?
    }

    /// As `unikv_pop_last`, of the keys from `start` to before `limit`; NULL stands for the first
    /// key, or for the end.
    fn unikv_pop_last_in_range(
        db: Shared<Database>, options: Optional<WriteOptions>,
        start[startlen]: OptionalBytes, limit[limitlen]: OptionalBytes, key: Out<*mut c_char>,
        keylen: Out<usize>, val: Out<*mut c_char>, vallen: Out<usize>; errptr
    ) -> u8 {
        let (places, keys) = (Places::of(key, keylen, val, vallen)?, range(start, limit));
        places.fill(in_keyspace!(db, options, from, from.pop_last_in_range(keys)?))?
    }
}
