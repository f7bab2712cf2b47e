//! The database: the public handle over the engine.
//!
//! [`Db`] is a cheap handle; all of them, and the snapshots, iterators and transactions they make,
//! share one [`crate::engine::Engine`]. The last of all these to go stops the background.

mod changes;
mod checkpoint;
mod closed;
mod delete_range;
mod expiry;
pub(crate) mod follower;
pub(crate) mod ingest;
pub(crate) mod keyspace;
pub(crate) mod readable;
pub(crate) mod reader;
pub(crate) mod snapshot;
mod streams;
pub(crate) mod transaction;

use crate::base::bounds::{KeyBounds, engine_bounds};
use crate::base::keys::{KEYSPACE_PREFIX_LEN, KeyspaceId};
use crate::engine::background::ingest::batch::write;
use crate::engine::handle::Handle;
use crate::engine::read::source::Source;
use crate::engine::space::garbage::GarbageStats;
use crate::engine::stats::Stats;
use crate::engine::stats::holders::{ClosingReport, DueJob};
use crate::error::Result;
use crate::events::{RecoveryReport, TimedOperation};
use crate::memtable::Batch;
use crate::options::{EffectiveOptions, Options, WriteOptions};
use crate::vfs::Env;
use bytes::Bytes;
use reader::Reader;
use snapshot::Snapshot;
use std::fmt;
use std::path::Path;
use std::sync::Arc;

impl Options {
    /// Opens the database in directory `dir` with these options: [`Db::open`] the other way round.
    /// Errors as there.
    ///
    /// ```
    /// # let dir = std::env::temp_dir().join(format!("unikv-options-open-{}", std::process::id()));
    /// let db = unikv::Options::default().memory_budget(512 << 20).open(&dir)?;
    /// # db.close()?;
    /// # unikv::Db::destroy(&dir)?;
    /// # unikv::Result::Ok(())
    /// ```
    pub fn open(self, dir: impl AsRef<Path>) -> Result<Db> {
        Db::open(dir, self)
    }
}

/// An open database. Cheap to clone; all clones are the same database, and it may be used from any
/// number of threads.
///
/// [`Db::close`] syncs the log, stops the background and releases the directory at once. Dropping
/// the last clone does so without the sync and without reporting errors, and only when the last
/// [`Keyspace`](crate::Keyspace), [`Snapshot`], iterator, cursor and
/// [`Transaction`](crate::Transaction) has been dropped, too: they go on working until then, and
/// the directory stays locked. The thread that drops the last of them waits for the background to
/// end. A [`ValueReader`](crate::ValueReader) and [`Changes`](crate::Changes) do not keep the
/// database open.
#[derive(Clone)]
pub struct Db(pub(crate) Arc<Handle>);

impl Db {
    /// Opens the database in directory `dir`, creating it if the options allow.
    ///
    /// # Errors
    /// `Locked` if it is open elsewhere, `NotFound` if there is none and none may be created,
    /// `Incompatible` for a foreign directory or a newer format, `Corruption` for damage that would
    /// lose data, `InvalidArgument` for options out of range, `Io`. After an error the directory is
    /// as it was.
    pub fn open(dir: impl AsRef<Path>, options: Options) -> Result<Db> {
        Db::open_in(Env::os(), dir, options)
    }

    /// As [`Db::open`], on the given file system and runtime. Errors as [`Db::open`].
    pub fn open_in(env: Env, dir: impl AsRef<Path>, options: Options) -> Result<Db> {
        let handle = Handle::open(env, dir.as_ref(), options)?;
        Ok(Db(Arc::new(handle)))
    }

    /// Stores `value` under `key`.
    ///
    /// # Errors
    /// `InvalidArgument` if the key is longer than 64 KiB or the value than 1 GiB; then nothing has
    /// changed, nor after `DiskFull`, `Closed` or `Forked`. After `WritesSuspended`, `Io` and
    /// `Internal` the outcome is unknown: the write does not show now, and may from the next
    /// opening on, whole.
    pub fn put(&self, key: impl AsRef<[u8]>, value: impl AsRef<[u8]>) -> Result<()> {
        self.put_with(key, value, WriteOptions::default())
    }

    /// As [`Db::put`], as `options` say: a [`Durability`](crate::Durability), or [`WriteOptions`].
    ///
    /// # Errors
    /// As [`Db::put`]; `WouldBlock` where the write may not wait and would have to: then nothing
    /// has changed.
    pub fn put_with(
        &self,
        key: impl AsRef<[u8]>,
        value: impl AsRef<[u8]>,
        options: impl Into<WriteOptions>,
    ) -> Result<()> {
        let write = &self.0.engine.write;
        let (key, value) = (key.as_ref(), value.as_ref());
        write.put(KeyspaceId::DEFAULT, key, value, options.into())
    }

    /// Removes `key`; removing what is not there is no error. Errors as [`Db::put`].
    pub fn delete(&self, key: impl AsRef<[u8]>) -> Result<()> {
        self.delete_with(key, WriteOptions::default())
    }

    /// As [`Db::delete`], as `options` say. Errors as [`Db::put_with`].
    pub fn delete_with(
        &self,
        key: impl AsRef<[u8]>,
        options: impl Into<WriteOptions>,
    ) -> Result<()> {
        let mut batch = Batch::new();
        batch.delete(key);
        self.write_with(&batch, options)
    }

    /// Commits all operations of a batch or none, in their order, with the durability of the
    /// options. Errors as [`Db::put`].
    pub fn write(&self, batch: &Batch) -> Result<()> {
        self.write_with(batch, WriteOptions::default())
    }

    /// As [`Db::write`], as `options` say. Errors as [`Db::put_with`].
    pub fn write_with(&self, batch: &Batch, options: impl Into<WriteOptions>) -> Result<()> {
        write(&self.0.engine.background, batch, options.into(), None)
    }

    /// The database as it is now, for as long as the snapshot lives.
    pub fn snapshot(&self) -> Snapshot {
        Snapshot::of_open(&self.0, KeyspaceId::DEFAULT)
    }

    #[inline]
    fn reader(&self) -> Reader<'_> {
        Reader {
            read: &self.0.engine.read,
            source: Source {
                keyspace: KeyspaceId::DEFAULT,
                at: None,
            },
            moment: None,
            handle: Some(&self.0),
        }
    }

    /// Makes iterators release the files that only they keep on disk: at once, or when they have
    /// read the entries that they are about to hand out. Each goes on as before, in newer files;
    /// only the versions of entries that it sees are kept for it.
    pub fn release_views(&self) {
        if self.0.engine.core.process.is_this() {
            self.0.engine.read.views.release();
        }
    }

    /// Makes every acknowledged write survive a power cut.
    ///
    /// # Errors
    /// `WritesSuspended`, `DiskFull`, `Io`: whether they would survive is unknown; what was
    /// acknowledged stays visible. `Closed`.
    pub fn sync(&self) -> Result<()> {
        let engine = &self.0.engine;
        engine.core.check_open()?;
        engine
            .read
            .timed(TimedOperation::Sync, Default::default, || {
                engine.write.sync_and_note()
            })
    }

    /// Writes the memtables to tables of the UnsortedStore and waits for that.
    ///
    /// # Errors
    /// Those of the flush, which is retried in the background; `WritesSuspended`, `Closed`.
    pub fn flush(&self) -> Result<()> {
        self.0.engine.write.flush_memtables()
    }

    /// Merges everything, of all keyspaces, into the SortedStore and waits for that. What is
    /// written meanwhile may stay in the UnsortedStore. Errors as [`Db::flush`].
    pub fn compact(&self) -> Result<()> {
        let everything = (Vec::new(), vec![u8::MAX; KEYSPACE_PREFIX_LEN]);
        self.0.engine.background.compact(&everything)
    }

    /// Says that the wall clock is right. What has expired by it may be destroyed from now on, by
    /// [`Db::compact`] and [`Db::collect_garbage`] at once.
    ///
    /// Reads go by the wall clock. So that one which is set wrong destroys nothing, jobs keep what
    /// has expired until the database has been open for as long, and each opening counts for at
    /// most an hour beside that. After a longer pause some of what has expired stays on disk for
    /// longer than it need: [`Stats::expired_kept_bytes`](crate::Stats::expired_kept_bytes) says
    /// how much. Errors as [`Db::flush`].
    pub fn trust_wall_clock(&self) -> Result<()> {
        self.0.engine.background.trust_wall_clock()
    }

    /// As [`Db::compact`], for the keys in `range`: merges what the UnsortedStore holds of the
    /// partitions that the range meets, whole, and drops what is overwritten or deleted there and
    /// seen by no snapshot. Bytes of values come free with garbage collection. Errors as
    /// [`Db::flush`].
    pub fn compact_range(&self, range: impl KeyBounds) -> Result<()> {
        self.0.engine.background.compact(&default_bounds(&range))
    }

    /// The mark of the newest committed write that had one: see [`Batch::set_mark`].
    pub fn mark(&self) -> Option<Bytes> {
        self.0.engine.write.mark()
    }

    /// Waits until the background has nothing to do: no memtable to flush, nothing to merge. Errors
    /// as [`Db::flush`].
    pub fn quiesce(&self) -> Result<()> {
        self.0.engine.background.quiesce()
    }

    /// The options in effect: as set at this opening, else as stored, else the defaults.
    pub fn options(&self) -> EffectiveOptions {
        self.0.engine.core.options.clone()
    }

    /// Figures of the database: counters since it was opened and since it was created, sizes as of
    /// now.
    pub fn stats(&self) -> Stats {
        self.0.engine.stats()
    }

    /// About how many bytes on disk serve the keys in `range`, estimated without reading a value:
    /// records that are overwritten but not yet merged count, what is only in memory does not.
    ///
    /// # Errors
    /// `Corruption` or `Io` if the fences or a key block of a table cannot be read; `Closed`.
    pub fn approximate_size(&self, range: impl KeyBounds) -> Result<u64> {
        self.0.engine.read.approximate_size(&default_bounds(&range))
    }

    /// A key that cuts the data in `range` into two parts of about the same size; it need not be
    /// stored. `None` if there is too little to cut. Errors as [`Db::approximate_size`].
    pub fn middle_key(&self, range: impl KeyBounds) -> Result<Option<Bytes>> {
        let middle = self.0.engine.read.middle_key(&default_bounds(&range))?;
        Ok(middle.map(Bytes::from))
    }

    /// The jobs of the background that are due, each with its reason: the most urgent one of each
    /// kind that does not run yet, in the order in which workers take them. The jobs that run are
    /// in [`Stats::running_jobs`].
    pub fn due_jobs(&self) -> Vec<DueJob> {
        self.0.engine.background.due_jobs()
    }

    /// What garbage collection sees: live and dead bytes of each record file, what the space bound
    /// allows, and which files would be collected next.
    pub fn garbage(&self) -> GarbageStats {
        self.0.engine.background.garbage()
    }

    /// Collects garbage now, down to half of what [`Options::max_space_amp`] allows, and waits for
    /// that. Nobody needs to call this: garbage is collected in time anyway. What is garbage in the
    /// UnsortedStore only its merge knows: see [`Db::compact`]. Errors as [`Db::flush`].
    pub fn collect_garbage(&self) -> Result<()> {
        self.0.engine.background.collect_garbage()
    }

    /// What opening recovered, cut and swept.
    pub fn recovery(&self) -> &RecoveryReport {
        &self.0.recovery
    }

    /// Syncs the log, stops the background, stores what was counted ([`Stats::lifetime`]) and
    /// releases the directory, whatever is still open: later calls on clones of this handle, on
    /// keyspaces, snapshots, iterators and transactions fail with `Closed`. The report names the
    /// snapshots, iterators and transactions that were there, with their ages.
    ///
    /// ```
    /// # let dir = std::env::temp_dir().join(format!("unikv-close-{}", std::process::id()));
    /// # let db = unikv::Db::open(&dir, unikv::Options::default())?;
    /// let snapshot = db.snapshot();
    /// let report = db.close()?;
    /// assert_eq!(report.still_open[0].kind, unikv::HolderKind::Snapshot);
    /// assert_eq!(snapshot.get("apple").unwrap_err().kind(), unikv::ErrorKind::Closed);
    /// # unikv::Db::destroy(&dir)?;
    /// # unikv::Result::Ok(())
    /// ```
    ///
    /// # Errors
    /// The error of the sync, or of background work that has failed and not been made up for; the
    /// database is closed all the same. There is no error if the disk has been full since the
    /// opening: nothing was written, and unsynced writes of the process before stay unsynced.
    pub fn close(self) -> Result<ClosingReport> {
        self.0.close()
    }
}

/// A range of the default keyspace.
fn default_bounds(range: &impl KeyBounds) -> (Vec<u8>, Vec<u8>) {
    engine_bounds(KeyspaceId::DEFAULT, range)
}

impl fmt::Debug for Db {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Db")
            .field("dir", &self.0.engine.core.store.dir())
            .finish_non_exhaustive()
    }
}
