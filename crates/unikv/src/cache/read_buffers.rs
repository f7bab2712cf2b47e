//! Recycled memory for reads whose bytes are handed out.
//!
//! What a scan reads at once lives as long as the last value in it, so its buffer cannot belong to
//! the iterator. Memory of that size which is freed goes back to the kernel again and again, and
//! comes from there page by page and zeroed. So buffers of a few sizes are kept for the next read.
//!
//! Invariant: a buffer shows the bytes of the read that it was taken for, and no others: its length
//! is that of the read, and who does not fill it whole drops it, or hands out what was filled
//! alone.
//!
//! Lock: `idle`, held for a push or a pop only. No other lock is taken under it.

use crate::base::sync::Mutex;
use crate::vfs::AROUND_BYTES;
use bytes::Bytes;
use std::mem;
use std::sync::Arc;

/// The shortest buffer that is worth keeping, and the longest; those between are twice as long
/// each.
const SHORTEST: usize = 4 << 10;
pub(crate) const LONGEST_BUFFER: usize = 64 << 10;
const SIZES: usize = (LONGEST_BUFFER / SHORTEST).ilog2() as usize + 1;
/// And one that is as long as a read around the page cache may need.
const AROUND_BUFFER: usize = LONGEST_BUFFER + AROUND_BYTES;

/// Idle buffers, shared by all readers of a database.
#[derive(Debug)]
pub(crate) struct ReadBuffers {
    most_idle_bytes: usize,
    idle: Mutex<Idle>,
}

#[derive(Debug, Default)]
struct Idle {
    by_size: [Vec<Box<[u8]>>; SIZES + 1],
    bytes: usize,
}

impl ReadBuffers {
    /// Keeps at most `most_idle_bytes` for later reads.
    pub(crate) fn new(most_idle_bytes: usize) -> Arc<ReadBuffers> {
        Arc::new(ReadBuffers {
            most_idle_bytes,
            idle: Mutex::default(),
        })
    }

    /// Memory kept for later reads.
    pub(crate) fn idle_bytes(&self) -> usize {
        self.idle.lock().bytes
    }

    /// A buffer of `len` arbitrary bytes, to be filled whole.
    pub(crate) fn take(self: &Arc<Self>, len: usize) -> ReadBuffer {
        let size = match len {
            len if len <= LONGEST_BUFFER => len.next_power_of_two(),
            len => len.max(AROUND_BUFFER),
        };
        let fresh = |size| vec![0; size].into_boxed_slice();
        let (memory, pool) = match place_of(size) {
            Some(place) => {
                let recycled = self.recycled(place);
                (
                    recycled.unwrap_or_else(|| fresh(size)),
                    Some(Arc::clone(self)),
                )
            }
            None => (fresh(len), None),
        };
        ReadBuffer { memory, len, pool }
    }

    fn recycled(&self, place: usize) -> Option<Box<[u8]>> {
        let mut idle = self.idle.lock();
        let memory = idle.by_size[place].pop()?;
        idle.bytes -= memory.len();
        Some(memory)
    }

    fn give_back(&self, memory: Box<[u8]>) {
        let Some(place) = place_of(memory.len()) else {
            return;
        };
        let mut idle = self.idle.lock();
        if idle.bytes + memory.len() <= self.most_idle_bytes {
            idle.bytes += memory.len();
            idle.by_size[place].push(memory);
        }
    }
}

/// Which size this is; `None`: none that is kept.
fn place_of(size: usize) -> Option<usize> {
    if size == AROUND_BUFFER {
        return Some(SIZES);
    }
    let place = (size / SHORTEST).checked_ilog2()? as usize;
    (place < SIZES && size == SHORTEST << place).then_some(place)
}

/// Memory for one read.
#[derive(Debug)]
pub(crate) struct ReadBuffer {
    memory: Box<[u8]>,
    len: usize,
    /// Where the memory goes when nobody needs the bytes any more.
    pool: Option<Arc<ReadBuffers>>,
}

impl ReadBuffer {
    /// What is to be filled.
    pub(crate) fn bytes_mut(&mut self) -> &mut [u8] {
        &mut self.memory[..self.len]
    }

    /// The bytes that were read.
    pub(crate) fn freeze(self) -> Bytes {
        Bytes::from_owner(self)
    }
}

impl AsRef<[u8]> for ReadBuffer {
    fn as_ref(&self) -> &[u8] {
        &self.memory[..self.len]
    }
}

impl Drop for ReadBuffer {
    fn drop(&mut self) {
        if let Some(pool) = self.pool.take() {
            pool.give_back(mem::take(&mut self.memory));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn memory_is_used_again_when_the_last_slice_is_dropped() {
        let pool = ReadBuffers::new(1 << 20);
        let mut buffer = pool.take(5000);
        buffer.bytes_mut().fill(7);
        let memory = buffer.as_ref().as_ptr();
        let slice = buffer.freeze().slice(4999..);
        assert_eq!(pool.idle_bytes(), 0);
        assert_eq!(slice, [7][..]);
        drop(slice);
        assert_eq!(pool.idle_bytes(), 8 << 10);
        let again = pool.take(4097);
        assert_eq!(
            (again.as_ref().as_ptr(), again.as_ref().len()),
            (memory, 4097)
        );
        assert_eq!(pool.idle_bytes(), 0);
        assert_ne!(pool.take(4096).as_ref().as_ptr(), memory);
    }

    #[test]
    fn no_more_is_kept_than_was_said_and_nothing_long_or_short() {
        let pool = ReadBuffers::new(20 << 10);
        let taken: Vec<_> = (0..3).map(|_| pool.take(6000)).collect();
        drop(taken);
        assert_eq!(pool.idle_bytes(), 16 << 10);
        drop(pool.take(2049));
        assert_eq!(pool.idle_bytes(), 20 << 10);
        drop(pool.take(2048));
        assert_eq!(pool.idle_bytes(), 20 << 10);
        let roomy = ReadBuffers::new(1 << 30);
        let long = roomy.take(AROUND_BUFFER + 1);
        assert_eq!(long.as_ref().len(), AROUND_BUFFER + 1);
        drop((long, roomy.take(LONGEST_BUFFER)));
        assert_eq!(roomy.idle_bytes(), LONGEST_BUFFER);
        drop(roomy.take(LONGEST_BUFFER + 1));
        assert_eq!(roomy.idle_bytes(), LONGEST_BUFFER + AROUND_BUFFER);
    }
}
