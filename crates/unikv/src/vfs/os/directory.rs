//! A directory that is held open, so that its files are found wherever it is moved to.
//!
//! A path is only a name: the directory behind it may be moved, another one may take its place, and
//! a relative path means something else after a change of the working directory. A database must
//! work in the directory that it has locked. So paths in the held directory are looked up relative
//! to its descriptor, by their last component (`openat` and its kin), and its path serves messages
//! alone.
//!
//! Invariant: the descriptor stays open as long as anybody may look up a name.

use super::descriptors;
use rustix::fs::{AtFlags, CWD, Mode, OFlags, Stat};
use rustix::io::{Errno, retry_on_intr};
use std::fs::File;
use std::io::{self, ErrorKind};
use std::os::fd::{AsFd, BorrowedFd};
use std::path::{Path, PathBuf};
use std::sync::Arc;

#[derive(Debug)]
struct Held {
    path: PathBuf,
    file: File,
}

/// Where paths are looked up: in a held directory, if they are in it, else from the working
/// directory.
#[derive(Clone, Debug, Default)]
pub(super) struct Directory(Option<Arc<Held>>);

impl Directory {
    /// Holds the directory that is at `path` now.
    pub(super) fn hold(path: &Path) -> io::Result<Directory> {
        let flags = OFlags::RDONLY | OFlags::DIRECTORY;
        let opened = if path.as_os_str().is_empty() {
            Path::new(".")
        } else {
            path
        };
        let held = Held {
            file: Directory::default().open(opened, flags)?,
            path: path.to_owned(),
        };
        Ok(Directory(Some(Arc::new(held))))
    }

    /// The descriptor, if `path` is the path of the held directory.
    pub(super) fn held(&self, path: &Path) -> Option<&File> {
        let held = self.0.as_deref().filter(|held| held.path == path)?;
        Some(&held.file)
    }

    /// From where to look up `path`, and as what.
    fn at<'a>(&'a self, path: &'a Path) -> (BorrowedFd<'a>, &'a Path) {
        let held = path.parent().and_then(|parent| self.held(parent));
        match (held, path.file_name()) {
            (Some(file), Some(name)) => (file.as_fd(), Path::new(name)),
            _ => (CWD, path),
        }
    }

    /// Opens a file; one that is created may be read and written by all whom the process's mask
    /// lets.
    pub(super) fn open(&self, path: &Path, flags: OFlags) -> io::Result<File> {
        let (at, name) = self.at(path);
        let (flags, mode) = (flags | OFlags::CLOEXEC, Mode::from_raw_mode(0o666));
        let open = || Ok(retry_on_intr(|| rustix::fs::openat(at, name, flags, mode))?);
        descriptors::take(open).map(File::from)
    }

    pub(super) fn link(&self, from: &Path, to: &Path) -> io::Result<()> {
        let ((from_at, from), (to_at, to)) = (self.at(from), self.at(to));
        let flags = AtFlags::empty();
        Ok(rustix::fs::linkat(from_at, from, to_at, to, flags)?)
    }

    pub(super) fn rename(&self, from: &Path, to: &Path) -> io::Result<()> {
        let ((from_at, from), (to_at, to)) = (self.at(from), self.at(to));
        Ok(rustix::fs::renameat(from_at, from, to_at, to)?)
    }

    pub(super) fn remove(&self, path: &Path) -> io::Result<()> {
        let (at, name) = self.at(path);
        Ok(rustix::fs::unlinkat(at, name, AtFlags::empty())?)
    }

    pub(super) fn len(&self, path: &Path) -> io::Result<u64> {
        let (at, name) = self.at(path);
        let stat = rustix::fs::statat(at, name, AtFlags::empty())?;
        Ok(u64::try_from(stat.st_size).unwrap_or_default())
    }

    /// Whether `path` leads to this open file.
    pub(super) fn is_at(&self, file: &File, path: &Path) -> io::Result<bool> {
        let (at, name) = self.at(path);
        let there = match rustix::fs::statat(at, name, AtFlags::empty()) {
            Ok(there) => there,
            Err(Errno::NOENT) => return Ok(false),
            Err(e) => return Err(e.into()),
        };
        Ok(is_one(&rustix::fs::fstat(file)?, &there))
    }

    /// Fails if `path` is that of the held directory and another one stands there now, or none.
    pub(super) fn check_in_place(&self, path: &Path) -> io::Result<()> {
        let Some(held) = self.held(path) else {
            return Ok(());
        };
        let (held, there) = (rustix::fs::fstat(held)?, rustix::fs::stat(path)?);
        if is_one(&held, &there) {
            return Ok(());
        }
        let what = "another directory has taken the place of this one";
        Err(io::Error::new(ErrorKind::NotFound, what))
    }
}

/// Whether both are of one file.
fn is_one(a: &Stat, b: &Stat) -> bool {
    (a.st_dev, a.st_ino) == (b.st_dev, b.st_ino)
}
