//! What stands in an export: blocks, and in them what the export is, entries, parts of large
//! values, and an end. See `docs/format.md`, "Export".
//!
//! No invariants and no locks: encoding and decoding.

use crate::base::coding::{Decoder, put_prefixed, put_varint};
use crate::base::keys::{MAX_USER_KEY_LEN, MAX_VALUE_LEN};
use crate::error::{Error, Result};
use crate::options::KeyspaceOptions;
use crate::version::tagged::{FieldWriter, Fields, Place};
use std::path::Path;

/// Before the payload of a block: checksum, length of the payload, kind.
pub(super) const BLOCK_HEADER_LEN: usize = 9;
/// Where the checksum ends.
pub(super) const CHECKSUM_LEN: usize = 4;
/// The payload of a block is not longer.
pub(super) const MOST_PAYLOAD: usize = 1 << 20;
/// A block of entries is ended when it has this many bytes.
pub(super) const ENTRIES_BYTES: usize = 64 << 10;
/// Values of at least this many bytes stand in blocks of their own.
pub(super) const LARGE_BYTES: usize = 256 << 10;

/// The kinds of blocks. The numbers are in the files and never change.
pub(super) mod kind {
    /// What the export is. The first block, and only that.
    pub(in crate::export) const HEAD: u8 = 1;
    pub(in crate::export) const ENTRIES: u8 = 2;
    /// A part of the value of the entry before.
    pub(in crate::export) const PART: u8 = 3;
    /// The last block.
    pub(in crate::export) const END: u8 = 4;
}

mod tag {
    pub(super) const KEYSPACE: u16 = 1;
    pub(super) const OPTIONS: u16 = 2;
    pub(super) const DEFAULT_TTL: u16 = 3;
    pub(super) const SEQ: u16 = 4;
    pub(super) const TIME: u16 = 5;
    pub(super) const LAST: u16 = TIME;
}

const EXPIRES: u8 = 1;
const IN_PARTS: u8 = 2;

/// What the export says of itself.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Head {
    pub(super) keyspace: String,
    pub(super) options: KeyspaceOptions,
    pub(super) seq: u64,
    pub(super) time_ms: u64,
}

impl Head {
    pub(super) fn encode(&self) -> Result<Vec<u8>> {
        let mut out = FieldWriter::default();
        out.put(tag::KEYSPACE, self.keyspace.as_bytes());
        out.put(tag::OPTIONS, &self.options.encode_over(&[])?);
        if let Some(ms) = self.options.ttl_over(None) {
            out.put_u64(tag::DEFAULT_TTL, ms);
        }
        out.put_u64(tag::SEQ, self.seq);
        out.put_u64(tag::TIME, self.time_ms);
        Ok(out.finish())
    }

    pub(super) fn decode(bytes: &[u8], path: &Path, offset: u64) -> Result<Head> {
        let place = Place { path, offset };
        let fields = Fields::read(bytes, "the head of an export", 1..=tag::LAST, place)?;
        let keyspace = std::str::from_utf8(fields.required(tag::KEYSPACE)?);
        let keyspace = keyspace.map_err(|_| fields.corrupt(tag::KEYSPACE, "is not UTF-8"))?;
        let ttl_ms = fields.u64(tag::DEFAULT_TTL)?;
        let options = KeyspaceOptions::decode(fields.required(tag::OPTIONS)?, path)?;
        Ok(Head {
            keyspace: keyspace.to_owned(),
            options: options.with_ttl_ms(ttl_ms),
            seq: fields.required_u64(tag::SEQ)?,
            time_ms: fields.required_u64(tag::TIME)?,
        })
    }
}

/// What stands at the end.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct End {
    pub(super) records: u64,
    /// Of keys and values.
    pub(super) bytes: u64,
    /// The plain CRC-32C of the checksums of all blocks before.
    pub(super) checksums: u32,
}

impl End {
    pub(super) fn encode(&self) -> Vec<u8> {
        let mut out = Vec::new();
        out.extend_from_slice(&self.records.to_le_bytes());
        out.extend_from_slice(&self.bytes.to_le_bytes());
        out.extend_from_slice(&self.checksums.to_le_bytes());
        out
    }

    pub(super) fn decode(payload: &[u8]) -> Option<End> {
        let mut d = Decoder::new(payload);
        let end = End {
            records: d.u64()?,
            bytes: d.u64()?,
            checksums: d.u32()?,
        };
        d.is_empty().then_some(end)
    }
}

/// An entry without a value that stands in parts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Entry<'a> {
    pub(super) key: &'a [u8],
    pub(super) expiry_ms: Option<u64>,
    /// The length of the value.
    pub(super) len: usize,
    /// `None`: it follows in parts.
    pub(super) value: Option<&'a [u8]>,
}

impl<'a> Entry<'a> {
    pub(super) fn encode(&self, out: &mut Vec<u8>) {
        let expires = self.expiry_ms.map_or(0, |_| EXPIRES);
        let in_parts = self.value.map_or(IN_PARTS, |_| 0);
        out.push(expires | in_parts);
        if let Some(ms) = self.expiry_ms {
            out.extend_from_slice(&ms.to_le_bytes());
        }
        put_prefixed(out, self.key);
        put_varint(out, self.len as u64);
        out.extend_from_slice(self.value.unwrap_or_default());
    }

    /// The next entry. `None`: it is malformed.
    pub(super) fn decode(d: &mut Decoder<'a>) -> Option<Entry<'a>> {
        let flags = d.u8().filter(|flags| flags & !(EXPIRES | IN_PARTS) == 0)?;
        let expiry_ms = match flags & EXPIRES {
            0 => None,
            _ => Some(d.u64()?),
        };
        let key = d.prefixed().filter(|key| key.len() <= MAX_USER_KEY_LEN)?;
        let len = usize::try_from(d.varint()?).ok();
        let len = len.filter(|len| *len <= MAX_VALUE_LEN)?;
        let is_large = len >= LARGE_BYTES;
        let value = match flags & IN_PARTS {
            0 if is_large => return None,
            0 => Some(d.bytes(len)?),
            // It is the last of its block.
            _ if !is_large || !d.is_empty() => return None,
            _ => None,
        };
        Some(Entry {
            key,
            expiry_ms,
            len,
            value,
        })
    }
}

/// Damage of an export, which is no file of a database.
#[cold]
pub(super) fn damaged(path: &Path, offset: u64, what: &str) -> Error {
    Error::damaged_export(path, offset, what)
}
