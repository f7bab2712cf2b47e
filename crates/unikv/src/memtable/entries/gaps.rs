//! Gaps: ranges of keys in which iterators have found nothing visible, left for the next iterator
//! to pass with one search. So a queue, whose front is deleted, costs the same at each take. See
//! `docs/mechanisms.md`, "Gaps", for the argument.
//!
//! Invariants: no key in a gap [start, end) at (seq, time) has a value at that number and time, and
//! the gap's memtable has no value there with a greater number: gaps are added under the lock of
//! the inserts, and the insert of a value cuts its gap before its number is published. Gaps are
//! disjoint. Their memory is bounded; those that spared the fewest steps go first.
//!
//! Lock: `by_start`, a leaf; inserts take it only where there are gaps.

use crate::base::keys::SeqNo;
use crate::base::sync::Mutex;
use crate::base::sync::atomic::{AtomicBool, Ordering};
use crate::memtable::arena::ArenaPool;
use std::collections::BTreeMap;
use std::ops::Bound;
use std::sync::Arc;

/// Gaps take at most this part of what a memtable takes, and at least this much.
const PART: usize = 64;
const LEAST_BYTES: usize = 8 << 10;
/// What a gap takes beside its keys, about.
const GAP_BYTES: usize = 128;

/// The reader that looks for a gap, or leaves one.
#[derive(Clone, Copy, Debug)]
pub(crate) struct GapReader {
    pub(crate) seq: SeqNo,
    pub(crate) time_ms: u64,
    /// No source of its view but the open memtable has a greater number.
    pub(crate) others: SeqNo,
}

impl GapReader {
    /// Whether its view has, outside the memtable, nothing that it does not see.
    pub(in crate::memtable) fn sees_others(&self) -> bool {
        self.others <= self.seq
    }
}

#[derive(Clone, Debug, PartialEq, Eq)]
struct Gap {
    end: Vec<u8>,
    seq: SeqNo,
    time_ms: u64,
    /// How many steps it spares, about. All together never have more than were added.
    steps: u64,
}

impl Gap {
    fn serves(&self, reader: &GapReader) -> bool {
        let is_known = self.seq <= reader.seq;
        let is_of_others = reader.others <= self.seq;
        is_known && is_of_others && self.time_ms <= reader.time_ms
    }

    fn bytes(&self, start: &[u8]) -> usize {
        GAP_BYTES + start.len() + self.end.len()
    }
}

#[derive(Default)]
struct ByStart {
    gaps: BTreeMap<Vec<u8>, Gap>,
    bytes: usize,
    /// What the pool counts.
    charged: usize,
}

/// The gaps of a memtable.
pub(in crate::memtable) struct Gaps {
    /// Whether there is any. Set under the lock of the inserts, which look at it.
    is_used: AtomicBool,
    by_start: Mutex<ByStart>,
    most_bytes: usize,
    /// Counts their memory.
    pool: Arc<ArenaPool>,
}

impl Gaps {
    pub(in crate::memtable) fn new(pool: &Arc<ArenaPool>) -> Gaps {
        Gaps {
            is_used: AtomicBool::new(false),
            by_start: Mutex::default(),
            most_bytes: (pool.arena_bytes() / PART).max(LEAST_BYTES),
            pool: Arc::clone(pool),
        }
    }

    /// Whether there may be any.
    #[inline(always)]
    pub(in crate::memtable) fn is_used(&self) -> bool {
        self.is_used.load(Ordering::Acquire)
    }

    /// A value is there for `key` from now on. The caller holds the lock of the inserts.
    #[inline(always)]
    pub(in crate::memtable) fn put(&self, key: &[u8]) {
        if self.is_used() {
            self.cut(key);
        }
    }

    #[cold]
    fn cut(&self, key: &[u8]) {
        let mut by_start = self.by_start.lock();
        let Some((start, gap)) = by_start.at(key) else {
            return;
        };
        let (start, mut gap) = (start.clone(), gap.clone());
        by_start.remove(&start);
        gap.steps /= 2;
        let before = Gap {
            end: key.to_vec(),
            ..gap.clone()
        };
        by_start.insert(start, before);
        by_start.insert([key, &[0]].concat(), gap);
        self.bound(&mut by_start);
    }

    /// Adds a gap that `reader` has found. The caller holds the lock of the inserts, and there is
    /// no value in it with a greater number than the reader's.
    pub(in crate::memtable) fn add(
        &self,
        (start, end): (&[u8], &[u8]),
        reader: &GapReader,
        steps: u64,
    ) {
        if start >= end || !reader.sees_others() {
            return;
        }
        let mut by_start = self.by_start.lock();
        if by_start.is_newer_in((start, end), reader.seq) {
            return;
        }
        by_start.clear((start, end));
        let mut start = start.to_vec();
        let mut gap = Gap {
            end: end.to_vec(),
            seq: reader.seq,
            time_ms: reader.time_ms,
            steps: steps.max(1),
        };
        let joins = |other: &Gap, gap: &Gap| {
            let is_same = (other.seq, other.time_ms) == (gap.seq, gap.time_ms);
            other.serves(reader) && (is_same || other.steps <= gap.steps)
        };
        while let Some((before, other)) = by_start.before(&start) {
            if other.end != start || !joins(other, &gap) {
                break;
            }
            let before = before.clone();
            gap.steps += by_start.remove(&before).map_or(0, |gap| gap.steps);
            start = before;
        }
        while let Some(other) = by_start.gaps.get(&gap.end)
            && joins(other, &gap)
        {
            let at = std::mem::take(&mut gap.end);
            if let Some(other) = by_start.remove(&at) {
                gap.steps += other.steps;
                gap.end = other.end;
            }
        }
        by_start.insert(start, gap);
        self.bound(&mut by_start);
        self.is_used.store(true, Ordering::Release);
    }

    /// The end of what is known to be empty from `key` on; `None`: nothing is known.
    pub(in crate::memtable) fn end_of(&self, key: &[u8], reader: &GapReader) -> Option<Vec<u8>> {
        let by_start = self.by_start.lock();
        let (_, gap) = by_start.at(key).filter(|(_, gap)| gap.serves(reader))?;
        let mut end = &gap.end;
        while let Some(next) = by_start.gaps.get(end).filter(|gap| gap.serves(reader)) {
            end = &next.end;
        }
        Some(end.clone())
    }

    /// The start of what is known to be empty up to before `upper`.
    pub(in crate::memtable) fn start_of(
        &self,
        upper: &[u8],
        reader: &GapReader,
    ) -> Option<Vec<u8>> {
        let by_start = self.by_start.lock();
        let touches =
            |(_, gap): &(&Vec<u8>, &Gap)| gap.end.as_slice() >= upper && gap.serves(reader);
        let (mut start, _) = by_start.before(upper).filter(touches)?;
        while let Some((before, gap)) = by_start.before(start) {
            if gap.end != *start || !gap.serves(reader) {
                break;
            }
            start = before;
        }
        Some(start.clone())
    }

    /// Gives the gaps to the memtable after this one, to which nothing is added any more and whose
    /// last number is `last`. No other source has a number above `others`.
    pub(in crate::memtable) fn hand_on(&self, to: &Gaps, last: SeqNo, others: SeqNo) {
        if !self.is_used() {
            return;
        }
        let mut handed = ByStart::default();
        for (start, gap) in &self.by_start.lock().gaps {
            if gap.seq >= others {
                let seq = gap.seq.max(last);
                handed.insert(start.clone(), Gap { seq, ..gap.clone() });
            }
        }
        to.bound(&mut handed);
        *to.by_start.lock() = handed;
        to.is_used.store(true, Ordering::Release);
    }

    /// Keeps within the bound, and counts what there is.
    fn bound(&self, by_start: &mut ByStart) {
        let mut least = 2;
        while by_start.bytes > self.most_bytes {
            by_start.gaps.retain(|_, gap| gap.steps >= least);
            by_start.bytes = by_start
                .gaps
                .iter()
                .map(|(start, gap)| gap.bytes(start))
                .sum();
            least = least.saturating_mul(2);
        }
        self.pool.charge(by_start.bytes);
        self.pool
            .discharge(std::mem::replace(&mut by_start.charged, by_start.bytes));
    }
}

impl ByStart {
    /// The gap that `key` is in.
    fn at(&self, key: &[u8]) -> Option<(&Vec<u8>, &Gap)> {
        let up_to = (Bound::Unbounded, Bound::Included(key));
        let found = self.gaps.range::<[u8], _>(up_to).next_back();
        found.filter(|(_, gap)| key < gap.end.as_slice())
    }

    /// The last gap that starts before `key`.
    fn before(&self, key: &[u8]) -> Option<(&Vec<u8>, &Gap)> {
        let before = (Bound::Unbounded, Bound::Excluded(key));
        self.gaps.range::<[u8], _>(before).next_back()
    }

    /// The starts of the gaps that have a key of the range.
    fn meeting(&self, (start, end): (&[u8], &[u8])) -> Vec<Vec<u8>> {
        let first = self
            .before(start)
            .filter(|(_, gap)| gap.end.as_slice() > start);
        let inside = (Bound::Included(start), Bound::Excluded(end));
        let inside = self.gaps.range::<[u8], _>(inside);
        let all = first.into_iter().chain(inside);
        all.map(|(start, _)| start.clone()).collect()
    }

    /// Whether a gap that meets the range has a greater number than `seq`.
    fn is_newer_in(&self, range: (&[u8], &[u8]), seq: SeqNo) -> bool {
        let meeting = self.meeting(range);
        let mut gaps = meeting.iter().filter_map(|start| self.gaps.get(start));
        gaps.any(|gap| gap.seq > seq)
    }

    /// Cuts the range out of the gaps that meet it.
    fn clear(&mut self, (start, end): (&[u8], &[u8])) {
        for at in self.meeting((start, end)) {
            let Some(mut gap) = self.remove(&at) else {
                continue;
            };
            if at.as_slice() < start && gap.end.as_slice() > end {
                // Both parts with all of them would be twice as many once they are one again.
                gap.steps /= 2;
            }
            if gap.end.as_slice() > end {
                self.insert(end.to_vec(), gap.clone());
            }
            let before = Gap {
                end: start.to_vec(),
                ..gap
            };
            self.insert(at, before);
        }
    }

    /// Adds a gap that meets no other, unless it is empty.
    fn insert(&mut self, start: Vec<u8>, gap: Gap) {
        if start < gap.end {
            self.bytes += gap.bytes(&start);
            self.gaps.insert(start, gap);
        }
    }

    fn remove(&mut self, start: &[u8]) -> Option<Gap> {
        let gap = self.gaps.remove(start)?;
        self.bytes -= gap.bytes(start);
        Some(gap)
    }
}

impl Drop for Gaps {
    fn drop(&mut self) {
        self.pool.discharge(self.by_start.lock().charged);
    }
}

#[cfg(test)]
mod tests;
