//! Secondaries: reading a database that another process writes.

use crate::base::keys::KeyspaceId;
use crate::base::sync::Mutex;
use crate::db::Db;
use crate::db::reader::Reader;
use crate::db::snapshot::Snapshot;
use crate::engine::checkpoint::Checkpoint;
use crate::engine::read::ReadState;
use crate::engine::read::source::Source;
use crate::engine::secondary::{Follow, SecondaryStats, Shown};
use crate::engine::space::garbage::GarbageStats;
use crate::engine::stats::Stats;
use crate::engine::stats::holders::DueJob;
use crate::error::Result;
use crate::options::{EffectiveOptions, SecondaryOptions};
use crate::version::keyspaces::DEFAULT_NAME;
use crate::vfs::JoinHandle;
use bytes::Bytes;
use std::fmt;
use std::mem;
use std::ops::Deref;
use std::path::Path;
use std::sync::Arc;

/// A database that is read while another process may write it. Cheap to clone; usable from any
/// thread.
///
/// It shows one state of the database at a time, as of its last [`Secondary::refresh`]: exactly
/// what the writer showed at one moment. Iterators and snapshots stay with the state that they were
/// begun in. Without a writer it shows what opening the database would bring back.
///
/// It takes no lock, writes nothing, needs no permission to write, and makes no writer wait. The
/// writer may crash and be started again: the next refresh shows what it has recovered.
///
/// All files of its states are held open. Space that the writer has given up is free once no state
/// needs it any more: refresh now and then, and do not keep snapshots for ever.
///
/// Values expire by the secondary's own clock, which is never earlier than the time that the writer
/// has noted.
///
/// ```
/// # let dir = std::env::temp_dir().join(format!("unikv-secondary-{}", std::process::id()));
/// use unikv::{Db, SecondaryOptions, Options};
///
/// let db = Db::open(&dir, Options::default())?;
/// db.put("apple", "red")?;
///
/// // Mostly in another process.
/// let secondary = Db::open_secondary(&dir, SecondaryOptions::default())?;
/// assert_eq!(secondary.get("apple")?.as_deref(), Some(&b"red"[..]));
///
/// db.put("apple", "green")?;
/// assert_eq!(secondary.get("apple")?.as_deref(), Some(&b"red"[..]));
/// secondary.refresh()?;
/// assert_eq!(secondary.get("apple")?.as_deref(), Some(&b"green"[..]));
/// # drop(secondary);
/// # db.close()?;
/// # unikv::Db::destroy(&dir)?;
/// # unikv::Result::Ok(())
/// ```
#[derive(Clone)]
pub struct Secondary(Arc<Inner>);

struct Inner {
    follow: Arc<Follow>,
    thread: Mutex<Option<Box<dyn JoinHandle>>>,
}

/// Keeps a state while it is read.
pub(crate) struct ShownRead(Arc<Shown>);

impl Deref for ShownRead {
    type Target = Arc<ReadState>;

    fn deref(&self) -> &Arc<ReadState> {
        &self.0.read
    }
}

impl Db {
    /// Opens the database in directory `dir` for reading beside a writer, or without one. A writer
    /// must be of a release that has secondaries, too.
    ///
    /// # Errors
    /// `NotFound` if there is none, `Incompatible` for a foreign directory, a newer format, or a
    /// writer on a file system on which processes cannot share memory; `Corruption` for damage that
    /// would lose data; `InvalidArgument` for options out of range, or for a memory budget that is
    /// set and has no room for what the writer has not flushed; `Io`. Where the process may not
    /// keep all files of the database open, a read of a file that the writer has removed since the
    /// last refresh fails with `Io`, too, and says how many are needed.
    pub fn open_secondary(dir: impl AsRef<Path>, options: SecondaryOptions) -> Result<Secondary> {
        let follow = Follow::open(&options.given_env(), dir.as_ref(), &options)?;
        let every = options.refresh_every;
        let thread = every.map(|period| follow.spawn(period)).transpose()?;
        let thread = Mutex::new(thread);
        Ok(Secondary(Arc::new(Inner { follow, thread })))
    }

    /// The database in directory `dir` as it is now, for reading alone: what a [`Secondary`] shows
    /// at first, and nothing of what is written later. Nothing is changed, so the medium may be
    /// one that cannot be written. Errors as [`Db::open_secondary`].
    ///
    /// ```
    /// # let dir = std::env::temp_dir().join(format!("unikv-read-only-{}", std::process::id()));
    /// # let db = unikv::Db::open(&dir, unikv::Options::default())?;
    /// # db.put("apple", "red")?;
    /// # db.close()?;
    /// let archive = unikv::Db::open_read_only(&dir, unikv::SecondaryOptions::default())?;
    /// assert_eq!(archive.get("apple")?.as_deref(), Some(&b"red"[..]));
    /// # drop(archive);
    /// # unikv::Db::destroy(&dir)?;
    /// # unikv::Result::Ok(())
    /// ```
    pub fn open_read_only(dir: impl AsRef<Path>, options: SecondaryOptions) -> Result<Snapshot> {
        let follow = Follow::open(&options.given_env(), dir.as_ref(), &options)?;
        let shown = follow.shown();
        Ok(Snapshot::of_state(&shown.read))
    }
}

impl Secondary {
    /// Shows from now on what the writer has made visible, or what it has left.
    ///
    /// # Errors
    /// `Corruption` for damage, `Io`, `NotFound` if the database has been destroyed; `Forked`. The
    /// secondary shows what it did.
    pub fn refresh(&self) -> Result<()> {
        self.0.follow.refresh()
    }

    /// The state that is shown now, for as long as the snapshot lives.
    pub fn snapshot(&self) -> Snapshot {
        Snapshot::of_state(&self.0.follow.shown().read)
    }

    /// The keyspace of this name in the state that is shown now, if there is one; `default` is the
    /// one that the secondary itself reads.
    pub fn find_keyspace(&self, name: &str) -> Option<Snapshot> {
        self.snapshot().find_keyspace(name)
    }

    /// The names of all keyspaces, in the order in which they were made; `default` is the first.
    pub fn keyspaces(&self) -> Vec<String> {
        let view = self.0.follow.shown().read.view.load_full();
        let others = view.version.keyspaces.all();
        let others = others.map(|meta| meta.name.clone());
        std::iter::once(DEFAULT_NAME.to_owned())
            .chain(others)
            .collect()
    }

    /// The commit tag of the newest write that is shown and had one: see
    /// [`Batch::set_commit_tag`](crate::Batch::set_commit_tag).
    pub fn commit_tag(&self) -> Option<Bytes> {
        self.0.follow.shown().commit_tag.clone()
    }

    /// The sequence number of the last write that is shown.
    pub fn seq(&self) -> u64 {
        self.0.follow.shown().seq.0
    }

    /// Figures of the database in the state that is shown: sizes, and what was counted since it was
    /// created. What only the process that writes knows is 0.
    ///
    /// # Errors
    /// `Io`; `Corruption` of what was counted.
    pub fn database_stats(&self) -> Result<Stats> {
        self.0.follow.database_stats()
    }

    /// What a garbage collection that somebody asked for would do, as [`Db::garbage`].
    pub fn garbage(&self) -> GarbageStats {
        self.0.follow.garbage()
    }

    /// The jobs that a process would find due if it opened the database now, by its files alone: as
    /// [`Db::due_jobs`]. The files say nothing of failures, of the wishes of reads, and of how long
    /// writers have been idle.
    pub fn due_jobs(&self) -> Vec<DueJob> {
        self.0.follow.due_jobs()
    }

    /// The options with which the database is opened if nothing else is set.
    pub fn options(&self) -> EffectiveOptions {
        self.0.follow.options().clone()
    }

    /// Figures, as of now: how far it lags behind, for one.
    pub fn stats(&self) -> SecondaryStats {
        self.0.follow.stats()
    }

    /// Makes a checkpoint of what is shown now in the new directory `dir`, as [`Db::checkpoint`]
    /// does: a database of its own. The writer goes on meanwhile, and is not asked. Refresh first
    /// to have what is visible at that moment.
    ///
    /// Data files that the writer has removed since the last refresh cannot be linked and are
    /// copied.
    ///
    /// # Errors
    /// `InvalidArgument` if `dir` is there, or is in the database's directory; `Locked` if a
    /// checkpoint is just being made there; `DiskFull`, `Io`; `Corruption` where files are copied;
    /// `Forked`.
    ///
    /// ```
    /// # fn main() -> unikv::Result<()> {
    /// # let dir = std::env::temp_dir().join(format!("unikv-copies-{}", std::process::id()));
    /// use unikv::{Db, SecondaryOptions, Options};
    ///
    /// let db = Db::open(dir.join("db"), Options::default())?;
    /// db.put("apple", "red")?;
    ///
    /// // Mostly in another process.
    /// let secondary = Db::open_secondary(dir.join("db"), SecondaryOptions::default())?;
    /// let checkpoint = secondary.checkpoint(dir.join("before"))?;
    /// db.put("apple", "green")?;
    ///
    /// let before = Db::open(&checkpoint.dir, Options::default())?;
    /// assert_eq!(before.get("apple")?.as_deref(), Some(&b"red"[..]));
    /// # before.close()?;
    /// # drop(secondary);
    /// # db.close()?;
    /// # Db::destroy(dir.join("before"))?;
    /// # Db::destroy(dir.join("db"))
    /// # }
    /// ```
    pub fn checkpoint(&self, dir: impl AsRef<Path>) -> Result<Checkpoint> {
        let follow = &self.0.follow;
        follow.checkpoint(&follow.shown(), dir.as_ref())
    }

    pub(crate) fn follow(&self) -> &Arc<Follow> {
        &self.0.follow
    }

    #[inline]
    pub(crate) fn reader(&self) -> Reader<'_, ShownRead> {
        Reader {
            read: ShownRead(self.0.follow.shown()),
            source: Source {
                keyspace: KeyspaceId::DEFAULT,
                at: None,
            },
            moment: None,
            handle: None,
        }
    }
}

impl fmt::Debug for Secondary {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Secondary")
            .field("seq", &self.seq())
            .finish_non_exhaustive()
    }
}

impl Drop for Inner {
    fn drop(&mut self) {
        if !self.follow.is_this_process() {
            // The thread is the parent's.
            if let Some(mut thread) = self.thread.try_lock() {
                mem::forget(thread.take());
            }
            mem::forget(Arc::clone(&self.follow));
            return;
        }
        self.follow.end();
        if let Some(thread) = self.thread.lock().take() {
            thread.join();
        }
    }
}
