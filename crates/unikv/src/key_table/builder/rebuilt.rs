//! A key section put together again in memory, in the place of one that is damaged on disk. Its
//! entries stand in the records, too; their owner gives them as [`SpareEntries`].
//!
//! Invariants: a rebuilt block stands in for a damaged one only if all blocks come out as they were
//! written, each at its own place; where the cuts are lost, blocks have places after the end of the
//! file, so that nothing cached of the one is taken for the other. What is built stays for as long
//! as the file's handle, which a merge ends, and counts as its memory.
//!
//! No locks: of two that build it the second drops what it has built.

use crate::base::keys::{FileUid, SeqNo, internal_cmp};
use crate::error::{Error, Result};
use crate::key_table::block::entry::{KeyEntry, Malformed};
use crate::key_table::block::fences::{BlockPlace, Fences};
use crate::key_table::builder::KeySectionBuilder;
use bytes::Bytes;
use std::fmt;
use std::path::Path;
use std::sync::Arc;

/// How blocks are cut where the cuts are lost.
const BLOCK_BYTES: usize = 4 << 10;

/// Takes an entry, in the order in which they come.
pub(crate) type TakeEntry<'a> = dyn FnMut(&KeyEntry<'_>) -> Result<()> + 'a;

type EachEntry = dyn Fn(&mut TakeEntry<'_>) -> Result<()> + Send + Sync;

/// The entries of a section from elsewhere: calls back with each, in internal order.
pub(crate) struct SpareEntries(Box<EachEntry>);

impl SpareEntries {
    pub(crate) fn new(
        each: impl Fn(&mut TakeEntry<'_>) -> Result<()> + Send + Sync + 'static,
    ) -> SpareEntries {
        SpareEntries(Box::new(each))
    }
}

impl fmt::Debug for SpareEntries {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SpareEntries").finish_non_exhaustive()
    }
}

/// The blocks of a section and their fences.
#[derive(Debug)]
pub(crate) struct Rebuilt {
    fences: Arc<Fences>,
    start: u64,
    blocks: Bytes,
}

/// The file whose section is rebuilt.
#[derive(Clone, Copy, Debug)]
pub(crate) struct OfFile<'a> {
    pub(crate) path: &'a Path,
    pub(crate) uid: FileUid,
    pub(crate) len: u64,
}

impl Rebuilt {
    /// Builds the section of `file` from `spare`, cut as `sound` fences say, if there are any. The
    /// blocks then come out as they were written, each at its own place; if they do not, none
    /// stands in for a damaged one. Without fences nobody knows the cuts: the blocks are cut again
    /// and get places after the end of the file, which no block of the file has.
    pub(crate) fn build(
        spare: &SpareEntries,
        file: OfFile<'_>,
        sound: Option<&Arc<Fences>>,
    ) -> Result<Rebuilt> {
        let bad = |what| Error::corruption(file.path, 0, what);
        let block_bytes = sound.map_or(BLOCK_BYTES, |_| usize::MAX);
        let mut builder = KeySectionBuilder::new(block_bytes);
        let mut last: Option<(Vec<u8>, SeqNo)> = None;
        let mut in_block = 0;
        (spare.0)(&mut |entry| {
            let here = (entry.key, entry.seq);
            if last
                .as_ref()
                .is_some_and(|(key, seq)| internal_cmp((key, *seq), here).is_ge())
            {
                return Err(bad("the records are out of order"));
            }
            let block = sound.and_then(|fences| fences.find(entry.key, entry.seq));
            if block.is_some_and(|block| block != in_block) {
                in_block = block.unwrap_or_default();
                builder.cut();
            }
            builder.add(entry);
            let (key, seq) = last.get_or_insert_default();
            key.clear();
            key.extend_from_slice(entry.key);
            *seq = entry.seq;
            Ok(())
        })?;
        let start = match sound.and_then(|fences| fences.place(0)) {
            Some(first) => first.offset,
            None => file.len,
        };
        let (blocks, index) = builder.into_memory(file.uid, start);
        let fences = Fences::decode(&index, start, blocks.len() as u64)
            .map_err(|Malformed| bad("the records give no key section"))?;
        // Else a block of other keys could stand where the damaged one did.
        if sound.is_some_and(|sound| **sound != fences) {
            return Err(bad("the records give another key section"));
        }
        Ok(Rebuilt {
            fences: Arc::new(fences),
            start,
            blocks: Bytes::from(blocks),
        })
    }

    pub(crate) fn fences(&self) -> &Arc<Fences> {
        &self.fences
    }

    /// The bytes of the `i`th block, if it stands at `place`.
    pub(crate) fn block(&self, i: usize, place: BlockPlace) -> Option<Bytes> {
        if self.fences.place(i) != Some(place) {
            return None;
        }
        let at = usize::try_from(place.offset.checked_sub(self.start)?).ok()?;
        let end = at.checked_add(place.len)?;
        (end <= self.blocks.len()).then(|| self.blocks.slice(at..end))
    }

    pub(crate) fn memory_bytes(&self) -> usize {
        size_of::<Rebuilt>() + self.fences.memory_bytes() + self.blocks.len()
    }
}
