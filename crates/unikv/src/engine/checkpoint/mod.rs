//! Checkpoints: the state of the database at one sequence number, as files (design: Checkpoints).
//!
//! A checkpoint is what the directory would be if the process died at one moment at which no write
//! is under way, without what nothing lists: the data files of a view, the files of large values
//! that its memtables name, the log up to the last write, and a manifest with one edit. So opening
//! one is recovery after a kill and nothing else. The memtables are not flushed: to copy the log of
//! a memtable takes a tenth of the time, makes nobody wait for the background, and works while jobs
//! fail.
//!
//! Invariants:
//! - View, numbers and the ends of the log are taken together, under the commit lock, in
//!   microseconds. All else is done without a lock.
//! - What is pinned stays: data files by their handles, segments of the log by
//!   [`WalSync::hold`](crate::engine::write::wal_sync::WalSync::hold), until they are copied.
//! - Data files never change, so they are linked. Segments are written over later: they are copied.
//! - A checkpoint has the database's id and its files their uids: that is what their checksums are
//!   bound to. From its first opening on it goes its own way. Files of both that have one number
//!   then differ in their uids, and each refuses the other's.
//!
//! Lock: `running` is held, shared, while anything is pinned; closing takes it alone before the
//! directory is released. Before `commit`.

pub(crate) mod copy;
pub(crate) mod new_dir;
mod report;
#[cfg(test)]
mod tests;

pub use report::{Checkpoint, CheckpointFile};

use crate::base::keys::{FileNumber, FileUid, SeqNo};
use crate::base::seeded::seeded;
use crate::base::sync::atomic::Ordering;
use crate::base::sync::{RwLock, RwLockReadGuard};
use crate::engine::catalog::Catalog;
use crate::engine::checkpoint::copy::{Copier, checksum_of};
use crate::engine::checkpoint::new_dir::NewDirectory;
use crate::engine::core::Core;
use crate::engine::read::ReadState;
use crate::engine::write::WritePath;
use crate::engine::write::wal_sync::Segment;
use crate::error::{Error, Result};
use crate::key_table::KeyTable;
use crate::partition::View;
use crate::record::RecordFile;
use crate::version::edit::VersionEdit;
use crate::version::file_names;
use crate::version::manifest::Manifest;
use crate::vfs::file_store::FileStore;
use bytes::Bytes;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// As often as this a segment may begin while the log is being looked at; each takes a memtable
/// full of writes.
const MOST_TRIES: usize = 16;
/// Files of a checkpoint that is being written need few handles.
const OPEN_FILES: usize = 4;

/// The component that makes checkpoints.
pub(crate) struct Checkpoints {
    core: Arc<Core>,
    read: Arc<ReadState>,
    catalog: Arc<Catalog>,
    write: Arc<WritePath>,
    running: RwLock<()>,
}

/// A part of the log: the first `len` bytes of a segment.
struct LogPart {
    path: PathBuf,
    number: FileNumber,
    len: u64,
}

/// A data file that a checkpoint lists.
#[derive(Clone, Copy)]
pub(crate) struct DataFile<'a> {
    pub(crate) path: &'a Path,
    pub(crate) uid: FileUid,
    pub(crate) len: u64,
    /// The CRC-32C of the whole file.
    pub(crate) checksum: u32,
}

impl DataFile<'_> {
    pub(crate) fn name(&self) -> String {
        name_of(self.path)
    }
}

/// A state of the database whose files stay as they are until this is dropped.
pub(crate) struct Pinned<'a> {
    core: &'a Core,
    pub(crate) seq: SeqNo,
    pub(crate) mark: Option<Bytes>,
    /// The time of the database, in milliseconds since 1970.
    pub(crate) time_ms: u64,
    manifest: FileNumber,
    snapshot: VersionEdit,
    record_files: Vec<Arc<RecordFile>>,
    key_tables: Vec<Arc<KeyTable>>,
    logs: Vec<LogPart>,
    segments: Option<HeldSegments<'a>>,
    _running: RwLockReadGuard<'a, ()>,
}

/// Keeps the files of the log.
struct HeldSegments<'a>(&'a Checkpoints);

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
            running: RwLock::default(),
        }
    }

    /// Waits until nothing is pinned. The database is closed, so that is soon.
    pub(crate) fn wait(&self) {
        drop(self.running.write());
    }

    /// Makes a checkpoint in `dir`, which is not there yet.
    pub(crate) fn create(&self, dir: &Path) -> Result<Checkpoint> {
        let core = &*self.core;
        core.check_open()?;
        if dir.starts_with(core.store.dir()) {
            let what = format!("{} is in the directory of the database", dir.display());
            return Err(Error::invalid(what, "choose a directory beside it"));
        }
        let begin = core.now();
        let vfs = &*core.store.env().vfs;
        let new = NewDirectory::begin(vfs, dir, |name| file_names::parse(name).is_some())?;
        let mut pinned = self.pin()?;
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
        let running = self.running.read();
        self.core.check_open()?;
        self.write.wal_sync.hold();
        let segments = HeldSegments(self);
        for _ in 0..MOST_TRIES {
            // Before the commit lock: a sync may have the list.
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
            let logs = parts_of_log(&listed, &view);
            drop(commit);
            return Ok(self.pinned(&view, seq, logs, segments, running));
        }
        let what = "segments of the log begin faster than they can be listed";
        Err(Error::writes_suspended(what, "retry"))
    }

    fn is_suspended(&self) -> bool {
        self.core.health.is_suspended()
    }

    fn pinned<'a>(
        &'a self,
        view: &View,
        seq: SeqNo,
        logs: Vec<LogPart>,
        segments: HeldSegments<'a>,
        running: RwLockReadGuard<'a, ()>,
    ) -> Pinned<'a> {
        let core = &*self.core;
        let version = &view.version;
        let manifest = core.next_file_number();
        let time_ms = core.clock.at_ms(core.now());
        let mut snapshot = version.snapshot();
        snapshot.next_file = Some(core.next_file.load(Ordering::Relaxed));
        // No segment of the log says that there were more.
        snapshot.edits_before = Some(self.catalog.manifest_edits());
        if core.clock.is_needed() {
            snapshot.clock_ms = Some(time_ms);
        }
        let mut record_files = version.record_files().to_vec();
        let memtables = view.sealed.iter().chain([&view.memtable]);
        if !seeded!(CheckpointForgetsBlobs) {
            let listed = |file: &Arc<RecordFile>| version.record_file(file.meta().number).is_some();
            let large = memtables.flat_map(|memtable| memtable.large.all());
            record_files.extend(large.filter(|file| !listed(file)));
        }
        let of_runs = version.scan_runs().flat_map(|run| run.tables());
        let key_tables = version.key_tables().chain(of_runs).cloned().collect();
        Pinned {
            core,
            seq,
            mark: view.mark(seq),
            time_ms,
            manifest,
            snapshot,
            record_files,
            key_tables,
            logs,
            segments: Some(segments),
            _running: running,
        }
    }
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

impl Pinned<'_> {
    pub(crate) fn copier(&self) -> Copier<'_> {
        Copier {
            vfs: &*self.core.store.env().vfs,
            of: Some(self.core),
        }
    }

    /// The data files, each once. They are complete and durable.
    pub(crate) fn data_files(&self) -> Vec<DataFile<'_>> {
        let records = self.record_files.iter().map(|file| DataFile {
            path: file.path(),
            uid: file.meta().uid,
            len: file.meta().len,
            checksum: file.meta().checksum,
        });
        let tables = self.key_tables.iter().map(|table| DataFile {
            path: table.path(),
            uid: table.meta().uid,
            len: table.meta().len,
            checksum: table.meta().checksum,
        });
        let mut files: Vec<_> = records.chain(tables).collect();
        files.sort_by_key(|file| file.path);
        files.dedup_by_key(|file| file.path);
        files
    }

    /// Copies the log to `dir`, durably but for the names. Then it is no longer held.
    pub(crate) fn copy_log(&mut self, dir: &Path) -> Result<Vec<CheckpointFile>> {
        let mut copies = Vec::new();
        for part in &self.logs {
            let name = file_names::wal(part.number);
            let copier = self.copier();
            let checksum = copier.copy(&part.path, &dir.join(&name), part.len)?;
            copies.push(CheckpointFile {
                name,
                bytes: part.len,
                checksum,
                is_linked: false,
            });
        }
        self.segments = None;
        Ok(copies)
    }

    /// Makes durable what is in `dir`, and then a manifest of it and `CURRENT`.
    pub(crate) fn write_manifest(&self, dir: &Path) -> Result<[CheckpointFile; 2]> {
        let store = &self.core.store;
        let env = store.env().clone();
        let store = FileStore::new(env, dir.to_owned(), store.database(), OPEN_FILES);
        Manifest::create_complete(&store, self.manifest, self.snapshot.clone())?;
        let vfs = &*store.env().vfs;
        let file = |name: String| {
            let (bytes, checksum) = checksum_of(vfs, &dir.join(&name))?;
            Ok(CheckpointFile {
                name,
                bytes,
                checksum,
                is_linked: false,
            })
        };
        let manifest = file(file_names::manifest(self.manifest))?;
        Ok([manifest, file(file_names::CURRENT.to_owned())?])
    }
}

fn name_of(path: &Path) -> String {
    let name = path.file_name().unwrap_or_default();
    name.to_string_lossy().into_owned()
}
