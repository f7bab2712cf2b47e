//! Reading many blocks of a table at once: those that stand together in one run, past the page
//! cache where that can be done, because what is in the cache is not needed there, too.

use super::KeySection;
use crate::cache::read_buffers::LONGEST_BUFFER;
use crate::error::Result;
use crate::key_table::block::fences::{BlockPlace, Fences};
use crate::vfs::DIRECT_EXTRA_BYTES;
use crate::vfs::file_store::DirectFileRead;
use bytes::Bytes;
use std::ops::Range;

/// This many runs are given to the device at once.
pub(crate) const RUNS_AT_ONCE: usize = 4;

/// Blocks that are read together, and where they stand in the file.
struct Run {
    blocks: Range<usize>,
    offset: u64,
    len: usize,
}

impl KeySection {
    /// Brings those blocks to the cache that begin at one of `offsets`, ascending, and are not
    /// there, in runs of at most `run_bytes` where they are longer than one block, as long as
    /// `goes_on`. Other offsets lead nowhere.
    pub(crate) fn warm(&self, offsets: &[u64], run_bytes: usize, goes_on: &dyn Fn() -> bool) {
        // What cannot be read now is reported to the caller that wants it.
        let Ok(fences) = self.fences() else {
            return;
        };
        let is_lacking = |offset: &&u64| !self.cache.holds(self.file.number(), **offset);
        let lacking = offsets.iter().filter(is_lacking);
        let blocks = lacking.filter_map(|offset| fences.block_at(*offset));
        let runs = runs(&fences, blocks, run_bytes.min(LONGEST_BUFFER));
        for together in runs.chunks(RUNS_AT_ONCE) {
            if !goes_on() {
                return;
            }
            self.read_runs(&fences, together, true);
        }
    }

    /// Brings all blocks to the cache, which nobody has asked for.
    pub(super) fn read_all(&self, fences: &Fences) {
        let runs = runs(fences, 0..fences.len(), LONGEST_BUFFER);
        for together in runs.chunks(RUNS_AT_ONCE) {
            self.read_runs(fences, together, false);
        }
    }

    /// Brings the blocks of some runs to the cache.
    fn read_runs(&self, fences: &Fences, runs: &[Run], are_wanted: bool) {
        let buffer = |run: &Run| self.cache.buffer(run.len + DIRECT_EXTRA_BYTES);
        let mut buffers: Vec<_> = runs.iter().map(buffer).collect();
        let wanted = runs
            .iter()
            .zip(&mut buffers)
            .map(|(run, buffer)| DirectFileRead {
                file: &self.file,
                offset: run.offset,
                len: run.len,
                buf: buffer.bytes_mut(),
            });
        let begins = self.file.store().read_direct(wanted.collect());
        for ((run, buffer), begin) in runs.iter().zip(&mut buffers).zip(begins) {
            let buffer = buffer.bytes_mut();
            let begin = begin.map_or_else(|| self.read_through(run, buffer), Ok);
            let read = begin
                .ok()
                .and_then(|begin| buffer.get(begin..begin + run.len));
            let Some(bytes) = read else {
                continue;
            };
            for place in run.blocks.clone().filter_map(|i| fences.place(i)) {
                self.offer(place, run, bytes, are_wanted);
            }
        }
    }

    /// Reads a run to the beginning of `buffer`, and says where it stands there.
    fn read_through(&self, run: &Run, buffer: &mut [u8]) -> Result<usize> {
        let whole = buffer.get_mut(..run.len).unwrap_or_default();
        self.file.read_exact_at(whole, run.offset)?;
        Ok(0)
    }

    /// Offers the cache the block at `place`, out of the bytes of its run. What is wrong with it is
    /// reported to the caller that wants it.
    fn offer(&self, place: BlockPlace, run: &Run, bytes: &[u8], is_wanted: bool) {
        let start = (place.offset - run.offset) as usize;
        let Some(bytes) = bytes.get(start..start + place.len) else {
            return;
        };
        if let Ok(block) = self.verify(Bytes::copy_from_slice(bytes), place) {
            self.cache
                .offer_block(self.file.number(), place.offset, block, is_wanted);
        }
    }
}

/// These blocks, ascending, in runs of at most `run_bytes`, or one block, that fit into a buffer. A
/// longer block is left out.
fn runs(fences: &Fences, blocks: impl Iterator<Item = usize>, run_bytes: usize) -> Vec<Run> {
    let mut runs: Vec<Run> = Vec::new();
    for (i, place) in blocks.filter_map(|i| Some((i, fences.place(i)?))) {
        if let Some(run) = runs.last_mut().filter(|run| run.blocks.end == i) {
            let len = place.offset.saturating_sub(run.offset) as usize + place.len;
            if len <= run_bytes {
                run.blocks.end = i + 1;
                run.len = run.len.max(len);
                continue;
            }
        }
        if place.len <= LONGEST_BUFFER {
            runs.push(Run {
                blocks: i..i + 1,
                offset: place.offset,
                len: place.len,
            });
        }
    }
    runs
}
