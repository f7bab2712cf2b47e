//! The C interface of LevelDB (`leveldb/c.h`), as much of it as the suite needs, behind types that
//! free what they own.

#![allow(unsafe_code, reason = "this module is the binding")]

use std::ffi::{CStr, CString, c_char, c_int, c_uchar, c_void};
use std::marker::PhantomData;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::ptr::{self, NonNull};

/// One of the library's own types, seen through a pointer only.
type Opaque = c_void;
type Error = *mut c_char;

#[link(name = "leveldb")]
unsafe extern "C" {
    fn leveldb_open(options: *const Opaque, name: *const c_char, error: *mut Error) -> *mut Opaque;
    fn leveldb_close(db: *mut Opaque);
    fn leveldb_put(
        db: *mut Opaque,
        options: *const Opaque,
        key: *const c_char,
        key_len: usize,
        value: *const c_char,
        value_len: usize,
        error: *mut Error,
    );
    fn leveldb_delete(
        db: *mut Opaque,
        options: *const Opaque,
        key: *const c_char,
        key_len: usize,
        error: *mut Error,
    );
    fn leveldb_write(
        db: *mut Opaque,
        options: *const Opaque,
        batch: *mut Opaque,
        error: *mut Error,
    );
    fn leveldb_get(
        db: *mut Opaque,
        options: *const Opaque,
        key: *const c_char,
        key_len: usize,
        value_len: *mut usize,
        error: *mut Error,
    ) -> *mut c_char;
    fn leveldb_compact_range(
        db: *mut Opaque,
        start: *const c_char,
        start_len: usize,
        limit: *const c_char,
        limit_len: usize,
    );
    fn leveldb_create_iterator(db: *mut Opaque, options: *const Opaque) -> *mut Opaque;
    fn leveldb_iter_destroy(iterator: *mut Opaque);
    fn leveldb_iter_valid(iterator: *const Opaque) -> c_uchar;
    fn leveldb_iter_seek_to_first(iterator: *mut Opaque);
    fn leveldb_iter_seek_to_last(iterator: *mut Opaque);
    fn leveldb_iter_seek(iterator: *mut Opaque, key: *const c_char, key_len: usize);
    fn leveldb_iter_next(iterator: *mut Opaque);
    fn leveldb_iter_prev(iterator: *mut Opaque);
    fn leveldb_iter_key(iterator: *const Opaque, len: *mut usize) -> *const c_char;
    fn leveldb_iter_value(iterator: *const Opaque, len: *mut usize) -> *const c_char;
    fn leveldb_iter_get_error(iterator: *const Opaque, error: *mut Error);
    fn leveldb_writebatch_create() -> *mut Opaque;
    fn leveldb_writebatch_destroy(batch: *mut Opaque);
    fn leveldb_writebatch_put(
        batch: *mut Opaque,
        key: *const c_char,
        key_len: usize,
        value: *const c_char,
        value_len: usize,
    );
    fn leveldb_writebatch_delete(batch: *mut Opaque, key: *const c_char, key_len: usize);
    fn leveldb_options_create() -> *mut Opaque;
    fn leveldb_options_destroy(options: *mut Opaque);
    fn leveldb_options_set_create_if_missing(options: *mut Opaque, yes: c_uchar);
    fn leveldb_options_set_write_buffer_size(options: *mut Opaque, bytes: usize);
    fn leveldb_options_set_max_open_files(options: *mut Opaque, files: c_int);
    fn leveldb_options_set_cache(options: *mut Opaque, cache: *mut Opaque);
    fn leveldb_options_set_filter_policy(options: *mut Opaque, policy: *mut Opaque);
    fn leveldb_options_set_compression(options: *mut Opaque, kind: c_int);
    fn leveldb_filterpolicy_create_bloom(bits_per_key: c_int) -> *mut Opaque;
    fn leveldb_filterpolicy_destroy(policy: *mut Opaque);
    fn leveldb_cache_create_lru(bytes: usize) -> *mut Opaque;
    fn leveldb_cache_destroy(cache: *mut Opaque);
    fn leveldb_readoptions_create() -> *mut Opaque;
    fn leveldb_readoptions_destroy(options: *mut Opaque);
    fn leveldb_writeoptions_create() -> *mut Opaque;
    fn leveldb_writeoptions_destroy(options: *mut Opaque);
    fn leveldb_writeoptions_set_sync(options: *mut Opaque, yes: c_uchar);
    fn leveldb_free(memory: *mut c_void);
    fn leveldb_major_version() -> c_int;
    fn leveldb_minor_version() -> c_int;
}

const NO_COMPRESSION: c_int = 0;

/// What the library is opened with.
#[derive(Clone)]
pub struct Options {
    pub create_if_missing: bool,
    pub write_buffer_bytes: usize,
    pub cache_bytes: usize,
    pub open_files: c_int,
    pub bloom_bits: c_int,
    pub sync: bool,
}

/// Major and minor version of the library.
pub fn version() -> (c_int, c_int) {
    // SAFETY: both functions take nothing and have no effect.
    unsafe { (leveldb_major_version(), leveldb_minor_version()) }
}

/// An error that the library has handed out, as text; it frees the error.
fn outcome(error: Error) -> Result<(), String> {
    if error.is_null() {
        return Ok(());
    }
    // SAFETY: a non-null error is a string that ends with a zero, ours to free, once.
    let text = unsafe { CStr::from_ptr(error) }
        .to_string_lossy()
        .into_owned();
    // SAFETY: as above; nothing refers to it any more.
    unsafe { leveldb_free(error.cast()) };
    Err(text)
}

fn chars(bytes: &[u8]) -> *const c_char {
    bytes.as_ptr().cast()
}

/// An open database and all that it needs while it is open.
pub struct Db {
    db: NonNull<Opaque>,
    options: *mut Opaque,
    cache: *mut Opaque,
    filter: *mut Opaque,
    read: *mut Opaque,
    write: *mut Opaque,
}

// SAFETY: the library allows any thread to use an open database without locks of the caller; the
// options are only read once it is open.
unsafe impl Send for Db {}
// SAFETY: as above.
unsafe impl Sync for Db {}

impl Db {
    pub fn open(dir: &Path, setup: &Options) -> Result<Db, String> {
        let name = CString::new(dir.as_os_str().as_bytes()).map_err(|error| error.to_string())?;
        // SAFETY: the constructors take plain numbers and give objects of their own, which are
        // freed below or when the database is dropped; the setters keep pointers to the cache and
        // the filter, which live as long as the options.
        unsafe {
            let options = leveldb_options_create();
            let cache = leveldb_cache_create_lru(setup.cache_bytes);
            let filter = leveldb_filterpolicy_create_bloom(setup.bloom_bits);
            leveldb_options_set_create_if_missing(options, setup.create_if_missing.into());
            leveldb_options_set_write_buffer_size(options, setup.write_buffer_bytes);
            leveldb_options_set_max_open_files(options, setup.open_files);
            leveldb_options_set_cache(options, cache);
            leveldb_options_set_filter_policy(options, filter);
            leveldb_options_set_compression(options, NO_COMPRESSION);
            let mut error = ptr::null_mut();
            let db = leveldb_open(options, name.as_ptr(), &raw mut error);
            let opened = outcome(error).and(NonNull::new(db).ok_or_else(|| "no handle".to_owned()));
            let Ok(db) = opened else {
                leveldb_options_destroy(options);
                leveldb_cache_destroy(cache);
                leveldb_filterpolicy_destroy(filter);
                return Err(opened.err().unwrap_or_default());
            };
            let write = leveldb_writeoptions_create();
            leveldb_writeoptions_set_sync(write, setup.sync.into());
            Ok(Db {
                db,
                options,
                cache,
                filter,
                read: leveldb_readoptions_create(),
                write,
            })
        }
    }

    pub fn put(&self, key: &[u8], value: &[u8]) -> Result<(), String> {
        let mut error = ptr::null_mut();
        // SAFETY: the database is open; lengths are those of the slices; the call copies both.
        unsafe {
            leveldb_put(
                self.db.as_ptr(),
                self.write,
                chars(key),
                key.len(),
                chars(value),
                value.len(),
                &raw mut error,
            );
        }
        outcome(error)
    }

    pub fn delete(&self, key: &[u8]) -> Result<(), String> {
        let mut error = ptr::null_mut();
        let db = self.db.as_ptr();
        // SAFETY: as for `put`.
        unsafe { leveldb_delete(db, self.write, chars(key), key.len(), &raw mut error) };
        outcome(error)
    }

    pub fn write(&self, batch: &Batch) -> Result<(), String> {
        let mut error = ptr::null_mut();
        // SAFETY: the database is open and the batch alive; the call only reads it.
        unsafe { leveldb_write(self.db.as_ptr(), self.write, batch.0, &raw mut error) };
        outcome(error)
    }

    pub fn get<R>(&self, key: &[u8], found: impl FnOnce(&[u8]) -> R) -> Result<Option<R>, String> {
        let (mut error, mut len) = (ptr::null_mut(), 0);
        let db = self.db.as_ptr();
        // SAFETY: as for `put`; what comes back is ours to free.
        let value = unsafe {
            leveldb_get(
                db,
                self.read,
                chars(key),
                key.len(),
                &raw mut len,
                &raw mut error,
            )
        };
        outcome(error)?;
        if value.is_null() {
            return Ok(None);
        }
        let value = Value(value, len);
        Ok(Some(found(value.bytes())))
    }

    pub fn compact(&self) {
        // SAFETY: null stands for both ends of the range.
        unsafe { leveldb_compact_range(self.db.as_ptr(), ptr::null(), 0, ptr::null(), 0) };
    }

    pub fn cursor(&self) -> Cursor<'_> {
        // SAFETY: the cursor borrows the database, so it is gone before the database is closed.
        let iterator = unsafe { leveldb_create_iterator(self.db.as_ptr(), self.read) };
        Cursor(iterator, PhantomData)
    }
}

impl Drop for Db {
    fn drop(&mut self) {
        // SAFETY: each is alive and freed once; the database goes first, as it uses the others.
        unsafe {
            leveldb_close(self.db.as_ptr());
            leveldb_options_destroy(self.options);
            leveldb_cache_destroy(self.cache);
            leveldb_filterpolicy_destroy(self.filter);
            leveldb_readoptions_destroy(self.read);
            leveldb_writeoptions_destroy(self.write);
        }
    }
}

/// A value that the library has allocated.
struct Value(*mut c_char, usize);

impl Value {
    fn bytes(&self) -> &[u8] {
        // SAFETY: the library gave the pointer with this length, and it is freed in `drop` only.
        unsafe { std::slice::from_raw_parts(self.0.cast(), self.1) }
    }
}

impl Drop for Value {
    fn drop(&mut self) {
        // SAFETY: it is ours, and freed once.
        unsafe { leveldb_free(self.0.cast()) };
    }
}

/// A batch of writes.
pub struct Batch(*mut Opaque);

impl Batch {
    pub fn new() -> Batch {
        // SAFETY: takes nothing; freed in `drop`.
        Batch(unsafe { leveldb_writebatch_create() })
    }

    pub fn put(&mut self, key: &[u8], value: &[u8]) {
        // SAFETY: lengths are those of the slices; the call copies both.
        unsafe {
            leveldb_writebatch_put(self.0, chars(key), key.len(), chars(value), value.len());
        }
    }

    pub fn delete(&mut self, key: &[u8]) {
        // SAFETY: as for `put`.
        unsafe { leveldb_writebatch_delete(self.0, chars(key), key.len()) };
    }
}

impl Drop for Batch {
    fn drop(&mut self) {
        // SAFETY: it is alive, and freed once.
        unsafe { leveldb_writebatch_destroy(self.0) };
    }
}

/// A place in an open database.
pub struct Cursor<'a>(*mut Opaque, PhantomData<&'a Db>);

impl Cursor<'_> {
    pub fn seek(&mut self, key: &[u8]) {
        // SAFETY: the iterator is alive as long as `self`; the call copies the key.
        unsafe { leveldb_iter_seek(self.0, chars(key), key.len()) };
    }

    pub fn seek_to_first(&mut self) {
        // SAFETY: as for `seek`.
        unsafe { leveldb_iter_seek_to_first(self.0) };
    }

    pub fn seek_to_last(&mut self) {
        // SAFETY: as for `seek`.
        unsafe { leveldb_iter_seek_to_last(self.0) };
    }

    /// To the next entry; only where there is an entry.
    pub fn next(&mut self) {
        if self.is_valid() {
            // SAFETY: as for `seek`, and the iterator is at an entry, as the library demands.
            unsafe { leveldb_iter_next(self.0) };
        }
    }

    /// To the entry before; only where there is an entry.
    pub fn prev(&mut self) {
        if self.is_valid() {
            // SAFETY: as for `next`.
            unsafe { leveldb_iter_prev(self.0) };
        }
    }

    fn is_valid(&self) -> bool {
        // SAFETY: as for `seek`.
        unsafe { leveldb_iter_valid(self.0) != 0 }
    }

    /// Key and value here, until the cursor moves.
    pub fn entry(&self) -> Option<(&[u8], &[u8])> {
        if !self.is_valid() {
            return None;
        }
        let (mut key_len, mut value_len) = (0, 0);
        // SAFETY: the iterator is at an entry; both slices live until it moves, which needs `&mut
        // self`.
        unsafe {
            let key = leveldb_iter_key(self.0, &raw mut key_len);
            let value = leveldb_iter_value(self.0, &raw mut value_len);
            Some((
                std::slice::from_raw_parts(key.cast(), key_len),
                std::slice::from_raw_parts(value.cast(), value_len),
            ))
        }
    }

    /// What went wrong on the way, if anything did.
    pub fn status(&self) -> Result<(), String> {
        let mut error = ptr::null_mut();
        // SAFETY: as for `seek`.
        unsafe { leveldb_iter_get_error(self.0, &raw mut error) };
        outcome(error)
    }
}

impl Drop for Cursor<'_> {
    fn drop(&mut self) {
        // SAFETY: it is alive, and freed once.
        unsafe { leveldb_iter_destroy(self.0) };
    }
}
