//! The seam to the outside: files ([`Vfs`]) and threads, waits, time and randomness ([`Runtime`]).
//! An [`Env`] is both; [`Db::open`](crate::Db::open) uses the real one,
//! [`Options::env`](crate::Options::env) any, for tests ([`sim`]) and hosts with a file layer of
//! their own; most programs need nothing from here. The engine never bypasses this seam, so all of
//! it can run in one thread from one seed.
//!
//! Rules every implementation keeps:
//! - *Bytes* of a file are durable after [`SyncFile::sync`] returned, its *name* after
//!   [`Vfs::sync_dir`] of its directory. Neither implies the other. [`Vfs::create_dir_all`] alone
//!   makes its names durable: only it knows which parents were missing.
//! - [`Vfs::rename`] is atomic: a power cut shows the old name or the new one, never neither.
//! - After a failed `sync` the state of the unsynced bytes is unknown; callers never retry it.

use std::fmt;
use std::io;
use std::os::fd::BorrowedFd;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Weak};
use std::time::Duration;

pub(crate) mod memory;
pub mod os;
pub mod sim;

pub(crate) mod clock;
mod direct_io;
pub(crate) mod file_store;
pub(crate) mod named_path;
mod shared_page;

pub use direct_io::{DIRECT_EXTRA_BYTES, DirectRead};
pub use memory::MemoryVfs;
pub use os::Process;
pub use shared_page::{PAGE_WORDS, SharedPage};

/// Data files to keep open at a time where a file system does not say.
const USUAL_OPEN_FILES: usize = 512;

/// How a file will be read; a hint for the system's read-ahead.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Access {
    /// At random offsets: read nothing ahead.
    Random,
    /// From front to back.
    Sequential,
}

/// How a file will be written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum WriteMode {
    /// Small appends, each of which must have reached the kernel when `append` returns (logs).
    Log,
    /// A large file written once from front to back. Appends may be gathered in user memory until
    /// `sync`; the implementation may write past the page cache.
    Bulk,
}

/// Whether `len` bytes at `offset` are among the first `end`.
pub(crate) fn lies_within(offset: u64, len: usize, end: u64) -> bool {
    offset
        .checked_add(len as u64)
        .is_some_and(|last| last <= end)
}

/// The largest logical block of common devices.
pub(crate) const BLOCK_BYTES: usize = 4096;

/// A file system.
pub trait Vfs: Send + Sync + fmt::Debug {
    /// The same file system, in which paths that are `dir` or in it mean the very directory that
    /// `dir` is now: also once that has been moved, another one has taken its place, or the working
    /// directory is another. `None`: a path always means the same directory here.
    fn in_directory(&self, dir: &Path) -> io::Result<Option<Arc<dyn Vfs>>> {
        let _ = dir;
        Ok(None)
    }
    /// Creates a directory and its missing parents, durably; existing ones are no error. The name
    /// of `dir` itself is durable also if it existed.
    fn create_dir_all(&self, dir: &Path) -> io::Result<()>;
    /// Removes an empty directory.
    fn remove_dir(&self, dir: &Path) -> io::Result<()>;
    /// The names of the entries of a directory, in no particular order.
    fn list(&self, dir: &Path) -> io::Result<Vec<String>>;
    /// Makes creations, renames and removals in `dir` durable.
    fn sync_dir(&self, dir: &Path) -> io::Result<()>;
    /// Opens an existing file for reading.
    fn open(&self, path: &Path, access: Access) -> io::Result<Arc<dyn ReadFile>>;
    /// Reads past the page cache, which what is read does not enter, and says of each read from
    /// where in its buffer the bytes stand. `None`: the file system knows no direct reads.
    fn read_direct(&self, reads: &mut [DirectRead<'_>]) -> Vec<io::Result<Option<usize>>> {
        reads.iter().map(|_| Ok(None)).collect()
    }
    /// Whether the device gets all reads of one [`Vfs::read_direct`] at once, and not one after the
    /// other.
    fn reads_direct_together(&self) -> bool {
        false
    }
    /// Creates a new file; it is an error if it exists. For a file in [`WriteMode::Bulk`]
    /// `size_hint` bytes are preallocated where that helps, without changing its length as readers
    /// see it after `finish`.
    fn create(
        &self,
        path: &Path,
        mode: WriteMode,
        size_hint: u64,
    ) -> io::Result<Box<dyn WriteFile>>;
    /// Opens a log for writing over it from the front, its blocks being there already. What has not
    /// been written over stays, also once the file is finished. A file that has another name, too,
    /// is refused: somebody keeps it. A caller that is refused gets a new file instead.
    fn overwrite(&self, path: &Path) -> io::Result<Box<dyn WriteFile>> {
        let _ = path;
        Err(io::ErrorKind::Unsupported.into())
    }
    /// Bounds the memory in which a file in [`WriteMode::Bulk`] gathers appends. Where several ask,
    /// the least bound holds.
    fn limit_write_buffers(&self, bytes: usize) {
        let _ = bytes;
    }
    /// Bytes of the buffers that are kept for later files.
    fn idle_buffer_bytes(&self) -> u64 {
        0
    }
    /// Creates a new file of `bytes` that take up real blocks, durably but for its name. What the
    /// file reads as is not defined. After an error no such file is left.
    fn reserve(&self, path: &Path, bytes: u64) -> io::Result<()> {
        let mut file = self.create(path, WriteMode::Bulk, bytes)?;
        let chunk = vec![0; (bytes.min(1 << 20)) as usize];
        let mut fill = || {
            let mut left = bytes;
            while left > 0 {
                let len = left.min(chunk.len() as u64);
                file.append(&chunk[..len as usize])?;
                left -= len;
            }
            Ok(())
        };
        let filled = fill().and_then(|()| file.finish());
        filled.inspect_err(|_| drop(self.remove(path)))
    }
    /// Where a symbolic link of this name leads; `None`: it is none, or the file system has none.
    fn link_target(&self, path: &Path) -> io::Result<Option<PathBuf>> {
        let _ = path;
        Ok(None)
    }
    /// Gives a file a second name, under which it is the same file. Where that is not possible, as
    /// between two file systems, it is an error of any kind, nothing has changed, and the caller
    /// copies the file.
    fn link(&self, from: &Path, to: &Path) -> io::Result<()> {
        let _ = (from, to);
        Err(io::ErrorKind::Unsupported.into())
    }
    /// Renames a file, replacing the target; or a directory, to a name that nothing has.
    fn rename(&self, from: &Path, to: &Path) -> io::Result<()>;
    /// Removes a file.
    fn remove(&self, path: &Path) -> io::Result<()>;
    /// The length of a file in bytes.
    fn len(&self, path: &Path) -> io::Result<u64>;
    /// Takes the exclusive lock file at `path`, creating it if needed, and writes the holder's
    /// process id into it.
    fn lock(&self, path: &Path) -> Result<Box<dyn LockGuard>, LockError>;
    /// As [`Vfs::lock`], for who only reads the directory: a lock file that is there and may not be
    /// written is locked as it is.
    fn lock_to_read(&self, path: &Path) -> Result<Box<dyn LockGuard>, LockError> {
        self.lock(path)
    }
    /// Creates a page that processes share, all of whose words are zero, with `header` in front,
    /// and holds it. `None`: the file system has no such pages, and nobody asks for them.
    fn create_page(&self, path: &Path, header: &[u8]) -> io::Result<Option<Arc<dyn SharedPage>>> {
        let _ = (path, header);
        Ok(None)
    }
    /// Opens a page that [`Vfs::create_page`] has made, perhaps in another process. A file that is
    /// none is an error, as is one of a file system that does not share memory.
    fn open_page(&self, path: &Path) -> io::Result<Arc<dyn SharedPage>> {
        let _ = path;
        Err(io::ErrorKind::Unsupported.into())
    }
    /// Says who keeps files open. They are asked to close some when a call lacks a descriptor.
    fn keeps_files_open(&self, keeper: Weak<dyn KeepsFilesOpen>) {
        let _ = keeper;
    }
    /// Data files to keep open at a time; the rest are opened again when read.
    fn max_open_files(&self) -> usize {
        USUAL_OPEN_FILES
    }
    /// Bytes of the process's memory that its files take: 0 where they are elsewhere.
    fn memory_bytes(&self) -> u64 {
        0
    }
    /// Bytes that can still be written to the file system of `dir`.
    fn free_space(&self, dir: &Path) -> io::Result<u64>;
}

/// Keeps files open that it can open again.
pub trait KeepsFilesOpen: Send + Sync {
    /// Closes some of them. False: there were none.
    fn close_some(&self) -> bool;
}

/// Why a lock was not granted.
#[derive(Debug)]
#[non_exhaustive]
pub enum LockError {
    /// Somebody holds it; their process id where it could be read.
    Held(Option<u32>),
    /// The system refused.
    Io(io::Error),
}

/// Holds a lock until dropped.
pub trait LockGuard: Send + Sync + fmt::Debug {}

/// A file open for reading; shared between threads.
pub trait ReadFile: Send + Sync + fmt::Debug {
    /// Fills `buf` from `offset`. Returns the bytes read, fewer than asked only at the file's end.
    fn read_at(&self, buf: &mut [u8], offset: u64) -> io::Result<usize>;
    /// As [`ReadFile::read_at`] if the bytes are in memory. `None` if the device would have to be
    /// waited for: it has been asked to read them. Where that cannot be done, it reads.
    fn read_cached_at(&self, buf: &mut [u8], offset: u64) -> io::Result<Option<usize>> {
        self.read_at(buf, offset).map(Some)
    }
    /// Begins to bring bytes into memory, so that several reads go to the device at once. A hint.
    fn will_need(&self, offset: u64, len: u64) {
        let _ = (offset, len);
    }
    /// A descriptor of the file whose reads are direct, for the file system that has
    /// opened it: a wrapper of a file of another one passes it on.
    fn direct(&self) -> io::Result<Option<BorrowedFd<'_>>> {
        Ok(None)
    }
    /// The length of the file in bytes.
    fn len(&self) -> io::Result<u64>;
    /// Whether the file has no bytes.
    fn is_empty(&self) -> io::Result<bool> {
        Ok(self.len()? == 0)
    }
}

/// A file open for appending by one owner.
pub trait WriteFile: Send + fmt::Debug {
    /// Appends all of `bytes`. After an error the file's tail is undefined.
    fn append(&mut self, bytes: &[u8]) -> io::Result<()>;
    /// The bytes appended so far.
    fn len(&self) -> u64;
    /// Whether nothing has been appended yet.
    fn is_empty(&self) -> bool {
        self.len() == 0
    }
    /// Has the next append begin `bytes` earlier, in the place of what was appended there. Only a
    /// log can do that.
    fn rewind(&mut self, bytes: u64) -> io::Result<()> {
        let _ = bytes;
        Err(io::ErrorKind::Unsupported.into())
    }
    /// Writes `bytes` in the place of as many that were appended at `offset`. Only a file in
    /// [`WriteMode::Bulk`] can do that. After an error the file is as after a failed append.
    fn replace(&mut self, offset: u64, bytes: &[u8]) -> io::Result<()> {
        let _ = (offset, bytes);
        Err(io::ErrorKind::Unsupported.into())
    }
    /// A handle with which another thread may sync while this one appends. In [`WriteMode::Bulk`]
    /// it covers only what has left user memory; use [`WriteFile::finish`] there.
    fn sync_handle(&self) -> Arc<dyn SyncFile>;
    /// Writes out everything, gives back unused preallocation, closes. The bytes are durable when
    /// what this returns has synced.
    fn finish_unsynced(self: Box<Self>) -> io::Result<Arc<dyn SyncFile>>;
    /// The same, and makes the bytes durable.
    fn finish(self: Box<Self>) -> io::Result<()> {
        self.finish_unsynced()?.sync()
    }
}

/// Makes the bytes of a file durable.
pub trait SyncFile: Send + Sync + fmt::Debug {
    /// Returns when everything appended before the call is durable.
    fn sync(&self) -> io::Result<()>;
}

/// What a background worker wants next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Step {
    /// It did something; call again at once.
    Again,
    /// Nothing to do until the worker's event is notified or the time has passed.
    Wait(Option<Duration>),
    /// It has ended.
    Done,
}

/// A background worker: called in a loop, each call one unit of work.
pub trait Worker: Send {
    /// Does one unit of work, if there is any.
    fn step(&mut self) -> Step;
}

/// Threads, waits, time and randomness.
pub trait Runtime: Send + Sync + fmt::Debug {
    /// A new event.
    fn event(&self) -> Arc<dyn Event>;
    /// Runs `worker` until it is done. While it waits, it waits for `wake`: the runtime reads
    /// `wake`'s epoch before each step and, when the step says `Wait`, waits past that epoch.
    fn spawn(
        &self,
        name: &str,
        wake: Arc<dyn Event>,
        worker: Box<dyn Worker>,
    ) -> io::Result<Box<dyn JoinHandle>>;
    /// The calling process, as one of those that may fork: a database that it opens refuses to work
    /// in a child, where there are no background threads, and where locks may be held by threads
    /// that are not there.
    fn process(&self) -> Process {
        Process::alone()
    }
    /// Time since some fixed moment; never goes back.
    fn now(&self) -> Duration;
    /// Wall-clock milliseconds since 1970.
    fn wall_clock_ms(&self) -> u64;
    /// An unpredictable number (from the seed, in a simulation).
    fn random_u64(&self) -> u64;
    /// Lets other threads run that wait for this one's processor.
    fn yield_now(&self) {}
    /// Holds the calling thread for `time`: for limiting rates, never for waiting on a condition.
    fn delay(&self, time: Duration);
}

/// Something that happens again and again. To wait for a condition: read the epoch, test the
/// condition, and if it does not hold wait past that epoch. No wake-up is lost.
pub trait Event: Send + Sync + fmt::Debug {
    /// How often the event has been notified.
    fn epoch(&self) -> u64;
    /// Wakes every waiter.
    fn notify(&self);
    /// Returns when the event has been notified after `epoch` was read, or after `timeout`.
    fn wait_past(&self, epoch: u64, timeout: Option<Duration>);
}

/// A spawned worker.
pub trait JoinHandle: Send {
    /// Waits until the worker is done. The caller has asked it to end.
    fn join(self: Box<Self>);
}

/// Waits on `event` until `ready` says so.
pub(crate) fn wait_until(event: &dyn Event, mut ready: impl FnMut() -> bool) {
    wait_for(event, || ready().then_some(()));
}

/// Waits on `event` until `look` returns something.
pub(crate) fn wait_for<T>(event: &dyn Event, mut look: impl FnMut() -> Option<T>) -> T {
    loop {
        let epoch = event.epoch();
        if let Some(found) = look() {
            return found;
        }
        event.wait_past(epoch, None);
    }
}

/// The file system and the runtime that a database runs on: [`Options::env`](crate::Options::env).
/// What is done with a database as a whole elsewhere than on the system's files is a method of
/// this.
#[derive(Clone, Debug)]
pub struct Env {
    /// Where files live.
    pub vfs: Arc<dyn Vfs>,
    /// Where threads, time and randomness come from.
    pub runtime: Arc<dyn Runtime>,
}

/// They are the same file system and the same runtime.
impl PartialEq for Env {
    fn eq(&self, other: &Env) -> bool {
        Arc::ptr_eq(&self.vfs, &other.vfs) && Arc::ptr_eq(&self.runtime, &other.runtime)
    }
}

impl Env {
    /// The environment for work in the directory that `dir` is now; see [`Vfs::in_directory`].
    pub(crate) fn in_directory(&self, dir: &Path) -> io::Result<Env> {
        let held = self.vfs.in_directory(dir)?;
        Ok(Env {
            vfs: held.unwrap_or_else(|| Arc::clone(&self.vfs)),
            runtime: Arc::clone(&self.runtime),
        })
    }

    /// The real file system and real threads.
    pub fn os() -> Env {
        Env {
            vfs: Arc::new(os::OsVfs::default()),
            runtime: Arc::new(os::OsRuntime::default()),
        }
    }
}
