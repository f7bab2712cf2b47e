//! The encoding of operations: what a batch holds, and what stands in a record of the log. See
//! `docs/format.md`, "WAL".
//!
//! Invariants: [`OpsIter`] trusts none of the bytes that it reads. A key is an engine key, with the
//! keyspace id. A range delete has the first key after the range in the place of a value, an engine
//! key, too: of the same keyspace, or the border of the next one. An operation of kind external has
//! [`EXTERNAL_LEN`] bytes there; only the engine makes them, from the large values of a batch
//! (`engine/write/blobs.rs`).
//!
//! No locks.

use crate::base::bounds::are_of_a_range;
use crate::base::coding::Decoder;
use crate::base::keys::{
    EXTERNAL_LEN, KEYSPACE_PREFIX_LEN, Kind, MAX_USER_KEY_LEN, MAX_VALUE_LEN, SeqNo,
};
use crate::base::range_tombstones::RangeRef;
use crate::error::Error;
use std::fmt;
use std::path::Path;

const FLAG_EXPIRY: u8 = 1;
pub(super) const OP_HEADER_LEN: usize = 1 + 1 + 4 + 4;
pub(super) const EXPIRY_LEN: usize = 8;
/// No operation takes less.
pub(crate) const LEAST_OP_LEN: usize = OP_HEADER_LEN + KEYSPACE_PREFIX_LEN;

/// Appends one operation on an engine key, which is within the limits.
pub(crate) fn encode_op(
    out: &mut Vec<u8>,
    kind: Kind,
    expiry_ms: Option<u64>,
    key: &[u8],
    value: &[u8],
) {
    encode_op_in(out, kind, expiry_ms, &[key], value);
}

/// As [`encode_op`], with the engine key in parts.
pub(super) fn encode_op_in(
    out: &mut Vec<u8>,
    kind: Kind,
    expiry_ms: Option<u64>,
    key: &[&[u8]],
    value: &[u8],
) {
    let key_len: usize = key.iter().map(|part| part.len()).sum();
    out.push(kind as u8);
    out.push(if expiry_ms.is_some() { FLAG_EXPIRY } else { 0 });
    out.extend_from_slice(&(key_len as u32).to_le_bytes());
    out.extend_from_slice(&(value.len() as u32).to_le_bytes());
    if let Some(expiry_ms) = expiry_ms {
        out.extend_from_slice(&expiry_ms.to_le_bytes());
    }
    key.iter().for_each(|part| out.extend_from_slice(part));
    out.extend_from_slice(value);
}

/// A decoded operation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct BatchOp<'a> {
    /// Put, Delete, RangeDelete or External.
    pub(crate) kind: Kind,
    /// The engine key.
    pub(crate) key: &'a [u8],
    pub(crate) value: &'a [u8],
    pub(crate) expiry_ms: Option<u64>,
}

impl<'a> BatchOp<'a> {
    /// What it takes encoded.
    #[inline]
    pub(super) fn encoded_len(&self) -> usize {
        let expiry = self.expiry_ms.map_or(0, |_| EXPIRY_LEN);
        OP_HEADER_LEN + expiry + self.key.len() + self.value.len()
    }

    /// What it is as a range tombstone with this number; `None`: it is another operation.
    #[inline]
    pub(crate) fn as_range(&self, seq: SeqNo) -> Option<RangeRef<'a>> {
        (self.kind == Kind::RangeDelete).then_some(RangeRef {
            start: self.key,
            end: self.value,
            seq,
        })
    }
}

/// Bytes that are no operation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct BadOp {
    /// Where the operation begins, from the start of the encoded operations.
    pub(crate) offset: usize,
    why: Why,
}

/// What is wrong with them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Why {
    /// They are not what the format says.
    Malformed(&'static str),
    /// They are of a later format.
    Unknown(&'static str),
}

impl BadOp {
    /// The error for such bytes in a record of the log at `path`, whose checksums match.
    pub(crate) fn in_log(&self, path: &Path) -> Error {
        match self.why {
            Why::Malformed(_) => Error::corruption(path, 0, self.to_string()),
            Why::Unknown(what) => {
                let what = format!("the log holds {what}");
                Error::incompatible(path, what, "open it with the newer release that wrote it")
            }
        }
    }
}

impl fmt::Display for BadOp {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (is, why) = match self.why {
            Why::Malformed(why) => ("is malformed", why),
            Why::Unknown(why) => ("is not understood", why),
        };
        let offset = self.offset;
        write!(f, "the operation {offset} bytes into the batch {is}: {why}")
    }
}

/// Decodes operations. The bytes may come from a disk: every field is checked, and the first bad
/// operation ends the iteration.
#[derive(Clone, Debug)]
pub(crate) struct OpsIter<'a> {
    decoder: Decoder<'a>,
    total_len: usize,
}

impl<'a> OpsIter<'a> {
    /// Starts at the first of the encoded operations `ops`.
    pub(crate) fn new(ops: &'a [u8]) -> OpsIter<'a> {
        OpsIter {
            decoder: Decoder::new(ops),
            total_len: ops.len(),
        }
    }

    /// The operation at the start of `bytes`, where one was decoded before.
    #[inline]
    pub(super) fn again(bytes: &'a [u8]) -> Option<BatchOp<'a>> {
        let (header, rest) = bytes.split_first_chunk::<OP_HEADER_LEN>()?;
        let [kind, flags, k0, k1, k2, k3, v0, v1, v2, v3] = *header;
        let (expiry_ms, rest) = if flags & FLAG_EXPIRY != 0 {
            let (ms, rest) = rest.split_first_chunk()?;
            (Some(u64::from_le_bytes(*ms)), rest)
        } else {
            (None, rest)
        };
        let (key, rest) = rest.split_at_checked(u32::from_le_bytes([k0, k1, k2, k3]) as usize)?;
        let value = rest.get(..u32::from_le_bytes([v0, v1, v2, v3]) as usize)?;
        Some(BatchOp {
            kind: Kind::from_byte(kind)?,
            key,
            value,
            expiry_ms,
        })
    }

    /// Where the next operation begins, from the start of the encoded operations.
    pub(super) fn offset(&self) -> usize {
        self.total_len - self.decoder.remaining()
    }
}

impl<'a> Iterator for OpsIter<'a> {
    type Item = Result<BatchOp<'a>, BadOp>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.decoder.is_empty() {
            return None;
        }
        let offset = self.offset();
        Some(decode_op(&mut self.decoder).map_err(|why| {
            self.decoder = Decoder::new(&[]);
            BadOp { offset, why }
        }))
    }
}

fn decode_op<'a>(d: &mut Decoder<'a>) -> Result<BatchOp<'a>, Why> {
    const CUT: Why = Why::Malformed("an operation is cut short");
    let kind = match Kind::from_byte(d.u8().ok_or(CUT)?) {
        Some(kind @ (Kind::Put | Kind::Delete | Kind::RangeDelete | Kind::External)) => kind,
        // The reserved kind too: applying it as something else would lose or revive data.
        _ => return Err(Why::Unknown("an operation of unknown kind")),
    };
    let flags = d.u8().ok_or(CUT)?;
    if flags & !FLAG_EXPIRY != 0 {
        return Err(Why::Unknown("an operation with unknown flags"));
    }
    let key_len = d.u32().ok_or(CUT)? as usize;
    let value_len = d.u32().ok_or(CUT)? as usize;
    if key_len < KEYSPACE_PREFIX_LEN {
        return Err(Why::Malformed(
            "an operation's key is too short for a keyspace",
        ));
    }
    let key_lens = KEYSPACE_PREFIX_LEN..=KEYSPACE_PREFIX_LEN + MAX_USER_KEY_LEN;
    if key_len > *key_lens.end() {
        return Err(Why::Malformed("an operation's key is too long"));
    }
    if value_len > MAX_VALUE_LEN {
        return Err(Why::Malformed("an operation's value is too long"));
    }
    if kind == Kind::Delete && value_len != 0 {
        return Err(Why::Malformed("a delete carries a value"));
    }
    if kind == Kind::RangeDelete && !key_lens.contains(&value_len) {
        return Err(Why::Malformed("the end of a range has a wrong length"));
    }
    if kind == Kind::External && value_len != EXTERNAL_LEN {
        return Err(Why::Malformed(
            "an external value's place has a wrong length",
        ));
    }
    let expiry_ms = if flags & FLAG_EXPIRY != 0 {
        Some(d.u64().ok_or(CUT)?)
    } else {
        None
    };
    let key = d.bytes(key_len).ok_or(CUT)?;
    let value = d.bytes(value_len).ok_or(CUT)?;
    if kind == Kind::RangeDelete && !are_of_a_range(key, value) {
        return Err(Why::Malformed("what a range delete bounds is no range"));
    }
    Ok(BatchOp {
        kind,
        key,
        value,
        expiry_ms,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::base::keys::KeyspaceId;
    use crate::error::ErrorKind;
    use crate::memtable::Batch;
    use crate::testing::golden;
    use rand::rngs::SmallRng;
    use rand::{Rng, SeedableRng};

    #[test]
    fn the_encoding_is_the_documented_one() {
        let mut bytes = Vec::new();
        encode_op(
            &mut bytes,
            Kind::Put,
            Some(0x0807_0605_0403_0201),
            b"\0\0\0\x07ky",
            b"v",
        );
        assert_eq!(
            bytes,
            b"\x01\x01\x06\0\0\0\x01\0\0\0\x01\x02\x03\x04\x05\x06\x07\x08\0\0\0\x07kyv"
        );
        let op = OpsIter::new(&bytes).next().unwrap().unwrap();
        assert_eq!(op.expiry_ms, Some(0x0807_0605_0403_0201));
        assert_eq!((op.key, op.value), (&b"\0\0\0\x07ky"[..], &b"v"[..]));
    }

    #[test]
    fn a_batch_is_pinned_byte_for_byte() {
        let external = *b"file____uid_____length__sum_len_offset__";
        let mut batch = Batch::new();
        batch.put("key", "value").delete("gone").put("", "");
        batch.put_at(KeyspaceId(7), b"other", b"keyspace");
        let expiring = BatchOp {
            kind: Kind::Put,
            key: b"\0\0\0\0until",
            value: b"then",
            expiry_ms: Some(0x0102_0304_0506_0708),
        };
        batch.push_op(&expiring);
        batch.push_external(b"\0\0\0\0large", None, &external, 1 << 20);
        golden::check("batch", batch.ops_bytes());

        let bytes = golden::load("batch");
        let ops: Vec<_> = OpsIter::new(&bytes).map(Result::unwrap).collect();
        let kinds: Vec<_> = ops.iter().map(|op| (op.kind, op.key)).collect();
        assert_eq!(
            kinds,
            [
                (Kind::Put, &b"\0\0\0\0key"[..]),
                (Kind::Delete, b"\0\0\0\0gone"),
                (Kind::Put, b"\0\0\0\0"),
                (Kind::Put, b"\0\0\0\x07other"),
                (Kind::Put, b"\0\0\0\0until"),
                (Kind::External, b"\0\0\0\0large"),
            ]
        );
        assert_eq!(
            (ops[0].value, ops[3].value),
            (&b"value"[..], &b"keyspace"[..])
        );
        assert_eq!((ops[4], ops[5].value), (expiring, &external[..]));
        let (mut at, mut again) = (OpsIter::new(&bytes), Vec::new());
        while !bytes[at.offset()..].is_empty() {
            let (begin, op) = (at.offset(), OpsIter::again(&bytes[at.offset()..]).unwrap());
            again.push(op);
            at.next();
            assert_eq!(at.offset() - begin, op.encoded_len());
        }
        assert_eq!(again, ops);
    }

    #[test]
    fn a_batch_with_range_deletes_is_pinned_byte_for_byte() {
        let mut batch = Batch::new();
        batch.put("key", "value").delete_range("from".."to");
        batch.delete_range("all".."").delete_range("all"..);
        let of_another = (b"\0\0\0\x07a".to_vec(), b"\0\0\0\x07b\0".to_vec());
        batch.delete_range_at(of_another);
        golden::check("batch_with_range_deletes", batch.ops_bytes());

        let bytes = golden::load("batch_with_range_deletes");
        let ops: Vec<_> = OpsIter::new(&bytes).map(Result::unwrap).collect();
        let said: Vec<_> = ops.iter().map(|op| (op.kind, op.key, op.value)).collect();
        assert_eq!(
            said,
            [
                (Kind::Put, &b"\0\0\0\0key"[..], &b"value"[..]),
                (Kind::RangeDelete, b"\0\0\0\0from", b"\0\0\0\0to"),
                (Kind::RangeDelete, b"\0\0\0\0all", b"\0\0\0\x01"),
                (Kind::RangeDelete, b"\0\0\0\x07a", b"\0\0\0\x07b\0"),
            ]
        );
    }

    #[test]
    fn bytes_that_are_no_operation_are_refused() {
        let mut batch = Batch::new();
        batch.put("first", "op").put("key", "value");
        let good = batch.ops_bytes();
        let second = OP_HEADER_LEN + 4 + 5 + 2;
        let refused = |bytes: &[u8]| {
            let mut ops = OpsIter::new(bytes);
            let bad = ops.by_ref().find_map(Result::err).unwrap();
            assert_eq!(ops.next(), None, "an error ends the iteration");
            assert_eq!(bad.offset, second);
            let error = bad.in_log(Path::new("000007.wal"));
            assert_eq!(error.file(), Some(Path::new("000007.wal")));
            (error.kind(), error.to_string())
        };
        let damaged = |bytes: &[u8], what: &str| {
            let (kind, text) = refused(bytes);
            assert_eq!(kind, ErrorKind::Corruption, "{text}");
            assert!(text.contains(what), "{text}");
        };
        for cut in second + 1..good.len() {
            damaged(&good[..cut], "cut short");
        }
        let changed = |at: usize, byte: u8| {
            let mut bytes = good.to_vec();
            bytes[second + at] = byte;
            bytes
        };
        damaged(&changed(0, Kind::External as u8), "external");
        damaged(&changed(0, Kind::Delete as u8), "delete carries");
        let mut range = Batch::new();
        range.put("first", "op").put("key", "end");
        let mut range = range.ops_bytes().to_vec();
        range[second] = Kind::RangeDelete as u8;
        damaged(&range, "the end of a range");
        for (start, end) in [
            (&b"\0\0\0\0b"[..], &b"\0\0\0\0a"[..]),
            (b"\0\0\0\0a", b"\0\0\0\0a"),
            (b"\0\0\0\x01a", b"\0\0\0\x02b"),
        ] {
            let mut range = Batch::new();
            range.put("first", "op");
            let mut range = range.ops_bytes().to_vec();
            encode_op(&mut range, Kind::RangeDelete, None, start, end);
            damaged(&range, "is no range");
        }
        damaged(&changed(1, 1), "cut short");
        damaged(&changed(2, 3), "too short");
        damaged(&changed(4, 2), "key is too long");
        damaged(&changed(9, 0x7f), "value is too long");
        // These are no damage.
        for (at, byte) in [(0, 0), (0, 4), (0, 6), (0, 255), (1, 2)] {
            let (kind, text) = refused(&changed(at, byte));
            assert_eq!(kind, ErrorKind::Incompatible, "{text}");
            assert!(text.contains("unknown"), "{text}");
        }
    }

    #[test]
    fn random_bytes_never_panic_and_never_reach_beyond() {
        let mut rng = SmallRng::seed_from_u64(11);
        for _ in 0..if cfg!(miri) { 50 } else { 20_000 } {
            let mut batch = Batch::new();
            batch.put("some key", "some value").delete("another");
            let mut bytes = batch.ops_bytes().to_vec();
            for _ in 0..rng.random_range(1..4) {
                let at = rng.random_range(0..bytes.len());
                bytes[at] = rng.random();
            }
            bytes.truncate(rng.random_range(0..=bytes.len()));
            let total: usize = OpsIter::new(&bytes)
                .filter_map(Result::ok)
                .map(|op| OP_HEADER_LEN + op.key.len() + op.value.len())
                .sum();
            assert!(total <= bytes.len());
        }
    }
}
