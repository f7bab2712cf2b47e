//! Where reads of single records miss the page cache again and again in one place.
//!
//! Tables are written around the page cache (`docs/benchmarks/levers.md`), so the first read of each
//! page of a new one is a read of the device, some fifty microseconds each. Where several of the
//! last misses lie in one piece of a file, the rest of it is about to be asked for, too: then all of
//! it is read at once. Misses that are scattered over more data than memory holds hardly ever meet:
//! of 6 GB, two of the last 256 lie in the piece of the next one once in some seventy thousand.
//!
//! No lock. What is remembered is a guess: to overwrite another's guess does no harm.

use crate::base::keys::FileNumber;
use crate::base::sync::atomic::Ordering::Relaxed;
use crate::base::sync::unseen::{AtomicU64, AtomicUsize};
use std::ops::Range;

/// Misses remembered.
const REMEMBERED: usize = 256;
/// Bytes of a file that are one piece.
const PIECE_BYTES: u64 = 128 << 10;
/// A miss has all of its piece read if this many of those remembered lie in it.
const DENSE: usize = 2;

/// The last misses.
pub(crate) struct DenseMisses {
    /// The piece of each, with the number of its file above; 0 is none.
    recent: [AtomicU64; REMEMBERED],
    next: AtomicUsize,
}

impl DenseMisses {
    pub(crate) fn new() -> DenseMisses {
        DenseMisses {
            recent: [const { AtomicU64::new(0) }; REMEMBERED],
            next: AtomicUsize::new(0),
        }
    }

    /// Notes a miss. The bytes to read with it, if others were near.
    pub(crate) fn note(&self, file: FileNumber, offset: u64) -> Option<Range<u64>> {
        let piece = offset / PIECE_BYTES;
        let name = (1 + piece) ^ file.0.rotate_right(24);
        let is_near = |other: &&AtomicU64| other.load(Relaxed) == name;
        let near = self.recent.iter().filter(is_near).take(DENSE).count();
        let next = self.next.fetch_add(1, Relaxed) % REMEMBERED;
        self.recent[next].store(name, Relaxed);
        let begin = piece * PIECE_BYTES;
        (near == DENSE).then_some(begin..begin + PIECE_BYTES)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_third_miss_in_a_piece_has_all_of_it_read() {
        let misses = DenseMisses::new();
        let note = |file: u64, offset: u64| misses.note(FileNumber(file), offset);
        let in_piece = |n: u64| 5 * PIECE_BYTES + n * 4096;
        assert_eq!(note(7, in_piece(3)), None);
        assert_eq!(note(7, in_piece(0)), None);
        // Of another file, or of the next piece.
        assert_eq!(note(8, in_piece(1)), None);
        assert_eq!(note(7, in_piece(32)), None);
        assert_eq!(note(7, in_piece(9)), Some(5 * PIECE_BYTES..6 * PIECE_BYTES));
    }

    #[test]
    fn scattered_misses_are_left_alone() {
        let misses = DenseMisses::new();
        let mut draw = 1_u64;
        let near = (0..100_000).filter(|_| {
            draw = draw.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            let offset = (draw >> 20) % (6 << 30);
            misses.note(FileNumber(1), offset).is_some()
        });
        assert!(near.count() < 20);
    }
}
