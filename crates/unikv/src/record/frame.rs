//! The frame of a record. See `docs/format.md`, "Record frame".
//!
//! Invariants: both checksums are bound to the file's uid and the frame's offset. A frame is in its
//! *stored* form, as in the file, or *expanded*: the same bytes with the raw value in the place of
//! a compressed one. The checksum was compared before that and is not made again. What readers get
//! and what the cache keeps is expanded; its header still says how long the stored form is.
//!
//! No locks.

mod verified;

use crate::base::checksum::{Crc, bound};
use crate::base::coding::Decoder;
use crate::base::keys::{
    FileUid, KEYSPACE_PREFIX_LEN, Kind, MAX_USER_KEY_LEN, MAX_VALUE_LEN, SeqNo, pack_seq_kind,
    unpack_seq_kind,
};
use crate::codec::Codec;
use crate::error::{Error, Result};
use crate::key_table::STREAMED_BYTES;
use crate::record::chunks::shape::ChunkShape;
use std::ops::Range;
use std::path::Path;
pub(crate) use verified::{Record, StoredRecord};

/// Length of a frame's header in bytes.
pub(super) const FRAME_HEADER_LEN: usize = 32;
/// No frame is shorter.
pub(crate) const MIN_FRAME_LEN: usize = FRAME_HEADER_LEN + KEYSPACE_PREFIX_LEN + CRC_LEN;

pub(super) const CRC_LEN: usize = 4;
const EXPIRY_LEN: usize = 8;
const _: () = assert!(FRAME_HEADER_LEN + CRC_LEN == crate::key_table::FRAME_BYTES as usize);
const FLAG_EXPIRY: u8 = 0b01;
const FLAG_OLDER_FOLLOWS: u8 = 0b10;
const FLAGS_UNKNOWN: u8 = !(FLAG_EXPIRY | FLAG_OLDER_FOLLOWS);
const UPGRADE: &str = "open it with the newer release that wrote it";

/// How the value of a record stands in its frame.
#[derive(Clone, Copy, Debug)]
pub(super) struct StoredAs {
    pub(super) codec: Codec,
    pub(super) stored_len: usize,
    pub(super) raw_len: usize,
    /// Of a value in chunks: the power of two that their size is.
    pub(super) chunk_bits: u8,
}

impl StoredAs {
    /// As it was written.
    pub(super) fn raw(len: usize) -> StoredAs {
        StoredAs {
            codec: Codec::None,
            stored_len: len,
            raw_len: len,
            chunk_bits: 0,
        }
    }
}

/// A record to be written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct RecordRef<'a> {
    /// The keyspace id and the user's key.
    pub(crate) key: &'a [u8],
    pub(crate) seq: SeqNo,
    pub(crate) kind: Kind,
    pub(crate) value: &'a [u8],
    pub(crate) expiry_ms: Option<u64>,
    /// A byte of the host, handed back as it came.
    pub(crate) host_type: u8,
    /// Whether an older version of the same key is the next record.
    pub(crate) older_follows: bool,
}

/// The length of the frame of a record.
pub(crate) fn frame_len(key_len: usize, value_len: usize, has_expiry: bool) -> u64 {
    let expiry_len = if has_expiry { EXPIRY_LEN } else { 0 };
    (FRAME_HEADER_LEN + expiry_len + key_len + CRC_LEN) as u64 + value_len as u64
}

impl RecordRef<'_> {
    /// The length of its frame.
    pub(crate) fn frame_len(&self) -> u64 {
        frame_len(self.key.len(), self.value.len(), self.expiry_ms.is_some())
    }

    /// Replaces `head` by what stands before the value in a frame at `offset` of the file `uid`,
    /// and returns the checksum of the payload up to the value, which comes `stored` so. `None` if
    /// a limit is exceeded.
    pub(super) fn encode_head(
        &self,
        stored: StoredAs,
        head: &mut Vec<u8>,
        uid: FileUid,
        offset: u64,
    ) -> Option<Crc> {
        let key_in_limits = self.key.len().checked_sub(KEYSPACE_PREFIX_LEN)? <= MAX_USER_KEY_LEN;
        let stored_limit = match stored.codec {
            Codec::Chunks => u32::MAX as usize,
            _ => MAX_VALUE_LEN,
        };
        let fits = stored.raw_len <= MAX_VALUE_LEN && stored.stored_len <= stored_limit;
        if !key_in_limits || !fits || self.seq > SeqNo::MAX {
            return None;
        }
        let expiry_flag = if self.expiry_ms.is_some() {
            FLAG_EXPIRY
        } else {
            0
        };
        let older_flag = if self.older_follows {
            FLAG_OLDER_FOLLOWS
        } else {
            0
        };

        let mut header = [0; FRAME_HEADER_LEN];
        header[4..12].copy_from_slice(&pack_seq_kind(self.seq, self.kind).to_le_bytes());
        header[12..16].copy_from_slice(&(self.key.len() as u32).to_le_bytes());
        header[16..20].copy_from_slice(&(stored.stored_len as u32).to_le_bytes());
        header[20..24].copy_from_slice(&(stored.raw_len as u32).to_le_bytes());
        header[24] = expiry_flag | older_flag;
        header[25] = stored.codec as u8;
        header[26] = self.host_type;
        header[27] = stored.chunk_bits;
        let header_crc = bound(uid, offset, &header[CRC_LEN..]);
        header[..CRC_LEN].copy_from_slice(&header_crc.to_le_bytes());

        head.clear();
        head.extend_from_slice(&header);
        if let Some(ms) = self.expiry_ms {
            head.extend_from_slice(&ms.to_le_bytes());
        }
        head.extend_from_slice(self.key);
        Some(Crc::default().update(&head[FRAME_HEADER_LEN..]))
    }
}

/// The place of a frame being decoded: what its checksums are bound to and errors name.
#[derive(Clone, Copy, Debug)]
pub(super) struct FramePlace<'a> {
    pub(super) path: &'a Path,
    pub(super) uid: FileUid,
    pub(super) offset: u64,
    /// Where the frames of the file end.
    pub(super) records_end: u64,
    /// The number of all records of the file, whatever they say: see `RecordFileMeta::ingest_seq`.
    pub(super) ingest_seq: Option<SeqNo>,
}

impl FramePlace<'_> {
    /// The error for a damaged frame at this place.
    pub(super) fn corruption(&self, what: &str) -> Error {
        Error::corruption(self.path, self.offset, what)
    }

    /// The place `len` bytes on.
    pub(super) fn behind(&self, len: usize) -> Self {
        let offset = self.offset + len as u64;
        FramePlace { offset, ..*self }
    }

    fn unknown(&self, what: &str, value: u8) -> Error {
        let what = format!("the record at offset {} has {what} {value:#x}", self.offset);
        Error::incompatible(self.path, what, UPGRADE)
    }
}

/// The verified header of a frame.
#[derive(Clone, Copy, Debug)]
pub(super) struct FrameHeader {
    pub(super) seq: SeqNo,
    pub(super) kind: Kind,
    key_len: u32,
    /// Of the raw value.
    pub(super) value_len: usize,
    /// Of the value as it stands in the file.
    stored_len: u32,
    flags: u8,
    pub(super) codec: Codec,
    pub(super) host_type: u8,
    /// Of a value in chunks: the power of two that their size is.
    chunk_bits: u8,
}

/// How a value is cut. Apart, so that it costs nothing where values are whole.
#[cold]
#[inline(never)]
fn shape_of(raw_len: usize, chunk_bits: u8, place: &FramePlace<'_>) -> Result<ChunkShape> {
    let shape = ChunkShape::new(raw_len, chunk_bits);
    shape.ok_or_else(|| place.unknown("the unknown chunk size", chunk_bits))
}

/// What stands in a header after its checksum: number and kind, three lengths, four bytes, and what
/// is reserved.
#[inline(always)]
fn fields(body: &[u8]) -> Option<(u64, [u32; 3], [u8; 4], u32)> {
    let mut d = Decoder::new(body);
    let seq_kind = d.u64()?;
    let lens = [d.u32()?, d.u32()?, d.u32()?];
    Some((seq_kind, lens, d.array()?, d.u32()?))
}

/// The length in its file of the whole expanded `frame`, which was verified before it was kept.
pub(crate) fn len_of_kept(frame: &[u8]) -> Option<u32> {
    // Not by `fields`: what has one caller alone is cheapest for that, and gets are that one.
    let len_at = |at: usize| {
        frame
            .get(at..)?
            .first_chunk()
            .map(|len| u32::from_le_bytes(*len))
    };
    let (stored_len, raw_len) = (u64::from(len_at(16)?), u64::from(len_at(20)?));
    let len = (frame.len() as u64 + stored_len).checked_sub(raw_len)?;
    u32::try_from(len).ok()
}

/// Whether the checksum that a header begins with is that of the rest.
#[inline(always)]
fn fits(header: &[u8; FRAME_HEADER_LEN], place: &FramePlace<'_>) -> bool {
    let (crc, body) = header.split_at(CRC_LEN);
    crc == bound(place.uid, place.offset, body).to_le_bytes()
}

impl FrameHeader {
    /// Whether a header stands before `bytes`, by its checksum: for who looks for one, as no error
    /// is made of each place that has none.
    pub(super) fn stands_before(bytes: &[u8], place: &FramePlace<'_>) -> bool {
        bytes.first_chunk().is_some_and(|bytes| fits(bytes, place))
    }

    /// Verifies the header before `bytes`. The frame it describes ends within the records.
    pub(super) fn decode(bytes: &[u8], place: &FramePlace<'_>) -> Result<FrameHeader> {
        let cut = || place.corruption("the record's header is cut short");
        let bytes = bytes.first_chunk::<FRAME_HEADER_LEN>().ok_or_else(cut)?;
        if !fits(bytes, place) {
            return Err(place.corruption("the record header's checksum does not match"));
        }
        FrameHeader::parse(&bytes[CRC_LEN..], place)
    }

    /// Decodes `body`, what stands after a header's checksum, which has been verified.
    #[inline(always)]
    fn parse(body: &[u8], place: &FramePlace<'_>) -> Result<FrameHeader> {
        let Some((seq_kind, lens, bytes, reserved_word)) = fields(body) else {
            return Err(place.corruption("the record's header is cut short"));
        };
        let [key_len, stored_len, raw_len] = lens.map(|len| len as usize);
        let [flags, codec, host_type, chunk_bits] = bytes;

        let (seq, kind) = unpack_seq_kind(seq_kind)
            .ok_or_else(|| place.unknown("the unknown kind", seq_kind as u8))?;
        if flags & FLAGS_UNKNOWN != 0 {
            return Err(place.unknown("unknown flags", flags & FLAGS_UNKNOWN));
        }
        let codec = Codec::of(codec).ok_or_else(|| place.unknown("the unknown codec", codec))?;
        let is_reserved = codec != Codec::Chunks && chunk_bits != 0;
        if is_reserved || reserved_word != 0 {
            return Err(place.unknown("a reserved field that is not zero, first", chunk_bits));
        }
        let key_bounds = KEYSPACE_PREFIX_LEN..=KEYSPACE_PREFIX_LEN + MAX_USER_KEY_LEN;
        // Of what is compressed, the stored form is the shorter one by far.
        let lens_agree = match codec {
            Codec::None => stored_len == raw_len,
            Codec::Chunks => {
                let shape = shape_of(raw_len, chunk_bits, place)?;
                shape.allows(stored_len) && kind == Kind::Put
            }
            _ => {
                let most = codec.most_raw_len(stored_len).min(STREAMED_BYTES as usize);
                stored_len < raw_len && raw_len <= most
            }
        };
        if !key_bounds.contains(&key_len) || raw_len > MAX_VALUE_LEN || !lens_agree {
            return Err(place.corruption("the record's lengths are out of bounds"));
        }
        let header = FrameHeader {
            seq: place.ingest_seq.unwrap_or(seq),
            kind,
            key_len: key_len as u32,
            value_len: raw_len,
            stored_len: stored_len as u32,
            flags,
            codec,
            host_type,
            chunk_bits,
        };
        let left = place.records_end.checked_sub(place.offset);
        if left.is_none_or(|left| header.frame_len() as u64 > left) {
            return Err(place.corruption("the record reaches beyond the file's records"));
        }
        Ok(header)
    }

    /// The header of the whole expanded `frame`, which was verified before it was kept; `None` if
    /// it is none.
    #[inline(always)]
    pub(super) fn of_kept(frame: &[u8], place: &FramePlace<'_>) -> Option<FrameHeader> {
        let header = FrameHeader::parse(frame.get(CRC_LEN..FRAME_HEADER_LEN)?, place).ok()?;
        (header.expanded_len() == frame.len()).then_some(header)
    }

    /// The length of the whole frame in the file.
    pub(super) fn frame_len(&self) -> usize {
        self.stored_end() + CRC_LEN
    }

    /// The length of the frame with the raw value.
    pub(super) fn expanded_len(&self) -> usize {
        self.value_end() + CRC_LEN
    }

    /// How the value is stored.
    pub(super) fn stored_as(&self) -> StoredAs {
        StoredAs {
            codec: self.codec,
            stored_len: self.stored_len as usize,
            raw_len: self.value_len,
            chunk_bits: self.chunk_bits,
        }
    }

    /// How the value is cut, if it stands in chunks.
    pub(super) fn shape(&self) -> Option<ChunkShape> {
        match self.codec {
            Codec::Chunks => ChunkShape::new(self.value_len, self.chunk_bits),
            _ => None,
        }
    }

    /// Where what is stored of the value ends in the frame.
    pub(super) fn stored_end(&self) -> usize {
        self.value_start() + self.stored_len as usize
    }

    /// Where the key stands in the frame.
    pub(super) fn key_range(&self) -> Range<usize> {
        self.key_start()..self.value_start()
    }

    /// The sequence number and what the record says about its key.
    pub(super) fn seq_and_kind(&self) -> (SeqNo, Kind) {
        (self.seq, self.kind)
    }

    /// The length of the raw value.
    pub(super) fn value_len(&self) -> usize {
        self.value_len
    }

    pub(super) fn key_start(&self) -> usize {
        let has_expiry = self.flags & FLAG_EXPIRY != 0;
        FRAME_HEADER_LEN + if has_expiry { EXPIRY_LEN } else { 0 }
    }

    /// The expiry in its `frame`.
    pub(super) fn expiry_in(&self, frame: &[u8]) -> Option<u64> {
        let bytes = frame.get(FRAME_HEADER_LEN..self.key_start())?;
        Some(u64::from_le_bytes(*bytes.first_chunk()?))
    }

    pub(super) fn value_start(&self) -> usize {
        self.key_start() + self.key_len as usize
    }

    fn value_end(&self) -> usize {
        self.value_start() + self.value_len
    }

    /// Where the raw value stands in the expanded frame.
    pub(super) fn value_range(&self) -> Range<usize> {
        self.value_start()..self.value_end()
    }

    /// Whether an older version of the same key is the next record.
    pub(super) fn older_follows(&self) -> bool {
        self.flags & FLAG_OLDER_FOLLOWS != 0
    }
}
