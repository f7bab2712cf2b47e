//! Reading a value as a stream.
//!
//! A reader keeps the file of its value, and nothing else of the view that it was found in: files
//! never change. It belongs to one thread at a time and has no lock.

use crate::engine::memory::IteratorBytes;
use crate::engine::read::ReadState;
use crate::error::Result;
use crate::partition::value_place::OpenValue;
use bytes::Bytes;
use std::fmt;
use std::io::{self, Read, Seek, SeekFrom};
use std::mem;
use std::sync::Arc;

/// Bytes of a value in chunks that are read at a time, where a chunk has not more.
const BUFFER_BYTES: usize = 64 << 10;

/// Reads the value that a key had when [`Db::get_reader`](crate::Db::get_reader) was called, from
/// any offset. It goes on doing so when the key has been overwritten or deleted since, or the value
/// has expired, and keeps its file for that long: [`PinStats`](crate::PinStats) counts it among
/// what is pinned.
///
/// Of a large value it has 64 KiB in memory at a time, and 16 bytes for each 64 KiB of the value;
/// each piece is verified before it is handed out. Values of less than 256 KiB, and large ones
/// that a release without chunks wrote, are in memory whole.
///
/// Errors are an [`Error`](crate::Error) within an [`io::Error`]; after one the position is as
/// before, and reading may be tried again. Once the database is closed, so is the reader.
pub struct ValueReader {
    read: Arc<ReadState>,
    value: OpenValue,
    len: usize,
    /// May lie behind the end.
    position: u64,
    /// Bytes of the value from here on.
    buffer: Vec<u8>,
    buffer_start: usize,
    memory: IteratorBytes,
}

impl ValueReader {
    pub(crate) fn new(read: &Arc<ReadState>, value: OpenValue) -> ValueReader {
        let mut reader = ValueReader {
            read: Arc::clone(read),
            len: match &value {
                OpenValue::Memory(value) => value.len(),
                OpenValue::Chunked(value) => value.len(),
            },
            value,
            position: 0,
            buffer: Vec::new(),
            buffer_start: 0,
            memory: IteratorBytes::new(&read.core.memory),
        };
        reader.note_memory();
        reader
    }

    /// The length of the value in bytes.
    pub fn len(&self) -> u64 {
        self.len as u64
    }

    /// Whether the value has no bytes.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Reads on; fewer bytes than asked for only where a piece of the value ends.
    pub(crate) fn read_on(&mut self, out: &mut [u8]) -> Result<usize> {
        self.read.core.check_open()?;
        let len = self.read_some(out)?;
        self.position += len as u64;
        Ok(len)
    }

    fn note_memory(&mut self) {
        let value = match &self.value {
            // It is its caller's, as what a get gives.
            OpenValue::Memory(_) => 0,
            OpenValue::Chunked(value) => value.memory_bytes(),
        };
        self.memory.set(value + self.buffer.capacity());
    }

    /// Copies bytes from the position on; fewer than asked for only where the buffer ends.
    fn read_some(&mut self, out: &mut [u8]) -> Result<usize> {
        let at = usize::try_from(self.position).unwrap_or(usize::MAX);
        let left = self.len.saturating_sub(at);
        if left == 0 || out.is_empty() {
            return Ok(0);
        }
        let value = match &self.value {
            OpenValue::Memory(value) => return Ok(copy(value, at, out)),
            OpenValue::Chunked(value) => value,
        };
        let buffered = at.checked_sub(self.buffer_start);
        if let Some(from) = buffered.filter(|from| *from < self.buffer.len()) {
            return Ok(copy(&self.buffer, from, out));
        }
        let core = &self.read.core;
        let (chunk, most) = (value.chunk_bytes(), out.len().min(left));
        let whole = if most == left {
            most
        } else {
            most / chunk * chunk
        };
        if at.is_multiple_of(chunk) && whole >= BUFFER_BYTES.max(chunk) {
            let out = out.get_mut(..whole).unwrap_or_default();
            core.while_open(|| value.read(at..at + whole, out))?;
            return Ok(whole);
        }
        let start = at / chunk * chunk;
        let end = self.len.min(start + BUFFER_BYTES.max(chunk));
        // Empty until all of it is right.
        let mut buffer = mem::take(&mut self.buffer);
        buffer.resize(end - start, 0);
        core.while_open(|| value.read(start..end, &mut buffer))?;
        (self.buffer, self.buffer_start) = (buffer, start);
        self.note_memory();
        Ok(copy(&self.buffer, at - start, out))
    }
}

fn copy(from: &[u8], at: usize, out: &mut [u8]) -> usize {
    let from = from.get(at..).unwrap_or_default();
    let len = from.len().min(out.len());
    for (to, from) in out.iter_mut().zip(from) {
        *to = *from;
    }
    len
}

impl Read for ValueReader {
    fn read(&mut self, out: &mut [u8]) -> io::Result<usize> {
        Ok(self.read_on(out)?)
    }
}

/// A position behind the end is allowed, and nothing is read there.
impl Seek for ValueReader {
    fn seek(&mut self, to: SeekFrom) -> io::Result<u64> {
        let position = match to {
            SeekFrom::Start(offset) => Some(offset),
            SeekFrom::End(by) => self.len().checked_add_signed(by),
            SeekFrom::Current(by) => self.position.checked_add_signed(by),
        };
        let before = || io::Error::new(io::ErrorKind::InvalidInput, "a position before the value");
        self.position = position.ok_or_else(before)?;
        Ok(self.position)
    }
}

impl Drop for ValueReader {
    fn drop(&mut self) {
        // In the child of a fork no lock is taken: the file and the engine stay as they are.
        if !self.read.core.process.is_this() {
            mem::forget(Arc::clone(&self.read));
            let none = OpenValue::Memory(Bytes::new());
            mem::forget(mem::replace(&mut self.value, none));
        }
    }
}

impl fmt::Debug for ValueReader {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ValueReader")
            .field("len", &self.len)
            .field("position", &self.position)
            .finish_non_exhaustive()
    }
}
