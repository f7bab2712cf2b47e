//! A directory that appears under its name whole, or not at all.
//!
//! It is filled under a temporary name beside its own (`NAME.unfinished`), and renamed at the end.
//! What a crash has left under the temporary name is removed by the next attempt, if nothing else
//! is in it. The lock file in it keeps two attempts apart.

use crate::base::seeded::slip;
use crate::error::{Error, Result};
use crate::version::file_names::LOCK;
use crate::vfs::{LockError, LockGuard, Process, Vfs, named_path};
use std::io;
use std::path::{Path, PathBuf};

/// Behind the name of a directory that is being made.
pub(crate) const UNFINISHED: &str = ".unfinished";

pub(crate) struct NewDirectory<'a> {
    vfs: &'a dyn Vfs,
    dir: PathBuf,
    temp: PathBuf,
    /// Which files may stand in it.
    is_ours: fn(&str) -> bool,
    /// `None`: it has its name, or may have it after a power cut.
    lock: Option<Box<dyn LockGuard>>,
    /// Whose attempt it is.
    process: Process,
}

impl<'a> NewDirectory<'a> {
    /// Begins a directory that is to have the name `dir`. Files in it are those that `is_ours`
    /// knows, and a lock file.
    ///
    /// # Errors
    /// `InvalidArgument` if something has the name; `Locked` if another attempt is under way;
    /// `Incompatible` if something else is under the temporary name; `Io`, `DiskFull`.
    pub(crate) fn begin(
        vfs: &'a dyn Vfs,
        dir: &Path,
        is_ours: fn(&str) -> bool,
    ) -> Result<NewDirectory<'a>> {
        let dir = &named_path::new_directory(dir)?;
        let name = dir.file_name().unwrap_or(dir.as_os_str());
        if is_there(vfs, dir)? {
            let what = format!("{} is there already", dir.display());
            return Err(Error::invalid(what, "choose a name that nothing has"));
        }
        let mut temp_name = name.to_owned();
        temp_name.push(UNFINISHED);
        let temp = dir.with_file_name(temp_name);
        let created = vfs.create_dir_all(&temp);
        created.map_err(|e| Error::io("create the directory", &temp, e))?;
        let lock = lock_dir(vfs, &temp)?;
        let new = NewDirectory {
            vfs,
            dir: dir.to_owned(),
            temp,
            is_ours,
            lock: Some(lock),
            process: Process::this(),
        };
        // While it waited for the lock, the other attempt may have succeeded.
        if is_there(vfs, dir)? {
            let what = format!("{} is there already", dir.display());
            return Err(Error::invalid(what, "choose a name that nothing has"));
        }
        new.clear()?;
        Ok(new)
    }

    /// Where it is filled.
    pub(crate) fn path(&self) -> &Path {
        &self.temp
    }

    /// Gives it its name, durably. What is in it is durable. After an error it has not got it,
    /// unless the system does not take it back either: no later sync would make up for one that
    /// failed.
    pub(crate) fn finish(mut self) -> Result<()> {
        let renamed = self.vfs.rename(&self.temp, &self.dir);
        renamed.map_err(|e| Error::io("rename the directory", &self.temp, e))?;
        let parent = parent_of(&self.dir);
        let synced = slip!(CheckpointNameUnsynced, Ok(()), self.vfs.sync_dir(parent));
        if synced.is_ok() || !self.take_back(parent) {
            self.lock = None;
        }
        synced.map_err(|e| Error::io("sync the directory", parent, e))
    }

    /// Takes the name back. False: it may come back, so what is in it stays as it is.
    fn take_back(&self, parent: &Path) -> bool {
        let renamed = self.vfs.rename(&self.dir, &self.temp);
        renamed.and_then(|()| self.vfs.sync_dir(parent)).is_ok()
    }

    /// Removes what an earlier attempt has left.
    fn clear(&self) -> Result<()> {
        let listed = self.vfs.list(&self.temp);
        let names = listed.map_err(|e| Error::io("list the directory", &self.temp, e))?;
        if let Some(foreign) = names.iter().find(|name| !self.knows(name)) {
            let what = "the directory holds what is no part of an unfinished one";
            let remedy = "move it away, or choose another name";
            return Err(Error::incompatible(&self.temp.join(foreign), what, remedy));
        }
        for name in names.iter().filter(|name| *name != LOCK) {
            remove_left_over(self.vfs, &self.temp.join(name))?;
        }
        Ok(())
    }

    fn knows(&self, name: &str) -> bool {
        name == LOCK || (self.is_ours)(name)
    }
}

impl Drop for NewDirectory<'_> {
    fn drop(&mut self) {
        if self.lock.is_none() {
            return;
        }
        if !self.process.is_this() {
            std::mem::forget(self.lock.take());
            return;
        }
        // What cannot be removed is removed by the next attempt.
        let _left = self.clear();
        // While it is locked: who waits for the lock is to find that the file is gone.
        let _left = self.vfs.remove(&self.temp.join(LOCK));
        self.lock = None;
        let _left = self.vfs.remove_dir(&self.temp);
    }
}

/// Takes the lock of a directory that is being changed.
pub(crate) fn lock_dir(vfs: &dyn Vfs, dir: &Path) -> Result<Box<dyn LockGuard>> {
    let path = dir.join(LOCK);
    vfs.lock(&path).map_err(|error| match error {
        LockError::Held(pid) => Error::busy(dir, pid),
        LockError::Io(e) => Error::io("lock", &path, e),
    })
}

/// Removes a file that an attempt has left which did not end.
pub(crate) fn remove_left_over(vfs: &dyn Vfs, path: &Path) -> Result<()> {
    let removed = vfs.remove(path);
    removed.map_err(|e| Error::io("remove this left-over file", path, e))
}

/// Whether anything has the name `path`.
pub(crate) fn is_there(vfs: &dyn Vfs, path: &Path) -> Result<bool> {
    let is_absent = |e: &io::Error| e.kind() == io::ErrorKind::NotFound;
    match vfs.list(path) {
        Ok(_) => return Ok(true),
        Err(e) if is_absent(&e) => {}
        Err(e) if e.kind() == io::ErrorKind::NotADirectory => return Ok(true),
        Err(e) => return Err(Error::io("look at", path, e)),
    }
    match vfs.len(path) {
        Ok(_) => Ok(true),
        // A symbolic link that leads nowhere has the name, too.
        Err(e) if is_absent(&e) => Ok(named_path::link_target(vfs, path)?.is_some()),
        Err(e) => Err(Error::io("look at", path, e)),
    }
}

/// The directory in which `path` is a name.
pub(crate) fn parent_of(path: &Path) -> &Path {
    match path.parent() {
        Some(parent) if !parent.as_os_str().is_empty() => parent,
        _ => Path::new("."),
    }
}
