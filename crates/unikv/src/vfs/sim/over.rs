//! A file that is written over, and what a power cut leaves of it.
//!
//! Invariant: the bytes of the file are `durable` with all `writes` applied in order.

use super::cut::{Cut, Keep, SECTOR_LEN, sector_end};
use super::disk::Content;
use super::names::Moment;
use rand::Rng;
use rand::seq::IndexedRandom;
use std::ops::Range;
use std::sync::Arc;

/// What is durable of a file that is written over, and what has been written since.
#[derive(Clone)]
pub(super) struct Over {
    durable: Arc<Vec<u8>>,
    writes: Vec<Write>,
    /// What failed syncs were to cover; no later sync makes it durable.
    doubtful: Vec<Write>,
}

#[derive(Clone)]
struct Write {
    start: usize,
    bytes: Vec<u8>,
    made: Moment,
}

impl Write {
    fn range(&self) -> Range<usize> {
        self.start..self.start + self.bytes.len()
    }

    /// Does to `file`, which begins at `base`, what the write did to this part of it.
    fn apply(&self, base: usize, file: &mut [u8]) {
        let (start, end) = (self.start.max(base), self.range().end);
        let end = end.min(base + file.len());
        if start < end {
            let bytes = &self.bytes[start - self.start..end - self.start];
            file[start - base..end - base].copy_from_slice(bytes);
        }
    }
}

impl Over {
    /// Of a file that has only grown so far.
    pub(super) fn begin(content: &Content) -> Over {
        let bytes = content.bytes();
        let mut start = content.durable_len;
        let mut grown = |&(end, made): &(usize, Moment)| {
            let bytes = bytes[start..end].to_vec();
            let write = Write { start, bytes, made };
            start = end;
            write
        };
        let doubtful = content.doubtful.iter().map(|range| Write {
            start: range.start,
            bytes: vec![0; range.len()],
            made: Moment::MAX,
        });
        Over {
            doubtful: doubtful.collect(),
            writes: content.writes.iter().map(&mut grown).collect(),
            durable: Arc::new(bytes[..content.durable_len].to_vec()),
        }
    }

    pub(super) fn write(&mut self, start: usize, bytes: &[u8], made: Moment) {
        let bytes = bytes.to_vec();
        self.writes.push(Write { start, bytes, made });
    }

    pub(super) fn pending(&self) -> impl Iterator<Item = Moment> {
        self.writes.iter().map(|write| write.made)
    }

    pub(super) fn sync(&mut self, bytes: Arc<Vec<u8>>) {
        self.durable = bytes;
        self.writes.clear();
    }

    /// What stood in the places of the writes may stand there again.
    pub(super) fn fail_sync(&mut self) {
        for write in &self.writes {
            let mut bytes = vec![0; write.bytes.len()];
            let old = self.durable.get(write.start..).unwrap_or_default();
            let old = &old[..old.len().min(bytes.len())];
            bytes[..old.len()].copy_from_slice(old);
            let (start, made) = (write.start, write.made);
            self.doubtful.push(Write { start, bytes, made });
        }
    }

    pub(super) fn flip_bit(&mut self, at: usize, mask: u8) {
        if at < self.durable.len() {
            Arc::make_mut(&mut self.durable)[at] ^= mask;
        }
        for write in self.writes.iter_mut().filter(|w| w.range().contains(&at)) {
            write.bytes[at - write.start] ^= mask;
        }
    }

    /// What was written and is not durable, in order and without overlaps.
    fn dirty(&self) -> Vec<Range<usize>> {
        let mut ranges: Vec<_> = self.writes.iter().map(Write::range).collect();
        ranges.sort_unstable_by_key(|range| range.start);
        ranges.dedup_by(|next, range| {
            let joined = next.start <= range.end;
            if joined {
                range.end = range.end.max(next.end);
            }
            joined
        });
        ranges
    }
}

impl Cut {
    /// What is left of a file that was written over.
    pub(super) fn written_over(&mut self, content: &Content, over: &Over) -> Arc<Vec<u8>> {
        if self.keep == Keep::All || over.writes.is_empty() && over.doubtful.is_empty() {
            return content.shared_bytes();
        }
        let mut bytes = over.durable.to_vec();
        self.lose_doubtful_writes(&mut bytes, over);
        match self.keep {
            Keep::Nothing | Keep::All => {}
            Keep::First(_) => {
                let first = over.writes.iter().take_while(|w| w.made < self.end);
                first.for_each(|write| put(&mut bytes, write));
            }
            Keep::Prefix(_) => self.keep_first_writes(&mut bytes, over),
            Keep::Sectors(_) => self.mix_states(&mut bytes, over),
            Keep::Torn(_) => {
                self.keep_first_writes(&mut bytes, over);
                let len = bytes.len();
                for range in over.dirty().iter().filter(|range| range.start < len) {
                    self.tear(&mut bytes[..range.end.min(len)], range.start);
                }
            }
        }
        Arc::new(bytes)
    }

    /// Puts back what stood in the place of writes whose sync failed, of some: whole, or sector by
    /// sector.
    fn lose_doubtful_writes(&mut self, bytes: &mut [u8], over: &Over) {
        for old in &over.doubtful {
            let end = old.range().end.min(bytes.len());
            let whole = !matches!(self.keep, Keep::Sectors(_));
            let mut start = old.start;
            while start < end {
                let next = if whole { end } else { sector_end(start, end) };
                if !self.survives(Moment::MAX) {
                    old.apply(start, &mut bytes[start..next]);
                }
                start = next;
            }
        }
    }

    /// The first so many writes, often all, and of the next one a part.
    fn keep_first_writes(&mut self, bytes: &mut Vec<u8>, over: &Over) {
        let all = over.writes.len();
        let whole = match self.rng.random_range(0..3) {
            0 => all,
            _ => self.rng.random_range(0..=all),
        };
        let (whole, rest) = over.writes.split_at(whole);
        whole.iter().for_each(|write| put(bytes, write));
        if let Some(next) = rest.first() {
            let mut part = next.clone();
            part.bytes
                .truncate(self.rng.random_range(0..=next.bytes.len()));
            put(bytes, &part);
        }
    }

    /// Each sector as some write left it, or as it was when all was durable; the file as long as it
    /// was at some time.
    fn mix_states(&mut self, bytes: &mut Vec<u8>, over: &Over) {
        let ends: Vec<usize> = over.writes.iter().map(|w| w.range().end).collect();
        let longest = ends.iter().copied().max().unwrap_or(0);
        let len = match self.rng.random_range(0..3) {
            0 => 0,
            1 => longest,
            _ => ends.choose(&mut self.rng).copied().unwrap_or(0),
        };
        bytes.resize(bytes.len().max(len), 0);
        let mut start = 0;
        for range in over.dirty() {
            // Two ranges may share a sector, which has one state.
            start = start.max(range.start / SECTOR_LEN * SECTOR_LEN);
            while start < range.end.min(bytes.len()) {
                let end = sector_end(start, bytes.len());
                let writes = match self.rng.random_range(0..4) {
                    0 => 0,
                    1 | 2 => over.writes.len(),
                    _ => self.rng.random_range(0..=over.writes.len()),
                };
                let sector = &mut bytes[start..end];
                let kept = over.writes.iter().take(writes);
                kept.for_each(|write| write.apply(start, sector));
                start = end;
            }
        }
    }
}

/// Does to a whole file what a write did.
fn put(file: &mut Vec<u8>, write: &Write) {
    file.resize(file.len().max(write.range().end), 0);
    write.apply(0, file);
}
