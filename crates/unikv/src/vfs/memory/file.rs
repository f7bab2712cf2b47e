//! A file in memory: its bytes, in chunks.
//!
//! # Invariants
//! - All chunks but the last are full: byte `n` stands in chunk `n / CHUNK_BYTES`. What is after
//!   the last chunk and before `len` was reserved and reads as zeros.
//! - What a file takes is counted as long as anybody has it open or it has a name.
//!
//! Lock: `content`, for a copy of bytes in or out. Files that are complete are only read, so
//! readers share it.

use crate::base::sync::RwLock;
use crate::base::sync::atomic::{AtomicU64, Ordering};
use std::io::{self, ErrorKind};
use std::mem;
use std::sync::Arc;

/// Bytes of a chunk: small beside a data file, and large beside what a chunk costs.
const CHUNK_BYTES: usize = 64 << 10;

/// A file, whatever its name.
#[derive(Debug)]
pub(super) struct MemoryFile {
    content: RwLock<Content>,
    /// What all files of the file system take.
    all: Arc<AtomicU64>,
}

#[derive(Debug, Default)]
struct Content {
    chunks: Vec<Vec<u8>>,
    len: u64,
    /// What was counted for it.
    counted: u64,
}

impl MemoryFile {
    /// A file of `len` zeros, which take no memory.
    pub(super) fn reserved(len: u64, all: &Arc<AtomicU64>) -> MemoryFile {
        let content = Content {
            len,
            ..Content::default()
        };
        MemoryFile {
            content: RwLock::new(content),
            all: Arc::clone(all),
        }
    }

    pub(super) fn len(&self) -> u64 {
        self.content.read().len
    }

    /// Fills `buf` from `offset`, as far as the file reaches.
    pub(super) fn read_at(&self, buf: &mut [u8], offset: u64) -> usize {
        let content = self.content.read();
        let left = content.len.saturating_sub(offset);
        let len = usize::try_from(left).unwrap_or(usize::MAX).min(buf.len());
        let (mut rest, mut at) = (&mut buf[..len], usize::try_from(offset).unwrap_or_default());
        while !rest.is_empty() {
            let (chunk, within) = (at / CHUNK_BYTES, at % CHUNK_BYTES);
            let part = rest.len().min(CHUNK_BYTES - within);
            let (now, later) = mem::take(&mut rest).split_at_mut(part);
            let there = content.chunks.get(chunk).and_then(|it| it.get(within..));
            let there = there.unwrap_or_default();
            let known = there.len().min(part);
            now[..known].copy_from_slice(&there[..known]);
            now[known..].fill(0);
            (rest, at) = (later, at + part);
        }
        len
    }

    /// Writes `bytes` from `offset` on, which is at most the length.
    pub(super) fn write_at(&self, offset: u64, bytes: &[u8]) -> io::Result<()> {
        let content = &mut *self.content.write();
        let end = offset.checked_add(bytes.len() as u64);
        let end = end.filter(|_| offset <= content.len);
        let end = end.ok_or(ErrorKind::InvalidInput)?;
        let (mut rest, mut at) = (bytes, to_memory(offset)?);
        to_memory(end)?;
        while !rest.is_empty() {
            let (chunk, within) = (at / CHUNK_BYTES, at % CHUNK_BYTES);
            let part = rest.len().min(CHUNK_BYTES - within);
            let (now, later) = rest.split_at(part);
            content.chunk(chunk).write(within, now)?;
            (rest, at) = (later, at + part);
        }
        content.len = content.len.max(end);
        self.count(content);
        Ok(())
    }

    /// Nothing more is appended: gives back what was taken ahead.
    pub(super) fn shrink(&self) {
        let content = &mut *self.content.write();
        if let Some(last) = content.chunks.last_mut() {
            last.shrink_to_fit();
        }
        content.chunks.shrink_to_fit();
        self.count(content);
    }

    fn count(&self, content: &mut Content) {
        let last = content.chunks.last().map_or(0, Vec::capacity);
        let full = content.chunks.len().saturating_sub(1) * CHUNK_BYTES;
        let list = content.chunks.capacity() * size_of::<Vec<u8>>();
        let bytes = (full + last + list) as u64;
        self.all.fetch_add(bytes, Ordering::Relaxed);
        let before = mem::replace(&mut content.counted, bytes);
        self.all.fetch_sub(before, Ordering::Relaxed);
    }
}

impl Drop for MemoryFile {
    fn drop(&mut self) {
        let counted = self.content.read().counted;
        self.all.fetch_sub(counted, Ordering::Relaxed);
    }
}

impl Content {
    /// A chunk. All before it are full then.
    fn chunk(&mut self, nth: usize) -> Chunk<'_> {
        while self.chunks.len() <= nth {
            if let Some(last) = self.chunks.last_mut() {
                last.resize(CHUNK_BYTES, 0);
            }
            self.chunks.push(Vec::new());
        }
        Chunk(&mut self.chunks[nth])
    }
}

struct Chunk<'a>(&'a mut Vec<u8>);

impl Chunk<'_> {
    /// Writes `bytes` from `within` on, which with them is within the chunk.
    fn write(&mut self, within: usize, bytes: &[u8]) -> io::Result<()> {
        let end = within + bytes.len();
        if end > self.0.capacity() {
            let wanted = end.next_power_of_two().min(CHUNK_BYTES);
            let more = wanted - self.0.len();
            let refused = self.0.try_reserve_exact(more);
            refused.map_err(|_| ErrorKind::OutOfMemory)?;
        }
        if self.0.len() < within {
            self.0.resize(within, 0);
        }
        let over = bytes.len().min(self.0.len() - within);
        self.0[within..within + over].copy_from_slice(&bytes[..over]);
        self.0.extend_from_slice(&bytes[over..]);
        Ok(())
    }
}

/// An offset in memory. On systems of 32 bits a file may be too large.
fn to_memory(offset: u64) -> io::Result<usize> {
    usize::try_from(offset).map_err(|_| ErrorKind::FileTooLarge.into())
}
