//! How a value is cut into chunks, and the directory that says what became of each.

use crate::base::checksum::bound;
use crate::base::coding::Decoder;
use crate::base::keys::FileUid;
use crate::base::seeded::seeded;
use crate::codec::Codec;
use std::ops::Range;

/// The least and the greatest size of a chunk, as powers of two.
const LEAST_BITS: u8 = 8;
pub(in crate::record) const MOST_BITS: u8 = 16;
/// Bytes of the directory for each chunk.
const ENTRY_LEN: usize = 8;
/// A part of an entry: the length of the chunk, and above it the codec.
const LEN_BITS: u32 = 24;
/// Values of at least this many chunks are cut: of a shorter one, little is gained by reading a
/// part of it alone.
const LEAST_CHUNKS: usize = 4;

/// The raw length of a value, and the size of its chunks: all but the last have it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::record) struct ChunkShape {
    raw_len: usize,
    bits: u8,
}

impl ChunkShape {
    /// `None`: no value is cut so.
    pub(in crate::record) fn new(raw_len: usize, bits: u8) -> Option<ChunkShape> {
        let is_known = (LEAST_BITS..=MOST_BITS).contains(&bits);
        is_known.then_some(ChunkShape { raw_len, bits })
    }

    /// The size of the chunks where memtables have `memtable_bytes`: 64 KiB, or a sixteenth of one
    /// if that is less, as a chunk is in memory while others are served.
    pub(in crate::record) fn bits_for(memtable_bytes: u64) -> u8 {
        let bits = (memtable_bytes / 16).max(1).ilog2() as u8;
        bits.clamp(LEAST_BITS, MOST_BITS)
    }

    /// Whether a value of `raw_len` bytes is worth cutting.
    pub(in crate::record) fn is_worth_it(raw_len: usize, bits: u8) -> bool {
        raw_len >= LEAST_CHUNKS << bits
    }

    pub(in crate::record) fn bits(self) -> u8 {
        self.bits
    }

    pub(in crate::record) fn raw_len(self) -> usize {
        self.raw_len
    }

    pub(in crate::record) fn chunk_bytes(self) -> usize {
        1 << self.bits
    }

    pub(in crate::record) fn count(self) -> usize {
        self.raw_len.div_ceil(self.chunk_bytes())
    }

    pub(in crate::record) fn directory_len(self) -> usize {
        self.count() * ENTRY_LEN
    }

    /// Whether the chunks and their directory can have this length.
    pub(in crate::record) fn allows(self, stored_len: usize) -> bool {
        let directory_len = self.directory_len();
        let chunks_len = self.count()..=self.raw_len;
        let found = stored_len.checked_sub(directory_len);
        self.raw_len > 0 && found.is_some_and(|len| chunks_len.contains(&len))
    }

    /// Which bytes of the value the chunk has.
    pub(in crate::record) fn raw_range(self, chunk: usize) -> Range<usize> {
        let start = (chunk << self.bits).min(self.raw_len);
        start..(start + self.chunk_bytes()).min(self.raw_len)
    }

    /// As many bytes from where the first chunk of the range begins: what a seeded bug takes.
    pub(in crate::record) fn with_chunk_start(self, range: Range<usize>) -> Range<usize> {
        let start = range.start >> self.bits << self.bits;
        start..start + range.len()
    }

    /// The chunks that have bytes of `range`, which lies within the value.
    pub(in crate::record) fn chunks_of(self, range: &Range<usize>) -> Range<usize> {
        if range.is_empty() {
            return 0..0;
        }
        range.start >> self.bits..range.end.div_ceil(self.chunk_bytes())
    }
}

/// A chunk as it is stored.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::record) struct Chunk {
    /// Where it begins, from the first one on.
    pub(in crate::record) start: u32,
    pub(in crate::record) len: u32,
    checksum: u32,
    pub(in crate::record) codec: Codec,
}

impl Chunk {
    /// Where it stands, from the first one on.
    pub(in crate::record) fn range(&self) -> Range<usize> {
        let start = self.start as usize;
        start..start + self.len as usize
    }

    /// Whether `stored`, which stands at `offset` of the file, is what was written.
    pub(in crate::record) fn fits(&self, stored: &[u8], uid: FileUid, offset: u64) -> bool {
        self.checksum == bound(uid, offset, stored) || seeded!(ChunkUnchecked)
    }
}

/// What the directory says: all chunks of a value, in order and without gaps.
#[derive(Debug)]
pub(in crate::record) struct Directory {
    shape: ChunkShape,
    chunks: Vec<Chunk>,
}

impl Directory {
    /// Of a value that has no chunk yet.
    pub(in crate::record) fn new(shape: ChunkShape) -> Directory {
        Directory {
            shape,
            chunks: Vec::with_capacity(shape.count()),
        }
    }

    /// Decodes the directory of chunks that take `chunks_len` bytes.
    pub(in crate::record) fn decode(
        bytes: &[u8],
        shape: ChunkShape,
        chunks_len: usize,
    ) -> Result<Directory, &'static str> {
        const DAMAGED: &str = "the directory of the value's chunks is malformed";
        if bytes.len() != shape.directory_len() {
            return Err(DAMAGED);
        }
        let mut directory = Directory::new(shape);
        let mut d = Decoder::new(bytes);
        for at in 0..shape.count() {
            let (form, checksum) = (d.u32().ok_or(DAMAGED)?, d.u32().ok_or(DAMAGED)?);
            let len = form & ((1 << LEN_BITS) - 1);
            let codec = Codec::of((form >> LEN_BITS) as u8).ok_or(DAMAGED)?;
            let raw_len = shape.raw_range(at).len();
            let is_plausible = match codec {
                Codec::None => len as usize == raw_len,
                Codec::Lz4 | Codec::Zstd => {
                    let most = codec.most_raw_len(len as usize);
                    (len as usize) < raw_len && raw_len <= most
                }
                Codec::ZstdWithDictionary | Codec::Chunks => false,
            };
            if !is_plausible {
                return Err(DAMAGED);
            }
            directory.push(codec, len, checksum);
        }
        if directory.chunks_len() == chunks_len {
            Ok(directory)
        } else {
            Err(DAMAGED)
        }
    }

    /// Adds a chunk that stands at `offset` of the file `uid` as `stored`.
    pub(in crate::record) fn add(
        &mut self,
        codec: Codec,
        stored: &[u8],
        uid: FileUid,
        offset: u64,
    ) {
        self.push(codec, stored.len() as u32, bound(uid, offset, stored));
    }

    fn push(&mut self, codec: Codec, len: u32, checksum: u32) {
        self.chunks.push(Chunk {
            start: self.chunks_len() as u32,
            len,
            checksum,
            codec,
        });
    }

    pub(in crate::record) fn encode(&self) -> Vec<u8> {
        let mut out = Vec::with_capacity(self.chunks.len() * ENTRY_LEN);
        for chunk in &self.chunks {
            let form = chunk.len | u32::from(chunk.codec as u8) << LEN_BITS;
            out.extend_from_slice(&form.to_le_bytes());
            out.extend_from_slice(&chunk.checksum.to_le_bytes());
        }
        out
    }

    pub(in crate::record) fn shape(&self) -> ChunkShape {
        self.shape
    }

    /// What the chunks take together.
    pub(in crate::record) fn chunks_len(&self) -> usize {
        self.chunks.last().map_or(0, |chunk| chunk.range().end)
    }

    pub(in crate::record) fn chunks(&self) -> &[Chunk] {
        &self.chunks
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn chunks_are_small_where_memtables_are() {
        for (memtable, chunk) in [
            (0, 256),
            (4 << 10, 256),
            (64 << 10, 4 << 10),
            (1 << 20, 64 << 10),
            (64 << 20, 64 << 10),
        ] {
            assert_eq!(1 << ChunkShape::bits_for(memtable), chunk);
        }
        assert!(ChunkShape::is_worth_it(256 << 10, MOST_BITS));
        assert!(!ChunkShape::is_worth_it((256 << 10) - 1, MOST_BITS));
    }

    #[test]
    fn ranges_lead_to_their_chunks() {
        let shape = ChunkShape::new(1000, 8).unwrap();
        assert_eq!((shape.count(), shape.directory_len()), (4, 32));
        assert_eq!(shape.raw_range(3), 768..1000);
        for (range, chunks) in [
            (0..0, 0..0),
            (0..1, 0..1),
            (255..256, 0..1),
            (256..257, 1..2),
            (255..257, 0..2),
            (0..1000, 0..4),
            (999..1000, 3..4),
            (1000..1000, 0..0),
        ] {
            assert_eq!(shape.chunks_of(&range), chunks);
        }
        assert!(shape.allows(1032) && shape.allows(36));
        assert!(!shape.allows(1033) && !shape.allows(35));
        assert!(ChunkShape::new(1000, 7).is_none() && ChunkShape::new(1000, 17).is_none());
    }

    #[test]
    fn a_directory_comes_back_and_one_that_lies_is_refused() {
        let shape = ChunkShape::new(700, 8).unwrap();
        let mut directory = Directory::new(shape);
        directory.add(Codec::None, &[1; 256], FileUid(1), 100);
        directory.add(Codec::Lz4, &[2; 30], FileUid(1), 356);
        directory.add(Codec::None, &[3; 188], FileUid(1), 386);
        let bytes = directory.encode();
        let found = Directory::decode(&bytes, shape, 474).unwrap();
        assert_eq!(found.chunks(), directory.chunks());
        assert!(found.chunks()[1].fits(&[2; 30], FileUid(1), 356));
        assert!(!found.chunks()[1].fits(&[2; 30], FileUid(1), 357));
        assert!(!found.chunks()[1].fits(&[2; 30], FileUid(2), 356));
        assert!(Directory::decode(&bytes, shape, 473).is_err());
        assert!(Directory::decode(&bytes[..16], shape, 286).is_err());
        // A chunk that is not shorter than it was, one with a dictionary, one in chunks itself.
        for form in [256 | 1 << 24, 30 | 3 << 24, 30 | 4 << 24, 30 | 9 << 24, 30] {
            let mut wrong = bytes.clone();
            wrong[8..12].copy_from_slice(&u32::to_le_bytes(form));
            assert!(Directory::decode(&wrong, shape, 474).is_err(), "{form:#x}");
        }
    }
}
