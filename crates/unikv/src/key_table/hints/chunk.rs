//! Hints, and the bytes of a chunk of them.

use crate::base::coding::{Decoder, put_varint};
use crate::base::keys::FileNumber;
use crate::key_table::pointer::RecordPointer;

pub(super) const KIND_BITS: u32 = 2;
const INDEX: u64 = 0;
const BLOCK: u64 = 1;
const RECORD: u64 = 2;

/// Hints of one chunk at most: what is read back at a time. With the longest numbers they fit into
/// [`MOST_CHUNK_BYTES`].
pub(super) const MOST_HINTS: usize = 1 << 8;
pub(super) const MOST_CHUNK_BYTES: usize = 8 << 10;
const _: () = assert!(MOST_HINTS * (10 + 10 + 5) + 2 <= MOST_CHUNK_BYTES);

/// Something that was in memory and can be read, or made, again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Hint {
    /// The pointer index of a key table.
    Index { file: FileNumber },
    /// A block of a key section.
    Block { file: FileNumber, offset: u64 },
    /// A record.
    Record(RecordPointer),
}

impl Hint {
    /// Its file, and where it stands there.
    pub(crate) fn place(&self) -> (FileNumber, u64) {
        match *self {
            Hint::Index { file } => (file, 0),
            Hint::Block { file, offset } => (file, offset),
            Hint::Record(RecordPointer { file, offset, .. }) => (file, offset),
        }
    }

    fn kind(&self) -> u64 {
        match self {
            Hint::Index { .. } => INDEX,
            Hint::Block { .. } => BLOCK,
            Hint::Record(_) => RECORD,
        }
    }
}

/// The hints of a chunk, ascending, as bytes.
pub(crate) fn encode(hints: &[Hint]) -> Vec<u8> {
    let mut out = Vec::new();
    put_varint(&mut out, hints.len() as u64);
    let mut before = (FileNumber(0), 0);
    for hint in hints {
        let (file, offset) = hint.place();
        put_varint(&mut out, (file.0 - before.0.0) << KIND_BITS | hint.kind());
        let from = if file == before.0 { before.1 } else { 0 };
        if hint.kind() != INDEX {
            put_varint(&mut out, offset - from);
        }
        if let Hint::Record(pointer) = hint {
            put_varint(&mut out, u64::from(pointer.len));
        }
        before = (file, offset);
    }
    out
}

/// The hints in the bytes of a chunk; nothing if they do not follow the grammar.
pub(crate) fn decode(bytes: &[u8]) -> Option<Vec<Hint>> {
    let mut d = Decoder::new(bytes);
    let count = usize::try_from(d.varint()?).ok()?;
    if count > MOST_HINTS {
        return None;
    }
    let mut hints = Vec::with_capacity(count.min(bytes.len()));
    let mut before = (0_u64, 0_u64);
    for _ in 0..count {
        let word = d.varint()?;
        let number = before.0.checked_add(word >> KIND_BITS)?;
        let from = if number == before.0 { before.1 } else { 0 };
        let file = FileNumber(number);
        let hint = match word & ((1 << KIND_BITS) - 1) {
            INDEX => Hint::Index { file },
            kind @ (BLOCK | RECORD) => {
                let offset = from.checked_add(d.varint()?)?;
                match kind {
                    BLOCK => Hint::Block { file, offset },
                    _ => Hint::Record(RecordPointer {
                        file,
                        offset,
                        len: u32::try_from(d.varint()?).ok()?,
                    }),
                }
            }
            _ => return None,
        };
        // Who reads them relies on their order.
        if hint.place() < (FileNumber(before.0), before.1) {
            return None;
        }
        before = (number, hint.place().1);
        hints.push(hint);
    }
    d.is_empty().then_some(hints)
}
