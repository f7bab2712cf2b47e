//! The eight bytes of an index entry.
//!
//! ```text
//! 63         44 43       34 33    30 29                0
//! |  tag (20)  | slot (10) | class  |   position (30)   |
//! ```
//! - *tag*: hash bits that do not choose the bucket; never 0, so no entry is 0 (which means free)
//! - *slot*: the table in its generation
//! - *class*: the record's length, rounded up to one of 16 sizes
//! - *position*: the record's byte offset in the table
//!
//! Entries of equal tags therefore compare by slot first.

use crate::base::keys::Slot;

const POSITION_BITS: u32 = 30;
const CLASS_BITS: u32 = 4;
const SLOT_BITS: u32 = 10;
const TAG_BITS: u32 = 20;
const CLASS_SHIFT: u32 = POSITION_BITS;
const SLOT_SHIFT: u32 = CLASS_SHIFT + CLASS_BITS;
const TAG_SHIFT: u32 = SLOT_SHIFT + SLOT_BITS;
const _: () = assert!(TAG_SHIFT + TAG_BITS == u64::BITS);

/// Bytes to read for a record of each class. Close together around 1 KB, the usual record; a class
/// must not waste much, as each surplus byte makes a second device page more likely.
const READ_LENS: [u32; 16] = [
    128,
    256,
    384,
    512,
    768,
    1024,
    1088,
    1152,
    1280,
    1536,
    2048,
    4096,
    8192,
    16 << 10,
    32 << 10,
    // The last class has no bound: its first read brings the header, which says the length.
    4096,
];
const UNBOUNDED_CLASS: u64 = READ_LENS.len() as u64 - 1;

/// A place where a record with the wanted key may stand.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Candidate {
    pub(crate) slot: Slot,
    /// Where the record's frame begins in the table.
    pub(crate) offset: u64,
    /// Bytes that surely hold the frame, or the first to read if it is longer than 32 KiB.
    pub(crate) read_len: usize,
}

/// A packed entry.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Entry(pub(super) u64);

impl Entry {
    /// Packs an entry; `None` if the slot or the offset is beyond its bits.
    pub(super) fn new(tag: Tag, slot: Slot, offset: u64, frame_len: u64) -> Option<Entry> {
        if u32::from(slot.0) >> SLOT_BITS != 0 || offset >> POSITION_BITS != 0 {
            return None;
        }
        let class = READ_LENS[..UNBOUNDED_CLASS as usize]
            .partition_point(|&len| u64::from(len) < frame_len) as u64;
        Some(Entry(
            tag.0 | (u64::from(slot.0) << SLOT_SHIFT) | (class << CLASS_SHIFT) | offset,
        ))
    }

    /// Whether the entry's tag is `tag`.
    pub(super) fn matches(self, tag: Tag) -> bool {
        (self.0 ^ tag.0) >> TAG_SHIFT == 0
    }

    pub(super) fn slot(self) -> Slot {
        Slot((self.0 >> SLOT_SHIFT) as u16 & ((1 << SLOT_BITS) - 1))
    }

    fn offset(self) -> u64 {
        self.0 & ((1 << POSITION_BITS) - 1)
    }

    /// Sorts entries newest first, in one table by position.
    pub(super) fn order(self) -> (std::cmp::Reverse<Slot>, u64) {
        (std::cmp::Reverse(self.slot()), self.offset())
    }

    pub(super) fn candidate(self) -> Candidate {
        let class = (self.0 >> CLASS_SHIFT) as usize % READ_LENS.len();
        let read_len = READ_LENS[class] as usize;
        Candidate {
            slot: self.slot(),
            offset: self.offset(),
            read_len,
        }
    }
}

/// A tag at its place in an entry.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Tag(u64);

impl Tag {
    /// The tag of a hash. The first bucket is chosen by the hash's upper bits, the second by those
    /// of its lower half: the tag takes the low bits of both halves, which up to 2^20 buckets have
    /// no part in that choice.
    pub(super) fn of(hash: u64) -> Tag {
        let bits = (((hash >> 32) & 0xfff) << 8) | (hash & 0xff);
        Tag(bits.max(1) << TAG_SHIFT)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TAG: Tag = Tag(0xf_ffff << TAG_SHIFT);

    #[test]
    fn fields_survive_packing_at_their_limits() {
        for tag in [
            Tag::of(0),
            Tag::of(u64::MAX),
            Tag::of(0x0000_0abc_0000_00de),
        ] {
            for slot in [0, 1, 1023] {
                for offset in [0, 96, (1 << 30) - 1] {
                    let entry = Entry::new(tag, Slot(slot), offset, 1000).unwrap();
                    assert_ne!(entry.0, 0);
                    assert!(entry.matches(tag));
                    let candidate = Candidate {
                        slot: Slot(slot),
                        offset,
                        read_len: 1024,
                    };
                    assert_eq!(entry.candidate(), candidate);
                }
            }
        }
        assert_eq!(Entry::new(TAG, Slot(1024), 0, 1), None);
        assert_eq!(Entry::new(TAG, Slot(0), 1 << 30, 1), None);
    }

    #[test]
    fn every_length_is_covered_by_its_class_with_little_waste() {
        let read_len = |len| {
            Entry::new(TAG, Slot(0), 0, len)
                .unwrap()
                .candidate()
                .read_len as u64
        };
        for len in 0..=32 << 10 {
            assert!(read_len(len) >= len, "{len}");
            if (1000..=1280).contains(&len) {
                assert!(read_len(len) <= len + len / 8, "{len}");
            }
        }
        // 24-byte keys and 1,000-byte values.
        assert_eq!(read_len(32 + 4 + 24 + 1000 + 4), 1088);
        for len in [(32 << 10) + 1, u64::MAX] {
            assert_eq!(read_len(len), 4096, "the first read of a long record");
        }
    }

    #[test]
    fn tags_differ_by_bits_that_do_not_choose_buckets() {
        assert_ne!(Tag::of(0x1_0000_0000), Tag::of(0x2_0000_0000));
        assert_ne!(Tag::of(1), Tag::of(2));
        assert_eq!(Tag::of(0xffff_f000_ffff_ff00), Tag::of(0));
    }
}
