//! Claims: what one place of the damaged database says of one key, and how far it can be believed.
//!
//! A claim is small: a large value stays where it is and the claim says where. Claims are sorted by
//! key, newest first, and of one version the most trusted first; that order is [`order`], over the
//! encoded bytes.

use crate::base::coding::{Decoder, put_prefixed, put_varint};
use crate::base::keys::{FileNumber, Kind, SeqNo};
use crate::key_table::RecordPointer;
use bytes::Bytes;
use std::cmp::Ordering;

/// How far a claim can be believed. The order is that of preference among claims of one version.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
#[repr(u8)]
pub(crate) enum Rank {
    /// In force when the database was damaged, unless something newer is.
    Live = 0,
    /// In force as far as the files alone can say.
    LikelyLive = 1,
    /// A record of a table of which nothing says whether it is merged there: perhaps in force,
    /// perhaps garbage.
    Uncertain = 2,
    /// A write of which nothing is left but a copy that nothing points to: as uncertain.
    Stray = 3,
    /// As [`Rank::Stray`], and nothing says how old it is.
    Unordered = 4,
    /// A record that is known to be in force only if something else says so: else it is garbage.
    Copy = 5,
    /// An operation of a batch that is left out because a part of it is lost.
    LeftOut = 6,
}

/// Where the value of a claim is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Place {
    /// There is none: a tombstone.
    None,
    /// Here.
    Inline(Vec<u8>),
    /// In a frame.
    Frame(RecordPointer),
}

/// What one place says of one key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Claim {
    /// The keyspace id and the user's key.
    pub(crate) key: Vec<u8>,
    pub(crate) seq: SeqNo,
    pub(crate) is_delete: bool,
    /// When it expires.
    pub(crate) expiry_ms: Option<u64>,
    pub(crate) rank: Rank,
    /// It comes from a key table, below everything that is unmerged.
    pub(crate) sorted: bool,
    pub(crate) place: Place,
}

/// A salvaged record.
pub(crate) struct Saved {
    /// The engine key.
    pub(crate) key: Vec<u8>,
    pub(crate) value: Bytes,
    pub(crate) expiry_ms: Option<u64>,
}

/// Longer records are read one by one, when their turn comes.
pub(crate) const LARGE_BYTES: u32 = 256 << 10;

const DELETE: u8 = 1;
const SORTED: u8 = 2;
const INLINE: u8 = 4;
const FRAME: u8 = 8;
const EXPIRY: u8 = 16;

impl Claim {
    /// A claim of `kind`; a tombstone has no place.
    pub(crate) fn new(
        (key, seq, kind): (&[u8], SeqNo, Kind),
        (rank, sorted): (Rank, bool),
        place: Place,
    ) -> Claim {
        let is_delete = kind == Kind::Delete;
        Claim {
            key: key.to_vec(),
            seq,
            is_delete,
            expiry_ms: None,
            rank,
            sorted,
            place: if is_delete { Place::None } else { place },
        }
    }

    /// The same of a value that may expire.
    pub(crate) fn expiring(self, expiry_ms: Option<u64>) -> Claim {
        Claim { expiry_ms, ..self }
    }

    /// What has expired says what a tombstone says.
    pub(crate) fn judge_at(&mut self, time_ms: u64) {
        if self.expiry_ms.is_some_and(|expiry_ms| expiry_ms <= time_ms) {
            self.is_delete = true;
            self.place = Place::None;
        }
    }

    /// Where its frame is, if it has one.
    pub(crate) fn pointer(&self) -> Option<RecordPointer> {
        match self.place {
            Place::Frame(pointer) => Some(pointer),
            _ => None,
        }
    }

    /// About how many bytes reading it takes, together with others.
    pub(crate) fn len(&self) -> u64 {
        match &self.place {
            Place::None => 0,
            Place::Inline(value) => value.len() as u64,
            Place::Frame(pointer) => match pointer.len {
                len if len < LARGE_BYTES => u64::from(len),
                _ => 0,
            },
        }
    }

    /// Appends the bytes of the claim.
    pub(crate) fn encode(&self, out: &mut Vec<u8>) {
        put_prefixed(out, &self.key);
        put_varint(out, self.seq.0);
        out.push(self.rank as u8);
        let (place, kind) = match &self.place {
            Place::None => (0, u8::from(self.is_delete)),
            Place::Inline(_) => (INLINE, 0),
            Place::Frame(_) => (FRAME, 0),
        };
        let expiry = if self.expiry_ms.is_some() { EXPIRY } else { 0 };
        out.push(place | kind | expiry | if self.sorted { SORTED } else { 0 });
        if let Some(ms) = self.expiry_ms {
            put_varint(out, ms);
        }
        match &self.place {
            Place::None => {}
            Place::Inline(value) => put_prefixed(out, value),
            Place::Frame(pointer) => pointer.encode(out),
        }
    }

    /// Undoes [`Claim::encode`].
    pub(crate) fn decode(bytes: &[u8]) -> Option<Claim> {
        let mut d = Decoder::new(bytes);
        let key = d.prefixed()?.to_vec();
        let seq = SeqNo(d.varint()?);
        let rank = match d.u8()? {
            0 => Rank::Live,
            1 => Rank::LikelyLive,
            2 => Rank::Uncertain,
            3 => Rank::Stray,
            4 => Rank::Unordered,
            5 => Rank::Copy,
            6 => Rank::LeftOut,
            _ => return None,
        };
        let flags = d.u8()?;
        let expiry_ms = match flags & EXPIRY {
            0 => None,
            _ => Some(d.varint()?),
        };
        let place = match flags & (INLINE | FRAME) {
            INLINE => Place::Inline(d.prefixed()?.to_vec()),
            FRAME => Place::Frame(RecordPointer {
                file: FileNumber(d.varint()?),
                offset: d.varint()?,
                len: u32::try_from(d.varint()?).ok()?,
            }),
            _ => Place::None,
        };
        Some(Claim {
            key,
            seq,
            is_delete: flags & DELETE != 0,
            expiry_ms,
            rank,
            sorted: flags & SORTED != 0,
            place,
        })
    }
}

/// The order of encoded claims: key ascending, newest first, most trusted first.
pub(crate) fn order(a: &[u8], b: &[u8]) -> Ordering {
    fn parts(bytes: &[u8]) -> Option<(&[u8], u64, u8)> {
        let mut d = Decoder::new(bytes);
        Some((d.prefixed()?, d.varint()?, d.u8()?))
    }
    let (Some(a), Some(b)) = (parts(a), parts(b)) else {
        return a.cmp(b);
    };
    let by_key = a.0.cmp(b.0).then_with(|| b.1.cmp(&a.1));
    by_key.then_with(|| a.2.cmp(&b.2))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn claims_survive_encoding_and_sort_newest_and_most_trusted_first() {
        let pointer = RecordPointer {
            file: FileNumber(7),
            offset: 1 << 40,
            len: 300,
        };
        let claim = |key: &[u8], seq, rank, place| {
            Claim::new((key, SeqNo(seq), Kind::Put), (rank, seq == 9), place)
        };
        let sorted = [
            claim(b"a", 9, Rank::Live, Place::Frame(pointer)),
            claim(b"a", 9, Rank::Copy, Place::Inline(b"value".to_vec())),
            claim(b"a", 3, Rank::Unordered, Place::Inline(Vec::new())),
            Claim::new(
                (b"a\0", SeqNo(1), Kind::Delete),
                (Rank::LikelyLive, false),
                Place::Frame(pointer),
            ),
            claim(b"b", 300, Rank::Uncertain, Place::None),
            claim(b"c", 1, Rank::Live, Place::Frame(pointer)).expiring(Some(1 << 41)),
        ];
        let mut encoded = Vec::new();
        for claim in &sorted {
            let mut bytes = Vec::new();
            claim.encode(&mut bytes);
            assert_eq!(Claim::decode(&bytes).as_ref(), Some(claim));
            assert!(Claim::decode(&bytes[..bytes.len() - 1]).as_ref() != Some(claim));
            encoded.push(bytes);
        }
        let in_order = encoded.clone();
        encoded.reverse();
        encoded.sort_by(|a, b| order(a, b));
        assert_eq!(encoded, in_order);
        assert!(sorted[3].is_delete && sorted[3].place == Place::None);
    }
}
