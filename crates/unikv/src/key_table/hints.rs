//! Where the records of keys that are asked for often stand: the way past fences and key block.
//!
//! A hint says what a key table's block says of the newest version of a key: where its record is. It
//! names the table, and tables never change, so a hint is as true as the block; when a merge has
//! written the table anew, nobody asks with its number any more. The key stands in the record alone:
//! who uses a hint compares it there.
//!
//! Each hash has one slot, and the last one to come has it. A slot is written and read without a
//! lock: its stamp, with a part of the hash, is odd while its other words are written, and another
//! one afterwards; who reads the same even stamp before and after has words that belong together.

use super::pointer::RecordPointer;
use crate::base::keys::FileNumber;
use crate::base::sync::atomic::{AtomicU64, Ordering, fence};
use crate::base::sync::{Weakness, is_weak};

#[cfg(all(test, unikv_model = "loom"))]
mod models;

/// Bits of a place for the record's length; the others are its offset.
const LEN_BITS: u32 = 24;
/// Bits of a stamp that count; above them stands the tag.
const COUNT_BITS: u32 = 32;

/// The hints for all tables of a database.
pub(super) struct Hints {
    slots: Box<[Slot]>,
}

/// Half a cache line.
#[derive(Default)]
#[repr(align(32))]
struct Slot {
    stamp: AtomicU64,
    table: AtomicU64,
    file: AtomicU64,
    place: AtomicU64,
}

impl Hints {
    /// As many as fit into `bytes`, at least one.
    pub(super) fn new(bytes: u64) -> Hints {
        let count = (bytes as usize / size_of::<Slot>()).max(1);
        Hints {
            slots: (0..count).map(|_| Slot::default()).collect(),
        }
    }

    /// Memory taken.
    pub(super) fn memory_bytes(&self) -> usize {
        size_of_val(&*self.slots)
    }

    /// Where the record of the newest version in `table` of a key with this hash is, if that is noted.
    #[inline]
    pub(super) fn get(&self, table: FileNumber, hash: u64) -> Option<RecordPointer> {
        let slot = self.slot(hash);
        let stamp = slot.stamp.load(Ordering::Acquire);
        if stamp & 1 != 0 || stamp >> COUNT_BITS != tag(hash) {
            return None;
        }
        let of_table = slot.table.load(Ordering::Relaxed);
        let file = FileNumber(slot.file.load(Ordering::Relaxed));
        let place = slot.place.load(Ordering::Relaxed);
        if !is_weak(Weakness::HintRead) {
            // What was read above was not written after what is read below.
            fence(Ordering::Acquire);
        }
        let same = slot.stamp.load(Ordering::Relaxed) == stamp;
        // No record stands at the beginning of a file, so that place is an empty slot's.
        (same && of_table == table.0 && place != 0).then_some(RecordPointer {
            file,
            offset: place >> LEN_BITS,
            len: (place & ((1 << LEN_BITS) - 1)) as u32,
        })
    }

    /// Notes where the record of the newest version in `table` of a key with this hash is, unless it is
    /// too long or too far behind to be noted.
    pub(super) fn note(&self, table: FileNumber, hash: u64, pointer: RecordPointer) {
        let fits = pointer.len < 1 << LEN_BITS && pointer.offset < 1 << (u64::BITS - LEN_BITS);
        let slot = self.slot(hash);
        let stamp = slot.stamp.load(Ordering::Relaxed);
        // Who writes it now has as good a hint.
        if !fits || stamp & 1 != 0 {
            return;
        }
        let writing = (stamp | 1, Ordering::Acquire, Ordering::Relaxed);
        let taken = slot
            .stamp
            .compare_exchange(stamp, writing.0, writing.1, writing.2);
        if taken.is_err() {
            return;
        }
        if !is_weak(Weakness::HintWrite) {
            // Who reads any of what is written below sees that the slot is being written, or was.
            fence(Ordering::Release);
        }
        let place = pointer.offset << LEN_BITS | u64::from(pointer.len);
        slot.table.store(table.0, Ordering::Relaxed);
        slot.file.store(pointer.file.0, Ordering::Relaxed);
        slot.place.store(place, Ordering::Relaxed);
        let count = (stamp as u32).wrapping_add(2);
        let written = tag(hash) << COUNT_BITS | u64::from(count);
        slot.stamp.store(written, Ordering::Release);
    }

    fn slot(&self, hash: u64) -> &Slot {
        let at = (hash & u64::from(u32::MAX)) as u128 * self.slots.len() as u128;
        &self.slots[(at >> 32) as usize]
    }
}

/// The part of a hash that does not choose the slot.
fn tag(hash: u64) -> u64 {
    hash >> COUNT_BITS
}

#[cfg(test)]
mod tests {
    use super::*;

    const HASH: u64 = 0x0123_4567_89ab_cdef;

    fn pointer(offset: u64) -> RecordPointer {
        RecordPointer {
            file: FileNumber(7),
            offset,
            len: 100,
        }
    }

    #[test]
    fn a_hint_is_for_one_table_and_one_hash() {
        let hints = Hints::new(10 << 10);
        assert!(hints.memory_bytes() > 9 << 10 && hints.memory_bytes() <= 10 << 10);
        assert_eq!(hints.get(FileNumber(0), 0), None);
        hints.note(FileNumber(3), HASH, pointer(4096));
        assert_eq!(hints.get(FileNumber(3), HASH), Some(pointer(4096)));
        assert_eq!(hints.get(FileNumber(4), HASH), None);
        assert_eq!(hints.get(FileNumber(3), HASH ^ 1 << 63), None);
        hints.note(FileNumber(4), HASH, pointer(64));
        assert_eq!(hints.get(FileNumber(3), HASH), None);
        assert_eq!(hints.get(FileNumber(4), HASH), Some(pointer(64)));
    }

    #[test]
    fn what_cannot_be_noted_leaves_the_hint_before() {
        let hints = Hints::new(0);
        let longest = RecordPointer {
            len: (1 << LEN_BITS) - 1,
            ..pointer((1 << (u64::BITS - LEN_BITS)) - 1)
        };
        hints.note(FileNumber(3), HASH, longest);
        assert_eq!(hints.get(FileNumber(3), HASH), Some(longest));
        let (len, offset) = (1 << LEN_BITS, 1 << (u64::BITS - LEN_BITS));
        hints.note(FileNumber(3), HASH, RecordPointer { len, ..pointer(64) });
        hints.note(FileNumber(3), HASH, pointer(offset));
        assert_eq!(hints.get(FileNumber(3), HASH), Some(longest));
    }

    #[test]
    fn a_slot_counts_on_when_its_count_is_used_up() {
        let hints = Hints::new(0);
        hints.slots[0]
            .stamp
            .store(u64::from(u32::MAX - 1), Ordering::Relaxed);
        hints.note(FileNumber(3), HASH, pointer(64));
        assert_eq!(hints.get(FileNumber(3), HASH), Some(pointer(64)));
    }
}
