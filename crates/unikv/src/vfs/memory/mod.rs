//! A file system in the memory of the process, for databases that need no disk.
//!
//! It keeps the rules of [`super`], of which those about durability mean nothing: all of it is gone
//! with its last handle. What is written is there for readers at once, a file that is removed stays
//! for those who have it open, and nothing is ever copied as a whole. There is no simulation in it:
//! nothing fails but for want of memory, and no call waits.
//!
//! Lock: `names`, for a look or a change; under it that of a file for its length alone.

mod file;
mod names;
#[cfg(test)]
mod tests;

use super::{
    Access, LockError, LockGuard, ReadFile, SyncFile, Vfs, WriteFile, WriteMode, lies_within,
};
use crate::base::sync::Mutex;
use crate::base::sync::atomic::{AtomicU64, Ordering};
use file::MemoryFile;
use names::Names;
use std::collections::BTreeSet;
use std::fmt;
use std::io::{self, ErrorKind};
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// What is reported as free: nothing waits for space.
const FREE_BYTES: u64 = 1 << 50;

/// Files in memory. A clone is the same file system; all of it is gone with the last one and the
/// files that are open.
///
/// [`Db::in_memory`](crate::Db::in_memory) gives a database one of its own. With one that
/// the caller keeps, databases can be closed and opened again, checked and copied, as long as the
/// process lives:
///
/// ```
/// use std::sync::Arc;
/// use unikv::vfs::{Env, MemoryVfs};
/// use unikv::{Db, Options};
///
/// let files = MemoryVfs::default();
/// let env = || Env { vfs: Arc::new(files.clone()), ..Env::os() };
/// let db = Db::open("/fruit", Options::default().env(env()))?;
/// db.put("apple", "red")?;
/// db.close()?;
/// let db = Db::open("/fruit", Options::default().env(env()))?;
/// assert_eq!(db.get("apple")?.as_deref(), Some(&b"red"[..]));
/// # unikv::Result::Ok(())
/// ```
#[derive(Clone, Default)]
pub struct MemoryVfs(Arc<Inner>);

#[derive(Default)]
struct Inner {
    names: Mutex<Names>,
    locked: Mutex<BTreeSet<PathBuf>>,
    bytes: Arc<AtomicU64>,
}

impl MemoryVfs {
    /// Bytes of memory that all files take, those among them that are removed and still open.
    pub fn bytes(&self) -> u64 {
        self.0.bytes.load(Ordering::Relaxed)
    }

    fn new_file(&self, path: &Path, len: u64) -> io::Result<Arc<MemoryFile>> {
        let file = Arc::new(MemoryFile::reserved(len, &self.0.bytes));
        self.0.names.lock().add(path, Arc::clone(&file))?;
        Ok(file)
    }

    fn find(&self, path: &Path) -> io::Result<Arc<MemoryFile>> {
        self.0.names.lock().file(path).map(Arc::clone)
    }
}

impl fmt::Debug for MemoryVfs {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("MemoryVfs")
            .field("bytes", &self.bytes())
            .finish_non_exhaustive()
    }
}

impl Vfs for MemoryVfs {
    fn create_dir_all(&self, dir: &Path) -> io::Result<()> {
        self.0.names.lock().create_dir_all(dir)
    }

    fn remove_dir(&self, dir: &Path) -> io::Result<()> {
        self.0.names.lock().remove_dir(dir)
    }

    fn list(&self, dir: &Path) -> io::Result<Vec<String>> {
        self.0.names.lock().list(dir)
    }

    fn sync_dir(&self, dir: &Path) -> io::Result<()> {
        self.0.names.lock().list(dir).map(drop)
    }

    fn open(&self, path: &Path, _access: Access) -> io::Result<Arc<dyn ReadFile>> {
        Ok(Arc::new(Reading(self.find(path)?)))
    }

    fn create(
        &self,
        path: &Path,
        mode: WriteMode,
        _size_hint: u64,
    ) -> io::Result<Box<dyn WriteFile>> {
        let file = self.new_file(path, 0)?;
        Ok(Box::new(Writing { file, mode, len: 0 }))
    }

    fn reserve(&self, path: &Path, bytes: u64) -> io::Result<()> {
        self.new_file(path, bytes).map(drop)
    }

    fn link(&self, from: &Path, to: &Path) -> io::Result<()> {
        let mut names = self.0.names.lock();
        let file = Arc::clone(names.file(from)?);
        names.add(to, file)
    }

    fn rename(&self, from: &Path, to: &Path) -> io::Result<()> {
        self.0.names.lock().rename(from, to)
    }

    fn remove(&self, path: &Path) -> io::Result<()> {
        let removed = self.0.names.lock().remove(path);
        // Memory is given back without the lock.
        removed.map(drop)
    }

    fn len(&self, path: &Path) -> io::Result<u64> {
        self.find(path).map(|file| file.len())
    }

    fn lock(&self, path: &Path) -> Result<Box<dyn LockGuard>, LockError> {
        let created = match self.find(path) {
            Err(e) if e.kind() == ErrorKind::NotFound => self.new_file(path, 0).map(drop),
            found => found.map(drop),
        };
        match created {
            Err(e) if e.kind() != ErrorKind::AlreadyExists => return Err(LockError::Io(e)),
            _ => {}
        }
        if !self.0.locked.lock().insert(path.to_owned()) {
            return Err(LockError::Held(Some(std::process::id())));
        }
        Ok(Box::new(Locked {
            files: self.clone(),
            path: path.to_owned(),
        }))
    }

    fn max_open_files(&self) -> usize {
        usize::MAX / 4
    }

    fn free_space(&self, _dir: &Path) -> io::Result<u64> {
        Ok(FREE_BYTES)
    }

    fn memory_bytes(&self) -> u64 {
        self.bytes()
    }
}

#[derive(Debug)]
struct Reading(Arc<MemoryFile>);

impl ReadFile for Reading {
    fn read_at(&self, buf: &mut [u8], offset: u64) -> io::Result<usize> {
        Ok(self.0.read_at(buf, offset))
    }

    fn len(&self) -> io::Result<u64> {
        Ok(self.0.len())
    }
}

/// Writes a file. Without a sync nothing of it is missing for readers: there is no buffer.
#[derive(Debug)]
struct Writing {
    file: Arc<MemoryFile>,
    mode: WriteMode,
    len: u64,
}

impl WriteFile for Writing {
    fn append(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.file.write_at(self.len, bytes)?;
        self.len += bytes.len() as u64;
        Ok(())
    }

    fn len(&self) -> u64 {
        self.len
    }

    fn rewind(&mut self, bytes: u64) -> io::Result<()> {
        if self.mode != WriteMode::Log {
            return Err(ErrorKind::Unsupported.into());
        }
        let len = self.len.checked_sub(bytes);
        self.len = len.ok_or(ErrorKind::InvalidInput)?;
        Ok(())
    }

    fn replace(&mut self, offset: u64, bytes: &[u8]) -> io::Result<()> {
        if self.mode == WriteMode::Log || !lies_within(offset, bytes.len(), self.len) {
            return Err(ErrorKind::InvalidInput.into());
        }
        self.file.write_at(offset, bytes)
    }

    fn sync_handle(&self) -> Arc<dyn SyncFile> {
        Arc::new(Synced)
    }

    fn finish_unsynced(self: Box<Self>) -> io::Result<Arc<dyn SyncFile>> {
        self.file.shrink();
        Ok(self.sync_handle())
    }
}

#[derive(Debug)]
struct Synced;

impl SyncFile for Synced {
    fn sync(&self) -> io::Result<()> {
        Ok(())
    }
}

/// Holds a lock until it is dropped.
#[derive(Debug)]
struct Locked {
    files: MemoryVfs,
    path: PathBuf,
}

impl LockGuard for Locked {}

impl Drop for Locked {
    fn drop(&mut self) {
        self.files.0.locked.lock().remove(&self.path);
    }
}
