//! Blocks: some 4 KiB of entries in order, each key without the prefix it shares with the key
//! before it; restarts have whole keys. See `docs/format.md`, "Key section".
//!
//! Invariants: `shared` is always the *longest* common prefix (0 at a restart); [`Block::seek`]
//! relies on it to compare most entries by that number alone, without building their keys. On disk
//! a block may be [compressed](compressed); in memory it never is, and has the *heads* of its
//! restarts beside its bytes: a search among them touches a cache line or two instead of one for
//! each restart that it tries.
//!
//! No locks.

pub(crate) mod compressed;
pub(crate) mod entry;
pub(crate) mod fences;
pub(crate) mod passed;
pub(crate) mod walk;

use crate::base::checksum::{Crc, bound};
use crate::base::keys::{FileUid, SeqNo, internal_cmp};
use crate::base::seeded::seeded;
use crate::codec::Decoders;
use crate::key_table::block::entry::{Decoded, Entries, KeyEntry, Malformed, RawEntry};
use bytes::Bytes;
use std::cmp::Ordering;
use std::sync::Arc;

/// Entries from one restart to the next.
const RESTART_INTERVAL: usize = 8;
/// Keys that share more stand whole only where a block begins: to have them once more would cost
/// more than a search without restarts.
const LONGEST_REPEATED: usize = 256;
/// The restart count and the checksum.
const TRAILER_LEN: usize = 8;

/// Builds the blocks of a section one after the other in one buffer.
#[derive(Debug, Default)]
pub(super) struct BlockBuilder {
    start: usize,
    restarts: Vec<u32>,
    entries: usize,
    /// What the first key has in common with the one before the block.
    repeated: usize,
}

impl BlockBuilder {
    /// Appends an entry to the block at the end of `out`. `previous` is the key before it.
    pub(super) fn add(&mut self, out: &mut Vec<u8>, previous: &[u8], entry: &KeyEntry<'_>) {
        let common = common_prefix(previous, entry.key);
        let is_due = self.entries.is_multiple_of(RESTART_INTERVAL);
        let shared = if self.is_empty() || (is_due && common <= LONGEST_REPEATED) {
            self.restarts.push((out.len() - self.start) as u32);
            0
        } else {
            common
        };
        if self.is_empty() {
            self.repeated = common;
        }
        entry::encode(out, shared, entry);
        self.entries += 1;
    }

    /// Whether the block has no entry yet.
    pub(super) fn is_empty(&self) -> bool {
        self.entries == 0
    }

    /// The length the block would have if it ended now.
    pub(super) fn len(&self, out: &[u8]) -> usize {
        out.len() - self.start + 4 * self.restarts.len() + TRAILER_LEN
    }

    /// What counts of that towards the length at which blocks end. A long prefix is no reason to
    /// end a block: the next one would begin with it again.
    pub(super) fn len_beside_prefix(&self, out: &[u8]) -> usize {
        let repeated = Some(self.repeated).filter(|len| *len > LONGEST_REPEATED);
        self.len(out) - repeated.unwrap_or(0)
    }

    /// Ends the block, which `compress` may put into another form: returns its length and its
    /// checksum, for which four bytes are left at its end until the place is known that it is bound
    /// to.
    pub(super) fn end(
        &mut self,
        out: &mut Vec<u8>,
        compress: impl FnOnce(&mut Vec<u8>, usize),
    ) -> (usize, Crc) {
        for restart in &self.restarts {
            out.extend_from_slice(&restart.to_le_bytes());
        }
        out.extend_from_slice(&(self.restarts.len() as u32).to_le_bytes());
        compress(out, self.start);
        let crc = Crc::default().update(&out[self.start..]);
        out.extend_from_slice(&[0; 4]);
        let len = out.len() - self.start;
        *self = BlockBuilder {
            start: out.len(),
            ..BlockBuilder::default()
        };
        (len, crc)
    }
}

/// A block whose checksum has been verified.
#[derive(Debug)]
pub(crate) struct Block {
    bytes: Bytes,
    entries_end: usize,
    restarts: Box<[Restart]>,
    /// How many bytes the keys of all restarts begin with together.
    prefix_len: usize,
}

/// An entry with its whole key.
#[derive(Clone, Copy, Debug)]
struct Restart {
    /// Eight bytes of the key, big-endian, from the end of the common prefix on; padded with zeros.
    head: u64,
    offset: u32,
}

impl Block {
    /// Verifies the block that stands at `offset` of the file `uid`.
    pub(super) fn verify(
        bytes: Bytes,
        uid: FileUid,
        offset: u64,
        decoders: &Decoders,
    ) -> Result<Block, &'static str> {
        let (body, crc) = bytes
            .split_last_chunk::<4>()
            .ok_or("the block is too short")?;
        let fits = u32::from_le_bytes(*crc) == bound(uid, offset, body);
        if !fits && !seeded!(BlockUnchecked) {
            return Err("the block's checksum does not match");
        }
        let bytes = match compressed::form(body) {
            None => bytes,
            Some(form) => form.expand(decoders)?,
        };
        Block::decode(bytes).ok_or("the block's restarts are malformed")
    }

    fn decode(bytes: Bytes) -> Option<Block> {
        let (rest, trailer) = bytes.split_last_chunk::<TRAILER_LEN>()?;
        let count = u32::from_le_bytes(*trailer.first_chunk()?) as usize;
        let entries_end = rest.len().checked_sub(count.checked_mul(4)?)?;
        if count == 0 || entries_end == 0 {
            return None;
        }
        let (offsets, _) = rest.get(entries_end..)?.as_chunks::<4>();
        let offsets = || offsets.iter().map(|offset| u32::from_le_bytes(*offset));
        let entries = Entries {
            block: &bytes,
            end: entries_end,
        };
        let key = |offset: u32| {
            let entry = entries.head(offset as usize).ok()?;
            (entry.shared == 0).then_some(entry.suffix.of(&bytes))
        };
        // They ascend, so what the first and the last share, all share.
        let prefix_len = common_prefix(key(offsets().next()?)?, key(offsets().next_back()?)?);
        let restart = |offset| {
            let head = head(key(offset)?.get(prefix_len..)?);
            Some(Restart { head, offset })
        };
        let restarts = offsets().map(restart).collect::<Option<_>>()?;
        Some(Block {
            bytes,
            entries_end,
            restarts,
            prefix_len,
        })
    }

    /// From now on the block has the same bytes here.
    pub(super) fn set_bytes(self: &mut Arc<Block>, bytes: Bytes) {
        match Arc::get_mut(self) {
            Some(block) => block.bytes = bytes,
            None => {
                let restarts = self.restarts.clone();
                *self = Arc::new(Block {
                    bytes,
                    restarts,
                    ..**self
                });
            }
        }
    }

    /// The block in memory of its own.
    pub(super) fn apart(self: Arc<Block>) -> Arc<Block> {
        let mut block = self;
        let bytes = Bytes::copy_from_slice(&block.bytes);
        block.set_bytes(bytes);
        block
    }

    /// Bytes of memory held.
    pub(super) fn memory_bytes(&self) -> usize {
        size_of::<Block>() + self.bytes.len() + size_of_val(&*self.restarts)
    }

    /// All bytes of the block, which the spans of its entries refer to.
    pub(super) fn bytes(&self) -> &[u8] {
        &self.bytes
    }

    /// Where the entries end.
    pub(super) fn entries_end(&self) -> usize {
        self.entries_end
    }

    /// The entry at `offset`.
    #[inline]
    pub(super) fn entry_at(&self, offset: usize) -> Decoded<RawEntry> {
        self.entries().entry(offset)
    }

    /// The first entry at or after (`key`, `seq`). Its key is that many bytes of `key` as it says
    /// it shares, then its suffix.
    pub(super) fn seek(&self, key: &[u8], seq: SeqNo) -> Decoded<Option<RawEntry>> {
        let entries = self.entries();
        let mut at = self.restart_for(key, seq)?;
        // Bytes of `key` with which the entry before begins; that entry is before the target.
        let mut matched = 0;
        while at < self.entries_end {
            let head = entries.head(at)?;
            // It shares more with its predecessor than the target does: it is smaller, too.
            if head.shared <= matched {
                // It leaves its predecessor where the target still agrees: it is greater.
                if head.shared < matched {
                    return entries.rest(head).map(Some);
                }
                let (suffix, rest) = (head.suffix.of(entries.block), &key[matched..]);
                let common = common_prefix(suffix, rest);
                match suffix.get(common).cmp(&rest.get(common)) {
                    Ordering::Greater => return entries.rest(head).map(Some),
                    Ordering::Equal if head.seq <= seq => return entries.rest(head).map(Some),
                    _ => matched += common,
                }
            }
            at = entries.next(&head)?;
        }
        Ok(None)
    }

    #[inline]
    fn entries(&self) -> Entries<'_> {
        let (block, end) = (&self.bytes[..], self.entries_end);
        Entries { block, end }
    }

    /// The offset of the last restart that begins before `offset`.
    pub(super) fn restart_before(&self, offset: usize) -> usize {
        self.restart(
            self.restarts
                .partition_point(|restart| (restart.offset as usize) < offset),
        )
    }

    /// The offset of the last restart that is not after (`key`, `seq`), or of the first.
    fn restart_for(&self, key: &[u8], seq: SeqNo) -> Decoded<usize> {
        let first = self.entries().head(self.restart(0))?;
        let prefix = first.suffix.of(&self.bytes).get(..self.prefix_len);
        let prefix = prefix.ok_or(Malformed)?;
        let Some(rest) = key.strip_prefix(prefix) else {
            let behind = if key < prefix { 0 } else { self.restarts.len() };
            return Ok(self.restart(behind));
        };
        let target = head(rest);
        let mut low = self.restarts.partition_point(|r| r.head < target);
        let mut high = low + self.restarts[low..].partition_point(|r| r.head == target);
        // Only where eight bytes do not say, whole keys must.
        while low < high {
            let middle = low + (high - low) / 2;
            let entry = self.entries().head(self.restarts[middle].offset as usize)?;
            let place = (entry.suffix.of(&self.bytes), entry.seq);
            if internal_cmp(place, (key, seq)) == Ordering::Greater {
                high = middle;
            } else {
                low = middle + 1;
            }
        }
        Ok(self.restart(low))
    }

    /// The offset of the last of the first `count` restarts, or of the first.
    fn restart(&self, count: usize) -> usize {
        let at = self.restarts.get(count.saturating_sub(1));
        at.map_or(0, |restart| restart.offset as usize)
    }
}

/// The first eight bytes of `key`, in an order that agrees with that of the keys where they differ.
fn head(key: &[u8]) -> u64 {
    if let Some(bytes) = key.first_chunk() {
        return u64::from_be_bytes(*bytes);
    }
    let mut bytes = [0; 8];
    bytes[..key.len()].copy_from_slice(key);
    u64::from_be_bytes(bytes)
}

/// The length of the longest common prefix.
#[inline]
pub(super) fn common_prefix(a: &[u8], b: &[u8]) -> usize {
    let words = a.chunks_exact(8).zip(b.chunks_exact(8));
    let start = 8 * words.take_while(|(x, y)| x == y).count();
    let rest = a[start..].iter().zip(&b[start..]);
    start + rest.take_while(|(x, y)| x == y).count()
}
