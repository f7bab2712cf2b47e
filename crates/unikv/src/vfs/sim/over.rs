//! A file that is written over, and what a power cut leaves of it.
//!
//! Invariant: the bytes of the file are `durable` with all `writes` applied in order.

use std::ops::Range;
use std::sync::Arc;

/// The place of a change in the order of changes.
pub(super) type Moment = u64;

/// What is durable of a file that is written over, and what has been written since.
#[derive(Clone)]
pub(super) struct Over {
    pub(super) durable: Arc<Vec<u8>>,
    pub(super) writes: Vec<Write>,
    /// What failed syncs were to cover; no later sync makes it durable.
    pub(super) doubtful: Vec<Write>,
}

#[derive(Clone)]
pub(super) struct Write {
    pub(super) start: usize,
    pub(super) bytes: Vec<u8>,
    pub(super) made: Moment,
}

impl Write {
    pub(super) fn range(&self) -> Range<usize> {
        self.start..self.start + self.bytes.len()
    }

    /// Does to `file`, which begins at `base`, what the write did to this part of it.
    pub(super) fn apply(&self, base: usize, file: &mut [u8]) {
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
    pub(super) fn begin(
        bytes: &[u8],
        durable_len: usize,
        writes: &[(usize, Moment)],
        doubtful: &[Range<usize>],
    ) -> Over {
        let mut start = durable_len;
        let mut grown = |&(end, made): &(usize, Moment)| {
            let bytes = bytes[start..end].to_vec();
            let write = Write { start, bytes, made };
            start = end;
            write
        };
        let doubtful = doubtful.iter().map(|range| Write {
            start: range.start,
            bytes: vec![0; range.len()],
            made: Moment::MAX,
        });
        Over {
            doubtful: doubtful.collect(),
            writes: writes.iter().map(&mut grown).collect(),
            durable: Arc::new(bytes[..durable_len].to_vec()),
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
    pub(super) fn dirty(&self) -> Vec<Range<usize>> {
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
