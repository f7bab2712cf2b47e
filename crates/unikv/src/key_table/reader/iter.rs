//! Iterating over a key section, both ways.
//!
//! The iterator keeps the current block and the current key; a step forward decodes the next entry
//! in place. A step back decodes from the restart before the current entry and keeps what it passes
//! for the steps that follow.

use super::section::KeySection;
use crate::base::keys::SeqNo;
use crate::error::{Error, Result};
use crate::key_table::block::Block;
use crate::key_table::block::entry::{Decoded, KeyEntry, Malformed, RawEntry};
use crate::key_table::block::fences::{BlockPlace, Fences};
use crate::key_table::block::passed::Passed;
use crate::key_table::cache::taken::Taken;
use crate::vfs::Access;
use bytes::Bytes;
use std::path::Path;
use std::sync::Arc;

/// A sequential iterator reads at least this much at once, where there is this much and memory for
/// it.
const RUN_BYTES: usize = 256 << 10;

/// An iterator over the entries of a key section in internal order.
///
/// It stands on an entry or on none: before the first positioning, after either end, and after an
/// error. From there a step leads nowhere; a seek does.
#[derive(Debug)]
pub(crate) struct KeyIter {
    section: Arc<KeySection>,
    access: Access,
    run_bytes: usize,
    /// The number of all entries, whatever they say.
    ingest_seq: Option<SeqNo>,
    fences: Option<Arc<Fences>>,
    /// The last blocks that were read together; only when reading sequentially.
    run: Option<Run>,
    at: Option<Position>,
    /// The block it stands in may be the cache's.
    held: Option<Taken>,
    /// The key of the current entry.
    key: Vec<u8>,
    passed: Passed,
}

#[derive(Debug)]
struct Position {
    block: Arc<Block>,
    place: BlockPlace,
    block_index: usize,
    entry: RawEntry,
}

#[derive(Debug)]
struct Run {
    offset: u64,
    bytes: Bytes,
}

/// Which way the iterator is going.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Direction {
    Forward,
    Backward,
}

impl KeySection {
    /// An iterator, not yet positioned. `Sequential` reads long runs of blocks around the cache,
    /// for jobs; `Random` reads single blocks through it.
    pub(crate) fn iter(self: &Arc<Self>, access: Access) -> KeyIter {
        KeyIter::new(Arc::clone(self), access)
    }
}

impl KeyIter {
    /// An iterator over `section`, not yet positioned.
    pub(crate) fn new(section: Arc<KeySection>, access: Access) -> KeyIter {
        KeyIter {
            ingest_seq: section.ingest_seq(),
            section,
            access,
            run_bytes: RUN_BYTES,
            fences: None,
            run: None,
            at: None,
            held: None,
            key: Vec::new(),
            passed: Passed::default(),
        }
    }

    /// The same, reading about `bytes` at once when it reads sequentially, where memory is short.
    pub(crate) fn reading(mut self, bytes: usize) -> KeyIter {
        self.run_bytes = bytes.min(RUN_BYTES);
        self
    }

    /// The current entry.
    #[inline]
    pub(crate) fn entry(&self) -> Option<KeyEntry<'_>> {
        let at = self.at.as_ref()?;
        let RawEntry {
            seq,
            kind,
            expiry_ms,
            value,
            ..
        } = at.entry;
        let seq = self.ingest_seq.unwrap_or(seq);
        let value = value.of(at.block.bytes());
        Some(KeyEntry {
            key: &self.key,
            seq,
            kind,
            expiry_ms,
            value,
        })
    }

    /// Whether there is a current entry.
    #[inline]
    pub(crate) fn is_on_entry(&self) -> bool {
        self.at.is_some()
    }

    /// The number of the block that the iterator stands in.
    #[inline]
    pub(crate) fn block(&self) -> Option<usize> {
        self.at.as_ref().map(|at| at.block_index)
    }

    /// Whether all keys of the block that the iterator stands in are known to be before `end`.
    pub(crate) fn block_ends_before(&self, end: &[u8]) -> bool {
        let (Some(fences), Some(block)) = (&self.fences, self.block()) else {
            return false;
        };
        // No key of a block is greater than the fence after it.
        let next = block + 1;
        next < fences.len() && fences.key(next) < end
    }

    /// Goes to the first entry.
    pub(crate) fn seek_to_first(&mut self) -> Result<()> {
        self.at = None;
        self.enter(0)
    }

    /// Memory of the position: keys, the block it stands in and those read with it.
    pub(crate) fn memory_bytes(&self) -> usize {
        let run = self.run.as_ref().map_or(0, |run| run.bytes.len());
        let block = self.at.as_ref().map_or(0, |at| at.place.len);
        self.key.capacity() + self.passed.memory_bytes() + run.max(block)
    }

    /// The path of the file.
    pub(crate) fn path(&self) -> &Path {
        self.section.path()
    }

    /// Goes to the last entry.
    pub(crate) fn seek_to_last(&mut self) -> Result<()> {
        self.at = None;
        let last = self.fences()?.len().checked_sub(1);
        self.enter_at_end(last)
    }

    /// Goes to the first entry at or after (`key`, `seq`) in internal order.
    pub(crate) fn seek(&mut self, key: &[u8], seq: SeqNo) -> Result<()> {
        let Some(all) = self.ingest_seq else {
            return self.seek_written(key, seq);
        };
        self.seek_written(key, SeqNo::MAX)?;
        // The one entry of the key comes before every number below its own.
        if seq < all && self.at.is_some() && self.key == key {
            self.next()?;
        }
        Ok(())
    }

    /// As [`KeyIter::seek`], by the numbers that the entries say.
    fn seek_written(&mut self, key: &[u8], seq: SeqNo) -> Result<()> {
        self.at = None;
        self.passed.clear();
        let fences = self.fences()?;
        let Some((index, place)) = fences.locate(key, seq) else {
            return Ok(());
        };
        let block = self.load(index, place, Direction::Forward)?;
        let found = block
            .seek(key, seq)
            .map_err(|e| self.section.malformed(place, e))?;
        let Some(entry) = found else {
            return self.enter(index + 1);
        };
        // What it shares with the entry before it, it shares with `key`: see `Block::seek`.
        self.key.clear();
        self.key
            .extend_from_slice(key.get(..entry.shared).unwrap_or_default());
        self.key.extend_from_slice(entry.suffix.of(block.bytes()));
        self.at = Some(Position {
            block,
            place,
            block_index: index,
            entry,
        });
        Ok(())
    }

    /// Goes to the next entry.
    #[inline]
    pub(crate) fn next(&mut self) -> Result<()> {
        let Some(at) = &mut self.at else {
            return Ok(());
        };
        if at.entry.next >= at.block.entries_end() {
            let next = at.block_index + 1;
            self.at = None;
            return self.enter(next);
        }
        self.passed.clear();
        match at.step(&mut self.key) {
            Ok(()) => Ok(()),
            Err(e) => Err(self.fail(e)),
        }
    }

    /// Goes to the entry before.
    pub(crate) fn prev(&mut self) -> Result<()> {
        let Some(at) = &mut self.at else {
            return Ok(());
        };
        if at.entry.start == 0 {
            let left = at.block_index.checked_sub(1);
            self.at = None;
            return self.enter_at_end(left);
        }
        if let Some(entry) = self.passed.pop(&mut self.key) {
            at.entry = entry;
            return Ok(());
        }
        let end = at.entry.start;
        match at.scan_to(end, &mut self.key, &mut self.passed) {
            Ok(()) => Ok(()),
            Err(e) => Err(self.fail(e)),
        }
    }

    /// Goes to the first entry of block `index`, or after the end.
    fn enter(&mut self, index: usize) -> Result<()> {
        self.passed.clear();
        let Some(place) = self.fences()?.place(index) else {
            return Ok(());
        };
        let block = self.load(index, place, Direction::Forward)?;
        let position = Position::first(block, place, index, &mut self.key);
        self.at = Some(position.map_err(|e| self.section.malformed(place, e))?);
        Ok(())
    }

    /// Goes to the last entry of block `index`; without one, before the first entry.
    fn enter_at_end(&mut self, index: Option<usize>) -> Result<()> {
        let fences = self.fences()?;
        let Some((index, place)) = index.and_then(|i| Some((i, fences.place(i)?))) else {
            return Ok(());
        };
        let block = self.load(index, place, Direction::Backward)?;
        let position = Position::first(block, place, index, &mut self.key).and_then(|mut at| {
            let end = at.block.entries_end();
            at.scan_to(end, &mut self.key, &mut self.passed)?;
            Ok(at)
        });
        self.at = Some(position.map_err(|e| self.section.malformed(place, e))?);
        Ok(())
    }

    fn fail(&mut self, malformed: Malformed) -> Error {
        let place = self
            .at
            .take()
            .map_or(BlockPlace { offset: 0, len: 0 }, |at| at.place);
        self.section.malformed(place, malformed)
    }

    fn fences(&mut self) -> Result<Arc<Fences>> {
        if let Some(fences) = &self.fences {
            return Ok(Arc::clone(fences));
        }
        let fences = self.section.fences()?;
        self.fences = Some(Arc::clone(&fences));
        Ok(fences)
    }

    fn load(&mut self, index: usize, place: BlockPlace, going: Direction) -> Result<Arc<Block>> {
        if self.access == Access::Random {
            return self.section.held_block(index, place, &mut self.held);
        }
        let in_run = self.run.as_ref().and_then(|run| run.slice(place));
        let read = match in_run {
            Some(bytes) => Ok(bytes),
            None => self.read_run(index, place, going),
        };
        self.section.sound_block(index, place, read)
    }

    /// Reads the block and the blocks that follow it in the direction of the iteration.
    fn read_run(&mut self, index: usize, place: BlockPlace, going: Direction) -> Result<Bytes> {
        let fences = self.fences()?;
        let (mut start, mut end) = (place.offset, place.offset + place.len as u64);
        let mut edge = index;
        while end - start < self.run_bytes as u64 {
            let next = match going {
                Direction::Forward => edge.checked_add(1),
                Direction::Backward => edge.checked_sub(1),
            };
            let Some((next, place)) = next.and_then(|i| Some((i, fences.place(i)?))) else {
                break;
            };
            start = start.min(place.offset);
            end = end.max(place.offset + place.len as u64);
            edge = next;
        }
        // The old run is given back before the new one is allocated.
        self.run = None;
        let bytes = Bytes::from(self.section.read(start, (end - start) as usize)?);
        let run = Run {
            offset: start,
            bytes,
        };
        let block = run.slice(place).unwrap_or_default();
        self.run = Some(run);
        Ok(block)
    }
}

impl Position {
    fn first(
        block: Arc<Block>,
        place: BlockPlace,
        block_index: usize,
        key: &mut Vec<u8>,
    ) -> Decoded<Position> {
        let entry = block.entry_at(0)?;
        key.clear();
        extend_key(key, &entry, &block)?;
        Ok(Position {
            block,
            place,
            block_index,
            entry,
        })
    }

    /// Goes to the entry after the current one, which is not the last of the block.
    #[inline]
    fn step(&mut self, key: &mut Vec<u8>) -> Decoded<()> {
        let entry = self.block.entry_at(self.entry.next)?;
        extend_key(key, &entry, &self.block)?;
        self.entry = entry;
        Ok(())
    }

    /// Goes to the entry that ends at `end`, which is behind the block's first entry, and keeps the
    /// entries from the restart before it.
    fn scan_to(&mut self, end: usize, key: &mut Vec<u8>, passed: &mut Passed) -> Decoded<()> {
        self.entry = self.block.entry_at(self.block.restart_before(end))?;
        key.clear();
        passed.clear();
        extend_key(key, &self.entry, &self.block)?;
        while self.entry.next < end {
            passed.push(self.entry, key);
            self.step(key)?;
        }
        if self.entry.next == end {
            Ok(())
        } else {
            Err(Malformed)
        }
    }
}

/// Makes the key of the entry before into that of `entry`.
#[inline]
fn extend_key(key: &mut Vec<u8>, entry: &RawEntry, block: &Block) -> Decoded<()> {
    if entry.shared > key.len() {
        return Err(Malformed);
    }
    key.truncate(entry.shared);
    key.extend_from_slice(entry.suffix.of(block.bytes()));
    Ok(())
}

impl Run {
    /// The block at `place`, if the run holds it.
    fn slice(&self, place: BlockPlace) -> Option<Bytes> {
        let start = usize::try_from(place.offset.checked_sub(self.offset)?).ok()?;
        let end = start.checked_add(place.len)?;
        (end <= self.bytes.len()).then(|| self.bytes.slice(start..end))
    }
}
