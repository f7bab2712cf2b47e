//! Files of a job that are synced together, some time after they were written.
//!
//! A sync waits for the device, and on most file systems for the journal, too, which one commit
//! makes durable for all files that are waiting for it. So a job that writes many small files syncs
//! them when several are there, and the last of them before its edit is committed.
//!
//! Invariant: after a failed sync there is no successful one. What became of the bytes is unknown,
//! and another sync may find nothing to do.

use crate::error::{Error, Result};
use crate::key_table::UnsyncedFile;
use std::io;
use std::path::PathBuf;

/// Files that are open at a time because they are not synced yet. Each takes a descriptor, which
/// readers may need; 64 were hardly faster.
pub(crate) const MOST_FILES: usize = 32;

/// The files of a job that are not synced yet.
#[derive(Default)]
pub(crate) struct LateSyncs {
    files: Vec<UnsyncedFile>,
    /// The file of which a sync has failed.
    failed: Option<PathBuf>,
}

impl LateSyncs {
    /// Takes a file, and syncs all of them if that makes too many.
    pub(super) fn push(&mut self, file: UnsyncedFile) -> Result<()> {
        self.files.push(file);
        if self.files.len() < MOST_FILES {
            return Ok(());
        }
        self.sync()
    }

    /// Makes the bytes of all files durable.
    pub(super) fn sync(&mut self) -> Result<()> {
        if let Some(path) = &self.failed {
            let cause = io::Error::other("an earlier sync of it failed");
            return Err(Error::io("finish a data file", path, cause));
        }
        for file in self.files.drain(..) {
            file.sync()
                .inspect_err(|_| self.failed = Some(file.path().to_owned()))?;
        }
        Ok(())
    }
}
