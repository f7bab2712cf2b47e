//! LevelDB through its C interface, since what wraps it for Rust ends an iterator at an error as it
//! does at the end.

use crate::{Outcome, Record, Source};
use std::ffi::{CStr, CString, c_char, c_void};
use std::path::Path;
use std::ptr::{NonNull, null_mut};

#[link(name = "leveldb")]
unsafe extern "C" {
    fn leveldb_options_create() -> *mut c_void;
    fn leveldb_options_set_create_if_missing(options: *mut c_void, yes: u8);
    fn leveldb_options_set_paranoid_checks(options: *mut c_void, yes: u8);
    fn leveldb_options_destroy(options: *mut c_void);
    fn leveldb_open(
        options: *const c_void,
        name: *const c_char,
        error: *mut *mut c_char,
    ) -> *mut c_void;
    fn leveldb_close(db: *mut c_void);
    fn leveldb_readoptions_create() -> *mut c_void;
    fn leveldb_readoptions_set_verify_checksums(options: *mut c_void, yes: u8);
    fn leveldb_readoptions_set_fill_cache(options: *mut c_void, yes: u8);
    fn leveldb_readoptions_destroy(options: *mut c_void);
    fn leveldb_create_iterator(db: *mut c_void, options: *const c_void) -> *mut c_void;
    fn leveldb_iter_seek_to_first(iterator: *mut c_void);
    fn leveldb_iter_valid(iterator: *const c_void) -> u8;
    fn leveldb_iter_next(iterator: *mut c_void);
    fn leveldb_iter_key(iterator: *const c_void, len: *mut usize) -> *const c_char;
    fn leveldb_iter_value(iterator: *const c_void, len: *mut usize) -> *const c_char;
    fn leveldb_iter_get_error(iterator: *const c_void, error: *mut *mut c_char);
    fn leveldb_iter_destroy(iterator: *mut c_void);
    fn leveldb_free(memory: *mut c_void);
}

pub(crate) struct LevelDb {
    db: NonNull<c_void>,
}

impl LevelDb {
    pub(crate) fn open(path: &Path) -> Outcome<LevelDb> {
        let path = CString::new(path.as_os_str().as_encoded_bytes())?;
        let mut error = null_mut();
        // SAFETY: the options are made and freed here, the path ends with a zero byte, and the
        // error is read once.
        let db = unsafe {
            let options = leveldb_options_create();
            leveldb_options_set_create_if_missing(options, 0);
            leveldb_options_set_paranoid_checks(options, 1);
            let db = leveldb_open(options, path.as_ptr(), &raw mut error);
            leveldb_options_destroy(options);
            taken(error)?;
            db
        };
        let db = NonNull::new(db).ok_or("LevelDB opened nothing")?;
        Ok(LevelDb { db })
    }
}

impl Drop for LevelDb {
    fn drop(&mut self) {
        // SAFETY: it is open, and iterators borrow it, so there are none.
        unsafe { leveldb_close(self.db.as_ptr()) }
    }
}

/// The error that a call has left.
///
/// # Safety
/// `error` is null or a string that LevelDB has allocated and nobody has freed.
unsafe fn taken(error: *mut c_char) -> Outcome<()> {
    if error.is_null() {
        return Ok(());
    }
    // SAFETY: as the caller promises.
    let text = unsafe { CStr::from_ptr(error) };
    let text = text.to_string_lossy().into_owned();
    // SAFETY: it is not used again.
    unsafe { leveldb_free(error.cast()) };
    Err(text.into())
}

impl Source for LevelDb {
    fn keyspaces(&self) -> Outcome<Vec<String>> {
        Ok(vec!["default".to_owned()])
    }

    fn records(&self, _: &str) -> Outcome<Box<dyn Iterator<Item = Outcome<Record>> + '_>> {
        // SAFETY: the iterator copies the options; the database outlives it by the borrow.
        let iterator = unsafe {
            let options = leveldb_readoptions_create();
            leveldb_readoptions_set_verify_checksums(options, 1);
            leveldb_readoptions_set_fill_cache(options, 0);
            let iterator = leveldb_create_iterator(self.db.as_ptr(), options);
            leveldb_readoptions_destroy(options);
            leveldb_iter_seek_to_first(iterator);
            iterator
        };
        Ok(Box::new(Records {
            _db: self,
            iterator,
        }))
    }
}

struct Records<'a> {
    _db: &'a LevelDb,
    iterator: *mut c_void,
}

impl Drop for Records<'_> {
    fn drop(&mut self) {
        // SAFETY: nobody else has it.
        unsafe { leveldb_iter_destroy(self.iterator) }
    }
}

impl Iterator for Records<'_> {
    type Item = Outcome<Record>;

    fn next(&mut self) -> Option<Self::Item> {
        // SAFETY: key and value are valid until the iterator moves, and are copied before.
        unsafe {
            if leveldb_iter_valid(self.iterator) == 0 {
                let mut error = null_mut();
                leveldb_iter_get_error(self.iterator, &raw mut error);
                return taken(error).err().map(Err);
            }
            let copied =
                |read: unsafe extern "C" fn(*const c_void, *mut usize) -> *const c_char| {
                    let mut len = 0;
                    let bytes = read(self.iterator, &raw mut len);
                    std::slice::from_raw_parts(bytes.cast::<u8>(), len).into()
                };
            let record = (copied(leveldb_iter_key), copied(leveldb_iter_value));
            leveldb_iter_next(self.iterator);
            Some(Ok(record))
        }
    }
}
