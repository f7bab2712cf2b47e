//! Directories that are held, that move, and that others replace; and the working directory.
//!
//! A directory that is held has a number, which it keeps wherever it is moved to. Another one that
//! takes its place, and one that is made there after it was removed, have not.

use super::SimVfs;
use super::disk::Disk;
use super::inode::Inode;
use super::names::{Dir, Moved};
use std::io::{self, ErrorKind};
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// A directory that is held: its path when that began, and which it is.
#[derive(Clone)]
pub(super) struct Held {
    pub(super) path: PathBuf,
    pub(super) hold: u64,
}

impl SimVfs {
    /// Moves a directory with all that is in it, durably, as another process might do.
    ///
    /// # Errors
    /// `NotFound`, or `AlreadyExists` if something is at `to`.
    pub fn move_dir(&self, from: &Path, to: &Path) -> io::Result<()> {
        self.machine.disk.lock().move_dir(from, to)
    }

    /// Has relative paths start at `dir` from now on.
    pub fn set_working_dir(&self, dir: &Path) {
        self.machine.disk.lock().working_dir = dir.to_owned();
    }

    /// The same disk, for work in the directory that `dir` is now.
    pub(super) fn hold(&self, dir: &Path) -> io::Result<SimVfs> {
        let mut disk = self.machine.disk.lock();
        let at = self.resolve(&disk, dir)?;
        let (path, hold) = (dir.to_owned(), disk.hold(&at)?);
        Ok(SimVfs {
            machine: Arc::clone(&self.machine),
            held: Some(Held { path, hold }),
        })
    }

    /// The file at `path`.
    pub(super) fn find(&self, path: &Path) -> io::Result<Arc<Inode>> {
        let disk = self.machine.disk.lock();
        disk.find(&self.resolve(&disk, path)?)
    }

    /// Where `path` leads on the disk now.
    pub(super) fn resolve(&self, disk: &Disk, path: &Path) -> io::Result<PathBuf> {
        let held = self.held.as_ref();
        match (held, path.parent(), path.file_name()) {
            (Some(held), _, _) if held.path == path => Ok(disk.held(held.hold)?.to_owned()),
            (Some(held), Some(parent), Some(name)) if held.path == parent => {
                Ok(disk.held(held.hold)?.join(name))
            }
            _ => Ok(disk.working_dir.join(path)),
        }
    }
}

impl Disk {
    /// Holds the directory at `dir`; it is found by what this returns, wherever it is moved to.
    pub(super) fn hold(&mut self, dir: &Path) -> io::Result<u64> {
        self.next_hold += 1;
        let next = self.next_hold;
        let found = self.dir(dir)?;
        Ok(*found.held_as.get_or_insert(next))
    }

    /// Where the held directory is now.
    pub(super) fn held(&self, hold: u64) -> io::Result<&Path> {
        let is_held = |(_, d): &(&PathBuf, &Dir)| d.held_as == Some(hold) && d.removed.is_none();
        let found = self.dirs.iter().find(is_held);
        let (path, _) = found.ok_or(ErrorKind::NotFound)?;
        Ok(path)
    }

    /// Renames a directory; which name it has after a power cut is open until its parent is synced.
    pub(super) fn rename_dir(&mut self, from: &Path, to: &Path) -> io::Result<()> {
        let (parent, is_within) = (from.parent(), |dir: &&PathBuf| dir.parent() == Some(from));
        if parent != to.parent() || self.dirs.keys().any(|dir| is_within(&dir)) {
            let what = "the simulated disk renames within one directory, and no tree";
            return Err(io::Error::new(ErrorKind::Unsupported, what));
        }
        self.move_dir(from, to)?;
        let at = self.tick();
        let found = self.dir(to)?;
        let before = found.moved.take().map(|moved| moved.from);
        found.moved = Some(Moved {
            from: before.unwrap_or_else(|| from.to_owned()),
            at,
            is_doubtful: false,
        });
        Ok(())
    }

    /// Moves a directory and all that is in it, as another process might, durably.
    pub(super) fn move_dir(&mut self, from: &Path, to: &Path) -> io::Result<()> {
        self.dir(from)?;
        if self.list(to).is_ok() || self.find(to).is_ok() {
            return Err(ErrorKind::AlreadyExists.into());
        }
        let moved: Vec<PathBuf> = self
            .dirs
            .keys()
            .filter(|dir| dir.starts_with(from))
            .cloned()
            .collect();
        for dir in moved {
            let below = dir
                .strip_prefix(from)
                .map_err(|_| ErrorKind::InvalidInput)?;
            let place = to.join(below);
            if let Some(found) = self.dirs.remove(&dir) {
                self.dirs.insert(place, found);
            }
        }
        Ok(())
    }
}
