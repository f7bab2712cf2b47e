//! Closing with a result, syncs, checkpoints, figures.

use crate::boundary::args::{Ending, Shared, Text};
use crate::boundary::capi;
use crate::leveldb::database::Database;
use std::ffi::{CStr, c_char};

/// The version of this package.
const VERSION: &CStr =
    match CStr::from_bytes_with_nul(concat!(env!("CARGO_PKG_VERSION"), "\0").as_bytes()) {
        Ok(version) => version,
        Err(_) => c"",
    };

capi! { functions:
    /// Closes the database as `unikv_close` does, and returns the error of the last sync, or of
    /// background work that was not made up for. It is closed all the same.
    fn unikv_close_checked(db: Ending<Database>; errptr) {
        if let Some(open) = db.take() {
            open.db.close()?;
        }
    }

    /// Makes every write that has returned survive a power cut.
    fn unikv_sync(db: Shared<Database>; errptr) {
        db.db.sync()?;
    }

    /// Writes what is in memory to files, and waits for that. Nobody needs to.
    fn unikv_flush(db: Shared<Database>; errptr) {
        db.db.flush()?;
    }

    /// Merges everything, of all keyspaces, and waits for that. Nobody needs to.
    fn unikv_compact(db: Shared<Database>; errptr) {
        db.db.compact()?;
    }

    /// Waits until the background has nothing to do.
    fn unikv_quiesce(db: Shared<Database>; errptr) {
        db.db.quiesce()?;
    }

    /// Makes a database of its own in the new directory `dir` that is what this one is now, all
    /// keyspaces included: in milliseconds, by links, on the same file system.
    fn unikv_checkpoint(db: Shared<Database>, dir: Text; errptr) {
        db.db.checkpoint(dir.path())?;
    }

    /// Has iterators release the files that only they keep on disk. They go on as before.
    fn unikv_release_views(db: Shared<Database>) {
        db.db.release_views();
    }

    /// The version of UniKV. Not to be freed.
    fn unikv_version() -> *const c_char {
        VERSION.as_ptr()
    }
}
