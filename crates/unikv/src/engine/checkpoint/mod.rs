//! Checkpoints: the state at one sequence number, as files. A checkpoint is what a kill would leave
//! when no write is under way, so opening it is recovery. `docs/backup.md` lists its contents.
//!
//! Invariants:
//! - View, numbers and the ends of the log are taken together, under the commit lock, in
//!   microseconds. All else is done without a lock.
//! - What is pinned stays: data files by their handles, segments of the log by
//!   [`WalSync::hold`](crate::engine::write::wal_sync::WalSync::hold), until they are copied.
//! - Data files never change, so they are linked. Segments are written over: they are copied.
//! - The checkpoint keeps the database's id and its files' uids: checksums are bound to them.
//!
//! A pinned state is a use of the database, which closing waits for.

pub(crate) mod copy;
mod log_of_memtables;
pub(crate) mod new_dir;
mod pinned;
mod report;
#[cfg(test)]
mod tests;

pub(crate) use log_of_memtables::Wanted;
pub(crate) use pinned::{DataFile, Log, Numbers, Pinned};
pub use report::{Checkpoint, CheckpointFile};

use crate::base::keys::SeqNo;
use crate::base::sync::atomic::Ordering;
use crate::engine::catalog::Catalog;
use crate::engine::checkpoint::new_dir::NewDirectory;
use crate::engine::core::Core;
use crate::engine::read::ReadState;
use crate::engine::uses::Uses;
use crate::engine::write::WritePath;
use crate::engine::write::wal_sync::Segment;
use crate::error::{Error, Result};
use crate::partition::View;
use crate::version::file_names;
use pinned::LogPart;
use std::path::Path;
use std::sync::Arc;

/// As often as this a segment may begin while the log is being looked at; each takes a memtable
/// full of writes.
const MOST_TRIES: usize = 16;

/// The component that makes checkpoints.
pub(crate) struct Checkpoints {
    core: Arc<Core>,
    read: Arc<ReadState>,
    catalog: Arc<Catalog>,
    write: Arc<WritePath>,
    running: Uses,
}

/// Keeps the files of the log.
pub(crate) struct HeldSegments<'a>(&'a Checkpoints);

impl Drop for HeldSegments<'_> {
    fn drop(&mut self) {
        let Checkpoints { core, write, .. } = self.0;
        if core.process.is_this() {
            core.store.remove_files(write.wal_sync.release());
        }
    }
}

impl Checkpoints {
    pub(crate) fn new(
        core: &Arc<Core>,
        read: &Arc<ReadState>,
        catalog: &Arc<Catalog>,
        write: &Arc<WritePath>,
    ) -> Checkpoints {
        Checkpoints {
            core: Arc::clone(core),
            read: Arc::clone(read),
            catalog: Arc::clone(catalog),
            write: Arc::clone(write),
            running: Uses::default(),
        }
    }

    /// Waits until nothing is pinned. The database is closed, so that is soon.
    pub(crate) fn wait(&self) {
        self.running.wait();
    }

    /// Makes a checkpoint in `dir`, which is not there yet.
    pub(crate) fn create(&self, dir: &Path) -> Result<Checkpoint> {
        create(&self.core, dir, || self.pin())
    }

    /// Pins the state of the database as it is now.
    ///
    /// # Errors
    /// `Closed`, `Forked`; `WritesSuspended` and what a flush returns while the log has failed and
    /// not been begun again.
    pub(crate) fn pin(&self) -> Result<Pinned<'_>> {
        self.core.check_open()?;
        self.core.health.check_fatal()?;
        if self.core.health.is_suspended() {
            // What is acknowledged becomes durable in tables; then the log begins again.
            self.write.flush_memtables()?;
        }
        let running = self.running.begin(&self.core)?;
        self.write.wal_sync.hold();
        let segments = HeldSegments(self);
        for _ in 0..MOST_TRIES {
            // Before the commit lock: nobody else waits for it there.
            let listed = self.write.wal_sync.listed();
            let commit = self.write.commit.lock();
            self.core.check_open()?;
            let Some((_, current)) = commit.wal.as_ref().filter(|_| !self.is_suspended()) else {
                let remedy = "retry: writing resumes once the memtables have been flushed";
                return Err(Error::writes_suspended("the log has failed", remedy));
            };
            if !listed.last().is_some_and(|last| Arc::ptr_eq(last, current)) {
                continue;
            }
            // Nothing is being written: all that has a number is visible, and in view and log.
            let view = self.read.view.load_full();
            let seq = SeqNo(self.read.visible_seq.load(Ordering::Acquire));
            // A memtable forgets commit tags that later ones have replaced.
            let marked = (seq, view.commit_tag(seq));
            let logs = parts_of_log(&listed, &view);
            drop(commit);
            let numbers = Numbers {
                manifest: self.core.next_file_number(),
                next_file: self.core.next_file.load(Ordering::Relaxed),
                edits_before: self.catalog.manifest_edits(),
            };
            let log = Log::Held {
                parts: logs,
                segments,
            };
            let pinned = Pinned::new(&self.core, &view, marked, numbers, log);
            return Ok(pinned.holding(running));
        }
        let what = "segments of the log begin faster than they can be listed";
        Err(Error::writes_suspended(what, "retry"))
    }

    fn is_suspended(&self) -> bool {
        self.core.health.is_suspended()
    }
}

/// Makes a checkpoint in `dir`, which is not there yet, of what `pin` pins of the database with
/// this core.
pub(crate) fn create<'a>(
    core: &Core,
    dir: &Path,
    pin: impl FnOnce() -> Result<Pinned<'a>>,
) -> Result<Checkpoint> {
    core.check_open()?;
    core.check_outside(dir, "choose a directory beside it")?;
    let begin = core.now();
    let vfs = &*core.outside.vfs;
    let new = NewDirectory::begin(vfs, dir, |name| file_names::parse(name).is_some())?;
    let mut pinned = pin()?;
    let mut made = Checkpoint::of(dir, &pinned);
    made.files = pinned.copy_log(new.path())?;
    for file in pinned.data_files() {
        made.link_or_copy(&pinned.copier(), &file, new.path())?;
    }
    made.files.extend(pinned.write_manifest(new.path())?);
    drop(pinned);
    new.finish()?;
    made.elapsed = core.now().saturating_sub(begin);
    Ok(made)
}

/// What of the log the tables of `view` do not hold.
fn parts_of_log(listed: &[Arc<Segment>], view: &View) -> Vec<LogPart> {
    let low_water = view.version.counters.wal_low_water;
    let needed = listed.iter().filter(|segment| segment.number >= low_water);
    let part = |segment: &Arc<Segment>| LogPart {
        path: segment.path().to_owned(),
        number: segment.number,
        len: segment.end(),
    };
    needed.map(part).collect()
}
