//! Where reads of single records lie close together, one after another.
//!
//! Tables are written past the page cache (`docs/benchmarks/levers.md`), so the first read of
//! each page of a new one is a read of the device, some fifty microseconds each. Where several of
//! the last reads lie in one piece of a file, the rest of it is about to be asked for, too: then
//! all of it is brought into memory. Reads that are scattered over more data than memory holds
//! hardly ever meet: of 6 GB, one in some two thousand brings a piece.
//!
//! No lock. What is remembered is a guess: to overwrite another's guess does no harm.

use crate::base::keys::FileNumber;
use crate::base::sync::atomic::Ordering::Relaxed;
use crate::base::sync::unseen::AtomicU64;
use std::ops::Range;

/// Pieces remembered, each in the one place that its name gives it.
const REMEMBERED: usize = 1024;
/// Bytes of a file that are one piece.
const PIECE_BYTES: u64 = 128 << 10;
/// The read of a piece with which all of it is brought, counted from 1.
const DENSE: u64 = 3;
/// The low bits of a place count reads; the others name the piece.
const COUNT: u64 = 0b11;

/// The pieces that were read last.
pub(crate) struct DenseReads([AtomicU64; REMEMBERED]);

impl DenseReads {
    pub(crate) fn new() -> DenseReads {
        DenseReads([const { AtomicU64::new(0) }; REMEMBERED])
    }

    /// Notes a read. The bytes to bring into memory with it, if others were near.
    pub(crate) fn note(&self, file: FileNumber, offset: u64) -> Option<Range<u64>> {
        let piece = offset / PIECE_BYTES;
        let hash = (piece ^ file.0.rotate_right(24)).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        let name = hash & !COUNT;
        let place = self.0.get((hash >> 54) as usize)?;
        let before = place.load(Relaxed);
        let reads = if before & !COUNT == name {
            before & COUNT
        } else {
            0
        };
        // What has been brought is not brought again as long as it is remembered.
        if reads == DENSE {
            return None;
        }
        place.store(name | (reads + 1), Relaxed);
        let begin = piece * PIECE_BYTES;
        (reads + 1 == DENSE).then_some(begin..begin + PIECE_BYTES)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_third_read_in_a_piece_brings_all_of_it_once() {
        let reads = DenseReads::new();
        let note = |file: u64, offset: u64| reads.note(FileNumber(file), offset);
        let in_piece = |n: u64| 5 * PIECE_BYTES + n * 4096;
        assert_eq!(note(7, in_piece(3)), None);
        assert_eq!(note(7, in_piece(0)), None);
        // Of another file, or of the next piece.
        assert_eq!(note(8, in_piece(1)), None);
        assert_eq!(note(7, in_piece(32)), None);
        assert_eq!(note(7, in_piece(9)), Some(5 * PIECE_BYTES..6 * PIECE_BYTES));
        assert_eq!(note(7, in_piece(9)), None);
    }

    #[test]
    fn scattered_reads_are_left_alone() {
        let reads = DenseReads::new();
        let mut draw = 1_u64;
        let near = (0..100_000).filter(|_| {
            draw = draw.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            let offset = (draw >> 20) % (6 << 30);
            reads.note(FileNumber(1), offset).is_some()
        });
        assert!(near.count() < 100);
    }
}
