//! Range tombstones: "all keys from here to there have no value, as of this write".
//!
//! [`RangeTombstones`] answers one question: which is the newest tombstone at or below a snapshot
//! that covers a key? The bounds of all tombstones cut the keys into *pieces*, between which the
//! answer changes. Who sees all of them finds the answer by one binary search over the pieces;
//! `layers` says how that of an older moment is found. Memory is O(n), however they overlap.
//!
//! Nothing here changes once it is built, and no lock is taken.

mod build;
mod layers;
pub(crate) mod lists;
#[cfg(test)]
mod tests;

use super::keys::SeqNo;
use layers::{Layers, Span};

/// All engine keys from `start` to before `end` have no value that is older than `seq`.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct RangeTombstone {
    pub(crate) start: Vec<u8>,
    pub(crate) end: Vec<u8>,
    pub(crate) seq: SeqNo,
}

impl RangeTombstone {
    pub(crate) fn as_ref(&self) -> RangeRef<'_> {
        RangeRef {
            start: &self.start,
            end: &self.end,
            seq: self.seq,
        }
    }
}

/// A tombstone whose keys are elsewhere.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct RangeRef<'a> {
    pub(crate) start: &'a [u8],
    pub(crate) end: &'a [u8],
    pub(crate) seq: SeqNo,
}

impl<'a> RangeRef<'a> {
    /// What of it lies from `start` to before `end`; nothing if it lies outside.
    pub(crate) fn clipped(self, start: &'a [u8], end: Option<&'a [u8]>) -> Option<RangeRef<'a>> {
        let start = self.start.max(start);
        let end = end.map_or(self.end, |end| self.end.min(end));
        (start < end).then_some(RangeRef { start, end, ..self })
    }
}

/// A stretch of keys over which [`RangeTombstones::covering`] answers the same.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Piece<'a> {
    /// Its first key; `None`: all keys before its end.
    pub(crate) start: Option<&'a [u8]>,
    /// The first key after it; `None`: all keys from its start on.
    pub(crate) end: Option<&'a [u8]>,
    /// The newest tombstone at or below the snapshot.
    pub(crate) seq: Option<SeqNo>,
    /// It is its first key alone, whatever its end.
    pub(crate) is_one_key: bool,
}

/// A set of range tombstones.
#[derive(Clone, Debug, Default)]
pub(crate) struct RangeTombstones {
    /// The distinct bounds, one after the other, and where each ends.
    bounds: Vec<u8>,
    bound_ends: Vec<usize>,
    /// The bounds of the tombstones, by their ages, oldest first.
    spans: Vec<Span>,
    /// Their sequence numbers.
    seqs: Vec<SeqNo>,
    layers: Layers,
}

impl RangeTombstones {
    /// The set of these; those that cover nothing are left out.
    pub(crate) fn new(tombstones: &[RangeTombstone]) -> RangeTombstones {
        let refs: Vec<RangeRef<'_>> = tombstones.iter().map(RangeTombstone::as_ref).collect();
        RangeTombstones::of(&refs)
    }

    /// How many tombstones there are.
    pub(crate) fn len(&self) -> usize {
        self.spans.len()
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.spans.is_empty()
    }

    /// The tombstones, oldest first.
    pub(crate) fn iter(&self) -> impl Iterator<Item = RangeRef<'_>> {
        let all = self.spans.iter().copied().zip(self.seqs.iter().copied());
        all.map(|tombstone| self.range(tombstone))
    }

    /// The same tombstones, where `first` is to be added to the number of each.
    pub(crate) fn numbered_from(&self, first: SeqNo) -> RangeTombstones {
        RangeTombstones {
            seqs: self.seqs.iter().map(|seq| SeqNo(first.0 + seq.0)).collect(),
            ..self.clone()
        }
    }

    /// The tombstones, by their starts.
    pub(crate) fn by_start(&self) -> Vec<RangeRef<'_>> {
        let mut all: Vec<(Span, SeqNo)> = self
            .spans
            .iter()
            .copied()
            .zip(self.seqs.iter().copied())
            .collect();
        all.sort_unstable();
        all.into_iter().map(|all| self.range(all)).collect()
    }

    fn range(&self, ((start, end), seq): (Span, SeqNo)) -> RangeRef<'_> {
        RangeRef {
            start: self.bound(start as usize),
            end: self.bound(end as usize),
            seq,
        }
    }

    /// The first key that one of them covers, and the first one after all that they cover.
    pub(crate) fn span(&self) -> Option<(&[u8], &[u8])> {
        let last = self.bound_ends.len().checked_sub(1)?;
        Some((self.bound(0), self.bound(last)))
    }

    /// The greatest sequence number.
    pub(crate) fn newest(&self) -> Option<SeqNo> {
        self.seqs.last().copied()
    }

    /// Memory that it takes.
    pub(crate) fn memory_bytes(&self) -> usize {
        self.bounds.capacity()
            + self.bound_ends.capacity() * size_of::<usize>()
            + self.spans.capacity() * size_of::<Span>()
            + self.seqs.capacity() * size_of::<SeqNo>()
            + self.layers.memory_bytes()
    }

    /// The newest tombstone at or below `snapshot` that covers `key`.
    pub(crate) fn covering(&self, key: &[u8], snapshot: SeqNo) -> Option<SeqNo> {
        let (first, last) = self.span()?;
        if key < first || last <= key {
            return None;
        }
        self.newest_over(self.bounds_upto(key).checked_sub(1)?, snapshot)
    }

    /// The piece in which `key` lies, as of `snapshot`.
    pub(crate) fn piece(&self, key: &[u8], snapshot: SeqNo) -> Piece<'_> {
        let behind = match self.span() {
            Some((first, _)) if key < first => 0,
            Some((_, last)) if last <= key => self.bound_ends.len(),
            _ => self.bounds_upto(key),
        };
        let bound = |number| (number < self.bound_ends.len()).then(|| self.bound(number));
        Piece {
            start: behind.checked_sub(1).and_then(bound),
            end: bound(behind),
            seq: behind
                .checked_sub(1)
                .and_then(|piece| self.newest_over(piece, snapshot)),
            is_one_key: false,
        }
    }

    /// The oldest of the newest tombstones over the keys from `first` to `last`, both included:
    /// each key between them has one that is no older. `None`: some key has none.
    pub(crate) fn covering_all(&self, first: &[u8], last: &[u8]) -> Option<SeqNo> {
        let from = self.bounds_upto(first).checked_sub(1)?;
        let to = self.bounds_upto(last).checked_sub(1)?;
        let newest = (from..=to).map(|piece| self.newest_over(piece, SeqNo::MAX));
        newest.min().flatten()
    }

    /// The newest one that covers a key from `start` to before `end`.
    pub(crate) fn newest_between(&self, start: &[u8], end: &[u8]) -> Option<SeqNo> {
        let covered = self.covered_from(start, self.bounds_before(end));
        covered.map(|(_, newest)| newest).max()
    }

    /// Whether one of them covers a key from `start` to before `end`; `None`: to the last.
    pub(crate) fn meet(&self, start: &[u8], end: Option<&[u8]>) -> bool {
        let upto = end.map_or(self.bound_ends.len(), |end| self.bounds_before(end));
        self.covered_from(start, upto).next().is_some()
    }

    /// Whether one of them covers a key from `first` to `last`, both included.
    pub(crate) fn touch(&self, first: &[u8], last: &[u8]) -> bool {
        self.covered(first, last).next().is_some()
    }

    /// The pieces from `first` to `last`, both included, that one of them covers: their first keys,
    /// and the first keys after them.
    pub(crate) fn covered(
        &self,
        first: &[u8],
        last: &[u8],
    ) -> impl Iterator<Item = (&[u8], &[u8])> {
        let covered = self.covered_from(first, self.bounds_upto(last));
        covered.map(|(piece, _)| (self.bound(piece), self.bound(piece + 1)))
    }

    /// The covered pieces from that in which `start` lies to before bound `upto`, each with its
    /// newest tombstone.
    fn covered_from(&self, start: &[u8], upto: usize) -> impl Iterator<Item = (usize, SeqNo)> {
        let from = self.bounds_upto(start).saturating_sub(1);
        (from..upto).filter_map(|piece| Some((piece, self.newest_over(piece, SeqNo::MAX)?)))
    }

    /// The tombstones that matter to who sees one of `snapshots` (ascending by `seq`) or the newest
    /// state, over `key`, newest first. The work grows with what is found, not with the snapshots.
    pub(crate) fn needed<M>(
        &self,
        key: &[u8],
        mut snapshots: &[M],
        seq: impl Fn(&M) -> SeqNo,
    ) -> Vec<SeqNo> {
        let (mut needed, mut newest) = (Vec::new(), SeqNo::MAX);
        while let Some(tombstone) = self.covering(key, newest) {
            needed.push(tombstone);
            // Down to the next moment, all see this one.
            let older = snapshots.partition_point(|snapshot| seq(snapshot) < tombstone);
            let Some((next, rest)) = snapshots.get(..older).and_then(<[M]>::split_last) else {
                break;
            };
            (newest, snapshots) = (seq(next), rest);
        }
        needed
    }

    fn bound(&self, number: usize) -> &[u8] {
        let end = |number: usize| self.bound_ends.get(number).copied().unwrap_or(0);
        let start = number.checked_sub(1).map_or(0, end);
        self.bounds.get(start..end(number)).unwrap_or_default()
    }

    /// How many bounds are at or before `key`.
    fn bounds_upto(&self, key: &[u8]) -> usize {
        self.bounds_while(|bound| bound <= key)
    }

    /// How many bounds are before `key`.
    fn bounds_before(&self, key: &[u8]) -> usize {
        self.bounds_while(|bound| bound < key)
    }

    fn bounds_while(&self, is_before: impl Fn(&[u8]) -> bool) -> usize {
        let (mut low, mut high) = (0, self.bound_ends.len());
        while low < high {
            let middle = low + (high - low) / 2;
            if is_before(self.bound(middle)) {
                low = middle + 1;
            } else {
                high = middle;
            }
        }
        low
    }

    fn newest_over(&self, piece: usize, snapshot: SeqNo) -> Option<SeqNo> {
        let newest = self.layers.newest(piece)?;
        let seq = self.seqs.get(newest).copied()?;
        if seq <= snapshot {
            return Some(seq);
        }
        let seen = self
            .seqs
            .get(..newest)?
            .partition_point(|seq| *seq <= snapshot);
        let older = self.layers.newest_of(&self.spans, seen, piece)?;
        self.seqs.get(older).copied()
    }
}
