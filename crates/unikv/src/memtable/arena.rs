//! Bump allocation for one memtable, and the pool that recycles its memory.
//!
//! An [`Arena`] hands out memory that stays where it is until the arena is dropped, and it is never
//! handed out twice. Nodes and values come from separate chunks: a search then walks a few dense
//! pages of nodes rather than one page per value.
//!
//! Touching fresh memory costs several times more than touching recycled memory (the kernel zeroes
//! each page at first touch), so dropped arenas give their chunks to an [`ArenaPool`]. The pool
//! keeps at most `max_idle_bytes`; what goes beyond is freed. Nothing is zeroed.
//! The pool knows all memory of its arenas, idle or in use.
//!
//! Lock: `ArenaPool::idle`, held for a push or a pop only. No other lock is taken under it.

#![allow(
    unsafe_code,
    reason = "memory that lock-free readers share with one writer"
)]

use crate::base::mapped::{LEAST_MAPPED_BYTES, Mapped};
use crate::base::sync::Mutex;
use crate::base::sync::atomic::{AtomicUsize, Ordering};
use std::alloc::{self, Layout};
use std::ptr::NonNull;
use std::sync::Arc;

/// Lengths of a recyclable chunk: an arena of a pool wastes up to two, so they follow its size.
const CHUNK_LENS: std::ops::RangeInclusive<usize> = 4 << 10..=1 << 20;
/// Chunks that a full arena is made of, at least where chunks are not the longest or shortest.
const CHUNKS_PER_ARENA: usize = 16;
/// A cache line; at least the alignment of anything stored.
const CHUNK_ALIGN: usize = 64;
/// Alignment of the memory for nodes.
pub(super) const NODE_ALIGN: usize = 8;

/// Recycles chunks between memtables.
pub(crate) struct ArenaPool {
    arena_bytes: usize,
    chunk_len: usize,
    max_idle_chunks: usize,
    idle: Mutex<Vec<Chunk>>,
    /// Bytes of all chunks, idle or in use, and of what memtables have beside them.
    allocated_bytes: AtomicUsize,
}

impl ArenaPool {
    /// A pool for arenas of about `arena_bytes` that keeps at most `max_idle_bytes` of unused
    /// memory.
    pub(crate) fn new(arena_bytes: usize, max_idle_bytes: usize) -> Arc<ArenaPool> {
        let chunk_len = (arena_bytes / CHUNKS_PER_ARENA).next_power_of_two();
        let chunk_len = chunk_len.clamp(*CHUNK_LENS.start(), *CHUNK_LENS.end());
        Arc::new(ArenaPool {
            arena_bytes,
            chunk_len,
            max_idle_chunks: max_idle_bytes / chunk_len,
            idle: Mutex::new(Vec::new()),
            allocated_bytes: AtomicUsize::new(0),
        })
    }

    /// About what an arena is to take.
    pub(super) fn arena_bytes(&self) -> usize {
        self.arena_bytes
    }

    /// Counts memory that a memtable takes beside its arena, until it is discharged.
    pub(super) fn charge(&self, bytes: usize) {
        self.allocated_bytes.fetch_add(bytes, Ordering::Relaxed);
    }

    /// See [`ArenaPool::charge`].
    pub(super) fn discharge(&self, bytes: usize) {
        self.allocated_bytes.fetch_sub(bytes, Ordering::Relaxed);
    }

    /// Memory held for the next memtables.
    pub(crate) fn idle_bytes(&self) -> usize {
        self.idle.lock().len() * self.chunk_len
    }

    /// Gives up idle memory: about `bytes`, as far as there is this much.
    pub(crate) fn trim(&self, bytes: usize) {
        let mut idle = self.idle.lock();
        let kept = idle.len().saturating_sub(bytes.div_ceil(self.chunk_len));
        let freed = idle.split_off(kept);
        drop(idle);
        self.free(freed);
    }

    /// Bytes that memtables have.
    pub(crate) fn used_bytes(&self) -> u64 {
        self.allocated_bytes().saturating_sub(self.idle_bytes()) as u64
    }

    /// All memory, idle or in use.
    pub(crate) fn allocated_bytes(&self) -> usize {
        self.allocated_bytes.load(Ordering::Relaxed)
    }

    /// Longer requests get a chunk of their own, so that at most a quarter of a chunk is ever
    /// wasted.
    fn max_shared_len(&self) -> usize {
        self.chunk_len / 4
    }

    fn take(&self) -> Chunk {
        let recycled = self.idle.lock().pop();
        recycled.unwrap_or_else(|| self.allocate(self.chunk_len))
    }

    fn allocate(&self, len: usize) -> Chunk {
        self.charge(len);
        Chunk::new(len)
    }

    /// Keeps what fits of `chunks`; the rest is freed after the lock has been released.
    fn give_back(&self, chunks: &mut Vec<Chunk>) {
        let is_odd = |chunk: &mut Chunk| chunk.len != self.chunk_len;
        let mut freed: Vec<Chunk> = chunks.extract_if(.., is_odd).collect();
        let mut idle = self.idle.lock();
        let room = self.max_idle_chunks.saturating_sub(idle.len());
        idle.extend(chunks.drain(..room.min(chunks.len())));
        drop(idle);
        freed.append(chunks);
        self.free(freed);
    }

    fn free(&self, chunks: Vec<Chunk>) {
        let bytes: usize = chunks.iter().map(|chunk| chunk.len).sum();
        drop(chunks);
        self.discharge(bytes);
    }
}

/// Memory of which nothing is known, freed on drop.
struct Chunk {
    start: NonNull<u8>,
    len: usize,
    memory: Memory,
}

enum Memory {
    Allocated(Layout),
    /// Kept for its end.
    Mapped(#[allow(dead_code, reason = "its end gives the memory back")] Mapped),
}

// SAFETY: a chunk owns its memory; nothing about it is tied to a thread.
unsafe impl Send for Chunk {}

impl Chunk {
    fn new(len: usize) -> Chunk {
        assert!(len > 0);
        if len >= LEAST_MAPPED_BYTES
            && let Some(mut mapped) = Mapped::new(len)
            && let Some(start) = NonNull::new(mapped.as_mut_ptr())
        {
            let memory = Memory::Mapped(mapped);
            return Chunk { start, len, memory };
        }
        let layout = Layout::from_size_align(len, CHUNK_ALIGN)
            .unwrap_or_else(|_| alloc::handle_alloc_error(Layout::new::<u8>()));
        // SAFETY: the layout's size is not zero.
        let start = unsafe { alloc::alloc(layout) };
        let start = NonNull::new(start).unwrap_or_else(|| alloc::handle_alloc_error(layout));
        let memory = Memory::Allocated(layout);
        Chunk { start, len, memory }
    }
}

impl Drop for Chunk {
    fn drop(&mut self) {
        if let Memory::Allocated(layout) = self.memory {
            // SAFETY: `start` came from `alloc` with this very layout and is freed only here.
            unsafe { alloc::dealloc(self.start.as_ptr(), layout) }
        }
    }
}

/// The unused rest of a chunk.
struct Bump {
    next: NonNull<u8>,
    left: usize,
}

impl Bump {
    const EMPTY: Bump = Bump {
        next: NonNull::dangling(),
        left: 0,
    };

    fn take(&mut self, len: usize) -> Option<NonNull<u8>> {
        self.left = self.left.checked_sub(len)?;
        let at = self.next;
        // SAFETY: `len` bytes were left from `next`, so the sum is at most one past the chunk (or,
        // for the empty bump, `len` is 0).
        self.next = unsafe { at.add(len) };
        Some(at)
    }
}

/// Bump allocation for one memtable.
pub(super) struct Arena {
    pool: Arc<ArenaPool>,
    chunks: Vec<Chunk>,
    nodes: Bump,
    values: Bump,
    used_bytes: usize,
}

// SAFETY: the bumps point into chunks that the arena owns.
unsafe impl Send for Arena {}

impl Arena {
    pub(super) fn new(pool: &Arc<ArenaPool>) -> Arena {
        Arena {
            pool: Arc::clone(pool),
            chunks: Vec::new(),
            nodes: Bump::EMPTY,
            values: Bump::EMPTY,
            used_bytes: 0,
        }
    }

    /// Bytes handed out, and those lost at the ends of chunks.
    pub(super) fn used_bytes(&self) -> usize {
        self.used_bytes
    }

    /// `len` uninitialised bytes aligned to [`NODE_ALIGN`], valid until the arena is dropped.
    pub(super) fn alloc_node(&mut self, len: usize) -> NonNull<u8> {
        // Chunks are aligned and every length is a multiple, so every address is aligned as well.
        let len = len.next_multiple_of(NODE_ALIGN);
        match self.nodes.take(len) {
            Some(at) => {
                self.used_bytes += len;
                at
            }
            None => Self::refill(
                &mut self.nodes,
                len,
                &self.pool,
                &mut self.chunks,
                &mut self.used_bytes,
            ),
        }
    }

    /// `len` uninitialised bytes of any alignment, valid until the arena is dropped.
    pub(super) fn alloc_value(&mut self, len: usize) -> NonNull<u8> {
        match self.values.take(len) {
            Some(at) => {
                self.used_bytes += len;
                at
            }
            None => Self::refill(
                &mut self.values,
                len,
                &self.pool,
                &mut self.chunks,
                &mut self.used_bytes,
            ),
        }
    }

    #[cold]
    fn refill(
        bump: &mut Bump,
        len: usize,
        pool: &ArenaPool,
        chunks: &mut Vec<Chunk>,
        used_bytes: &mut usize,
    ) -> NonNull<u8> {
        if len > pool.max_shared_len() {
            let chunk = pool.allocate(len);
            let start = chunk.start;
            chunks.push(chunk);
            *used_bytes += len;
            return start;
        }
        let chunk = pool.take();
        let start = chunk.start;
        *used_bytes += bump.left + len;
        // SAFETY: a shared request is shorter than a chunk, and all of the pool's are of one
        // length.
        let next = unsafe { start.add(len) };
        *bump = Bump {
            next,
            left: chunk.len - len,
        };
        chunks.push(chunk);
        start
    }
}

impl Drop for Arena {
    fn drop(&mut self) {
        self.pool.give_back(&mut self.chunks);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const CHUNK_LEN: usize = *CHUNK_LENS.end();
    const ARENA_BYTES: usize = CHUNK_LEN * CHUNKS_PER_ARENA;

    #[test]
    fn what_is_handed_out_never_overlaps_and_is_aligned() {
        let pool = ArenaPool::new(ARENA_BYTES, 4 * CHUNK_LEN);
        let mut arena = Arena::new(&pool);
        let mut spans = Vec::new();
        let mut total = 0;
        for i in 0..600usize {
            let node = arena.alloc_node(33 + i % 7).addr().get();
            assert_eq!(node % NODE_ALIGN, 0);
            spans.push((node, 33 + i % 7));
            let len = if i % 200 == 7 {
                pool.max_shared_len() + i
            } else {
                i * 11
            };
            let value = arena.alloc_value(len);
            // SAFETY: the arena handed out `len` bytes there.
            unsafe { value.as_ptr().write_bytes(i as u8, len) };
            spans.push((value.addr().get(), len));
            total += len + 33 + i % 7;
        }
        spans.sort_unstable();
        for pair in spans.windows(2) {
            assert!(pair[0].0 + pair[0].1 <= pair[1].0, "{pair:x?}");
        }
        assert!(arena.used_bytes() >= total);
        assert!(
            arena.used_bytes() < total + total / 3,
            "{} for {total}",
            arena.used_bytes()
        );
    }

    #[test]
    fn chunks_are_recycled_up_to_the_bound() {
        let pool = ArenaPool::new(ARENA_BYTES, 3 * CHUNK_LEN + 5);
        let fill = |chunks: usize| {
            let mut arena = Arena::new(&pool);
            for _ in 0..chunks * 4 {
                arena.alloc_value(pool.max_shared_len());
            }
            arena.alloc_value(5 * CHUNK_LEN);
            arena
                .chunks
                .iter()
                .map(|c| c.start.addr().get())
                .collect::<Vec<_>>()
        };
        let first = fill(2);
        assert_eq!(
            pool.idle_bytes(),
            2 * CHUNK_LEN,
            "an oversized chunk is not kept"
        );
        assert_eq!(pool.allocated_bytes(), 2 * CHUNK_LEN);
        let second = fill(5);
        assert_eq!(pool.idle_bytes(), 3 * CHUNK_LEN);
        assert_eq!(pool.allocated_bytes(), 3 * CHUNK_LEN);
        pool.trim(CHUNK_LEN + 1);
        assert_eq!(pool.idle_bytes(), CHUNK_LEN);
        assert_eq!(pool.allocated_bytes(), CHUNK_LEN);
        assert!(first[..2].iter().all(|chunk| second.contains(chunk)));
    }

    #[test]
    fn small_arenas_have_small_chunks_and_all_memory_is_counted() {
        let pool = ArenaPool::new(64 << 10, 0);
        let mut arena = Arena::new(&pool);
        arena.alloc_node(100);
        arena.alloc_value(100);
        assert_eq!(pool.allocated_bytes(), 8 << 10);
        arena.alloc_value(10_000);
        assert_eq!(pool.allocated_bytes(), (8 << 10) + 10_000);
        drop(arena);
        assert_eq!((pool.allocated_bytes(), pool.idle_bytes()), (0, 0));
    }
}
