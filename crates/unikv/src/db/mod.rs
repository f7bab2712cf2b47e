//! The database: the public handle over the engine.
//!
//! [`Db`] is a cheap handle; all of them, and the snapshots, iterators and transactions they make,
//! share one [`crate::engine::Engine`]. The last of all these to go stops the background.

mod atomic;
mod changes;
mod checkpoint;
mod closed;
pub(crate) mod ingest;
pub(crate) mod keyspace;
pub(crate) mod readable;
pub(crate) mod reader;
pub(crate) mod secondary;
pub(crate) mod snapshot;
pub(crate) mod transaction;
mod writable;
mod writer;

use crate::base::keys::{KEYSPACE_PREFIX_LEN, KeyspaceId};
use crate::engine::handle::Handle;
use crate::engine::read::source::Source;
use crate::engine::space::garbage::GarbageStats;
use crate::engine::stats::Stats;
use crate::engine::stats::holders::{ClosingReport, DueJob};
use crate::error::Result;
use crate::events::{RecoveryReport, TimedOperation};
use crate::options::{EffectiveOptions, Opens, Options};
use crate::vfs::Env;
use bytes::Bytes;
use reader::Reader;
use std::fmt;
use std::path::Path;
use std::sync::Arc;
use writer::Writer;

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

/// Stands in messages for the directory of a database in memory.
const IN_MEMORY: &str = ":memory:";

/// An open database. Cheap to clone; all clones are the same database, and it may be used from any
/// number of threads.
///
/// [`Db::close`] syncs the log, stops the background and releases the directory at once. Dropping
/// the last clone does so without the sync and without reporting errors, and only when the last
/// [`Keyspace`](crate::Keyspace), [`Snapshot`](crate::Snapshot), iterator, cursor and
/// [`Transaction`](crate::Transaction) has been dropped, too: they go on working until then, and
/// the directory stays locked. The thread that drops the last of them waits for the background to
/// end. A [`ValueReader`](crate::ValueReader) and [`Changes`](crate::Changes) do not keep the
/// database open.
#[derive(Clone)]
pub struct Db(pub(crate) Arc<Handle>);

impl Db {
    /// Opens the database in directory `dir`, and creates it if there is none.
    ///
    /// # Errors
    /// `Locked` if it is open elsewhere, `Incompatible` for a foreign directory or a newer format,
    /// `Corruption` for damage that would lose data, `InvalidArgument` for options out of range,
    /// `Io`. After an error the directory is as it was.
    pub fn open(dir: impl AsRef<Path>, options: Options) -> Result<Db> {
        Db::opening(dir.as_ref(), options, Opens::Any)
    }

    /// Opens the database in directory `dir`, which must be there.
    ///
    /// # Errors
    /// `NotFound` if there is none, and those of [`Db::open`].
    pub fn open_existing(dir: impl AsRef<Path>, options: Options) -> Result<Db> {
        Db::opening(dir.as_ref(), options, Opens::Existing)
    }

    /// Creates a database in directory `dir`, which must not hold one, and opens it.
    ///
    /// # Errors
    /// `InvalidArgument` if there is one, and those of [`Db::open`].
    pub fn create_new(dir: impl AsRef<Path>, options: Options) -> Result<Db> {
        Db::opening(dir.as_ref(), options, Opens::New)
    }

    /// Creates a database in the memory of the process.
    ///
    /// It begins empty, and is gone when it is closed: nothing survives the process, whatever the
    /// durability says, and nothing is read from or written to a disk. All else is as on a disk:
    /// snapshots, transactions, expiry, the change feed, and the background, which merges and
    /// collects as there.
    ///
    /// [`Db::checkpoint`], [backups](crate::backup) and [`Db::export`] copy it to the file system,
    /// where the copy can be opened like any other database. Nobody can follow it, and its figures
    /// are not published: other processes have no way to it.
    ///
    /// The files come on top of [`Options::memory_budget`]:
    /// [`Stats::in_memory_bytes`](crate::Stats::in_memory_bytes) says what they take. That is what
    /// [`Options::max_space_amp`] allows over the data, and the log: a few memtables. For files in
    /// memory that outlive a closing, see [`MemoryVfs`](crate::vfs::MemoryVfs).
    ///
    /// ```
    /// use unikv::{Db, Options};
    ///
    /// let db = Db::in_memory(Options::default())?;
    /// db.put("apple", "red")?;
    /// # let dir = std::env::temp_dir().join(format!("unikv-in-memory-{}", std::process::id()));
    /// db.checkpoint(&dir)?;
    /// db.close()?;
    ///
    /// let kept = Db::open(&dir, Options::default())?;
    /// assert_eq!(kept.get("apple")?.as_deref(), Some(&b"red"[..]));
    /// # kept.close()?;
    /// # Db::destroy(&dir)?;
    /// # unikv::Result::Ok(())
    /// ```
    ///
    /// # Errors
    /// `InvalidArgument` for options out of range.
    pub fn in_memory(options: Options) -> Result<Db> {
        Db::opening(Path::new(IN_MEMORY), options, Opens::InMemory)
    }

    fn opening(dir: &Path, mut options: Options, opens: Opens) -> Result<Db> {
        options.opens = opens;
        let env = options.env.clone().unwrap_or_else(Env::os);
        let handle = Handle::open(env, dir, options)?;
        Ok(Db(Arc::new(handle)))
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

    fn writer(&self) -> Writer<'_> {
        Writer {
            handle: &self.0,
            keyspace: KeyspaceId::DEFAULT,
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

    /// The commit tag of the newest committed write that had one: see
    /// [`Batch::set_commit_tag`](crate::Batch::set_commit_tag).
    pub fn commit_tag(&self) -> Option<Bytes> {
        self.0.engine.write.commit_tag()
    }

    /// Waits until the background has nothing to do: no memtable to flush, nothing to merge. Errors
    /// as [`Db::flush`].
    pub fn wait_until_idle(&self) -> Result<()> {
        self.0.engine.background.wait_until_idle()
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

    /// The directory of the database, as it was given when it was opened; `:memory:` for one in
    /// memory.
    pub fn path(&self) -> &Path {
        self.0.engine.core.store.dir()
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

impl fmt::Debug for Db {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Db")
            .field("dir", &self.0.engine.core.store.dir())
            .finish_non_exhaustive()
    }
}
