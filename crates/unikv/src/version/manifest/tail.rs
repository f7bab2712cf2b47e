//! Reading a manifest while its writer goes on appending to it, for secondaries.
//!
//! The writer publishes how many edits are in force, counted over all manifests, and those are
//! whole. What stands behind them is left alone: its sync may fail. The first edit of a manifest is
//! a snapshot of what was in force when it became current, and so may be applied whatever is
//! published.
//!
//! One owner, no locks.

use super::{KIND_EDIT, KIND_POINT, Manifest};
use crate::base::file_header::FileKind;
use crate::base::keys::{DatabaseId, FileUid};
use crate::error::{Error, Result};
use crate::log::LogReader;
use crate::version::edit::VersionEdit;
use crate::version::file_names;
use crate::vfs::Vfs;
use std::path::{Path, PathBuf};

/// A manifest, and how far it has been read.
#[derive(Debug)]
pub(crate) struct ManifestTail {
    log: LogReader,
    path: PathBuf,
    /// The number of the last edit that was read.
    edits: Option<u64>,
}

impl ManifestTail {
    /// Opens the manifest that `CURRENT` names. Errors as [`Manifest::recover`]; a manifest that is
    /// missing may have been replaced.
    pub(crate) fn open(
        vfs: &dyn Vfs,
        dir: &Path,
        database: Option<DatabaseId>,
    ) -> Result<ManifestTail> {
        let current = Manifest::read_current(vfs, dir)?;
        if database.is_some_and(|database| database != current.database) {
            let what = "another database has taken the place of the one that was followed";
            let path = dir.join(file_names::CURRENT);
            return Err(Error::incompatible(&path, what, "open another secondary"));
        }
        let path = dir.join(file_names::manifest(current.number));
        let log = LogReader::open(vfs, &path, FileKind::Manifest, Some(current.database))?;
        if (log.number(), log.uid()) != (current.number, current.uid) {
            let what = "this is not the manifest that CURRENT names";
            return Err(Error::corruption(&path, 0, what));
        }
        Ok(ManifestTail {
            log,
            path,
            edits: None,
        })
    }

    /// Whether `CURRENT` names it still.
    pub(crate) fn is_current(&self, vfs: &dyn Vfs, dir: &Path) -> Result<bool> {
        Ok(Manifest::read_current(vfs, dir)?.uid == self.uid())
    }

    pub(crate) fn uid(&self) -> FileUid {
        self.log.uid()
    }

    pub(crate) fn database(&self) -> DatabaseId {
        self.log.database()
    }

    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    /// The number of the last edit that was read; 0 before the first.
    pub(crate) fn edits(&self) -> u64 {
        self.edits.unwrap_or(0)
    }

    /// Looks for what has been appended.
    pub(crate) fn reload(&mut self) -> Result<()> {
        self.log.reload()
    }

    /// The next edit up to that with the number `until`, which is in force. The first edit comes in
    /// any case.
    pub(crate) fn next(&mut self, until: u64) -> Result<Option<VersionEdit>> {
        loop {
            if self.edits.is_some_and(|edits| edits >= until) {
                return Ok(None);
            }
            let Some((kind, offset, payload)) = self.log.poll()? else {
                if until == u64::MAX && self.edits.is_some() {
                    return Ok(None);
                }
                let what = "the manifest ends before the last edit that is in force";
                return Err(Error::corruption(&self.path, self.log.offset(), what));
            };
            match kind {
                KIND_POINT => {}
                KIND_EDIT => {
                    let edit = VersionEdit::decode(payload, &self.path, offset)?;
                    let before = self.edits.or(edit.edits_before).unwrap_or(0);
                    self.edits = Some(before + 1);
                    return Ok(Some(edit));
                }
                _ => {
                    let what = format!("manifest record kind {kind} is unknown");
                    let remedy = "open it with the newer release that wrote it";
                    return Err(Error::incompatible(&self.path, what, remedy));
                }
            }
        }
    }
}
