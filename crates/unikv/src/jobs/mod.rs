//! Background jobs as functions: a view goes in, new files and the parts of one version edit come
//! out. Nothing here commits; until the engine does, the new files are orphans that nothing lists.

pub(crate) mod compact;
pub(crate) mod compressions;
pub(crate) mod flush;
pub(crate) mod grant;
pub(crate) mod ingest;
pub(crate) mod late_syncs;
pub(crate) mod partitioning;
pub(crate) mod plan;
pub(crate) mod space;
pub(crate) mod written;

use crate::base::keys::FileNumber;
use crate::base::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use crate::codec::Dictionaries;
use crate::error::{Error, Result};
use crate::jobs::compact::retention::Readers;
use crate::jobs::compressions::Compressions;
use crate::jobs::late_syncs::LateSyncs;
use crate::key_table::{ReadCache, UnsyncedFile};
use crate::vfs::file_store::FileStore;
use std::cell::RefCell;
use std::collections::BTreeSet;
use std::path::PathBuf;
use std::sync::Arc;

/// What a job needs from the engine.
pub(crate) struct JobContext<'a> {
    pub(crate) store: &'a Arc<FileStore>,
    pub(crate) cache: &'a Arc<ReadCache>,
    pub(crate) next_file: &'a AtomicU64,
    pub(crate) cancel: Cancel<'a>,
    /// What has expired for whom.
    pub(crate) readers: Readers,
    pub(crate) hash_seed: u64,
    pub(crate) block_bytes: usize,
    pub(crate) key_table_bytes: usize,
    /// A key table is ended also when its newest records take this much: a partition is split
    /// between two of its key tables, so it must have several when it is large enough.
    pub(crate) key_table_referenced_bytes: u64,
    /// For the buffers of all files that a job reads from front to back.
    pub(crate) read_buffers_bytes: usize,
    /// A record file of copied values is ended at this size: small enough to be reclaimed piece by
    /// piece.
    pub(crate) copied_file_bytes: u64,
    /// Key tables among these are not written again only for what is obsolete in them.
    pub(crate) unreadable: BTreeSet<FileNumber>,
    /// How what is written is compressed.
    pub(crate) compressions: Compressions,
    /// How many memtables wait for the job. Asked now and then.
    pub(crate) waiting: Option<&'a dyn Fn() -> usize>,
    /// The dictionaries that jobs have learned last.
    pub(crate) dictionaries: &'a Dictionaries,
    /// The key tables that are to be synced together; `None`: each when it has been written.
    pub(crate) late_syncs: Option<RefCell<LateSyncs>>,
    /// Paths of the files the job has begun, to be removed if it fails.
    pub(crate) begun: RefCell<Vec<PathBuf>>,
    /// The job has its memory.
    pub(crate) _running: Running<'a>,
}

/// What some jobs need beside that.
#[derive(Clone, Copy, Default)]
pub(crate) struct Needs<'a> {
    /// How many memtables wait for the job. Asked now and then.
    pub(crate) waiting: Option<&'a dyn Fn() -> usize>,
    /// Key tables are synced together, when all have been written.
    pub(crate) syncs_late: bool,
}

/// How far a job goes that may end before all is done: the rest is for another.
#[derive(Clone, Copy)]
pub(crate) struct Slice<'a> {
    /// Bytes that it copies at most, and the record more that reaches them.
    pub(crate) most_bytes: u64,
    /// Whether others wait for what it keeps busy. Asked now and then.
    pub(crate) is_awaited: &'a dyn Fn() -> bool,
}

/// Counts the jobs that run.
#[derive(Debug, Default)]
pub(crate) struct Jobs {
    running: AtomicUsize,
    /// Since somebody asked last, one has run.
    have_run: AtomicBool,
}

/// A job that is counted among those that run.
pub(crate) struct Running<'a>(&'a Jobs);

impl Jobs {
    /// Counts a job for as long as what this returns lives.
    pub(crate) fn begin(&self) -> Running<'_> {
        self.have_run.store(true, Ordering::SeqCst);
        self.running.fetch_add(1, Ordering::SeqCst);
        Running(self)
    }

    /// Whether none runs.
    pub(crate) fn are_idle(&self) -> bool {
        self.running.load(Ordering::SeqCst) == 0
    }

    /// Whether a job runs, or has run since this was asked last.
    pub(crate) fn have_run(&self) -> bool {
        let running = self.running.load(Ordering::SeqCst) > 0;
        let have_run = self.have_run.swap(running, Ordering::SeqCst);
        // A job may be seen before the last look, and be counted after it.
        have_run || running
    }
}

impl Drop for Running<'_> {
    fn drop(&mut self) {
        self.0.running.fetch_sub(1, Ordering::SeqCst);
    }
}

/// When a job is to end early.
#[derive(Clone, Copy)]
pub(crate) struct Cancel<'a> {
    closing: &'a AtomicBool,
}

impl<'a> Cancel<'a> {
    /// When the database is being closed.
    pub(crate) fn at_closing(closing: &'a AtomicBool) -> Cancel<'a> {
        Cancel { closing }
    }

    /// `Closed` when the database is being closed.
    pub(crate) fn check(&self) -> Result<()> {
        if self.closing.load(Ordering::Relaxed) {
            Err(Error::closed())
        } else {
            Ok(())
        }
    }
}

impl JobContext<'_> {
    /// Creates a file under a new number. Once it is there its path is remembered for removal
    /// should the job fail: a file that is in the way of `create` is somebody else's.
    fn begin_file<T>(
        &self,
        name: impl FnOnce(FileNumber) -> String,
        create: impl FnOnce(FileNumber) -> Result<T>,
    ) -> Result<T> {
        let number = FileNumber(self.next_file.fetch_add(1, Ordering::Relaxed));
        let created = create(number)?;
        let path = self.store.dir().join(name(number));
        self.begun.borrow_mut().push(path);
        Ok(created)
    }

    /// Makes a file of the job durable, now or by [`JobContext::sync_late`].
    fn sync(&self, file: UnsyncedFile) -> Result<()> {
        match &self.late_syncs {
            Some(late) => late.borrow_mut().push(file),
            None => file.sync(),
        }
    }

    /// Makes those files durable that are to be synced late. Before that nothing may list them.
    pub(crate) fn sync_late(&self) -> Result<()> {
        let late = self.late_syncs.as_ref();
        late.map_or(Ok(()), |late| late.borrow_mut().sync())
    }

    /// The buffer of each of `files` that are read from front to back at a time.
    fn read_buffer_bytes(&self, files: usize) -> usize {
        self.read_buffers_bytes / files.max(1)
    }

    fn check_cancelled(&self) -> Result<()> {
        self.cancel.check()
    }
}
