//! The lock file of a directory, in which who holds it writes its process id.

use super::directory::Directory;
use super::read_full;
use crate::vfs::{LockError, LockGuard};
use rustix::fs::{FlockOperation, OFlags};
use rustix::io::Errno;
use std::fs::File;
use std::io::{self, ErrorKind};
use std::os::unix::fs::FileExt;
use std::path::Path;

/// Held until it is dropped by the process that took it. Closing the file would not be enough
/// there: a child that another thread has forked shares the open file, and with it the lock, until
/// it executes its program. In such a child closing must be all, or it would free its parent's
/// lock.
#[derive(Debug)]
pub(super) struct OsLockGuard {
    pub(super) file: File,
    pub(super) taken_by: u32,
}

impl OsLockGuard {
    /// Of a file that this process has locked.
    pub(super) fn of(file: File) -> OsLockGuard {
        OsLockGuard {
            file,
            taken_by: std::process::id(),
        }
    }

    /// Locks the file at `path`, which is made if it is not there.
    pub(super) fn take(directory: &Directory, path: &Path) -> Result<OsLockGuard, LockError> {
        let file = lock_with(directory, path, OFlags::RDWR | OFlags::CREATE)?;
        // It serves messages alone, and a full disk has no room for it.
        let _unknown = write_pid(&file);
        Ok(OsLockGuard::of(file))
    }

    /// As [`OsLockGuard::take`]. A file that may not be written, as it is another user's or on a
    /// mount that is read-only here, is opened for reading, which is enough to lock it on a local
    /// disk.
    pub(super) fn take_to_read(
        directory: &Directory,
        path: &Path,
    ) -> Result<OsLockGuard, LockError> {
        let refused = match OsLockGuard::take(directory, path) {
            Err(LockError::Io(e)) if is_not_let(e.kind()) => e,
            taken => return taken,
        };
        match lock_with(directory, path, OFlags::RDONLY | OFlags::NONBLOCK) {
            Ok(file) => Ok(OsLockGuard::of(file)),
            Err(LockError::Held(holder)) => Err(LockError::Held(holder)),
            // NFS among others locks no file that is open for reading.
            Err(LockError::Io(_)) => Err(LockError::Io(refused)),
        }
    }
}

/// Opens and locks the file that has the name.
fn lock_with(directory: &Directory, path: &Path, flags: OFlags) -> Result<File, LockError> {
    loop {
        let file = directory.open(path, flags).map_err(LockError::Io)?;
        if lock_file(directory, path, &file)? {
            return Ok(file);
        }
    }
}

impl LockGuard for OsLockGuard {}

impl Drop for OsLockGuard {
    fn drop(&mut self) {
        if std::process::id() == self.taken_by {
            let _released_when_closed = rustix::fs::flock(&self.file, FlockOperation::Unlock);
        }
    }
}

fn is_not_let(kind: ErrorKind) -> bool {
    matches!(
        kind,
        ErrorKind::PermissionDenied | ErrorKind::ReadOnlyFilesystem
    )
}

/// Locks the file. False: it has lost the name `path` since it was opened, as whoever destroys a
/// database removes it; another one could lock a new file of that name.
pub(super) fn lock_file(
    directory: &Directory,
    path: &Path,
    file: &File,
) -> Result<bool, LockError> {
    let operation = FlockOperation::NonBlockingLockExclusive;
    match rustix::io::retry_on_intr(|| rustix::fs::flock(file, operation)) {
        Ok(()) => {}
        // `flock` belongs to the open file, so a second opener in this process meets it too.
        Err(Errno::WOULDBLOCK) => return Err(LockError::Held(read_pid(file))),
        Err(e) => return Err(LockError::Io(e.into())),
    }
    directory.is_at(file, path).map_err(LockError::Io)
}

fn write_pid(file: &File) -> io::Result<()> {
    file.set_len(0)?;
    file.write_all_at(format!("{}\n", std::process::id()).as_bytes(), 0)
}

/// The process id in a lock file; `None` while the holder has not written it yet.
fn read_pid(file: &File) -> Option<u32> {
    let mut buf = [0; 16];
    let len = read_full(file, &mut buf, 0).ok()?;
    std::str::from_utf8(&buf[..len]).ok()?.trim().parse().ok()
}
