//! Memory for the segments of a log: mapped pieces of one size, a few of which are kept for the
//! next segments.
//!
//! Invariant: a piece counts as taken from when it is made until nobody holds any part of its
//! bytes, and its bytes do not change meanwhile.
//!
//! Locks: one, around the few idle pieces; nothing is locked under it.

use crate::base::mapped::{Mapped, PAGE_BYTES};
use crate::base::sync::Mutex;
use crate::base::sync::atomic::{AtomicUsize, Ordering};
use bytes::Bytes;
use std::sync::Arc;

/// Where the segments of one log have their memory from.
#[derive(Debug)]
pub(super) struct SegmentMemory {
    segment_len: usize,
    /// Pages that have been touched before are cheaper than new ones.
    idle: Mutex<Vec<Mapped>>,
    most_idle: usize,
}

/// One segment's memory, filled.
struct Piece {
    /// Nothing only once it is dropped.
    memory: Option<Mapped>,
    of: Arc<SegmentMemory>,
    taken_bytes: Arc<AtomicUsize>,
}

impl SegmentMemory {
    /// For segments of `segment_len` bytes in whole pages, of which up to `most_idle` are kept
    /// while nobody uses them.
    pub(super) fn new(segment_len: usize, most_idle: usize) -> SegmentMemory {
        SegmentMemory {
            segment_len: segment_len / PAGE_BYTES * PAGE_BYTES,
            idle: Mutex::new(Vec::new()),
            most_idle,
        }
    }

    /// Bytes of a segment; none where they would be too short to be worth it.
    pub(super) fn segment_len(&self) -> usize {
        self.segment_len
    }

    /// Bytes of idle segments.
    pub(super) fn idle_bytes(&self) -> usize {
        self.idle.lock().len() * self.segment_len
    }

    /// Copies `parts` after one another into a segment, which counts in `taken_bytes` until nobody
    /// holds a part of it. Nothing if the system has no memory for it, or they do not fit.
    pub(super) fn gather<'a>(
        self: &Arc<Self>,
        parts: impl Iterator<Item = &'a [u8]>,
        taken_bytes: &Arc<AtomicUsize>,
    ) -> Option<Bytes> {
        let mut memory = self.take()?;
        let mut len = 0;
        for part in parts {
            let room = memory.get_mut(len..len + part.len())?;
            room.copy_from_slice(part);
            len += part.len();
        }
        taken_bytes.fetch_add(self.segment_len, Ordering::Relaxed);
        let piece = Piece {
            memory: Some(memory),
            of: Arc::clone(self),
            taken_bytes: Arc::clone(taken_bytes),
        };
        Some(Bytes::from_owner(piece).slice(..len))
    }

    fn take(&self) -> Option<Mapped> {
        let idle = self.idle.lock().pop();
        idle.or_else(|| Mapped::new(self.segment_len))
    }

    fn give_back(&self, memory: Mapped) {
        // The thread that drops a value does not wait, least of all in the child of a fork, where
        // nobody may be there to unlock.
        if let Some(mut idle) = self.idle.try_lock()
            && idle.len() < self.most_idle
        {
            idle.push(memory);
            return;
        }
        // To give it back to the system takes a while.
        drop(memory);
    }
}

impl AsRef<[u8]> for Piece {
    fn as_ref(&self) -> &[u8] {
        self.memory.as_deref().unwrap_or_default()
    }
}

impl Drop for Piece {
    fn drop(&mut self) {
        if let Some(memory) = self.memory.take() {
            self.of.give_back(memory);
        }
        self.taken_bytes
            .fetch_sub(self.of.segment_len, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_piece_counts_until_nobody_holds_a_part_of_it_and_is_then_used_again() {
        let memory = Arc::new(SegmentMemory::new(9000, 1));
        assert_eq!(memory.segment_len(), 8192);
        let taken = Arc::new(AtomicUsize::new(0));
        let gather = |parts: &[&[u8]]| memory.gather(parts.iter().copied(), &taken);
        let taken_now = || taken.load(Ordering::Relaxed);

        let all = gather(&[b"one", b"", b"three"]).unwrap();
        assert_eq!(&all[..], b"onethree");
        let second = gather(&[&[7; 8192]]).unwrap();
        assert_eq!((taken_now(), memory.idle_bytes()), (2 * 8192, 0));
        let part = all.slice(3..);
        drop(all);
        assert_eq!(taken_now(), 2 * 8192);
        drop(part);
        assert_eq!((taken_now(), memory.idle_bytes()), (8192, 8192));
        // One is enough to be idle.
        drop(second);
        assert_eq!((taken_now(), memory.idle_bytes()), (0, 8192));
        // Of what was there before, nothing shows.
        assert_eq!(&gather(&[b"x"]).unwrap()[..], b"x");
        assert!(gather(&[&[1; 8000], &[2; 193]]).is_none());
        assert_eq!(taken_now(), 0);
    }
}
