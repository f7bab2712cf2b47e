//! A log: each append is in the kernel when it returns. It may be written over an old file.
//!
//! Invariant: `broken` is set by the first failed append and refuses all later ones, because a
//! short write may have left a torn record that nothing may follow.

use super::{OsSyncFile, broken_file};
use crate::vfs::{SyncFile, WriteFile};
use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;
use std::sync::Arc;

#[derive(Debug)]
pub(super) struct LogFile {
    file: Arc<File>,
    len: u64,
    broken: bool,
}

impl LogFile {
    /// Writes to `file` from its front.
    pub(super) fn new(file: Arc<File>) -> LogFile {
        LogFile {
            file,
            len: 0,
            broken: false,
        }
    }
}

impl WriteFile for LogFile {
    fn append(&mut self, bytes: &[u8]) -> io::Result<()> {
        if self.broken {
            return Err(broken_file());
        }
        // `write_all_at` goes on after short writes and interrupts.
        if let Err(e) = self.file.write_all_at(bytes, self.len) {
            self.broken = true;
            return Err(e);
        }
        self.len += bytes.len() as u64;
        Ok(())
    }

    fn len(&self) -> u64 {
        self.len
    }

    fn rewind(&mut self, bytes: u64) -> io::Result<()> {
        let len = self.len.checked_sub(bytes);
        self.len = len.ok_or(io::ErrorKind::InvalidInput)?;
        Ok(())
    }

    fn sync_handle(&self) -> Arc<dyn SyncFile> {
        Arc::new(OsSyncFile {
            file: Arc::clone(&self.file),
        })
    }

    fn finish_unsynced(self: Box<Self>) -> io::Result<Arc<dyn SyncFile>> {
        if self.broken {
            return Err(broken_file());
        }
        Ok(self.sync_handle())
    }
}
