//! The C interface of go/main.go, behind a type that closes what it has opened.

#![allow(unsafe_code, reason = "this module is the binding")]

use std::cell::RefCell;
use std::ffi::{CStr, CString, c_char, c_int, c_void};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::ptr;

/// The text of an error, or null.
type Error = *mut c_char;

unsafe extern "C" {
    fn peer_open(
        name: *const c_char,
        dir: *const c_char,
        create: c_int,
        sync: c_int,
        memtable: i64,
        memtables: i64,
        cache: i64,
        handle: *mut usize,
    ) -> Error;
    fn peer_close(handle: usize) -> Error;
    fn peer_put(
        handle: usize,
        key: *const c_char,
        key_len: usize,
        value: *const c_char,
        value_len: usize,
    ) -> Error;
    fn peer_write(handle: usize, batch: *const c_char, batch_len: usize) -> Error;
    fn peer_get(
        handle: usize,
        key: *const c_char,
        key_len: usize,
        buffer: *mut c_char,
        buffer_len: usize,
        found: *mut i64,
    ) -> Error;
    fn peer_scan(
        handle: usize,
        from: *const c_char,
        from_len: usize,
        backwards: c_int,
        limit: usize,
        buffer: *mut c_char,
        buffer_len: usize,
        count: *mut usize,
        needed: *mut usize,
    ) -> Error;
    fn peer_flush(handle: usize) -> Error;
    fn peer_tidy(handle: usize) -> Error;
    fn free(memory: *mut c_void);
}

/// The lengths of key and value before each entry in a buffer.
const HEAD_LEN: usize = 8;
/// A value of this length is none: a delete.
const NO_VALUE: u32 = u32::MAX;

thread_local! {
    /// What a call reads into.
    static BUFFER: RefCell<Vec<u8>> = RefCell::new(vec![0; 1 << 20]);
}

/// What a store is opened with.
#[derive(Clone)]
pub struct Options {
    pub name: &'static CStr,
    pub memtable_bytes: u64,
    pub memtables: u64,
    pub cache_bytes: u64,
    pub sync: bool,
}

/// An error as text; it frees the error.
fn outcome(error: Error) -> Result<(), String> {
    if error.is_null() {
        return Ok(());
    }
    // SAFETY: a non-null error is a string that ends with a zero, made by `malloc` and ours to
    // free.
    let text = unsafe { CStr::from_ptr(error) }
        .to_string_lossy()
        .into_owned();
    // SAFETY: as above; nothing refers to it any more.
    unsafe { free(error.cast()) };
    Err(text)
}

fn chars(bytes: &[u8]) -> *const c_char {
    bytes.as_ptr().cast()
}

/// Appends an entry as a batch has it.
pub fn push(batch: &mut Vec<u8>, key: &[u8], value: Option<&[u8]>) {
    let value_len = value.map_or(NO_VALUE, |value| value.len() as u32);
    batch.extend_from_slice(&(key.len() as u32).to_le_bytes());
    batch.extend_from_slice(&value_len.to_le_bytes());
    batch.extend_from_slice(key);
    batch.extend_from_slice(value.unwrap_or_default());
}

/// The entries at the front of a buffer.
struct Entries<'a>(&'a [u8]);

impl<'a> Iterator for Entries<'a> {
    type Item = (&'a [u8], &'a [u8]);

    fn next(&mut self) -> Option<Self::Item> {
        let (head, rest) = self.0.split_first_chunk::<HEAD_LEN>()?;
        let [k0, k1, k2, k3, v0, v1, v2, v3] = *head;
        let (key, rest) = rest.split_at_checked(u32::from_le_bytes([k0, k1, k2, k3]) as usize)?;
        let (value, rest) = rest.split_at_checked(u32::from_le_bytes([v0, v1, v2, v3]) as usize)?;
        self.0 = rest;
        Some((key, value))
    }
}

/// An open store: a handle, which any thread may use.
pub struct Db(usize);

impl Db {
    pub fn open(dir: &Path, options: &Options, create: bool) -> Result<Db, String> {
        let dir = CString::new(dir.as_os_str().as_bytes()).map_err(|error| error.to_string())?;
        let mut handle = 0;
        // SAFETY: both strings end with a zero and are copied; the handle is ours.
        let error = unsafe {
            peer_open(
                options.name.as_ptr(),
                dir.as_ptr(),
                create.into(),
                options.sync.into(),
                options.memtable_bytes as i64,
                options.memtables as i64,
                options.cache_bytes as i64,
                &raw mut handle,
            )
        };
        outcome(error).map(|()| Db(handle))
    }

    pub fn put(&self, key: &[u8], value: &[u8]) -> Result<(), String> {
        // SAFETY: the store is open; lengths are those of the slices, of which it keeps nothing.
        let error = unsafe { peer_put(self.0, chars(key), key.len(), chars(value), value.len()) };
        outcome(error)
    }

    /// Writes what [`push`] has put together.
    pub fn write(&self, batch: &[u8]) -> Result<(), String> {
        // SAFETY: as for `put`.
        outcome(unsafe { peer_write(self.0, chars(batch), batch.len()) })
    }

    pub fn get<R>(&self, key: &[u8], found: impl FnOnce(&[u8]) -> R) -> Result<Option<R>, String> {
        BUFFER.with_borrow_mut(|buffer| {
            loop {
                let mut len = 0;
                let (to, room) = (buffer.as_mut_ptr().cast(), buffer.len());
                // SAFETY: as for `put`; no more than `room` bytes are written to `to`.
                let error =
                    unsafe { peer_get(self.0, chars(key), key.len(), to, room, &raw mut len) };
                outcome(error)?;
                let Ok(len) = usize::try_from(len) else {
                    return Ok(None);
                };
                if let Some(value) = buffer.get(..len) {
                    return Ok(Some(found(value)));
                }
                buffer.resize(len.next_power_of_two(), 0);
            }
        })
    }

    /// Gives at most `limit` entries to `visit`, whose own failure ends the scan. A scan that does
    /// not fit into the buffer goes on, from its last key, as another.
    pub fn scan<E>(
        &self,
        from: Option<&[u8]>,
        backwards: bool,
        limit: usize,
        mut visit: impl FnMut(&[u8], &[u8]) -> Result<(), E>,
    ) -> Result<Result<(), E>, String> {
        let (mut from, mut left, mut again) = (from.map(<[u8]>::to_vec), limit, 0);
        BUFFER.with_borrow_mut(|buffer| {
            while left > 0 {
                let asked = left.saturating_add(again);
                let (count, needed) = self.read(from.as_deref(), backwards, asked, buffer)?;
                let mut entries = Entries(buffer);
                for nth in 0..count {
                    let (key, value) = entries.next().ok_or("an entry is cut short")?;
                    if nth < again {
                        continue;
                    }
                    let visited = visit(key, value);
                    if visited.is_err() {
                        return Ok(visited);
                    }
                    left -= 1;
                    if nth + 1 == count {
                        from = Some(key.to_vec());
                    }
                }
                if needed == 0 {
                    break;
                }
                if count == again {
                    buffer.resize(needed.next_power_of_two(), 0);
                } else {
                    again = 1;
                }
            }
            Ok(Ok(()))
        })
    }

    /// Fills `buffer` with entries: how many there are, and, if there would be more and at most
    /// `limit`, how long it must be for one more.
    fn read(
        &self,
        from: Option<&[u8]>,
        backwards: bool,
        limit: usize,
        buffer: &mut [u8],
    ) -> Result<(usize, usize), String> {
        let (mut count, mut needed) = (0, 0);
        let (at, at_len) = from.map_or((ptr::null(), 0), |key| (chars(key), key.len()));
        // SAFETY: as for `get`; a null key stands for the end of all keys.
        let error = unsafe {
            peer_scan(
                self.0,
                at,
                at_len,
                backwards.into(),
                limit.min(c_int::MAX as usize),
                buffer.as_mut_ptr().cast(),
                buffer.len(),
                &raw mut count,
                &raw mut needed,
            )
        };
        outcome(error).map(|()| (count, needed))
    }

    pub fn flush(&self) -> Result<(), String> {
        // SAFETY: the store is open.
        outcome(unsafe { peer_flush(self.0) })
    }

    /// Lets the store do what it does on request only.
    pub fn tidy(&self) -> Result<(), String> {
        // SAFETY: the store is open.
        outcome(unsafe { peer_tidy(self.0) })
    }

    pub fn close(mut self) -> Result<(), String> {
        self.close_once()
    }

    fn close_once(&mut self) -> Result<(), String> {
        match std::mem::take(&mut self.0) {
            0 => Ok(()),
            // SAFETY: the store is open, and the handle, which is never 0, is not used again.
            handle => outcome(unsafe { peer_close(handle) }),
        }
    }
}

impl Drop for Db {
    fn drop(&mut self) {
        // Who wants to know closes it.
        let _ = self.close_once();
    }
}
