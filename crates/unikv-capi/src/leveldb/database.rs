//! The database: opening and closing, single writes and reads, snapshots, sizes, compaction.

use super::batch::WriteBatch;
use super::comparator;
use super::options::Options;
use super::reads_and_writes::{ReadOptions, Source, WriteOptions, get};
use crate::boundary::args::{
    Array, ArrayOut, Bytes, Ending, EndingConst, New, NewConst, Optional, OptionalBytes, Out,
    Shared, Text, end, strings,
};
use crate::boundary::capi;
use crate::boundary::fault::{Fault, Outcome};
use crate::boundary::handles::object;
use crate::boundary::memory::malloc_copy;
use crate::leveldb::batch::write_batch;
use std::ffi::{c_char, c_int};
use std::ops::Bound;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use unikv::{ClosingReport, Db, Secondary, SecondaryOptions};

/// An open database.
pub struct Database {
    opened: Opened,
    /// Which one it is, among all that this process has opened.
    pub(crate) id: u64,
}

/// How it was opened.
enum Opened {
    Written(Db),
    Followed(Secondary),
}

object!(Database, "unikv_t", b"ukv:db\0\0");

/// A snapshot, and which database it is of.
pub(crate) struct SnapshotOf {
    pub(crate) snapshot: unikv::Snapshot,
    pub(crate) database: u64,
}

/// What C has of a snapshot. Read options that name it do not keep it.
pub struct Snapshot(pub(crate) Arc<SnapshotOf>);

object!(Snapshot, "unikv_snapshot_t", b"ukv:snap");

impl Database {
    /// Opens one; `open` says what may be there.
    pub(crate) fn open(
        options: Option<&Options>,
        open: impl FnOnce(&Options, unikv::Options) -> unikv::Result<Db>,
    ) -> Outcome<Database> {
        let defaults = Options::default();
        let options = options.unwrap_or(&defaults);
        let name = comparator::accepted(options.comparator.as_ref())?;
        let db = open(options, options.for_opening())?;
        if let Err(fault) = comparator::agree(&db, name.as_deref()) {
            drop(db.close());
            return Err(fault);
        }
        Ok(Database::new(Opened::Written(db)))
    }

    /// One that another process writes, or nobody.
    pub(crate) fn open_secondary(dir: &Path, options: SecondaryOptions) -> Outcome<Database> {
        let secondary = Db::open_secondary(dir, options)?;
        Ok(Database::new(Opened::Followed(secondary)))
    }

    fn new(opened: Opened) -> Database {
        static NEXT: AtomicU64 = AtomicU64::new(1);
        Database {
            opened,
            id: NEXT.fetch_add(1, Ordering::Relaxed),
        }
    }

    /// For what a secondary cannot do.
    #[inline]
    pub(crate) fn db(&self) -> Outcome<&Db> {
        match &self.opened {
            Opened::Written(db) => Ok(db),
            Opened::Followed(_) => Err(is_followed()),
        }
    }

    /// For what only a secondary can do.
    pub(crate) fn secondary(&self) -> Outcome<&Secondary> {
        let what = "the database was opened to be written";
        match &self.opened {
            Opened::Written(_) => Err(Fault::misuse(what, "follow it from another process")),
            Opened::Followed(secondary) => Ok(secondary),
        }
    }

    /// What reads of the default keyspace as it is now read from.
    #[inline]
    pub(crate) fn source(&self) -> Source<'_> {
        match &self.opened {
            Opened::Written(db) => Source::Database(db),
            Opened::Followed(secondary) => Source::Secondary(secondary),
        }
    }

    fn snapshot(&self) -> unikv::Snapshot {
        match &self.opened {
            Opened::Written(db) => db.snapshot(),
            Opened::Followed(secondary) => secondary.snapshot(),
        }
    }

    /// Closes it, and returns what was still open; the error of the last sync, or of background
    /// work. Closing a secondary ends nothing of what was made of it, and reports nothing.
    pub(crate) fn close(self) -> Outcome<ClosingReport> {
        match self.opened {
            Opened::Written(db) => Ok(db.close()?),
            Opened::Followed(_) => Ok(ClosingReport::default()),
        }
    }
}

/// As LevelDB's two options say.
fn open_by_flags(options: &Options, dir: &Path, engine: unikv::Options) -> unikv::Result<Db> {
    match (options.create_if_missing, options.error_if_exists) {
        (true, false) => Db::open(dir, engine),
        (false, false) => Db::open_existing(dir, engine),
        // With both, every directory is refused: the flags name the reason.
        (false, true) if !dir.join("CURRENT").exists() => Db::open_existing(dir, engine),
        (_, true) => Db::create_new(dir, engine),
    }
}

#[cold]
pub(crate) fn is_followed() -> Fault {
    let what = "the database is followed, and only reads work";
    Fault::misuse(what, "open it where it is written")
}

/// A range of keys, of which either end may be none.
pub(crate) fn range<'a>(
    start: Option<&'a [u8]>,
    limit: Option<&'a [u8]>,
) -> (Bound<&'a [u8]>, Bound<&'a [u8]>) {
    let from = start.map_or(Bound::Unbounded, Bound::Included);
    (from, limit.map_or(Bound::Unbounded, Bound::Excluded))
}

/// A value for C, with its length in `len`; null and 0 if there is none.
pub(crate) fn hand_out(
    value: Option<impl AsRef<[u8]>>,
    len: &crate::boundary::args::Start<usize>,
) -> Outcome<*mut c_char> {
    let Some(value) = value else {
        len.set(0)?;
        return Ok(std::ptr::null_mut());
    };
    let value = value.as_ref();
    let copy = malloc_copy(value)?;
    len.set(value.len())?;
    Ok(copy)
}

capi! { functions:
    /// Opens the database in directory `name`, as the options say; NULL on failure. The options are
    /// not needed any more when this returns. As in LevelDB, a database is not created unless
    /// `unikv_options_set_create_if_missing` was called.
    fn unikv_open(options: Optional<Options>, name: Text; errptr) -> New<Database> {
        let open = |own: &Options, engine| open_by_flags(own, name.path(), engine);
        New::of(Database::open(options, open)?)
    }

    /// Closes the database at once. No other call may be using it. What was made of it (iterators,
    /// snapshots, transactions) may be closed later; other calls with it fail from now on, with
    /// `unikv_closed`. `unikv_close_checked` returns errors, too, and `unikv_close_report_json`
    /// what was still open.
    fn unikv_close(db: Ending<Database>) {
        if let Some(open) = db.take() {
            open.close()?;
        }
    }

    /// Stores a value under a key.
    fn unikv_put(
        db: Shared<Database>, options: Optional<WriteOptions>,
        key[keylen]: Bytes, val[vallen]: Bytes; errptr
    ) {
        match options.filter(|options| !options.is_plain()) {
            None => db.db()?.put(key, val)?,
            Some(options) => options.put(db, key, val)?,
        }
    }

    /// Removes a key. Removing what is not there is no error.
    fn unikv_delete(
        db: Shared<Database>, options: Optional<WriteOptions>, key[keylen]: Bytes; errptr
    ) {
        match options {
            None => db.db()?.delete(key)?,
            Some(options) => options.delete(db, key)?,
        }
    }

    /// Commits all operations of a batch, or none. The batch stays as it is.
    fn unikv_write(
        db: Shared<Database>, options: Optional<WriteOptions>, batch: Shared<WriteBatch>; errptr
    ) {
        write_batch(db, options, batch)?;
    }

    /// The value of a key, in memory that the caller frees, with its length in `*vallen`; NULL and
    /// 0 if it has none, and on failure. A NUL that does not count stands after the value.
    fn unikv_get(
        db: Shared<Database>, options: Optional<ReadOptions>,
        key[keylen]: Bytes, vallen: Out<usize>; errptr
    ) -> *mut c_char {
        vallen.set(0)?;
        hand_out(get(db, options, key)?, &vallen)?
    }

    /// The database as it is now, until the snapshot is released.
    fn unikv_create_snapshot(db: Shared<Database>) -> NewConst<Snapshot> {
        let snapshot = db.snapshot();
        NewConst::of(Snapshot(Arc::new(SnapshotOf { snapshot, database: db.id })))
    }

    /// Releases a snapshot, also after its database was closed. Reads with options that still name
    /// it fail.
    fn unikv_release_snapshot(db: RawDatabase, snapshot: EndingConst<Snapshot>) {
        let _ = db.0;
        end(snapshot);
    }

    /// Puts into `sizes[i]` about how many bytes on disk serve the keys from the i-th start to
    /// before the i-th limit. What is only in memory does not count. All are 0 on failure.
    fn unikv_approximate_sizes(
        db: Shared<Database>, num_ranges: c_int,
        range_start_key: Array<*const c_char>, range_start_key_len: Array<usize>,
        range_limit_key: Array<*const c_char>, range_limit_key_len: Array<usize>,
        sizes: ArrayOut<u64>
    ) {
        let negative = |_| Fault::misuse("a number of ranges is negative", "pass how many there are");
        let count = usize::try_from(num_ranges).map_err(negative)?;
        sizes.write(std::iter::repeat_n(0, count))?;
        let starts = strings(count, &range_start_key, &range_start_key_len)?;
        let limits = strings(count, &range_limit_key, &range_limit_key_len)?;
        let size = |(start, limit): (&&[u8], &&[u8])| -> Outcome<u64> {
            Ok(db.db()?.approximate_size(range(Some(start), Some(limit)))?)
        };
        let all = starts.iter().zip(&limits).map(size).collect::<Outcome<Vec<u64>>>()?;
        sizes.write(all.into_iter())?;
    }

    /// Merges the keys from `start_key` to before `limit_key`, and waits for that; NULL stands for
    /// the first key, or for the end. The database does this in the background by itself.
    fn unikv_compact_range(
        db: Shared<Database>,
        start_key[start_key_len]: OptionalBytes, limit_key[limit_key_len]: OptionalBytes
    ) {
        db.db()?.compact_range(range(start_key, limit_key))?;
    }
}

/// A database that is only named, and may be closed.
#[repr(transparent)]
pub struct RawDatabase(*const u8);

impl crate::boundary::args::InC for RawDatabase {
    fn c() -> String {
        "unikv_t*".to_owned()
    }
}

impl crate::boundary::args::Argument for RawDatabase {
    type Inside<'a> = RawDatabase;

    fn inside(&self) -> Outcome<RawDatabase> {
        Ok(RawDatabase(self.0))
    }
}
