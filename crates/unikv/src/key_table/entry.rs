//! The entries of a key section and their bytes. See `docs/format.md`, "Key section".

use super::pointer::RecordPointer;
use crate::base::coding::{Decoder, put_varint};
use crate::base::keys::{FileNumber, Kind, SeqNo};
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

/// What [`super::KeyTable::get`] finds: an entry without its key, which the caller has.
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
pub(super) struct Malformed;

/// What decoding bytes with a valid checksum yields.
pub(super) type Decoded<T> = Result<T, Malformed>;

const TAG_KIND: u8 = 0b0000_0111;
const TAG_INLINE: u8 = 0b0000_1000;
const TAG_EXPIRY: u8 = 0b0001_0000;
const TAG_POINTER: u8 = 0b0010_0000;
const TAG_UNKNOWN: u8 = 0b1100_0000;

/// Appends `entry`, of whose key the first `shared` bytes are those of the entry before it.
pub(super) fn encode(out: &mut Vec<u8>, shared: usize, entry: &KeyEntry<'_>) {
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

/// A decoded entry whose bytes stay in their block; all ranges are within it.
#[derive(Clone, Copy, Debug)]
pub(super) struct RawEntry {
    /// Where it begins.
    pub(super) start: usize,
    /// Bytes the key shares with the key before it.
    pub(super) shared: usize,
    /// The rest of the key.
    pub(super) suffix: Span,
    pub(super) seq: SeqNo,
    pub(super) kind: Kind,
    pub(super) expiry_ms: Option<u64>,
    pub(super) value: RawValue,
    /// Where the next entry begins.
    pub(super) next: usize,
}

/// A range of bytes in a block.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Span {
    start: usize,
    end: usize,
}

impl Span {
    /// The bytes of the span; empty if `block` is not the one it was made for.
    pub(super) fn of(self, block: &[u8]) -> &[u8] {
        block.get(self.start..self.end).unwrap_or_default()
    }
}

/// Where a decoded entry's value is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum RawValue {
    None,
    Inline(Span),
    Pointer(RecordPointer),
}

impl RawValue {
    /// The value, with its bytes in `block`.
    pub(super) fn of(self, block: &[u8]) -> EntryValue<'_> {
        match self {
            RawValue::None => EntryValue::None,
            RawValue::Inline(span) => EntryValue::Inline(span.of(block)),
            RawValue::Pointer(pointer) => EntryValue::Pointer(pointer),
        }
    }
}

/// Decodes the entry at `start` of the entries of a block.
#[inline]
pub(super) fn decode(entries: &[u8], start: usize) -> Decoded<RawEntry> {
    decode_checked(entries, start).ok_or(Malformed)
}

#[inline]
fn decode_checked(entries: &[u8], start: usize) -> Option<RawEntry> {
    let mut c = Cursor {
        bytes: entries,
        at: start,
    };
    let shared = usize::try_from(c.varint()?).ok()?;
    let suffix_len = c.varint()?;
    let tag = c.u8()?;
    let kind = Kind::from_byte(tag & TAG_KIND)?;
    if tag & TAG_UNKNOWN != 0 {
        return None;
    }
    let seq = SeqNo(c.varint()?);
    if seq > SeqNo::MAX {
        return None;
    }
    let expiry_ms = if tag & TAG_EXPIRY != 0 {
        Some(c.u64()?)
    } else {
        None
    };
    let suffix = c.span(suffix_len)?;
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
    let next = c.at;
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

/// A position in the entries of a block. Unlike [`Decoder`] it yields positions, not slices.
struct Cursor<'a> {
    bytes: &'a [u8],
    at: usize,
}

impl Cursor<'_> {
    #[inline]
    fn u8(&mut self) -> Option<u8> {
        let byte = *self.bytes.get(self.at)?;
        self.at += 1;
        Some(byte)
    }

    fn u64(&mut self) -> Option<u64> {
        let value = Decoder::new(self.bytes.get(self.at..)?).u64()?;
        self.at += 8;
        Some(value)
    }

    /// A varint; those of one and two bytes, nearly all there are, on a short path.
    #[inline]
    fn varint(&mut self) -> Option<u64> {
        let rest = self.bytes.get(self.at..)?;
        match *rest {
            [a, ..] if a < 0x80 => {
                self.at += 1;
                Some(u64::from(a))
            }
            [a, b, ..] if b < 0x80 => {
                self.at += 2;
                Some(u64::from(a & 0x7f) | u64::from(b) << 7)
            }
            _ => {
                let mut d = Decoder::new(rest);
                let value = d.varint()?;
                self.at += rest.len() - d.remaining();
                Some(value)
            }
        }
    }

    #[inline]
    fn span(&mut self, len: u64) -> Option<Span> {
        let end = self.at.checked_add(usize::try_from(len).ok()?)?;
        if end > self.bytes.len() {
            return None;
        }
        let span = Span {
            start: self.at,
            end,
        };
        self.at = end;
        Some(span)
    }
}
