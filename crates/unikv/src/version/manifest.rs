//! The manifest: the log of version edits, and `CURRENT`, which names it (`docs/format.md`).
//!
//! Invariants:
//! - *The commit point.* [`Manifest::append`] returns when the edit is durable. After a failure its
//!   fate is unknown: nothing is appended any more, and neither inputs nor outputs of the edit may
//!   be removed before a new manifest is durable under `CURRENT`.
//! - `CURRENT` is replaced by rename, after the manifest, its first edit and its name are durable.
//! - A recovered manifest is never appended to. Its last edit may be in the page cache only: it
//!   lets nothing be removed before a new manifest is durable under `CURRENT`.
//! - Edits are counted across manifests, to find lost ones ([`RecoveredManifest::check_edits`]).
//!
//! One owner, no locks.

mod current;
mod edits;
mod staying;
mod tail;

use super::edit::VersionEdit;
use super::file_names::{self, FileName};
use crate::base::file_header::FileKind;
use crate::base::keys::{DatabaseId, FileNumber, FileUid};
use crate::base::seeded::slip;
use crate::error::{Error, ErrorKind, Result};
use crate::log::{DurablePoint, LogItem, LogReader, LogWriter, TailCut};
use crate::vfs::file_store::FileStore;
use crate::vfs::{Access, Vfs, WriteMode};
use current::{CURRENT_LEN, encode_current};
pub(crate) use current::{Current, decode_current};
use edits::Edits;
pub(crate) use staying::StayingManifest;
use std::io;
use std::path::{Path, PathBuf};
pub(crate) use tail::ManifestTail;

/// The kinds of record in a manifest.
pub(crate) const KIND_EDIT: u8 = 1;
pub(crate) const KIND_POINT: u8 = 3;

/// The manifest that edits are appended to.
#[derive(Debug)]
pub(crate) struct Manifest {
    number: FileNumber,
    path: PathBuf,
    /// `None`: nothing is ever appended to it.
    log: Option<LogWriter>,
    len: u64,
    edits: u64,
    /// The end of the newest synced edit. The durable point after it is not synced.
    synced_end: u64,
    poisoned: Option<Error>,
}

/// What is left of a manifest.
#[derive(Debug)]
pub(crate) struct SalvagedManifest {
    pub(crate) recovered: RecoveredManifest,
    /// Why edits that were durable are missing, if that is so.
    pub(crate) damage: Option<String>,
    /// What is wrong with the file header, which hides no edit.
    pub(crate) header_damage: Option<String>,
}

/// What a manifest said.
#[derive(Debug)]
pub(crate) struct RecoveredManifest {
    pub(crate) database: DatabaseId,
    pub(crate) path: PathBuf,
    pub(crate) edits: Edits,
    pub(crate) cut: Option<TailCut>,
    /// How many edits the database has had; goes into the next snapshot as `edits_before`.
    pub(crate) edit_count: u64,
    /// Where the last whole edit ends.
    pub(crate) end: u64,
}

impl Manifest {
    /// Writes a manifest that begins with `snapshot` and makes it current. `snapshot.edits_before`
    /// is the [`RecoveredManifest::edit_count`] of its predecessor; the snapshot counts as an edit.
    pub(crate) fn create(
        store: &FileStore,
        number: FileNumber,
        snapshot: VersionEdit,
    ) -> Result<Manifest> {
        let mut manifest = Manifest::write(store, number, snapshot)?;
        manifest.make_current(store)?;
        Ok(manifest)
    }

    /// The first part of [`Manifest::create`]: all is durable but what `CURRENT` names. After an
    /// error nothing has changed.
    pub(crate) fn write(
        store: &FileStore,
        number: FileNumber,
        snapshot: VersionEdit,
    ) -> Result<Manifest> {
        let path = store.dir().join(file_names::manifest(number));
        let edits = snapshot.edits_before.unwrap_or(0) + 1;
        let log = write_snapshot(store, &path, number, snapshot)?;
        // Its name first: CURRENT must never name a file that a power cut can take away.
        let named = slip!(ManifestNameUnsynced, Ok(()), store.sync_directory());
        let staged = named.and_then(|()| write_next_current(store, number, log.uid()));
        staged.inspect_err(|_| {
            // Nothing names it; what cannot be removed now is swept at the next opening.
            let _swept_later = store.env().vfs.remove(&path);
        })?;
        Ok(Manifest {
            number,
            path,
            len: log.end(),
            log: Some(log),
            edits,
            synced_end: 0,
            poisoned: None,
        })
    }

    /// The second part: `CURRENT` is replaced. After an error it may name either manifest.
    pub(crate) fn make_current(&mut self, store: &FileStore) -> Result<()> {
        replace_current(store)?;
        self.claim_durable();
        Ok(())
    }

    /// Commits `edit`: returns when it is durable. After an error its fate is unknown, and every
    /// later append fails at once.
    pub(crate) fn append(&mut self, edit: &VersionEdit) -> Result<()> {
        if let Some(cause) = &self.poisoned {
            let remedy = "close the database and open it again";
            return Err(Error::writes_suspended(cause, remedy));
        }
        let committed = self.append_and_sync(edit);
        match committed {
            Ok(()) => {
                self.edits += 1;
                self.claim_durable();
                Ok(())
            }
            Err(error) => {
                self.poisoned = Some(error.clone());
                Err(error)
            }
        }
    }

    /// Why nothing more can be appended, if that is so.
    pub(crate) fn poisoned(&self) -> Option<&Error> {
        self.poisoned.as_ref()
    }

    /// Lets nothing more be appended: `CURRENT` may name another manifest.
    pub(crate) fn poison(&mut self, cause: &Error) {
        self.poisoned.get_or_insert_with(|| cause.clone());
    }

    /// How many edits the database has had; all of them are durable.
    pub(crate) fn edits(&self) -> u64 {
        self.edits
    }

    /// The length of the manifest in bytes.
    pub(crate) fn len(&self) -> u64 {
        self.len
    }

    /// The number in its name.
    pub(crate) fn number(&self) -> FileNumber {
        self.number
    }

    /// The path of the manifest.
    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    fn append_and_sync(&mut self, edit: &VersionEdit) -> Result<()> {
        self.stage_and_write(KIND_EDIT, &edit.encode())?;
        let file = self.log.as_ref().map(LogWriter::sync_handle);
        let sync = || file.map_or(Ok(()), |file| file.sync());
        let synced = slip!(ManifestUnsynced, Ok(()), sync());
        synced.map_err(|e| Error::io("sync this manifest", &self.path, e))
    }

    /// Notes after a synced edit that it is durable. The note itself needs no sync; when it
    /// cannot be written the edit stands, and the next append will fail.
    fn claim_durable(&mut self) {
        self.synced_end = self.len;
        self.poisoned = self.stage_and_write(KIND_POINT, &[]).err();
    }

    /// Writes a record that says up to where the manifest is durable.
    fn stage_and_write(&mut self, kind: u8, payload: &[u8]) -> Result<()> {
        let durable = DurablePoint {
            file: self.number,
            offset: slip!(MarkAheadOfSync, self.len, self.synced_end),
        };
        let Some(log) = &mut self.log else {
            return Err(Error::internal("an append to a manifest that only stays"));
        };
        log.stage(kind, &[payload], Some(durable));
        let written = log.write_staged();
        self.len = log.end();
        written
    }

    /// Reads `CURRENT` and the manifest it names.
    ///
    /// # Errors
    /// Not found where there is no database, or only the beginnings of one whose creation was
    /// interrupted. Corruption where `CURRENT` is missing from a database or damaged, or where
    /// edits that were durable are damaged.
    pub(crate) fn recover(vfs: &dyn Vfs, dir: &Path) -> Result<RecoveredManifest> {
        let current = read_current(vfs, dir)?;
        let path = dir.join(file_names::manifest(current.number));
        let opened = LogReader::open(vfs, &path, FileKind::Manifest, Some(current.database));
        let mut log = opened.map_err(|error| missing_manifest(vfs, &path, error))?;
        if (log.number(), log.uid()) != (current.number, current.uid) {
            let what = "this is not the manifest that CURRENT names";
            return Err(Error::corruption(&path, 0, what));
        }
        edits::read(&mut log, path)
    }

    /// Reads `CURRENT`. Errors as [`Manifest::recover`].
    pub(crate) fn read_current(vfs: &dyn Vfs, dir: &Path) -> Result<Current> {
        read_current(vfs, dir)
    }

    /// Reads as much of manifest `number` as is there, for a repair. `named`: `CURRENT` names it,
    /// so a damaged file header is made up for. `None`: not even its first edit can be read, or it
    /// is another manifest than `CURRENT` names.
    pub(crate) fn salvage(
        vfs: &dyn Vfs,
        dir: &Path,
        number: FileNumber,
        named: Option<&Current>,
    ) -> Result<Option<SalvagedManifest>> {
        let path = dir.join(file_names::manifest(number));
        let mut broken_header = None;
        let mut log = match LogReader::open(vfs, &path, FileKind::Manifest, None) {
            Ok(log) => log,
            Err(error) if error.kind() == ErrorKind::Incompatible => return Err(error),
            Err(error) => match (error.kind(), named) {
                (ErrorKind::Corruption, Some(current)) => {
                    broken_header = Some(error.to_string());
                    LogReader::open_headless(vfs, &path, number, current.uid)?
                }
                _ => return Ok(None),
            },
        };
        let is_it = |c: &Current| {
            let same = broken_header.is_some() || log.database() == c.database;
            same && (log.number(), log.uid()) == (c.number, c.uid)
        };
        if log.number() != number || !named.is_none_or(is_it) {
            return Ok(None);
        }
        let prefix = edits::read_prefix(&mut log, path)?;
        Ok(prefix.map(|(mut recovered, damage)| {
            if let Some(current) = named {
                recovered.database = current.database;
            }
            SalvagedManifest {
                recovered,
                damage,
                header_damage: broken_header,
            }
        }))
    }
}

impl RecoveredManifest {
    /// Compares with what the segments of the write-ahead log say: `durable_edits` edits were
    /// durable.
    ///
    /// # Errors
    /// Corruption, naming the manifest, if it has fewer.
    pub(crate) fn check_edits(&self, durable_edits: u64) -> Result<()> {
        if durable_edits <= self.edit_count {
            return Ok(());
        }
        let what = format!(
            "the manifest has lost edits: it holds {}, and {durable_edits} were durable",
            self.edit_count
        );
        Err(Error::corruption(&self.path, self.end, what))
    }
}

/// A manifest that `CURRENT` names was durable before: that it is not there is damage.
fn missing_manifest(vfs: &dyn Vfs, path: &Path, error: Error) -> Error {
    let gone = |e: io::Error| e.kind() == io::ErrorKind::NotFound;
    if error.kind() == ErrorKind::Io && vfs.len(path).is_err_and(gone) {
        return Error::corruption(path, 0, "the manifest that CURRENT names is missing");
    }
    error
}

/// Writes a manifest that holds `snapshot` and makes its bytes durable.
fn write_snapshot(
    store: &FileStore,
    path: &Path,
    number: FileNumber,
    snapshot: VersionEdit,
) -> Result<LogWriter> {
    let mut log = LogWriter::create(store, path.to_owned(), FileKind::Manifest, number)?;
    // It is as large as all that is known of files, so of its forms there are only two at a time.
    let payload = snapshot.encode();
    drop(snapshot);
    log.stage(KIND_EDIT, &[&payload], None);
    drop(payload);
    let sync = |log: &LogWriter| {
        let synced = log.sync_handle().sync();
        synced.map_err(|e| Error::io("sync this manifest", path, e))
    };
    let written = log.write_staged().and_then(|()| sync(&log));
    written.inspect_err(|_| {
        // Nothing names it yet; what cannot be removed now is swept at the next opening.
        let _swept_later = store.env().vfs.remove(path);
    })?;
    Ok(log)
}

/// Writes what is to become `CURRENT`: a new file, its bytes durable.
fn write_next_current(store: &FileStore, number: FileNumber, uid: FileUid) -> Result<()> {
    let vfs = &store.env().vfs;
    let temp = store.dir().join(file_names::CURRENT_TEMP);
    match vfs.remove(&temp) {
        Err(e) if e.kind() != io::ErrorKind::NotFound => {
            return Err(Error::io("remove this left-over file", &temp, e));
        }
        _ => {}
    }
    let bytes = encode_current(store.database(), number, uid, store.new_uid());
    let io = |e| Error::io("write this file", &temp, e);
    let mut file = vfs.create(&temp, WriteMode::Log, 0).map_err(io)?;
    file.append(&bytes).map_err(io)?;
    file.finish().map_err(io)
}

/// Puts it in the place of `CURRENT`, durably.
fn replace_current(store: &FileStore) -> Result<()> {
    let temp = store.dir().join(file_names::CURRENT_TEMP);
    let path = store.dir().join(file_names::CURRENT);
    let renamed = store.env().vfs.rename(&temp, &path);
    renamed.map_err(|e| Error::io("replace this file", &path, e))?;
    store.sync_directory()
}

fn read_current(vfs: &dyn Vfs, dir: &Path) -> Result<Current> {
    let path = dir.join(file_names::CURRENT);
    let file = match vfs.open(&path, Access::Sequential) {
        Ok(file) => file,
        Err(e) if e.kind() == io::ErrorKind::NotFound => return Err(no_current(vfs, dir)?),
        Err(e) => return Err(Error::io("open this file", &path, e)),
    };
    let mut bytes = vec![0; CURRENT_LEN + 1];
    let got = file
        .read_at(&mut bytes, 0)
        .map_err(|e| Error::io("read this file", &path, e))?;
    decode_current(bytes.get(..got).unwrap_or(&bytes), &path)
}

/// The error for a directory without `CURRENT`. A database has other files; when all there is are
/// manifests without a second edit, a database was being created and held nothing yet.
fn no_current(vfs: &dyn Vfs, dir: &Path) -> Result<Error> {
    let survey = file_names::survey(vfs, dir)?;
    let mut used = survey.has_data();
    for name in &survey.names {
        if let FileName::Manifest(number) = name {
            let path = dir.join(file_names::manifest(*number));
            used |= was_used(vfs, &path)?;
        }
    }
    Ok(if used {
        let what = "CURRENT is missing, and the directory holds files of a database";
        Error::corruption(&dir.join(file_names::CURRENT), 0, what)
    } else {
        Error::not_found(dir)
    })
}

/// Whether a manifest holds more than its first edit.
fn was_used(vfs: &dyn Vfs, path: &Path) -> Result<bool> {
    let mut log = match LogReader::open(vfs, path, FileKind::Manifest, None) {
        Ok(log) => log,
        Err(error) if error.kind() == ErrorKind::Corruption => return Ok(false),
        Err(error) => return Err(error),
    };
    let mut edits = 0;
    while let LogItem::Record { kind, .. } = log.next()? {
        edits += u64::from(kind == KIND_EDIT);
    }
    Ok(edits > 1)
}

#[cfg(test)]
mod tests;
