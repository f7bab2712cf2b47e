//! Closing with a result, syncs, checkpoints, exports, figures.

use super::compare::in_keyspace;
use crate::boundary::args::{Ending, Optional, OptionalBytes, Shared, Text};
use crate::boundary::capi;
use crate::boundary::fault::{Fault, Kind, Outcome};
use crate::boundary::memory::malloc_copy;
use crate::leveldb::database::{Database, range};
use crate::leveldb::reads_and_writes::{ReadOptions, Source, WriteOptions};
use std::ffi::{CStr, c_char};
use unikv::ExportFile;

/// The version of this package.
const VERSION: &CStr =
    match CStr::from_bytes_with_nul(concat!(env!("CARGO_PKG_VERSION"), "\0").as_bytes()) {
        Ok(version) => version,
        Err(_) => c"",
    };

const REPORT: &str = "this is a bug of UniKV: report it with this message";

/// For C, to be freed.
fn hand_out_json(json: serde_json::Result<String>) -> Outcome<*mut c_char> {
    let json = json.map_err(|error| Fault::new(Kind::Internal, &error.to_string(), REPORT))?;
    malloc_copy(json.as_bytes())
}

capi! { functions:
    /// Closes the database as `unikv_close` does, and returns the error of the last sync, or of
    /// background work that was not made up for. It is closed all the same.
    fn unikv_close_checked(db: Ending<Database>; errptr) {
        if let Some(open) = db.take() {
            open.close()?;
        }
    }

    /// Closes the database as `unikv_close_checked` does, and returns what had been made of it and
    /// was still open, as a JSON object, to be freed: the fields of `ClosingReport` in the Rust
    /// API, under the same names. An example, where other kinds are `Snapshot` and `Transaction`:
    /// `{"still_open":[{"kind":"Iterator","age":{"secs":7,"nanos":0}}]}`. NULL on failure; it is
    /// closed all the same.
    fn unikv_close_report_json(db: Ending<Database>; errptr) -> *mut c_char {
        let report = db.take().map(Database::close).transpose()?;
        hand_out_json(serde_json::to_string(&report.unwrap_or_default()))?
    }

    /// Makes every write that has returned survive a power cut.
    fn unikv_sync(db: Shared<Database>; errptr) {
        db.db()?.sync()?;
    }

    /// Writes what is in memory to files, and waits for that. Nobody needs to.
    fn unikv_flush(db: Shared<Database>; errptr) {
        db.db()?.flush()?;
    }

    /// Merges everything, of all keyspaces, and waits for that. Nobody needs to.
    fn unikv_compact(db: Shared<Database>; errptr) {
        db.db()?.compact()?;
    }

    /// Waits until the background has nothing to do.
    fn unikv_wait_until_idle(db: Shared<Database>; errptr) {
        db.db()?.wait_until_idle()?;
    }

    /// Makes a database of its own in the new directory `dir` that is what this one is now, all
    /// keyspaces included: in milliseconds, by links, on the same file system.
    fn unikv_checkpoint(db: Shared<Database>, dir: Text; errptr) {
        db.db()?.checkpoint(dir.path())?;
    }

    /// Writes the newest versions of the keys from `start` to before `limit`, of the keyspace or
    /// the snapshot of the options, with the times when they expire, to the new file `path`, which
    /// is verified; NULL stands for the first key, or for the end. Returns how many keys there are.
    fn unikv_export(
        db: Shared<Database>, options: Optional<ReadOptions>,
        start[startlen]: OptionalBytes, limit[limitlen]: OptionalBytes, path: Text; errptr
    ) -> u64 {
        let source = match options {
            None => db.source(),
            Some(options) => options.source(db)?,
        };
        let keys = range(start, limit);
        let export = match source {
            Source::Secondary(secondary) => secondary.snapshot().export(keys, path.path())?,
            Source::Database(db) => db.export(keys, path.path())?,
            Source::Keyspace(keyspace) => keyspace.export(keys, path.path())?,
            Source::Snapshot(snapshot) => snapshot.export(keys, path.path())?,
        };
        export.records
    }

    /// Stores what an exported file holds, all at once and durably: newer than what was written
    /// before; other keys stay as they are. Nothing has changed if anything in it is damaged. Of
    /// the options the keyspace counts. Returns how many keys there are.
    fn unikv_import(
        db: Shared<Database>, options: Optional<WriteOptions>, path: Text; errptr
    ) -> u64 {
        let file = ExportFile::open(path.path())?;
        in_keyspace!(db, options, to, to.import(&file)?).records
    }

    /// The figures of the database, as a JSON object, to be freed: the fields of `Stats` in the
    /// Rust API, or of `SecondaryStats` for a database that is followed, under the same names.
    /// Bytes are numbers, times objects of `secs` and `nanos`, keys hexadecimal.
    fn unikv_stats_json(db: Shared<Database>; errptr) -> *mut c_char {
        hand_out_json(match db.source() {
            Source::Secondary(secondary) => serde_json::to_string(&secondary.stats()),
            _ => serde_json::to_string(&db.db()?.stats()),
        })?
    }

    /// Has iterators release the files that only they keep on disk. They go on as before.
    fn unikv_release_views(db: Shared<Database>) {
        db.db()?.release_views();
    }

    /// The version of UniKV. Not to be freed.
    fn unikv_version() -> *const c_char {
        VERSION.as_ptr()
    }
}
