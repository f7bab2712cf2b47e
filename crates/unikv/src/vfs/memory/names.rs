//! The directories of a file system in memory, and the names in them.
//!
//! A path is taken as it is written: there are no links and no working directory. The empty path
//! and `/` are there from the beginning.

use super::file::MemoryFile;
use std::collections::BTreeMap;
use std::io::{self, ErrorKind};
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// Names of files, by directory.
#[derive(Debug, Default)]
pub(super) struct Names {
    dirs: BTreeMap<PathBuf, BTreeMap<String, Arc<MemoryFile>>>,
}

impl Names {
    pub(super) fn create_dir_all(&mut self, dir: &Path) -> io::Result<()> {
        for ancestor in dir.ancestors().filter(|dir| !is_root(dir)) {
            if self.file(ancestor).is_ok() {
                return Err(ErrorKind::NotADirectory.into());
            }
            self.dirs.entry(ancestor.to_owned()).or_default();
        }
        Ok(())
    }

    pub(super) fn remove_dir(&mut self, dir: &Path) -> io::Result<()> {
        let is_empty = self.list(dir)?.is_empty();
        if !is_empty {
            return Err(ErrorKind::DirectoryNotEmpty.into());
        }
        self.dirs.remove(dir);
        Ok(())
    }

    pub(super) fn list(&self, dir: &Path) -> io::Result<Vec<String>> {
        let found = self.dirs.get(dir);
        if found.is_none() && !is_root(dir) {
            let kind = match self.file(dir) {
                Ok(_) => ErrorKind::NotADirectory,
                Err(_) => ErrorKind::NotFound,
            };
            return Err(kind.into());
        }
        let files = found.into_iter().flat_map(|names| names.keys().cloned());
        let below = self.dirs.keys().filter(|path| path.parent() == Some(dir));
        let below = below.filter_map(|path| Some(path.file_name()?.to_string_lossy().into_owned()));
        Ok(files.chain(below).collect())
    }

    pub(super) fn file(&self, path: &Path) -> io::Result<&Arc<MemoryFile>> {
        let (dir, name) = split(path)?;
        let found = self.dirs.get(dir).and_then(|names| names.get(&name));
        found.ok_or_else(|| ErrorKind::NotFound.into())
    }

    /// Gives a file a name that nothing has.
    pub(super) fn add(&mut self, path: &Path, file: Arc<MemoryFile>) -> io::Result<()> {
        if self.is_taken(path) {
            return Err(ErrorKind::AlreadyExists.into());
        }
        let (dir, name) = split(path)?;
        self.dir(dir)?.insert(name, file);
        Ok(())
    }

    pub(super) fn remove(&mut self, path: &Path) -> io::Result<Arc<MemoryFile>> {
        let (dir, name) = split(path)?;
        let removed = self.dir(dir)?.remove(&name);
        removed.ok_or_else(|| ErrorKind::NotFound.into())
    }

    pub(super) fn rename(&mut self, from: &Path, to: &Path) -> io::Result<()> {
        if self.dirs.contains_key(from) {
            return self.rename_dir(from, to);
        }
        let (dir, name) = split(to)?;
        if self.dirs.contains_key(to) {
            return Err(ErrorKind::IsADirectory.into());
        }
        self.dir(dir)?;
        let file = self.remove(from)?;
        self.dir(dir)?.insert(name, file);
        Ok(())
    }

    fn rename_dir(&mut self, from: &Path, to: &Path) -> io::Result<()> {
        if self.is_taken(to) {
            return Err(ErrorKind::AlreadyExists.into());
        }
        if to.starts_with(from) {
            return Err(ErrorKind::InvalidInput.into());
        }
        self.dir(to.parent().ok_or(ErrorKind::InvalidInput)?)?;
        let moved: Vec<_> = self
            .dirs
            .keys()
            .filter(|dir| dir.starts_with(from))
            .cloned()
            .collect();
        for dir in moved {
            let below = dir
                .strip_prefix(from)
                .map_err(|_| ErrorKind::InvalidInput)?;
            // `join` of nothing would end with a slash.
            let place = if below.as_os_str().is_empty() {
                to.to_owned()
            } else {
                to.join(below)
            };
            if let Some(names) = self.dirs.remove(&dir) {
                self.dirs.insert(place, names);
            }
        }
        Ok(())
    }

    fn is_taken(&self, path: &Path) -> bool {
        self.file(path).is_ok() || self.dirs.contains_key(path)
    }

    /// The names in a directory that is there.
    fn dir(&mut self, dir: &Path) -> io::Result<&mut BTreeMap<String, Arc<MemoryFile>>> {
        if is_root(dir) {
            return Ok(self.dirs.entry(dir.to_owned()).or_default());
        }
        self.dirs
            .get_mut(dir)
            .ok_or_else(|| ErrorKind::NotFound.into())
    }
}

/// `/`, and the empty path.
fn is_root(dir: &Path) -> bool {
    dir.parent().is_none()
}

fn split(path: &Path) -> io::Result<(&Path, String)> {
    let name = path.file_name().ok_or(ErrorKind::InvalidInput)?;
    let dir = path.parent().ok_or(ErrorKind::InvalidInput)?;
    Ok((dir, name.to_string_lossy().into_owned()))
}
