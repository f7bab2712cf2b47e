//! The index of a key section: for each block its place and its *fence*, the smallest position
//! (key, seq) in internal order that the block can hold.
//!
//! Where the keys differ between two blocks the fence is the shortest prefix of the right block's
//! first key that is greater than the left block's last key, at the newest sequence number. Where
//! versions of one key straddle the border it is *exact*: that key, just after the last version
//! on the left. So the block with the last fence at or before (key, snapshot) is the only one that
//! can hold the newest version of `key` at `snapshot`.
//!
//! In memory: one buffer of all fence keys and one array of ends, so that the search allocates
//! nothing and touches two places per step.

use super::entry::{Decoded, Malformed};
use crate::base::coding::{Decoder, put_varint};
use crate::base::keys::{SeqNo, internal_cmp};
use crate::key_table::block::common_prefix;
use std::cmp::Ordering;
use std::mem::size_of;

/// Bytes of an exact fence's sequence number.
const SEQ_LEN: usize = 8;

/// Appends the index entry of a block of `block_len` bytes between `last`, the entry before it,
/// and `first`, its first entry. The first block of a section has an empty fence.
pub(crate) fn encode(
    out: &mut Vec<u8>,
    block_len: usize,
    last: Option<(&[u8], SeqNo)>,
    first: &[u8],
) {
    put_varint(out, block_len as u64);
    let (fence, after) = match last {
        None => (&first[..0], None),
        Some((key, seq)) if key == first => (first, Some(seq.0.saturating_sub(1))),
        Some((key, _)) => (
            &first[..first.len().min(common_prefix(key, first) + 1)],
            None,
        ),
    };
    put_varint(out, (fence.len() as u64) << 1 | u64::from(after.is_some()));
    out.extend_from_slice(fence);
    if let Some(seq) = after {
        out.extend_from_slice(&seq.to_le_bytes());
    }
}

/// The decoded index of a section.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Fences {
    /// The fence keys one after the other; after an exact one its sequence number.
    keys: Box<[u8]>,
    blocks: Box<[Fence]>,
    /// Where the first block stands in the file.
    start: u64,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Fence {
    /// The block's end, counted from the first block's beginning.
    block_end: u64,
    /// The end of the fence's bytes in `keys`.
    key_end: u32,
    exact: bool,
}

/// The place of a block in its file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct BlockPlace {
    pub(crate) offset: u64,
    pub(crate) len: usize,
}

impl Fences {
    /// Decodes an index whose blocks fill `blocks_len` bytes from `start`.
    pub(crate) fn decode(index: &[u8], start: u64, blocks_len: u64) -> Decoded<Fences> {
        Fences::decode_checked(index, start, blocks_len).ok_or(Malformed)
    }

    fn decode_checked(index: &[u8], start: u64, blocks_len: u64) -> Option<Fences> {
        u32::try_from(index.len()).ok()?;
        start.checked_add(blocks_len)?;
        let (mut keys, mut blocks) = (Vec::with_capacity(index.len()), Vec::new());
        let mut block_end = 0u64;
        let mut d = Decoder::new(index);
        while !d.is_empty() {
            block_end = block_end.checked_add(d.varint()?)?;
            if block_end > blocks_len {
                return None;
            }
            let len_and_flag = d.varint()?;
            let exact = len_and_flag & 1 != 0;
            keys.extend_from_slice(d.bytes(usize::try_from(len_and_flag >> 1).ok()?)?);
            if exact {
                keys.extend_from_slice(d.bytes(SEQ_LEN)?);
            }
            blocks.push(Fence {
                block_end,
                key_end: keys.len() as u32,
                exact,
            });
        }
        if block_end != blocks_len || blocks.first().is_some_and(|first| first.key_end != 0) {
            return None;
        }
        let (keys, blocks) = (keys.into_boxed_slice(), blocks.into_boxed_slice());
        Some(Fences {
            keys,
            blocks,
            start,
        })
    }

    /// How many blocks there are.
    pub(crate) fn len(&self) -> usize {
        self.blocks.len()
    }

    /// Bytes of memory held.
    pub(crate) fn memory_bytes(&self) -> usize {
        size_of::<Fences>() + self.keys.len() + self.blocks.len() * size_of::<Fence>()
    }

    /// Where block `i` stands; `None` after the last.
    pub(crate) fn place(&self, i: usize) -> Option<BlockPlace> {
        let end = self.blocks.get(i)?.block_end;
        let start = i
            .checked_sub(1)
            .map_or(0, |left| self.blocks[left].block_end);
        Some(BlockPlace {
            offset: self.start + start,
            len: (end - start) as usize,
        })
    }

    /// The block that begins at `offset`.
    pub(crate) fn block_at(&self, offset: u64) -> Option<usize> {
        let from = offset.checked_sub(self.start)?;
        let i = self.blocks.partition_point(|fence| fence.block_end <= from);
        (self.place(i)?.offset == offset).then_some(i)
    }

    /// The fence of block `i`, without its sequence number; empty where there is none.
    pub(crate) fn key(&self, i: usize) -> &[u8] {
        if i < self.blocks.len() {
            self.fence(i).0
        } else {
            &[]
        }
    }

    /// The one block that can hold the newest version of `key` at `seq`; `None` without blocks.
    pub(crate) fn find(&self, key: &[u8], seq: SeqNo) -> Option<usize> {
        let (mut low, mut high) = (0, self.blocks.len());
        // The fence of block 0 is before everything.
        while high - low > 1 {
            let middle = low + (high - low) / 2;
            if internal_cmp(self.fence(middle), (key, seq)) == Ordering::Greater {
                high = middle;
            } else {
                low = middle;
            }
        }
        (high > 0).then_some(low)
    }

    /// As [`Fences::find`], with the place of the block.
    pub(crate) fn locate(&self, key: &[u8], seq: SeqNo) -> Option<(usize, BlockPlace)> {
        let i = self.find(key, seq)?;
        Some((i, self.place(i)?))
    }

    fn fence(&self, i: usize) -> (&[u8], SeqNo) {
        let start = i
            .checked_sub(1)
            .map_or(0, |left| self.blocks[left].key_end as usize);
        let fence = self.blocks[i];
        let bytes = &self.keys[start..fence.key_end as usize];
        match bytes.split_last_chunk::<SEQ_LEN>() {
            Some((key, seq)) if fence.exact => (key, SeqNo(u64::from_le_bytes(*seq))),
            _ => (bytes, SeqNo::MAX),
        }
    }
}
