//! A state of a database as files that stay as they are: of these checkpoints and backups are made.

use crate::base::keys::{FileNumber, FileUid, SeqNo};
use crate::base::seeded::seeded;
use crate::engine::checkpoint::copy::{Copier, checksum_of};
use crate::engine::checkpoint::log_of_memtables::{self, Wanted};
use crate::engine::checkpoint::{CheckpointFile, HeldSegments};
use crate::engine::core::Core;
use crate::engine::uses::Use;
use crate::error::Result;
use crate::key_table::KeyTable;
use crate::partition::View;
use crate::record::RecordFile;
use crate::version::edit::VersionEdit;
use crate::version::file_names;
use crate::version::manifest::Manifest;
use crate::vfs::file_store::{self, FileStore};
use bytes::Bytes;
use std::mem;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// Files of a checkpoint that is being written need few handles.
const OPEN_FILES: usize = 4;

/// A part of the log: the first `len` bytes of a segment.
pub(crate) struct LogPart {
    pub(super) path: PathBuf,
    pub(super) number: FileNumber,
    pub(super) len: u64,
}

/// What of the database no table holds.
pub(crate) enum Log<'a> {
    /// Segments that nobody writes over, or removes, as long as this is there.
    Held {
        parts: Vec<LogPart>,
        segments: HeldSegments<'a>,
    },
    /// It has been copied.
    Copied,
    /// What a secondary has read, for a segment of this number.
    Read(Wanted, FileNumber),
}

/// A data file that a checkpoint lists.
#[derive(Clone, Copy)]
pub(crate) struct DataFile<'a> {
    pub(crate) path: &'a Path,
    pub(crate) uid: FileUid,
    pub(crate) len: u64,
    /// The CRC-32C of the whole file.
    pub(crate) checksum: u32,
    /// The file itself, where its name may be gone.
    open: Option<&'a file_store::DataFile>,
}

/// A state of the database whose files stay as they are until this is dropped.
pub(crate) struct Pinned<'a> {
    pub(super) core: &'a Core,
    pub(crate) seq: SeqNo,
    pub(crate) commit_tag: Option<Bytes>,
    /// The time of the database, in milliseconds since 1970.
    pub(crate) time_ms: u64,
    manifest: FileNumber,
    snapshot: VersionEdit,
    record_files: Vec<Arc<RecordFile>>,
    key_tables: Vec<Arc<KeyTable>>,
    log: Log<'a>,
    /// The database is not released before this.
    _running: Option<Use<'a>>,
}

/// What a manifest of a state has that its view does not say.
pub(crate) struct Numbers {
    /// Of the manifest.
    pub(crate) manifest: FileNumber,
    /// The one after all that are used.
    pub(crate) next_file: u64,
    /// Edits that segments of the log may say there were.
    pub(crate) edits_before: u64,
}

impl DataFile<'_> {
    pub(crate) fn name(&self) -> String {
        name_of(self.path)
    }

    /// Copies it to a new file, which is durable then but for its name. Returns the CRC-32C.
    pub(crate) fn copy(&self, copier: &Copier<'_>, to: &Path) -> Result<u32> {
        match self.open {
            Some(open) => copier.copy_open(open, to, self.len),
            None => copier.copy(self.path, to, self.len),
        }
    }

    /// Gives it the name `to`, too. `Err`: why it has not got it, and has to be copied.
    pub(super) fn link(&self, copier: &Copier<'_>, to: &Path) -> std::result::Result<(), String> {
        if copier.of.is_some_and(Core::is_in_memory) {
            return Err("the database is in memory".to_owned());
        }
        // Looked up where the database is, whatever stands under its name by now.
        let linked = copier.from.link(self.path, to);
        linked.map_err(|refused| refused.to_string())?;
        let Some(open) = self.open else {
            return Ok(());
        };
        match copier.is_same(open, to, self.len) {
            Ok(true) => Ok(()),
            _ => {
                // Nothing else may stand there when it is copied.
                let _fails_then = copier.vfs.remove(to);
                Err("the writer has put another file in the place of this one".to_owned())
            }
        }
    }
}

impl<'a> Pinned<'a> {
    pub(crate) fn new(
        core: &'a Core,
        view: &View,
        (seq, commit_tag): (SeqNo, Option<Bytes>),
        numbers: Numbers,
        log: Log<'a>,
    ) -> Pinned<'a> {
        let version = &view.version;
        let time_ms = core.clock.at_ms(core.now());
        let mut snapshot = version.snapshot();
        snapshot.next_file = Some(numbers.next_file);
        // No segment of the log says that there were more.
        snapshot.edits_before = Some(numbers.edits_before);
        if let Log::Read(_, number) = &log {
            snapshot.wal_low_water = Some(*number);
            snapshot.wal_durable = None;
            // The log of the copy does not have what is in tables, nor which writes came together.
            if let Some(history) = snapshot.history.as_mut() {
                Arc::make_mut(history).forget_until(seq);
            }
        }
        if core.clock.is_needed() {
            snapshot.clock_ms = Some(core.clock.note_ms());
        }
        let mut record_files: Vec<_> = version.record_files().iter().cloned().collect();
        if !seeded!(CheckpointForgetsBlobs) {
            let listed = |file: &Arc<RecordFile>| version.record_file(file.meta().number).is_some();
            let large = view.memtables().flat_map(|memtable| memtable.large.all());
            record_files.extend(large.filter(|file| !listed(file)));
        }
        let of_runs = version.scan_runs().flat_map(|run| run.tables());
        let key_tables = version.key_tables().chain(of_runs).cloned().collect();
        Pinned {
            core,
            seq,
            commit_tag,
            time_ms,
            manifest: numbers.manifest,
            snapshot,
            record_files,
            key_tables,
            log,
            _running: None,
        }
    }

    /// The database is not released as long as this is there.
    pub(super) fn holding(self, running: Use<'a>) -> Pinned<'a> {
        Pinned {
            _running: Some(running),
            ..self
        }
    }

    pub(crate) fn copier(&self) -> Copier<'_> {
        Copier {
            from: &*self.core.store.env().vfs,
            vfs: &*self.core.outside.vfs,
            of: Some(self.core),
        }
    }

    /// The data files, each once. They are complete and durable.
    pub(crate) fn data_files(&self) -> Vec<DataFile<'_>> {
        // A secondary's may have lost their names; it has them open.
        let is_read = matches!(self.log, Log::Read(..));
        let records = self.record_files.iter().map(|file| DataFile {
            path: file.path(),
            uid: file.meta().uid,
            len: file.meta().len,
            checksum: file.meta().checksum,
            open: is_read.then(|| file.data_file()),
        });
        let tables = self.key_tables.iter().map(|table| DataFile {
            path: table.path(),
            uid: table.meta().uid,
            len: table.meta().len,
            checksum: table.meta().checksum,
            open: is_read.then(|| table.data_file()),
        });
        let mut files: Vec<_> = records.chain(tables).collect();
        files.sort_by_key(|file| file.path);
        files.dedup_by_key(|file| file.path);
        files
    }

    /// Puts the log into `dir`, durably but for the names. Then it is no longer held.
    pub(crate) fn copy_log(&mut self, dir: &Path) -> Result<Vec<CheckpointFile>> {
        if let Log::Read(wanted, number) = &self.log {
            log_of_memtables::write(&self.store_in(dir), *number, wanted)?;
            return Ok(vec![self.written(dir, file_names::wal(*number))?]);
        }
        let Log::Held { parts, segments } = mem::replace(&mut self.log, Log::Copied) else {
            return Ok(Vec::new());
        };
        let mut copies = Vec::new();
        for part in &parts {
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
        drop(segments);
        Ok(copies)
    }

    /// A file in `dir` that was just written.
    fn written(&self, dir: &Path, name: String) -> Result<CheckpointFile> {
        let vfs = &*self.core.outside.vfs;
        let (bytes, checksum) = checksum_of(vfs, &dir.join(&name))?;
        Ok(CheckpointFile {
            name,
            bytes,
            checksum,
            is_linked: false,
        })
    }

    fn store_in(&self, dir: &Path) -> Arc<FileStore> {
        let store = &self.core.store;
        let env = self.core.outside.clone();
        FileStore::new(env, dir.to_owned(), store.database(), OPEN_FILES)
    }

    /// Makes durable what is in `dir`, and then a manifest of it and `CURRENT`.
    pub(crate) fn write_manifest(&self, dir: &Path) -> Result<[CheckpointFile; 2]> {
        let store = self.store_in(dir);
        Manifest::create_complete(&store, self.manifest, self.snapshot.clone())?;
        let manifest = self.written(dir, file_names::manifest(self.manifest))?;
        Ok([manifest, self.written(dir, file_names::CURRENT.to_owned())?])
    }
}

fn name_of(path: &Path) -> String {
    let name = path.file_name().unwrap_or_default();
    name.to_string_lossy().into_owned()
}
