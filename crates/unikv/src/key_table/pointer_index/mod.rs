//! The *pointer index* of a key table: the way from a hash to the record, past fences and blocks. A
//! block takes 4 KiB of memory, or a read, to say where one record stands; the index says it of
//! every key in some nine bytes a key. It is made once look-ups have asked for the table often
//! enough, and is in memory alone.
//!
//! Invariants:
//! - It has the newest version of each key whose record stands in a record file. The key is not in
//!   it: a reader compares the record's. Where every key has one, a hash that is not in it belongs
//!   to no key of the table.
//! - Tables never change, so an index is as true as its table for as long as both live.
//!
//! No locks.

mod build;
mod slot;

use super::meta::KeyTableMeta;
use super::pointer::{RecordPointer, STREAMED_BYTES};
use crate::base::keys::{FileNumber, SeqNo};
use crate::base::mapped::Words;
use crate::key_table::block::entry::EntryValue;
use crate::key_table::cache::taken::Taken;
pub(super) use slot::IndexSlot;

/// Of this many slots one is empty.
const SLOTS_PER_EMPTY: usize = 8;
/// A part of the hash that has fewer bits would lead to too many wrong records.
const LEAST_TAG_BITS: u32 = 16;
/// The most bits that the length of a frame gets.
const MOST_LEN_BITS: u32 = 10;
/// The most bits that a sequence number gets.
const MOST_SEQ_BITS: u32 = 8;

/// A pointer to the newest version of a key with a certain hash, whose key is to be compared.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Candidate {
    pub(crate) file: FileNumber,
    pub(crate) offset: u64,
    /// The length of its frame, or little more.
    pub(crate) read_len: usize,
    /// What the lowest bits of its sequence number are, and how many of them are known.
    seq: u64,
    seq_bits: u32,
}

impl Candidate {
    /// Whether the record may have this number. Another one is not the one that the table points
    /// to.
    pub(crate) fn may_be(&self, seq: SeqNo) -> bool {
        seq.0 & mask(self.seq_bits) == self.seq
    }
}

/// The pointer index of one key table.
#[derive(Debug)]
pub(crate) struct PointerIndex {
    /// Mapped: an allocator would keep what indexes leave behind when their tables are merged.
    slots: Words,
    files: Box<[FileNumber]>,
    layout: Layout,
    /// Whether all keys of the table are here.
    is_complete: bool,
    _taken: Taken,
}

/// How the bits of a slot are divided, which depends on the table. From its upper end a slot is: a
/// part of the hash, the lowest bits of the sequence number, the number of the file among those
/// that the table points to, how much longer the frame is than the shortest one (rounded up to a
/// unit), and the offset in the file. No record stands at the beginning of a file, so 0 is an empty
/// slot. The upper bits of the hash choose a slot; a key that finds it taken goes to the next one.
#[derive(Clone, Copy, Debug, Default)]
struct Layout {
    offset_bits: u32,
    len_bits: u32,
    file_bits: u32,
    seq_bits: u32,
    shortest: u32,
    /// By how many bits a length is shifted: a unit of lengths.
    unit_bits: u32,
}

/// What is known of a key while the index is made.
struct Found {
    hash: u64,
    file: u32,
    len: u32,
    offset: u64,
    seq: SeqNo,
}

/// What came of an attempt to make an index.
pub(super) enum Made {
    Index(PointerIndex),
    /// There is no room.
    NotNow,
    /// Too few keys of the table have a record, or too little of their hashes is left.
    Never,
}

impl PointerIndex {
    /// How much an index of this many keys takes, with pointers into this many files.
    fn bytes_for(keys: usize, files: usize) -> u64 {
        let slots = Words::bytes_for(slots_for(keys));
        let beside = size_of::<PointerIndex>() + files * size_of::<FileNumber>();
        slots.saturating_add(beside) as u64
    }

    /// How much the index of a table takes at most.
    pub(super) fn bytes_of(meta: &KeyTableMeta) -> u64 {
        let entries = usize::try_from(meta.count).unwrap_or(usize::MAX);
        PointerIndex::bytes_for(entries, meta.refs.len())
    }

    /// What is taken beside it while it is made.
    pub(super) fn bytes_meanwhile(meta: &KeyTableMeta) -> u64 {
        meta.count.saturating_mul(size_of::<Found>() as u64)
    }

    /// Whether a hash without a candidate belongs to no key of the table.
    pub(crate) fn is_complete(&self) -> bool {
        self.is_complete
    }

    /// Where the record of a key with this hash may stand.
    #[inline]
    pub(crate) fn candidates(&self, hash: u64) -> impl Iterator<Item = Candidate> {
        let first = first_slot(hash, self.slots.len());
        let (mut ahead, mut behind) = self.slots.around(first);
        let (tag, tag_at) = (self.layout.tag(hash), self.layout.tag_at());
        // A hash that is not there meets some thirty slots before an empty one.
        std::iter::from_fn(move || {
            loop {
                let Some(word) = ahead.next() else {
                    ahead = std::mem::take(&mut behind);
                    if ahead.len() == 0 {
                        return None;
                    }
                    continue;
                };
                let slot = u64::from_ne_bytes(*word);
                if slot == 0 {
                    (ahead, behind) = Default::default();
                    return None;
                }
                if slot >> tag_at == tag {
                    return self.candidate(slot);
                }
            }
        })
    }

    fn candidate(&self, slot: u64) -> Option<Candidate> {
        let layout = &self.layout;
        let len = slot >> layout.offset_bits & mask(layout.len_bits);
        let file = slot >> (layout.offset_bits + layout.len_bits) & mask(layout.file_bits);
        let seq_at = layout.place_bits();
        Some(Candidate {
            seq: slot >> seq_at & mask(layout.seq_bits),
            seq_bits: layout.seq_bits,
            file: *self.files.get(file as usize)?,
            offset: slot & mask(layout.offset_bits),
            read_len: layout.shortest as usize + ((len as usize) << layout.unit_bits),
        })
    }
}

impl Layout {
    /// For these keys, with pointers into this many files; `None` if too little is left of the
    /// hash.
    fn of(found: &[Found], files: usize) -> Option<Layout> {
        let offset = found.iter().map(|key| key.offset).max()?;
        let shortest = found.iter().map(|key| key.len).min()?;
        let longest = found.iter().map(|key| key.len).max()?;
        let bits = bits_for(u64::from(longest - shortest));
        let unit_bits = bits.saturating_sub(MOST_LEN_BITS);
        let units = u64::from((longest - shortest).div_ceil(1 << unit_bits));
        let layout = Layout {
            offset_bits: bits_for(offset),
            len_bits: bits_for(units),
            file_bits: bits_for(files.saturating_sub(1) as u64),
            seq_bits: 0,
            shortest,
            unit_bits,
        };
        let left = (u64::BITS - LEAST_TAG_BITS).checked_sub(layout.place_bits())?;
        let seq_bits = left.min(MOST_SEQ_BITS);
        Some(Layout { seq_bits, ..layout })
    }

    fn place_bits(&self) -> u32 {
        self.offset_bits + self.len_bits + self.file_bits
    }

    fn slot(&self, key: &Found) -> u64 {
        let units = (key.len - self.shortest).div_ceil(1 << self.unit_bits);
        let place = (u64::from(key.file) << self.len_bits | u64::from(units)) << self.offset_bits;
        let named = self.tag(key.hash) << self.seq_bits | key.seq.0 & mask(self.seq_bits);
        named << self.place_bits() | place | key.offset
    }

    /// The part of a hash that does not choose the slot.
    fn tag(&self, hash: u64) -> u64 {
        hash & mask(u64::BITS - self.tag_at())
    }

    /// Where it begins in a slot.
    fn tag_at(&self) -> u32 {
        self.place_bits() + self.seq_bits
    }
}

fn place(value: EntryValue<'_>, files: &[FileNumber]) -> Option<(u32, RecordPointer)> {
    let EntryValue::Pointer(pointer) = value else {
        return None;
    };
    let file = files.binary_search(&pointer.file).ok()?;
    (pointer.offset > 0 && pointer.len < STREAMED_BYTES).then_some((file as u32, pointer))
}

fn slots_for(keys: usize) -> usize {
    keys.saturating_add(keys / (SLOTS_PER_EMPTY - 1) + 1)
}

fn first_slot(hash: u64, slots: usize) -> usize {
    ((u128::from(hash) * slots as u128) >> u64::BITS) as usize
}

fn next_slot(at: usize, slots: usize) -> usize {
    if at + 1 == slots { 0 } else { at + 1 }
}

/// How many bits numbers up to `most` have.
fn bits_for(most: u64) -> u32 {
    u64::BITS - most.leading_zeros()
}

fn mask(bits: u32) -> u64 {
    match bits {
        u64::BITS => u64::MAX,
        _ => (1 << bits) - 1,
    }
}
