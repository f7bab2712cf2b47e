//! What a power cut leaves of a file that was written over.

use super::cut::{Cut, Keep, SECTOR_LEN, sector_end};
use super::inode::Content;
use super::over::{Moment, Over, Write};
use rand::Rng;
use rand::seq::IndexedRandom;
use std::sync::Arc;

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

    /// The first few writes, often all, and of the next one a part.
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
