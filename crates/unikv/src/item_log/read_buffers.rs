//! Memory for what is handed out: recycled buffers for reads, because an allocator would give such
//! memory back to the kernel and get it again page by page and zeroed. A buffer lives as long as
//! the last value in it, so it cannot belong to an iterator.
//!
//! Invariants: a buffer shows the bytes of the read that it was taken for, and no others: its
//! length is that of the read, and a reader that does not fill it drops it, or hands out the filled
//! part alone. What is *shared* counts until its last part is dropped; above its part of the budget
//! each value and key is copied ([`ReadBuffers::may_share`]). What is not shared is little more
//! than the value in it ([`is_tight`]).
//!
//! Lock: `idle`, held for a push or a pop only. No other lock is taken under it.

use crate::base::sync::Mutex;
use crate::base::sync::atomic::Ordering;
use crate::base::sync::unseen::AtomicUsize;
use crate::vfs::DIRECT_EXTRA_BYTES;
use bytes::Bytes;
use std::mem;
use std::ops::Range;
use std::sync::Arc;

/// The shortest buffer that is worth keeping, and the longest; those between are twice as long
/// each.
const SHORTEST: usize = 4 << 10;
pub(crate) const LONGEST_BUFFER: usize = 64 << 10;
const SIZES: usize = (LONGEST_BUFFER / SHORTEST).ilog2() as usize + 1;
/// And one that is as long as a direct read may need.
const DIRECT_BUFFER: usize = LONGEST_BUFFER + DIRECT_EXTRA_BYTES;
/// A value keeps at most this before it, or half of its own length.
const MOST_HEAD: usize = 512;

/// Idle buffers, shared by all readers of a database. A caller may keep one value of a buffer that
/// has a hundred: so shared buffers count until the last part of them is dropped, and what counts
/// is what they take at most.
#[derive(Debug)]
pub(crate) struct ReadBuffers {
    most_idle_bytes: usize,
    most_shared_bytes: usize,
    /// Of buffers of which several parts have been handed out, or may be.
    shared_bytes: AtomicUsize,
    idle: Mutex<Idle>,
}

#[derive(Debug, Default)]
struct Idle {
    by_size: [Vec<Box<[u8]>>; SIZES + 1],
    bytes: usize,
}

impl ReadBuffers {
    /// Keeps at most `most_idle_bytes` for later reads. Buffers are shared up to about
    /// `most_shared_bytes`.
    pub(crate) fn new(most_idle_bytes: usize, most_shared_bytes: usize) -> Arc<ReadBuffers> {
        Arc::new(ReadBuffers {
            most_idle_bytes,
            most_shared_bytes,
            shared_bytes: AtomicUsize::new(0),
            idle: Mutex::default(),
        })
    }

    /// Memory that parts of shared buffers keep.
    pub(crate) fn shared_bytes(&self) -> usize {
        self.shared_bytes.load(Ordering::Relaxed)
    }

    /// Whether one more buffer may be shared.
    pub(crate) fn may_share(&self) -> bool {
        self.shared_bytes() < self.most_shared_bytes
    }

    /// `bytes` as a buffer that is shared.
    pub(crate) fn share(self: &Arc<Self>, bytes: Vec<u8>) -> Bytes {
        self.shared_bytes
            .fetch_add(bytes.capacity(), Ordering::Relaxed);
        Bytes::from_owner(Shared {
            memory: bytes,
            pool: Arc::clone(self),
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
            len => len.max(DIRECT_BUFFER),
        };
        let fresh = |size| vec![0; size].into_boxed_slice();
        let memory = match place_of(size) {
            Some(place) => self.recycled(place).unwrap_or_else(|| fresh(size)),
            None => fresh(len),
        };
        let pool = Arc::clone(self);
        ReadBuffer {
            memory,
            len,
            pool,
            is_shared: false,
        }
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
    if size == DIRECT_BUFFER {
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
    pool: Arc<ReadBuffers>,
    is_shared: bool,
}

/// Memory that was made elsewhere and counts as shared.
struct Shared {
    memory: Vec<u8>,
    pool: Arc<ReadBuffers>,
}

impl ReadBuffer {
    /// What is to be filled.
    pub(crate) fn bytes_mut(&mut self) -> &mut [u8] {
        &mut self.memory[..self.len]
    }

    /// The bytes that were read, for one who keeps them all, or none for long.
    pub(crate) fn freeze(self) -> Bytes {
        Bytes::from_owner(self)
    }

    /// The bytes that were read, shared.
    pub(crate) fn share(mut self) -> Bytes {
        let shared = &self.pool.shared_bytes;
        shared.fetch_add(self.memory.len(), Ordering::Relaxed);
        self.is_shared = true;
        Bytes::from_owner(self)
    }

    /// Of what was read, the bytes at `place`, shared or for one who keeps them all. They keep no
    /// buffer that is much longer.
    pub(crate) fn part(self, place: Range<usize>, shared: bool) -> Option<Bytes> {
        let part = self.as_ref().get(place.clone())?;
        Some(match (is_tight(part.len(), self.memory.len()), shared) {
            (true, true) => self.share().slice(place),
            (true, false) => self.freeze().slice(place),
            (false, true) => self.pool.share(part.to_vec()),
            (false, false) => Bytes::copy_from_slice(part),
        })
    }
}

/// Whether a buffer of `capacity` bytes that has `len` of them to hand out is little more than
/// that.
pub(crate) fn is_tight(len: usize, capacity: usize) -> bool {
    len >= capacity / 4 * 3
}

/// Whether a value of `len` bytes after a head of `start` bytes, a record's header and key, is to
/// be copied, for somebody who may hold it for long.
#[inline]
pub(crate) fn has_long_head(start: usize, len: usize) -> bool {
    start > MOST_HEAD && start > len / 2
}

/// What is taken for a read of `len` bytes.
pub(crate) fn capacity_for(len: usize) -> usize {
    match len {
        len if len <= SHORTEST / 2 || len > DIRECT_BUFFER => len,
        len if len <= LONGEST_BUFFER => len.next_power_of_two(),
        _ => DIRECT_BUFFER,
    }
}

impl AsRef<[u8]> for Shared {
    fn as_ref(&self) -> &[u8] {
        &self.memory
    }
}

impl Drop for Shared {
    fn drop(&mut self) {
        let shared = &self.pool.shared_bytes;
        shared.fetch_sub(self.memory.capacity(), Ordering::Relaxed);
    }
}

impl AsRef<[u8]> for ReadBuffer {
    fn as_ref(&self) -> &[u8] {
        &self.memory[..self.len]
    }
}

impl Drop for ReadBuffer {
    fn drop(&mut self) {
        if self.is_shared {
            let shared = &self.pool.shared_bytes;
            shared.fetch_sub(self.memory.len(), Ordering::Relaxed);
        }
        if self.memory.len() >= SHORTEST {
            self.pool.give_back(mem::take(&mut self.memory));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn memory_is_used_again_when_the_last_slice_is_dropped() {
        let pool = ReadBuffers::new(1 << 20, 1 << 20);
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
        let pool = ReadBuffers::new(20 << 10, 0);
        let taken: Vec<_> = (0..3).map(|_| pool.take(6000)).collect();
        drop(taken);
        assert_eq!(pool.idle_bytes(), 16 << 10);
        drop(pool.take(2049));
        assert_eq!(pool.idle_bytes(), 20 << 10);
        drop(pool.take(2048));
        assert_eq!(pool.idle_bytes(), 20 << 10);
        let roomy = ReadBuffers::new(1 << 30, 0);
        let long = roomy.take(DIRECT_BUFFER + 1);
        assert_eq!(long.as_ref().len(), DIRECT_BUFFER + 1);
        drop((long, roomy.take(LONGEST_BUFFER)));
        assert_eq!(roomy.idle_bytes(), LONGEST_BUFFER);
        drop(roomy.take(LONGEST_BUFFER + 1));
        assert_eq!(roomy.idle_bytes(), LONGEST_BUFFER + DIRECT_BUFFER);
    }

    #[test]
    fn shared_memory_counts_until_the_last_part_of_it_is_dropped() {
        let pool = ReadBuffers::new(0, 10 << 10);
        let held = pool.take(5000).share().slice(7..9);
        assert_eq!((pool.shared_bytes(), pool.may_share()), (8 << 10, true));
        let mut keys = Vec::with_capacity(3 << 10);
        keys.extend_from_slice(b"keys");
        let keys = pool.share(keys).slice(1..2);
        assert_eq!((pool.shared_bytes(), pool.may_share()), (11 << 10, false));
        drop(held);
        assert_eq!((pool.shared_bytes(), &keys[..]), (3 << 10, &b"e"[..]));
        drop(keys);
        assert_eq!(pool.shared_bytes(), 0);
    }

    #[test]
    fn a_part_keeps_little_more_than_itself() {
        let pool = ReadBuffers::new(0, 1 << 20);
        let part = |len: usize, place: Range<usize>, shared| {
            let mut buffer = pool.take(len);
            let bytes = buffer.bytes_mut();
            (0..len).for_each(|i| bytes[i] = i as u8);
            let part = buffer.part(place.clone(), shared).unwrap();
            assert!(part.iter().zip(place).all(|(byte, i)| *byte == i as u8));
            (part, pool.shared_bytes())
        };
        assert_eq!(part(8000, 10..7000, true).1, 8 << 10);
        assert_eq!(part(8000, 10..7000, false).1, 0);
        assert_eq!(part(8000, 10..1010, true).1, 1000);
        assert_eq!(part(8000, 10..1010, false).1, 0);
        assert!(pool.take(8000).part(7000..8001, true).is_none());
        for len in [1, 2048, 2049, 5000, 16384, 65536, 65537, 80_000] {
            assert_eq!(capacity_for(len), pool.take(len).memory.len(), "{len}");
        }
    }
}
