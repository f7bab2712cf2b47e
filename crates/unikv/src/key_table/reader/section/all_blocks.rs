//! Reading all blocks of a table at once, when scans have paid for it.
//!
//! A scan waits for each block that the cache lacks before it knows what else to ask for. A cache
//! full of what gets asked for comes by the blocks of its tables one by one, and each costs as much
//! as an eighth of a MiB of the table does where that is read in long runs. So a scan pays for each
//! block that it had to wait for, and when as much is paid as reading the table costs, that is
//! done, in the background. Should the blocks go again, scans pay again.
//!
//! They are read around the page cache where that can be done: what is in the cache is not needed
//! there, too.

use super::KeySection;
use crate::cache::read_buffers::LONGEST_BUFFER;
use crate::error::Result;
use crate::key_table::block::fences::{BlockPlace, Fences};
use crate::key_table::cache::price::Price;
use crate::vfs::AROUND_BYTES;
use crate::vfs::file_store::Around;
use bytes::Bytes;
use std::ops::Range;

/// This many blocks that are waited for, one by one, cost about what a MiB does in long runs, which
/// nobody waits for; the verification of its blocks included.
const MISSES_PER_MIB: u64 = 8;
/// This many runs are given to the device at once.
const RUNS_AT_ONCE: usize = 4;

/// What scans pay for the blocks of a table of this many bytes, in blocks waited for.
pub(super) fn price(table_bytes: u64) -> Price {
    Price::of(table_bytes, MISSES_PER_MIB)
}

/// Blocks that are read together, and where they stand in the file.
struct Run {
    blocks: Range<usize>,
    offset: u64,
    len: usize,
}

impl KeySection {
    /// A scan has to wait for a block.
    pub(super) fn pay_for_all_blocks(&self) {
        if self.all_blocks.as_ref().is_some_and(Price::pay) {
            self.cache.want_blocks();
        }
    }

    pub(in crate::key_table) fn wants_blocks(&self) -> bool {
        self.all_blocks.as_ref().is_some_and(Price::is_paid)
    }

    /// See [`KeyTable::read_blocks`](crate::key_table::KeyTable::read_blocks).
    pub(in crate::key_table) fn read_all_blocks(&self, has_room: bool) -> bool {
        let Some(attempt) = self.all_blocks.as_ref().and_then(Price::begin) else {
            return false;
        };
        // What cannot be read now, scans report.
        let fences = self.fences().ok().filter(|_| has_room);
        let Some(fences) = fences else {
            attempt.failed();
            return false;
        };
        let runs = runs(&fences);
        for together in runs.chunks(RUNS_AT_ONCE) {
            self.read_runs(&fences, together);
        }
        true
    }

    /// Brings the blocks of some runs to the cache.
    fn read_runs(&self, fences: &Fences, runs: &[Run]) {
        let buffer = |run: &Run| self.cache.buffer(run.len + AROUND_BYTES);
        let mut buffers: Vec<_> = runs.iter().map(buffer).collect();
        let wanted = runs.iter().zip(&mut buffers).map(|(run, buffer)| Around {
            file: &self.file,
            offset: run.offset,
            len: run.len,
            buf: buffer.bytes_mut(),
        });
        let begins = self.file.store().read_around(wanted.collect());
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
                self.offer(place, run, bytes);
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
    fn offer(&self, place: BlockPlace, run: &Run, bytes: &[u8]) {
        let start = (place.offset - run.offset) as usize;
        let Some(bytes) = bytes.get(start..start + place.len) else {
            return;
        };
        if let Ok(block) = self.verify(Bytes::copy_from_slice(bytes), place) {
            self.cache
                .offer_block(self.file.number(), place.offset, block);
        }
    }
}

/// All blocks, in runs that fit into a buffer. A longer block is left out.
fn runs(fences: &Fences) -> Vec<Run> {
    let mut runs: Vec<Run> = Vec::new();
    for (i, place) in (0..fences.len()).filter_map(|i| Some((i, fences.place(i)?))) {
        if let Some(run) = runs.last_mut() {
            let len = place.offset.saturating_sub(run.offset) as usize + place.len;
            if len <= LONGEST_BUFFER {
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
