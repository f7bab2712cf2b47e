//! What a test sees and changes of a disk without a call that is counted or fails.
//!
//! Locks: `disk`, and the content of a file under it.

use super::SimVfs;
use std::path::{Path, PathBuf};

impl SimVfs {
    /// Flips one bit of a file, as a failing medium would. Returns whether the file has that bit.
    pub fn flip_bit(&self, path: &Path, bit: u64) -> bool {
        let inode = self.machine.disk.lock().find(path);
        inode.is_ok_and(|inode| inode.content.lock().flip_bit(bit))
    }

    /// The bytes of a file as a reader would see them.
    pub fn read_file(&self, path: &Path) -> Option<Vec<u8>> {
        let inode = self.machine.disk.lock().find(path).ok()?;
        let bytes = inode.content.lock().bytes().to_vec();
        Some(bytes)
    }

    /// Puts a durable file at `path`, replacing what was there. Its directory is created, and all
    /// names in it become durable.
    pub fn write_file(&self, path: &Path, bytes: &[u8]) {
        self.machine.disk.lock().put_durable(path, bytes);
    }

    /// The paths of all files, sorted.
    pub fn file_names(&self) -> Vec<PathBuf> {
        self.machine.disk.lock().paths()
    }

    /// Lets the disk take `bytes` more before it is full; `None` lifts the limit.
    pub fn set_free_space(&self, bytes: Option<u64>) {
        self.machine.disk.lock().free = bytes;
    }
}
