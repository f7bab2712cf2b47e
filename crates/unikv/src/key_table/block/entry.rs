//! The entries of a key section and their bytes. See `docs/format.md`, "Key section".

use crate::base::coding::{Decoder, put_varint};
use crate::base::keys::{FileNumber, Kind, SeqNo};
use crate::key_table::pointer::RecordPointer;
use bytes::Bytes;

/// One version of a key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct KeyEntry<'a> {
    pub(crate) key: &'a [u8],
    pub(crate) seq: SeqNo,
    pub(crate) kind: Kind,
    pub(crate) expiry_ms: Option<u64>,
    pub(crate) value: EntryValue<'a>,
}

/// Where the value of an entry is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum EntryValue<'a> {
    /// There is none, as for a tombstone.
    None,
    /// Here.
    Inline(&'a [u8]),
    /// In a record file.
    Pointer(RecordPointer),
}

/// What [`crate::key_table::KeyTable::get`] finds: an entry without its key, which the caller has.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct OwnedEntry {
    pub(crate) seq: SeqNo,
    pub(crate) kind: Kind,
    pub(crate) expiry_ms: Option<u64>,
    pub(crate) value: OwnedValue,
}

/// An [`EntryValue`] that owns its bytes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum OwnedValue {
    /// There is none, as for a tombstone.
    None,
    /// The value.
    Inline(Bytes),
    /// In a record file.
    Pointer(RecordPointer),
}

/// Bytes that a valid checksum covers do not follow the grammar.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Malformed;

/// What decoding bytes with a valid checksum yields.
pub(crate) type Decoded<T> = Result<T, Malformed>;

const TAG_KIND: u8 = 0b0000_0111;
const TAG_INLINE: u8 = 0b0000_1000;
const TAG_EXPIRY: u8 = 0b0001_0000;
const TAG_POINTER: u8 = 0b0010_0000;
const TAG_UNKNOWN: u8 = 0b1100_0000;

/// Appends `entry`, of whose key the first `shared` bytes are those of the entry before it.
pub(crate) fn encode(out: &mut Vec<u8>, shared: usize, entry: &KeyEntry<'_>) {
    let suffix = &entry.key[shared..];
    put_varint(out, shared as u64);
    put_varint(out, suffix.len() as u64);
    let place = match entry.value {
        EntryValue::None => 0,
        EntryValue::Inline(_) => TAG_INLINE,
        EntryValue::Pointer(_) => TAG_POINTER,
    };
    let expiry = if entry.expiry_ms.is_some() {
        TAG_EXPIRY
    } else {
        0
    };
    out.push(entry.kind as u8 | place | expiry);
    put_varint(out, entry.seq.0);
    if let Some(ms) = entry.expiry_ms {
        out.extend_from_slice(&ms.to_le_bytes());
    }
    out.extend_from_slice(suffix);
    match entry.value {
        EntryValue::None => {}
        EntryValue::Inline(value) => {
            put_varint(out, value.len() as u64);
            out.extend_from_slice(value);
        }
        EntryValue::Pointer(pointer) => pointer.encode(out),
    }
}

/// The front of an entry, up to its value: all that a search needs. Its bytes stay in their block;
/// all ranges are within it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct EntryHead {
    /// Where the entry begins.
    pub(crate) start: usize,
    /// Bytes the key shares with the key before it.
    pub(crate) shared: usize,
    /// The rest of the key.
    pub(crate) suffix: Span,
    pub(crate) seq: SeqNo,
    tag: u8,
    expiry_ms: Option<u64>,
    /// Where the value begins.
    value_start: usize,
}

/// A decoded entry.
#[derive(Clone, Copy, Debug)]
pub(crate) struct RawEntry {
    /// Where it begins.
    pub(crate) start: usize,
    /// Bytes the key shares with the key before it.
    pub(crate) shared: usize,
    /// The rest of the key.
    pub(crate) suffix: Span,
    pub(crate) seq: SeqNo,
    pub(crate) kind: Kind,
    pub(crate) expiry_ms: Option<u64>,
    pub(crate) value: RawValue,
    /// Where the next entry begins.
    pub(crate) next: usize,
}

/// A range of bytes in a block.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Span {
    start: usize,
    end: usize,
}

impl Span {
    /// The bytes of the span; empty if `block` is not the one it was made for.
    pub(crate) fn of(self, block: &[u8]) -> &[u8] {
        block.get(self.start..self.end).unwrap_or_default()
    }
}

/// Where a decoded entry's value is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum RawValue {
    None,
    Inline(Span),
    Pointer(RecordPointer),
}

impl RawValue {
    /// The value, with its bytes in `block`.
    pub(crate) fn of(self, block: &[u8]) -> EntryValue<'_> {
        match self {
            RawValue::None => EntryValue::None,
            RawValue::Inline(span) => EntryValue::Inline(span.of(block)),
            RawValue::Pointer(pointer) => EntryValue::Pointer(pointer),
        }
    }
}

/// The entries of a block: its first `end` bytes. What stands after them in the block (restarts,
/// their count and the checksum, at least twelve bytes) lets every varint be loaded as a whole
/// word; what runs over `end` is refused.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Entries<'a> {
    pub(crate) block: &'a [u8],
    pub(crate) end: usize,
}

impl Entries<'_> {
    /// Decodes the entry at `start`.
    #[inline(always)]
    pub(crate) fn entry(self, start: usize) -> Decoded<RawEntry> {
        self.head(start).and_then(|head| self.rest(head))
    }

    /// Decodes the front of the entry at `start`.
    #[inline(always)]
    pub(crate) fn head(self, start: usize) -> Decoded<EntryHead> {
        self.head_checked(start).ok_or(Malformed)
    }

    /// Decodes what follows `head`.
    #[inline(always)]
    pub(crate) fn rest(self, head: EntryHead) -> Decoded<RawEntry> {
        self.rest_checked(head).ok_or(Malformed)
    }

    /// Where the entry after that of `head` begins.
    #[inline]
    pub(crate) fn next(self, head: &EntryHead) -> Decoded<usize> {
        self.next_checked(head).ok_or(Malformed)
    }

    #[inline(always)]
    fn head_checked(self, start: usize) -> Option<EntryHead> {
        let mut c = Cursor {
            entries: self,
            at: start,
        };
        let word = c.word()?;
        let (shared, suffix_len, tag) = if word & 0x8080 == 0 {
            c.at += 3;
            (word & 0x7f, word >> 8 & 0x7f, (word >> 16) as u8)
        } else {
            (c.varint()?, c.varint()?, c.u8()?)
        };
        let shared = usize::try_from(shared).ok()?;
        let seq = SeqNo(c.varint()?);
        if tag & TAG_UNKNOWN != 0 || seq > SeqNo::MAX {
            return None;
        }
        let expiry_ms = if tag & TAG_EXPIRY != 0 {
            Some(c.u64()?)
        } else {
            None
        };
        let suffix = c.span(suffix_len)?;
        Some(EntryHead {
            start,
            shared,
            suffix,
            seq,
            tag,
            expiry_ms,
            value_start: c.at,
        })
    }

    #[inline(always)]
    fn rest_checked(self, head: EntryHead) -> Option<RawEntry> {
        let EntryHead {
            start,
            shared,
            suffix,
            seq,
            tag,
            expiry_ms,
            value_start,
        } = head;
        let kind = Kind::from_byte(tag & TAG_KIND)?;
        let mut c = Cursor {
            entries: self,
            at: value_start,
        };
        let value = match tag & (TAG_INLINE | TAG_POINTER) {
            0 => RawValue::None,
            TAG_INLINE => {
                let len = c.varint()?;
                RawValue::Inline(c.span(len)?)
            }
            TAG_POINTER => {
                let file = FileNumber(c.varint()?);
                let offset = c.varint()?;
                let len = u32::try_from(c.varint()?).ok()?;
                RawValue::Pointer(RecordPointer { file, offset, len })
            }
            _ => return None,
        };
        let next = c.end()?;
        Some(RawEntry {
            start,
            shared,
            suffix,
            seq,
            kind,
            expiry_ms,
            value,
            next,
        })
    }

    #[inline]
    fn next_checked(self, head: &EntryHead) -> Option<usize> {
        let mut c = Cursor {
            entries: self,
            at: head.value_start,
        };
        match head.tag & (TAG_INLINE | TAG_POINTER) {
            0 => {}
            TAG_INLINE => {
                let len = c.varint()?;
                c.span(len)?;
            }
            _ => c.skip_three_varints()?,
        }
        c.end()
    }
}

/// The top bit of each byte of a word: clear in the last byte of a varint.
const CONTINUED: u64 = 0x8080_8080_8080_8080;

/// The varint in the lowest `bits` of a word, up to 64.
#[inline]
fn joined(word: u64, bits: u32) -> u64 {
    // Each step joins neighbours: eight groups of 7 bits, four of 14, two of 28, one of 56.
    let x = word & (u64::MAX >> (u64::BITS - bits));
    let x = (x & 0x007f_007f_007f_007f) | ((x & 0x7f00_7f00_7f00_7f00) >> 1);
    let x = (x & 0x0000_3fff_0000_3fff) | ((x & 0x3fff_0000_3fff_0000) >> 2);
    (x & 0x0fff_ffff) | ((x & 0x0fff_ffff_0000_0000) >> 4)
}

/// A position in the entries of a block. Unlike [`Decoder`] it yields positions, not slices.
struct Cursor<'a> {
    entries: Entries<'a>,
    at: usize,
}

impl Cursor<'_> {
    /// The eight bytes ahead, which may reach beyond the entries.
    #[inline]
    fn word(&self) -> Option<u64> {
        let rest = self.entries.block.get(self.at..)?;
        Some(u64::from_le_bytes(*rest.first_chunk()?))
    }

    #[inline]
    fn u8(&mut self) -> Option<u8> {
        let byte = *self.entries.block.get(self.at)?;
        self.at += 1;
        Some(byte)
    }

    #[inline]
    fn u64(&mut self) -> Option<u64> {
        let word = self.word()?;
        self.at += 8;
        Some(word)
    }

    #[inline]
    fn varint(&mut self) -> Option<u64> {
        let word = self.word()?;
        if word & 0x80 == 0 {
            self.at += 1;
            return Some(word & 0x7f);
        }
        let ends = !word & CONTINUED;
        if ends == 0 {
            return self.long_varint();
        }
        let bits = ends.trailing_zeros() + 1;
        self.at += bits as usize / 8;
        Some(joined(word, bits))
    }

    /// A varint of more than eight bytes.
    #[cold]
    fn long_varint(&mut self) -> Option<u64> {
        let rest = self.entries.block.get(self.at..)?;
        let mut d = Decoder::new(rest);
        let value = d.varint()?;
        self.at += rest.len() - d.remaining();
        Some(value)
    }

    /// Skips a pointer: usually its three ends are in one word.
    #[inline]
    fn skip_three_varints(&mut self) -> Option<()> {
        let ends = !self.word()? & CONTINUED;
        let without_first = ends & ends.wrapping_sub(1);
        let third = without_first & without_first.wrapping_sub(1);
        if third != 0 {
            self.at += (third.trailing_zeros() as usize + 1) / 8;
            return Some(());
        }
        for _ in 0..3 {
            self.varint()?;
        }
        Some(())
    }

    #[inline]
    fn span(&mut self, len: u64) -> Option<Span> {
        let end = self.at.checked_add(usize::try_from(len).ok()?)?;
        if end > self.entries.end {
            return None;
        }
        let span = Span {
            start: self.at,
            end,
        };
        self.at = end;
        Some(span)
    }

    /// The position, which must not have run over the end.
    #[inline]
    fn end(&self) -> Option<usize> {
        (self.at <= self.entries.end).then_some(self.at)
    }
}
