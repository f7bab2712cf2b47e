//! A large file written once, in large aligned writes past the page cache: output neither fills the
//! page cache with bytes that are not read soon nor piles up dirty pages before which a log's
//! `fdatasync` would have to wait. Each full buffer, of [`MAX_BUFFER_LEN`] unless memory is short,
//! is one `O_DIRECT` write. A file shorter than one, the last partial block, bytes that are
//! replaced after they have left the buffer, and everything where the file system does not take
//! `O_DIRECT`, go through the page cache.
//!
//! Invariants: `written` is a multiple of the buffer's length until `finish`; the file's length is
//! `written + filled`. `broken` is set by the first failure and refuses all that follows.

use super::{OsSyncFile, broken_file, write_out};
use crate::base::sync::Mutex;
use crate::base::sync::atomic::{AtomicUsize, Ordering};
use crate::vfs::direct_io::is_refusal;
use crate::vfs::{BLOCK_BYTES, SyncFile, WriteFile, lies_within};
use rustix::fs::OFlags;
use std::fmt;
use std::fs::File;
use std::io::{self, ErrorKind};
use std::mem;
use std::os::unix::fs::FileExt;
use std::sync::Arc;

/// Bytes per direct write. Longer writes gain nothing and would hold up a log's sync.
const MAX_BUFFER_LEN: usize = 1 << 20;
/// Addresses, offsets and lengths of direct writes must be multiples.
const ALIGNMENT: usize = BLOCK_BYTES;
/// Idle buffers kept for the next file, because the first touch of memory costs more than the
/// write itself.
const MAX_IDLE_BUFFERS: usize = 4;

/// Whether writes are direct.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Direct {
    /// No full buffer has been written yet.
    Untried,
    On,
    /// The file system refuses it, or an unaligned write follows.
    Off,
}

#[derive(Debug)]
pub(super) struct BulkFile {
    file: Arc<File>,
    buffer: PooledBuffer,
    filled: usize,
    written: u64,
    /// Bytes that may be preallocated.
    reserved: u64,
    direct: Direct,
    broken: bool,
}

impl BulkFile {
    /// Writes to `file`, which is empty but may have `reserved` bytes preallocated.
    pub(super) fn new(file: Arc<File>, reserved: u64, buffer: PooledBuffer) -> BulkFile {
        BulkFile {
            file,
            buffer,
            filled: 0,
            written: 0,
            direct: Direct::Untried,
            reserved,
            broken: false,
        }
    }

    fn gather(&mut self, mut bytes: &[u8]) -> io::Result<()> {
        while !bytes.is_empty() {
            let room = &mut self.buffer.bytes_mut()[self.filled..];
            let len = bytes.len().min(room.len());
            room[..len].copy_from_slice(&bytes[..len]);
            self.filled += len;
            bytes = &bytes[len..];
            if self.filled == self.buffer.len() {
                self.write_full_buffer()?;
            }
        }
        Ok(())
    }

    fn write_full_buffer(&mut self) -> io::Result<()> {
        if self.direct == Direct::Untried {
            self.direct = match set_direct_flag(&self.file, true) {
                Ok(()) => Direct::On,
                Err(_) => Direct::Off,
            };
        }
        self.write_buffered_range(0, self.filled)?;
        self.written += self.filled as u64;
        self.filled = 0;
        Ok(())
    }

    fn write_tail(&mut self) -> io::Result<()> {
        let mut start = 0;
        if self.direct == Direct::On {
            start = self.filled - self.filled % ALIGNMENT;
            self.write_buffered_range(0, start)?;
            self.leave_direct()?;
        }
        self.write_buffered_range(start, self.filled)
    }

    /// Writes `start..end` of the buffer to its place in the file.
    fn write_buffered_range(&mut self, mut start: usize, end: usize) -> io::Result<()> {
        while start < end {
            let bytes = &self.buffer.bytes()[start..end];
            let (done, result) = write_full(&*self.file, bytes, self.written + start as u64);
            start += done;
            match result {
                Ok(()) => {}
                // Some file systems take the flag and refuse the write, and what is left after a
                // short write may be unaligned.
                Err(e) if self.direct == Direct::On && is_refusal(&e) => self.leave_direct()?,
                Err(e) => return Err(e),
            }
        }
        Ok(())
    }

    fn replace_bytes(&mut self, offset: u64, bytes: &[u8]) -> io::Result<()> {
        if !lies_within(offset, bytes.len(), self.len()) {
            return Err(ErrorKind::InvalidInput.into());
        }
        let on_file = self.written.saturating_sub(offset).min(bytes.len() as u64) as usize;
        let (on_file, gathered) = bytes.split_at(on_file);
        if !on_file.is_empty() {
            if self.direct == Direct::On {
                set_direct_flag(&self.file, false)?;
                self.direct = Direct::Untried;
            }
            write_full(&*self.file, on_file, offset).1?;
        }
        let start = (offset.max(self.written) - self.written) as usize;
        self.buffer.bytes_mut()[start..start + gathered.len()].copy_from_slice(gathered);
        Ok(())
    }

    fn leave_direct(&mut self) -> io::Result<()> {
        if self.direct == Direct::On {
            set_direct_flag(&self.file, false)?;
            self.direct = Direct::Off;
        }
        Ok(())
    }
}

impl WriteFile for BulkFile {
    fn append(&mut self, bytes: &[u8]) -> io::Result<()> {
        if self.broken {
            return Err(broken_file());
        }
        let result = self.gather(bytes);
        self.broken = result.is_err();
        result
    }

    fn len(&self) -> u64 {
        self.written + self.filled as u64
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
        Arc::new(OsSyncFile {
            file: Arc::clone(&self.file),
        })
    }

    fn finish_unsynced(mut self: Box<Self>) -> io::Result<Arc<dyn SyncFile>> {
        if self.broken {
            return Err(broken_file());
        }
        self.write_tail()?;
        // Cutting a file at its own length frees the blocks after it. That costs a journal entry,
        // so it is left out where there are none.
        if self.reserved > self.len() {
            self.file.set_len(self.len())?;
        }
        // Of files that are synced together, the device then has all bytes by the first sync, whose
        // journal commit serves the others, too.
        write_out::begin(&self.file);
        Ok(self.sync_handle())
    }
}

/// Writes until all of `bytes` are in the file or an error stops it. How many were written before
/// that.
fn write_full(file: &impl FileExt, bytes: &[u8], offset: u64) -> (usize, io::Result<()>) {
    let mut done = 0;
    while done < bytes.len() {
        match file.write_at(&bytes[done..], offset + done as u64) {
            Ok(0) => return (done, Err(ErrorKind::WriteZero.into())),
            Ok(n) => done += n,
            Err(e) if e.kind() == ErrorKind::Interrupted => {}
            Err(e) => return (done, Err(e)),
        }
    }
    (done, Ok(()))
}

/// Sets the flag on the open file. Asking for it in `open` could fail after creating the file.
fn set_direct_flag(file: &File, on: bool) -> io::Result<()> {
    let mut flags = rustix::fs::fcntl_getfl(file)?;
    flags.set(OFlags::DIRECT, on);
    Ok(rustix::fs::fcntl_setfl(file, flags)?)
}

/// Idle buffers, shared by the files of one [`super::OsVfs`].
#[derive(Debug)]
pub(super) struct BufferPool {
    /// The length of the buffers that are taken from now on: a multiple of [`ALIGNMENT`].
    buffer_len: AtomicUsize,
    idle: Mutex<Vec<AlignedBuffer>>,
}

impl Default for BufferPool {
    fn default() -> BufferPool {
        BufferPool {
            buffer_len: AtomicUsize::new(MAX_BUFFER_LEN),
            idle: Mutex::default(),
        }
    }
}

impl BufferPool {
    /// Makes buffers no longer than `bytes`, or than the least length.
    pub(super) fn limit(&self, bytes: usize) {
        let len = (bytes / ALIGNMENT).max(1) * ALIGNMENT;
        self.buffer_len.fetch_min(len, Ordering::Relaxed);
        let mut idle = self.idle.lock();
        idle.retain(|buffer| buffer.len <= len);
    }

    /// Bytes of the buffers that no file has.
    pub(super) fn idle_bytes(&self) -> u64 {
        let idle = self.idle.lock();
        idle.iter().map(|buffer| buffer.memory.len() as u64).sum()
    }

    /// A buffer with arbitrary content.
    pub(super) fn take(self: &Arc<Self>) -> PooledBuffer {
        let idle = self.idle.lock().pop();
        let allocate = || AlignedBuffer::allocate(self.buffer_len.load(Ordering::Relaxed));
        PooledBuffer {
            buffer: idle.unwrap_or_else(allocate),
            pool: Arc::clone(self),
        }
    }
}

/// A buffer that returns to its pool when dropped.
#[derive(Debug)]
pub(super) struct PooledBuffer {
    buffer: AlignedBuffer,
    pool: Arc<BufferPool>,
}

impl PooledBuffer {
    fn len(&self) -> usize {
        self.buffer.len
    }

    fn bytes(&self) -> &[u8] {
        &self.buffer.memory[self.buffer.start..][..self.buffer.len]
    }

    fn bytes_mut(&mut self) -> &mut [u8] {
        &mut self.buffer.memory[self.buffer.start..][..self.buffer.len]
    }
}

impl Drop for PooledBuffer {
    fn drop(&mut self) {
        let buffer = mem::take(&mut self.buffer);
        let mut idle = self.pool.idle.lock();
        let fits = buffer.len <= self.pool.buffer_len.load(Ordering::Relaxed);
        if fits && idle.len() < MAX_IDLE_BUFFERS {
            idle.push(buffer);
        }
    }
}

/// Memory with an aligned stretch of `len` bytes at `start`. The default is empty.
#[derive(Default)]
struct AlignedBuffer {
    memory: Box<[u8]>,
    start: usize,
    len: usize,
}

impl AlignedBuffer {
    fn allocate(len: usize) -> AlignedBuffer {
        let memory = vec![0; len + ALIGNMENT].into_boxed_slice();
        let start = memory.as_ptr().addr().wrapping_neg() % ALIGNMENT;
        AlignedBuffer { memory, start, len }
    }
}

impl fmt::Debug for AlignedBuffer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("AlignedBuffer")
            .field("start", &self.start)
            .finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::super::tests::Stingy;
    use super::*;
    use std::fs::{self, OpenOptions};

    fn bulk_file(path: &std::path::Path, pool: &Arc<BufferPool>) -> BulkFile {
        let file = OpenOptions::new()
            .write(true)
            .create_new(true)
            .open(path)
            .unwrap();
        BulkFile::new(Arc::new(file), 0, pool.take())
    }

    #[test]
    fn a_refused_direct_write_goes_through_the_page_cache() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("file");
        let mut file = bulk_file(&path, &Arc::default());
        if set_direct_flag(&file.file, true).is_err() {
            return; // This file system has no direct writes to refuse.
        }
        file.direct = Direct::On;
        file.append(b"unaligned").unwrap();
        file.write_buffered_range(1, 9).unwrap();
        assert_eq!(fs::read(&path).unwrap(), b"\0naligned");
        let flags = rustix::fs::fcntl_getfl(&*file.file).unwrap();
        assert_eq!(flags.contains(OFlags::DIRECT), file.direct == Direct::On);
    }

    #[test]
    fn a_write_goes_on_after_short_ones_and_interrupts() {
        let file = Stingy::new(&[]);
        assert!(matches!(write_full(&file, &[7; 100], 3), (100, Ok(()))));
        assert_eq!(file.bytes.borrow()[3..], [7; 100]);
        file.fails_at.set(Some(60));
        let (done, result) = write_full(&file, &[8; 100], 10);
        assert_eq!(result.unwrap_err().kind(), ErrorKind::StorageFull);
        assert_eq!(file.bytes.borrow()[10..10 + done], vec![8; done]);
        assert_eq!((10 + done, file.bytes.borrow()[60]), (60, 7));
        file.fails_at.set(None);
        file.takes_nothing.set(true);
        let (done, result) = write_full(&file, &[9; 10], 0);
        assert_eq!(
            (done, result.unwrap_err().kind()),
            (0, ErrorKind::WriteZero)
        );
    }

    #[test]
    fn content_is_the_same_without_direct_writes() {
        let dir = tempfile::tempdir().unwrap();
        let bytes: Vec<u8> = (0..MAX_BUFFER_LEN * 2 + 5000)
            .map(|i| (i / 7) as u8)
            .collect();
        for direct in [Direct::Untried, Direct::Off] {
            let path = dir.path().join(format!("{direct:?}"));
            let mut file = bulk_file(&path, &Arc::default());
            file.direct = direct;
            file.append(&bytes).unwrap();
            assert_ne!(file.direct, Direct::Untried);
            Box::new(file).finish().unwrap();
            assert!(fs::read(&path).unwrap() == bytes, "{direct:?}");
        }
    }

    #[test]
    fn bytes_are_replaced_wherever_they_are() {
        let dir = tempfile::tempdir().unwrap();
        for direct in [Direct::Untried, Direct::Off] {
            let path = dir.path().join(format!("{direct:?}"));
            let mut bytes: Vec<u8> = (0..MAX_BUFFER_LEN * 2 + 5000)
                .map(|i| (i / 7) as u8)
                .collect();
            let mut file = bulk_file(&path, &Arc::default());
            file.direct = direct;
            let (first, rest) = bytes.split_at(MAX_BUFFER_LEN + 100);
            file.append(first).unwrap();
            file.replace(3, b"one").unwrap();
            file.replace(MAX_BUFFER_LEN as u64 - 2, b"two").unwrap();
            file.replace(MAX_BUFFER_LEN as u64 + 50, b"three").unwrap();
            file.append(rest).unwrap();
            let error = file.replace(bytes.len() as u64 - 1, b"beyond").unwrap_err();
            assert_eq!(error.kind(), ErrorKind::InvalidInput);
            assert!(file.append(b"more").is_err(), "it is broken now");
            file.broken = false;
            Box::new(file).finish().unwrap();
            for (at, new) in [
                (3, &b"one"[..]),
                (MAX_BUFFER_LEN - 2, b"two"),
                (MAX_BUFFER_LEN + 50, b"three"),
            ] {
                bytes[at..at + new.len()].copy_from_slice(new);
            }
            assert!(fs::read(&path).unwrap() == bytes, "{direct:?}");
        }
    }

    #[test]
    fn buffers_are_aligned_and_go_back_to_the_pool() {
        let pool = Arc::new(BufferPool::default());
        let taken: Vec<_> = (0..MAX_IDLE_BUFFERS + 2).map(|_| pool.take()).collect();
        for buffer in &taken {
            assert_eq!(buffer.bytes().as_ptr().addr() % ALIGNMENT, 0);
            assert_eq!(buffer.bytes().len(), MAX_BUFFER_LEN);
        }
        drop(taken);
        assert_eq!(pool.idle.lock().len(), MAX_IDLE_BUFFERS);
        assert!(pool.idle_bytes() >= (MAX_IDLE_BUFFERS * MAX_BUFFER_LEN) as u64);
        let again = pool.take();
        assert_eq!(pool.idle.lock().len(), MAX_IDLE_BUFFERS - 1);
        assert_eq!(again.bytes().as_ptr().addr() % ALIGNMENT, 0);
    }

    #[test]
    fn a_limit_shortens_the_buffers_and_drops_longer_ones() {
        let pool = Arc::new(BufferPool::default());
        let long = pool.take();
        drop(pool.take());
        pool.limit(10_000);
        assert_eq!(pool.idle.lock().len(), 0);
        drop(long);
        assert_eq!(pool.idle.lock().len(), 0);
        assert_eq!(pool.take().len(), 8192);

        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("file");
        let bytes: Vec<u8> = (0..50_001).map(|i| (i / 7) as u8).collect();
        let mut file = bulk_file(&path, &pool);
        file.append(&bytes).unwrap();
        Box::new(file).finish().unwrap();
        assert!(fs::read(&path).unwrap() == bytes);
    }
}
