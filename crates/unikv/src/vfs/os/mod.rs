//! The real file system and real threads of a Linux machine.
//!
//! Logs are written straight through (`log_file`); tables and record files are gathered into large
//! aligned writes past the page cache (`bulk_file`), and can be read past it, too (`direct_io`).
//! The directory of a database is held open (`directory`). System calls go through `std`, `rustix`
//! and `libc`; `unsafe` is in `process`, `shared_page` and `write_out` alone.
//!
//! Lock: that of the pool of idle write buffers, held for a push or a pop only.

mod bulk_file;
mod descriptors;
mod directory;
mod lock_file;
mod log_file;
mod process;
mod read_file;
mod runtime;
mod shared_page;
mod write_out;

pub use process::Process;
pub use runtime::OsRuntime;
#[cfg(all(test, unikv_model = "shuttle"))]
pub(crate) use runtime::{OsEvent, run_worker};

use super::direct_io::{blocks, ring::Rings};
use super::{
    Access, DirectRead, KeepsFilesOpen, LockError, LockGuard, ReadFile, SharedPage, SyncFile, Vfs,
    WriteFile, WriteMode,
};
use crate::base::sync::OnceLock;
use bulk_file::{BufferPool, BulkFile};
use directory::Directory;
use lock_file::OsLockGuard;
use log_file::LogFile;
use read_file::{OsReadFile, miss_begins_a_read};
use rustix::fs::{FallocateFlags, OFlags};
use rustix::io::Errno;
use shared_page::OsPage;
use std::fs::{self, File};
use std::io::{self, ErrorKind, Read};
use std::os::unix::fs::{FileExt, MetadataExt};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Weak};
use std::time::Duration;

/// Bounds of the data files kept open, whatever the process may have.
const LEAST_OPEN_FILES: usize = 8;
const MOST_OPEN_FILES: usize = 65_536;

/// The bytes of a small file, and how long ago it was written. One of more than `most` bytes is
/// refused.
pub(crate) fn read_with_age(path: &Path, most: u64) -> io::Result<(Vec<u8>, Duration)> {
    let mut file = File::open(path)?;
    let metadata = file.metadata()?;
    if metadata.len() > most {
        return Err(ErrorKind::FileTooLarge.into());
    }
    let mut bytes = Vec::new();
    file.read_to_end(&mut bytes)?;
    let age = metadata.modified()?.elapsed().unwrap_or_default();
    Ok((bytes, age))
}

/// The real file system.
#[derive(Debug, Default)]
pub struct OsVfs {
    shared: Arc<Shared>,
    directory: Directory,
}

/// What is shared with the file systems of single directories.
#[derive(Debug, Default)]
struct Shared {
    buffers: Arc<BufferPool>,
    rings: Rings,
    miss_begins_a_read: OnceLock<bool>,
}

impl Vfs for OsVfs {
    fn in_directory(&self, dir: &Path) -> io::Result<Option<Arc<dyn Vfs>>> {
        let directory = match self.directory.held(dir) {
            Some(_) => self.directory.clone(),
            None => Directory::hold(dir)?,
        };
        Ok(Some(Arc::new(OsVfs {
            shared: Arc::clone(&self.shared),
            directory,
        })))
    }

    fn create_dir_all(&self, dir: &Path) -> io::Result<()> {
        let mut missing = Vec::new();
        let mut existing = Some(dir);
        while let Some(ancestor) = existing.filter(|a| !a.as_os_str().is_empty() && !a.is_dir()) {
            missing.push(ancestor);
            existing = ancestor.parent();
        }
        if missing.is_empty() {
            return sync_name_of_existing(dir);
        }
        for dir in missing.into_iter().rev() {
            match fs::create_dir(dir) {
                Ok(()) => self.sync_dir(parent_of(dir))?,
                // Somebody else was faster; their name is not durable before ours is.
                Err(e) if e.kind() == ErrorKind::AlreadyExists && dir.is_dir() => {
                    self.sync_dir(parent_of(dir))?;
                }
                Err(e) => return Err(e),
            }
        }
        Ok(())
    }

    fn link_target(&self, path: &Path) -> io::Result<Option<PathBuf>> {
        if fs::symlink_metadata(path)?.is_symlink() {
            fs::read_link(path).map(Some)
        } else {
            Ok(None)
        }
    }

    fn remove_dir(&self, dir: &Path) -> io::Result<()> {
        self.directory.check_in_place(dir)?;
        fs::remove_dir(dir)
    }

    fn list(&self, dir: &Path) -> io::Result<Vec<String>> {
        let opened;
        let file = match self.directory.held(dir) {
            Some(held) => held,
            None => {
                let flags = OFlags::RDONLY | OFlags::DIRECTORY;
                opened = self.directory.open(dir, flags)?;
                &opened
            }
        };
        let mut names = Vec::new();
        for entry in descriptors::take(|| Ok(rustix::fs::Dir::read_from(file)?))? {
            let name = entry?.file_name().to_string_lossy().into_owned();
            if name != "." && name != ".." {
                names.push(name);
            }
        }
        Ok(names)
    }

    fn sync_dir(&self, dir: &Path) -> io::Result<()> {
        match self.directory.held(dir) {
            Some(held) => held.sync_all(),
            None => descriptors::take(|| File::open(dir))?.sync_all(),
        }
    }

    fn open(&self, path: &Path, access: Access) -> io::Result<Arc<dyn ReadFile>> {
        let begins = &self.shared.miss_begins_a_read;
        let begins = begins.get_or_init(miss_begins_a_read);
        let file = OsReadFile::open(&self.directory, path, access, *begins)?;
        Ok(Arc::new(file))
    }

    fn read_direct(&self, reads: &mut [DirectRead<'_>]) -> Vec<io::Result<Option<usize>>> {
        blocks::read_direct(&self.shared.rings, reads)
    }

    fn reads_direct_together(&self) -> bool {
        self.shared.rings.are_there()
    }

    fn create(
        &self,
        path: &Path,
        mode: WriteMode,
        size_hint: u64,
    ) -> io::Result<Box<dyn WriteFile>> {
        let flags = OFlags::RDWR | OFlags::CREATE | OFlags::EXCL;
        let file = self.directory.open(path, flags)?;
        Ok(match mode {
            WriteMode::Log => Box::new(LogFile::new(Arc::new(file))),
            WriteMode::Bulk => {
                let reserved = preallocate(&file, size_hint);
                let buffer = self.shared.buffers.take();
                Box::new(BulkFile::new(Arc::new(file), reserved, buffer))
            }
        })
    }

    fn overwrite(&self, path: &Path) -> io::Result<Box<dyn WriteFile>> {
        let file = self.directory.open(path, OFlags::RDWR)?;
        if file.metadata()?.nlink() != 1 {
            let what = "somebody else has this file under another name";
            return Err(io::Error::new(ErrorKind::Unsupported, what));
        }
        Ok(Box::new(LogFile::new(Arc::new(file))))
    }

    fn limit_write_buffers(&self, bytes: usize) {
        self.shared.buffers.limit(bytes);
    }

    fn idle_buffer_bytes(&self) -> u64 {
        self.shared.buffers.idle_bytes()
    }

    fn reserve(&self, path: &Path, bytes: u64) -> io::Result<()> {
        let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL;
        let file = self.directory.open(path, flags)?;
        let reserved = allocate(&file, bytes).and_then(|()| file.sync_data());
        reserved.inspect_err(|_| drop(self.directory.remove(path)))
    }

    fn link(&self, from: &Path, to: &Path) -> io::Result<()> {
        self.directory.link(from, to)
    }

    fn rename(&self, from: &Path, to: &Path) -> io::Result<()> {
        self.directory.rename(from, to)
    }

    fn remove(&self, path: &Path) -> io::Result<()> {
        self.directory.remove(path)
    }

    fn len(&self, path: &Path) -> io::Result<u64> {
        self.directory.len(path)
    }

    fn lock(&self, path: &Path) -> Result<Box<dyn LockGuard>, LockError> {
        Ok(Box::new(OsLockGuard::take(&self.directory, path)?))
    }

    fn lock_to_read(&self, path: &Path) -> Result<Box<dyn LockGuard>, LockError> {
        Ok(Box::new(OsLockGuard::take_to_read(&self.directory, path)?))
    }

    fn create_page(&self, path: &Path, header: &[u8]) -> io::Result<Option<Arc<dyn SharedPage>>> {
        let page = OsPage::create(&self.directory, path, header)?;
        Ok(Some(Arc::new(page)))
    }

    fn open_page(&self, path: &Path) -> io::Result<Arc<dyn SharedPage>> {
        Ok(Arc::new(OsPage::open(&self.directory, path)?))
    }

    fn keeps_files_open(&self, keeper: Weak<dyn KeepsFilesOpen>) {
        descriptors::register(keeper);
    }

    fn max_open_files(&self) -> usize {
        // Half of what the process may have, as the host opens files, too; and each may be open
        // twice (`direct`).
        let limit = rustix::process::getrlimit(rustix::process::Resource::Nofile);
        let files = limit
            .current
            .map_or(MOST_OPEN_FILES as u64, |limit| limit / 4);
        (files as usize).clamp(LEAST_OPEN_FILES, MOST_OPEN_FILES)
    }

    fn free_space(&self, dir: &Path) -> io::Result<u64> {
        let stat = match self.directory.held(dir) {
            Some(held) => rustix::fs::fstatvfs(held)?,
            None => rustix::fs::statvfs(dir)?,
        };
        Ok(stat.f_bavail.saturating_mul(stat.f_frsize))
    }
}

/// The directory that holds the name of `path`.
fn parent_of(path: &Path) -> &Path {
    match path.parent() {
        Some(parent) if !parent.as_os_str().is_empty() => parent,
        _ => Path::new("."),
    }
}

/// Makes the name of a directory durable that somebody else has created, perhaps just now. Who may
/// not read the directory that it is in cannot, and has not created it.
fn sync_name_of_existing(dir: &Path) -> io::Result<()> {
    let synced = File::open(dir.join("..")).and_then(|parent| parent.sync_all());
    match synced {
        Err(e) if e.kind() == ErrorKind::PermissionDenied => Ok(()),
        other => other,
    }
}

/// Reserves `size_hint` bytes without changing the file's length; returns how many may be. A
/// hint: where the file system cannot do it, or has no room for all of it, the appends themselves
/// will report it.
fn preallocate(file: &File, size_hint: u64) -> u64 {
    if size_hint == 0 {
        return 0;
    }
    let flags = FallocateFlags::KEEP_SIZE;
    // A failure may leave a part reserved, so it counts as much as a success.
    let _ = rustix::io::retry_on_intr(|| rustix::fs::fallocate(file, flags, 0, size_hint));
    size_hint
}

/// Gives an empty file `bytes` of blocks.
fn allocate(file: &File, bytes: u64) -> io::Result<()> {
    let flags = FallocateFlags::empty();
    match rustix::io::retry_on_intr(|| rustix::fs::fallocate(file, flags, 0, bytes)) {
        Ok(()) => Ok(()),
        Err(Errno::OPNOTSUPP | Errno::NOSYS) => write_zeros(file, bytes),
        Err(e) => Err(e.into()),
    }
}

fn write_zeros(file: &File, bytes: u64) -> io::Result<()> {
    let chunk = vec![0; bytes.min(1 << 20) as usize];
    let mut at = 0;
    while at < bytes {
        let len = (bytes - at).min(chunk.len() as u64);
        file.write_all_at(&chunk[..len as usize], at)?;
        at += len;
    }
    Ok(())
}

/// Reads until `buf` is full or the file ends.
fn read_full(file: &impl FileExt, buf: &mut [u8], offset: u64) -> io::Result<usize> {
    let mut done = 0;
    while done < buf.len() {
        match file.read_at(&mut buf[done..], offset + done as u64) {
            Ok(0) => break,
            Ok(n) => done += n,
            Err(e) if e.kind() == ErrorKind::Interrupted => {}
            Err(e) => return Err(e),
        }
    }
    Ok(done)
}

#[derive(Debug)]
struct OsSyncFile {
    file: Arc<File>,
}

impl SyncFile for OsSyncFile {
    fn sync(&self) -> io::Result<()> {
        self.file.sync_data()
    }
}

/// What every call after a failed one gets: the tail of the file is unknown, so nothing may follow.
fn broken_file() -> io::Error {
    io::Error::other("an earlier write to this file failed")
}

#[cfg(test)]
mod tests;
