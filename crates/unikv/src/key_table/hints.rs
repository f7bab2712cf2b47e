//! Where the records of keys that are asked for often stand: the way past fences and key block.
//!
//! A hint says what a key table's block says of the newest version of a key: where its record is. It
//! names the table, and tables never change, so a hint is as true as the block; when a merge has
//! written the table anew, nobody asks with its number any more. The key stands in the record alone:
//! who uses a hint compares it there.
//!
//! Each hash has one slot, and the last one to come has it. A slot is two words, written and read without
//! a lock: its stamp, with the table and a part of the hash, is odd while the place is written, and
//! another one afterwards; who reads the same even stamp before and after has a place that belongs to it.

use crate::base::keys::FileNumber;
use crate::base::sync::atomic::{AtomicU64, Ordering, fence};
use crate::base::sync::{Weakness, is_weak};

#[cfg(all(test, unikv_model = "loom"))]
mod models;

/// A stamp is, from its upper end, the number of the table, a part of the hash, and a count.
const TABLE_BITS: u32 = 28;
const TAG_BITS: u32 = 20;
const COUNT_BITS: u32 = u64::BITS - TABLE_BITS - TAG_BITS;
/// A place is the number of the file and an offset in it.
const OFFSET_BITS: u32 = 36;
const FILE_BITS: u32 = u64::BITS - OFFSET_BITS;

/// The hints for all tables of a database.
pub(super) struct Hints {
    slots: Box<[Slot]>,
}

#[derive(Default)]
#[repr(align(16))]
struct Slot {
    stamp: AtomicU64,
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

    /// In which file and where there the record of the newest version in `table` of a key with this hash is,
    /// if that is noted.
    #[inline]
    pub(super) fn get(&self, table: FileNumber, hash: u64) -> Option<(FileNumber, u64)> {
        let slot = self.slot(hash);
        let stamp = slot.stamp.load(Ordering::Acquire);
        if stamp & 1 != 0 || stamp >> COUNT_BITS != name(table, hash)? {
            return None;
        }
        let place = slot.place.load(Ordering::Relaxed);
        if !is_weak(Weakness::HintRead) {
            // What was read above was not written after what is read below.
            fence(Ordering::Acquire);
        }
        let (file, offset) = (place >> OFFSET_BITS, place & ((1 << OFFSET_BITS) - 1));
        let same = slot.stamp.load(Ordering::Relaxed) == stamp;
        // No record stands at the beginning of a file, so that place is an empty slot's.
        (same && place != 0).then_some((FileNumber(file), offset))
    }

    /// Notes where the record of the newest version in `table` of a key with this hash is, unless a number
    /// is too high to be noted.
    pub(super) fn note(&self, table: FileNumber, hash: u64, file: FileNumber, offset: u64) {
        let fits = file.0 < 1 << FILE_BITS && offset < 1 << OFFSET_BITS;
        let (Some(name), true) = (name(table, hash), fits) else {
            return;
        };
        let slot = self.slot(hash);
        let stamp = slot.stamp.load(Ordering::Relaxed);
        let taken = || {
            let (success, failure) = (Ordering::Acquire, Ordering::Relaxed);
            let writing = stamp | 1;
            slot.stamp
                .compare_exchange(stamp, writing, success, failure)
        };
        // Who writes it now has as good a hint.
        if stamp & 1 != 0 || taken().is_err() {
            return;
        }
        if !is_weak(Weakness::HintWrite) {
            // Who reads what is written below sees that the slot is being written, or was.
            fence(Ordering::Release);
        }
        let place = file.0 << OFFSET_BITS | offset;
        slot.place.store(place, Ordering::Relaxed);
        let count = stamp.wrapping_add(2) & ((1 << COUNT_BITS) - 1);
        let written = name << COUNT_BITS | count;
        slot.stamp.store(written, Ordering::Release);
    }

    fn slot(&self, hash: u64) -> &Slot {
        let at = (hash & u64::from(u32::MAX)) as u128 * self.slots.len() as u128;
        &self.slots[(at >> 32) as usize]
    }
}

/// What a stamp says beside its count: the table, and a part of the hash that does not choose the slot.
/// `None` if the table's number is too high.
fn name(table: FileNumber, hash: u64) -> Option<u64> {
    let fits = table.0 < 1 << TABLE_BITS;
    fits.then_some(table.0 << TAG_BITS | hash >> (u64::BITS - TAG_BITS))
}

#[cfg(test)]
mod tests {
    use super::*;

    const HASH: u64 = 0x0123_4567_89ab_cdef;
    const FILE: FileNumber = FileNumber(7);

    #[test]
    fn a_hint_is_for_one_table_and_one_hash() {
        let hints = Hints::new(10 << 10);
        assert!(hints.memory_bytes() > 9 << 10 && hints.memory_bytes() <= 10 << 10);
        assert_eq!(hints.get(FileNumber(0), 0), None);
        hints.note(FileNumber(3), HASH, FILE, 4096);
        assert_eq!(hints.get(FileNumber(3), HASH), Some((FILE, 4096)));
        assert_eq!(hints.get(FileNumber(4), HASH), None);
        assert_eq!(hints.get(FileNumber(3), HASH ^ 1 << 63), None);
        hints.note(FileNumber(4), HASH, FILE, 64);
        assert_eq!(hints.get(FileNumber(3), HASH), None);
        assert_eq!(hints.get(FileNumber(4), HASH), Some((FILE, 64)));
    }

    #[test]
    fn what_cannot_be_noted_leaves_the_hint_before() {
        let hints = Hints::new(0);
        let table = FileNumber((1 << TABLE_BITS) - 1);
        let last = (FileNumber((1 << FILE_BITS) - 1), (1 << OFFSET_BITS) - 1);
        hints.note(table, HASH, last.0, last.1);
        assert_eq!(hints.get(table, HASH), Some(last));
        hints.note(table, HASH, FileNumber(last.0.0 + 1), 64);
        hints.note(table, HASH, FILE, last.1 + 1);
        hints.note(FileNumber(table.0 + 1), HASH, FILE, 64);
        assert_eq!(hints.get(table, HASH), Some(last));
        assert_eq!(hints.get(FileNumber(table.0 + 1), HASH), None);
    }

    #[test]
    fn a_slot_counts_on_when_its_count_is_used_up() {
        let hints = Hints::new(0);
        let last = (1 << COUNT_BITS) - 2;
        hints.slots[0].stamp.store(last, Ordering::Relaxed);
        hints.note(FileNumber(3), HASH, FILE, 64);
        assert_eq!(hints.get(FileNumber(3), HASH), Some((FILE, 64)));
    }
}
