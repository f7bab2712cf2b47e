//! The compressed form of a block: see `docs/format.md`, "Compressed block".
//!
//! ```text
//! stored form of entries, restart offsets and restart count
//! tag       4  bits 0-23 the length of these, 24-27 the codec, 28-30 zero, 31 one
//! checksum  4  of everything before it, bound to (uid, offset of the block)
//! ```
//!
//! The tag stands where another block has its restart count, which never has bit 31. A file with
//! such a block says so in its header and in the manifest, so that a release that does not know the
//! form reads neither.

use crate::codec::{Codec, Compression, Decoders, Encoder, FileCompression};
use bytes::Bytes;

const IS_COMPRESSED: u32 = 1 << 31;
const RESERVED: u32 = 0b111 << 28;
const RAW_LEN: u32 = (1 << 24) - 1;
/// A block is at most as long as its target length and an entry.
const MOST_RAW_LEN: u32 = 2 << 20;
const TAG_LEN: usize = 4;
/// In memory a block ends with room for a checksum.
const CHECKSUM_LEN: usize = 4;

/// Compresses the blocks of a section.
#[derive(Debug)]
pub(in crate::key_table) struct BlockCompressor {
    compression: Compression,
    encoder: Encoder,
    /// What has been done.
    pub(in crate::key_table) done: FileCompression,
}

impl BlockCompressor {
    pub(in crate::key_table) fn new(compression: Compression) -> BlockCompressor {
        BlockCompressor {
            compression,
            encoder: Encoder::new(None),
            done: FileCompression::default(),
        }
    }

    /// Compresses what stands in `out` from `start` on, a block without its checksum, if it
    /// shrinks.
    pub(in crate::key_table) fn compress(&mut self, out: &mut Vec<u8>, start: usize) {
        let Some(raw) = out.get(start..) else {
            return;
        };
        let Some(raw_len) = u32::try_from(raw.len()).ok().filter(|n| *n <= MOST_RAW_LEN) else {
            return;
        };
        let Some((codec, stored)) = self.encoder.encode(raw, self.compression) else {
            return;
        };
        out.truncate(start);
        out.extend_from_slice(stored);
        let tag = IS_COMPRESSED | u32::from(codec as u8) << 24 | raw_len;
        out.extend_from_slice(&tag.to_le_bytes());
        let stored_len = out.len() - start;
        let level = self.compression.level();
        self.done.note(codec, level, raw_len as usize, stored_len);
    }
}

/// A block in its compressed form, verified.
pub(super) struct Compressed<'a> {
    tag: u32,
    stored: &'a [u8],
}

/// The compressed form that `body` is, a block without its checksum; `None`: it is none.
pub(super) fn form(body: &[u8]) -> Option<Compressed<'_>> {
    let (stored, tag) = body.split_last_chunk::<TAG_LEN>()?;
    let tag = u32::from_le_bytes(*tag);
    (tag & IS_COMPRESSED != 0).then_some(Compressed { tag, stored })
}

impl Compressed<'_> {
    /// The block as it is in memory.
    #[cold]
    pub(super) fn expand(&self, decoders: &Decoders) -> Result<Bytes, &'static str> {
        let raw_len = (self.tag & RAW_LEN) as usize;
        let codec = Codec::of((self.tag >> 24 & 0xf) as u8);
        let codec = codec.filter(|codec| {
            self.tag & RESERVED == 0 && !matches!(codec, Codec::None | Codec::Chunks)
        });
        let codec = codec.ok_or("the block has an unknown codec")?;
        let most = codec.most_raw_len(self.stored.len());
        if raw_len > most.min(MOST_RAW_LEN as usize) {
            return Err("the block's lengths are out of bounds");
        }
        let mut raw = vec![0; raw_len + CHECKSUM_LEN];
        let place = raw.get_mut(..raw_len).unwrap_or_default();
        decoders.decode(codec, self.stored, place, None)?;
        Ok(Bytes::from(raw))
    }
}
