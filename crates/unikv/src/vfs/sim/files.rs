//! Handles of files on a simulated disk.
//!
//! What a bulk file has gathered is in the handle alone, as it is in user memory: a copy of the
//! disk does not have it.

use super::Machine;
use super::faults::{self, Effect, Op};
use super::inode::Inode;
use crate::base::sync::atomic::Ordering;
use crate::base::sync::unseen::{AtomicBool, AtomicU64};
use crate::vfs::shared_page::{PAGE_LEN, PAGE_WORDS, SharedPage, WORDS_AT, blank};
use crate::vfs::{LockGuard, ReadFile, SyncFile, WriteFile, WriteMode, lies_within};
use std::fmt;
use std::io::{self, ErrorKind};
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// Bytes that a bulk file gathers in user memory before they reach the kernel.
pub const BULK_BUFFER_LEN: usize = 4096;

/// A file of a machine, under the path by which it was opened.
#[derive(Clone)]
struct Opened {
    machine: Arc<Machine>,
    inode: Arc<Inode>,
    path: PathBuf,
}

impl Opened {
    fn new(machine: &Arc<Machine>, inode: Arc<Inode>, path: &Path) -> Opened {
        Opened {
            machine: Arc::clone(machine),
            inode,
            path: path.to_owned(),
        }
    }

    /// Hands bytes to the kernel, for the file from `at` on: one call that can fail.
    fn write(&self, at: u64, bytes: &[u8]) -> io::Result<()> {
        let effect = self
            .machine
            .begin(Op::Append, &self.path, (0, bytes.len()))?;
        let len = match effect {
            Effect::Whole => bytes.len(),
            Effect::Part(len) => len.min(bytes.len()),
        };
        let mut disk = self.machine.disk.lock();
        let written = disk.write(&self.inode, at as usize, &bytes[..len]);
        drop(disk);
        if written < len {
            return Err(io::Error::new(
                ErrorKind::StorageFull,
                "the simulated disk is full",
            ));
        }
        match effect {
            Effect::Whole => Ok(()),
            Effect::Part(_) => Err(faults::injected(ErrorKind::Other)),
        }
    }

    fn sync(&self, op: Op) -> io::Result<()> {
        let result = self.machine.begin_whole(op, &self.path);
        let mut content = self.inode.content.lock();
        match &result {
            Ok(()) => content.sync(),
            Err(_) => content.fail_sync(),
        }
        result
    }
}

impl fmt::Debug for Opened {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Opened")
            .field("path", &self.path)
            .finish_non_exhaustive()
    }
}

#[derive(Debug)]
pub(super) struct SimReadFile {
    file: Opened,
}

impl SimReadFile {
    pub(super) fn new(machine: &Arc<Machine>, inode: Arc<Inode>, path: &Path) -> SimReadFile {
        SimReadFile {
            file: Opened::new(machine, inode, path),
        }
    }
}

impl ReadFile for SimReadFile {
    fn read_at(&self, buf: &mut [u8], offset: u64) -> io::Result<usize> {
        let machine = &self.file.machine;
        let effect = machine.begin(Op::Read, &self.file.path, (offset, buf.len()))?;
        if effect != Effect::Whole {
            return Err(faults::injected(ErrorKind::Other));
        }
        let content = self.file.inode.content.lock();
        let start = usize::try_from(offset).unwrap_or(usize::MAX);
        let rest = content.bytes().get(start..).unwrap_or_default();
        let len = rest.len().min(buf.len());
        buf[..len].copy_from_slice(&rest[..len]);
        Ok(len)
    }

    fn read_cached_at(&self, buf: &mut [u8], offset: u64) -> io::Result<Option<usize>> {
        if self.file.machine.is_cold() {
            self.file.machine.check_power()?;
            self.will_need(offset, buf.len() as u64);
            return Ok(None);
        }
        self.read_at(buf, offset).map(Some)
    }

    fn will_need(&self, offset: u64, len: u64) {
        let len = usize::try_from(len).unwrap_or(usize::MAX);
        faults::prefetch(&self.file.machine.faults, &self.file.path, offset, len);
    }

    fn len(&self) -> io::Result<u64> {
        self.file.machine.begin_whole(Op::Len, &self.file.path)?;
        Ok(self.file.inode.content.lock().bytes().len() as u64)
    }
}

#[derive(Debug)]
pub(super) struct SimWriteFile {
    file: Opened,
    mode: WriteMode,
    len: u64,
    /// What of a bulk file has reached the kernel.
    written: u64,
    /// Bytes of a bulk file that have not reached the kernel.
    gathered: Vec<u8>,
    broken: bool,
}

impl SimWriteFile {
    pub(super) fn new(
        machine: &Arc<Machine>,
        inode: Arc<Inode>,
        path: &Path,
        mode: WriteMode,
    ) -> SimWriteFile {
        let file = Opened::new(machine, inode, path);
        SimWriteFile {
            file,
            mode,
            len: 0,
            written: 0,
            gathered: Vec::new(),
            broken: false,
        }
    }

    fn write(&mut self, mut bytes: &[u8]) -> io::Result<()> {
        if self.mode == WriteMode::Log {
            return self.file.write(self.len, bytes);
        }
        while !bytes.is_empty() {
            let len = bytes.len().min(BULK_BUFFER_LEN - self.gathered.len());
            self.gathered.extend_from_slice(&bytes[..len]);
            bytes = &bytes[len..];
            if self.gathered.len() == BULK_BUFFER_LEN {
                self.write_gathered()?;
            }
        }
        Ok(())
    }

    fn replace_bytes(&mut self, offset: u64, bytes: &[u8]) -> io::Result<()> {
        if self.mode == WriteMode::Log || !lies_within(offset, bytes.len(), self.len) {
            return Err(ErrorKind::InvalidInput.into());
        }
        let in_kernel = self.written.saturating_sub(offset).min(bytes.len() as u64) as usize;
        let (in_kernel, gathered) = bytes.split_at(in_kernel);
        if !in_kernel.is_empty() {
            self.file.write(offset, in_kernel)?;
        }
        let start = (offset.max(self.written) - self.written) as usize;
        self.gathered[start..start + gathered.len()].copy_from_slice(gathered);
        Ok(())
    }

    fn write_gathered(&mut self) -> io::Result<()> {
        self.file.write(self.written, &self.gathered)?;
        self.written += self.gathered.len() as u64;
        self.gathered.clear();
        Ok(())
    }
}

/// What every call after a failed one gets, as on the real file system.
fn broken_file() -> io::Error {
    io::Error::other("an earlier write to this file failed")
}

impl WriteFile for SimWriteFile {
    fn append(&mut self, bytes: &[u8]) -> io::Result<()> {
        if self.broken {
            return Err(broken_file());
        }
        if let Err(e) = self.write(bytes) {
            self.broken = true;
            return Err(e);
        }
        self.len += bytes.len() as u64;
        Ok(())
    }

    fn len(&self) -> u64 {
        self.len
    }

    fn replace(&mut self, offset: u64, bytes: &[u8]) -> io::Result<()> {
        if self.broken {
            return Err(broken_file());
        }
        let result = self.replace_bytes(offset, bytes);
        self.broken = result.is_err();
        result
    }

    fn sync_handle(&self) -> Arc<dyn SyncFile> {
        let (file, op) = (self.file.clone(), Op::Sync);
        Arc::new(SimSyncFile { file, op })
    }

    fn rewind(&mut self, bytes: u64) -> io::Result<()> {
        if self.mode != WriteMode::Log {
            return Err(ErrorKind::Unsupported.into());
        }
        let len = self.len.checked_sub(bytes);
        self.len = len.ok_or(ErrorKind::InvalidInput)?;
        Ok(())
    }

    fn finish_unsynced(mut self: Box<Self>) -> io::Result<Arc<dyn SyncFile>> {
        if self.broken {
            return Err(broken_file());
        }
        if !self.gathered.is_empty() {
            self.write_gathered()?;
        }
        let (file, op) = (self.file.clone(), Op::Finish);
        Ok(Arc::new(SimSyncFile { file, op }))
    }
}

#[derive(Debug)]
struct SimSyncFile {
    file: Opened,
    op: Op,
}

impl SyncFile for SimSyncFile {
    fn sync(&self) -> io::Result<()> {
        self.file.sync(self.op)
    }
}

/// Holds a lock of one machine; the copies of its disk do not have it.
pub(super) struct SimLockGuard {
    machine: Arc<Machine>,
    file: u64,
    path: PathBuf,
}

impl SimLockGuard {
    pub(super) fn new(machine: &Arc<Machine>, file: u64, path: &Path) -> SimLockGuard {
        SimLockGuard {
            machine: Arc::clone(machine),
            file,
            path: path.to_owned(),
        }
    }
}

impl LockGuard for SimLockGuard {}

impl Drop for SimLockGuard {
    fn drop(&mut self) {
        self.machine.disk.lock().locks.remove(&self.file);
    }
}

impl fmt::Debug for SimLockGuard {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SimLockGuard")
            .field("path", &self.path)
            .finish_non_exhaustive()
    }
}

/// The words of a page that is shared, and whether its creator has it.
#[derive(Debug, Default)]
pub(super) struct PageWords {
    words: [AtomicU64; PAGE_WORDS],
    is_held: AtomicBool,
}

/// A page of a machine; on a copy of its disk nobody holds it.
pub(super) struct SimPage {
    machine: Arc<Machine>,
    words: Arc<PageWords>,
    header: Vec<u8>,
    is_own: bool,
}

impl SimPage {
    /// Makes the new file `inode` a page, held. An error if the disk is full.
    pub(super) fn create(
        machine: &Arc<Machine>,
        inode: &Arc<Inode>,
        header: &[u8],
    ) -> io::Result<SimPage> {
        let bytes = blank(header)?;
        let mut disk = machine.disk.lock();
        if disk.write(inode, 0, &bytes) < bytes.len() {
            return Err(ErrorKind::StorageFull.into());
        }
        let words = Arc::new(PageWords::default());
        words.is_held.store(true, Ordering::Release);
        disk.pages.insert(inode.id, Arc::clone(&words));
        Ok(SimPage {
            machine: Arc::clone(machine),
            words,
            header: header.to_vec(),
            is_own: true,
        })
    }

    pub(super) fn open(machine: &Arc<Machine>, inode: &Arc<Inode>) -> io::Result<SimPage> {
        let content = inode.content.lock();
        let bytes = content.bytes();
        if bytes.len() < PAGE_LEN {
            return Err(ErrorKind::UnexpectedEof.into());
        }
        let header = bytes[..WORDS_AT].to_vec();
        drop(content);
        let words = machine.disk.lock().pages.get(&inode.id).cloned();
        Ok(SimPage {
            machine: Arc::clone(machine),
            words: words.unwrap_or_default(),
            header,
            is_own: false,
        })
    }
}

impl SharedPage for SimPage {
    fn store(&self, at: usize, word: u64) {
        self.words.words[at].store(word, Ordering::Release);
    }

    fn load(&self, at: usize) -> u64 {
        self.words.words[at].load(Ordering::Acquire)
    }

    fn header(&self) -> &[u8] {
        &self.header
    }

    fn is_held(&self) -> io::Result<bool> {
        self.machine.check_power()?;
        Ok(self.words.is_held.load(Ordering::Acquire))
    }

    fn release(&self) {
        if self.is_own {
            self.words.is_held.store(false, Ordering::Release);
        }
    }
}

impl Drop for SimPage {
    fn drop(&mut self) {
        self.release();
    }
}

impl fmt::Debug for SimPage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SimPage")
            .field("words", &self.words)
            .finish_non_exhaustive()
    }
}
