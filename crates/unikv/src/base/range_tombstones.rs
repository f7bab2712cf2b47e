//! Range tombstones: "all keys from here to there have no value, as of this write".
//!
//! [`RangeTombstones`] answers one question, in O(log² n) steps: which is the newest tombstone at
//! or below a snapshot that covers a key? The bounds of all tombstones cut the keys into *pieces*,
//! between which the answer changes; a segment tree over the pieces holds each tombstone in at most
//! 2 log n nodes, however the tombstones overlap, so memory is O(n log n) also when all of them do.
//!
//! Nothing here changes once it is built, and no lock is taken.

use super::keys::SeqNo;
use std::ops::Range;

/// All engine keys from `start` to before `end` have no value that is older than `seq`.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct RangeTombstone {
    pub(crate) start: Vec<u8>,
    pub(crate) end: Vec<u8>,
    pub(crate) seq: SeqNo,
}

impl RangeTombstone {
    /// What of it lies from `start` to before `end`; nothing if it lies outside.
    pub(crate) fn clipped(&self, start: &[u8], end: Option<&[u8]>) -> Option<RangeTombstone> {
        let from = self.start.as_slice().max(start);
        let to = end.map_or(self.end.as_slice(), |end| self.end.as_slice().min(end));
        (from < to).then(|| RangeTombstone {
            start: from.to_vec(),
            end: to.to_vec(),
            seq: self.seq,
        })
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
#[derive(Debug, Default)]
pub(crate) struct RangeTombstones {
    /// The distinct bounds, one after the other, and where each ends.
    bounds: Vec<u8>,
    bound_ends: Vec<usize>,
    /// Where the sequence numbers of each node of the tree end in `seqs`. The leaves are the second
    /// half: piece `i` is node `pieces + i`, its parent `(pieces + i) / 2`.
    node_ends: Vec<usize>,
    /// Of each node, newest first.
    seqs: Vec<SeqNo>,
    tombstones: Vec<Bounds>,
    newest: Option<SeqNo>,
}

/// A tombstone: the numbers of its bounds.
#[derive(Clone, Copy, Debug)]
struct Bounds {
    start: usize,
    end: usize,
    seq: SeqNo,
}

impl RangeTombstones {
    /// The set of these; those that cover nothing are left out.
    pub(crate) fn new(mut tombstones: Vec<RangeTombstone>) -> RangeTombstones {
        tombstones.retain(|tombstone| tombstone.start < tombstone.end);
        tombstones.sort_unstable();
        tombstones.dedup();
        let ends = tombstones.iter().flat_map(|t| [&t.start, &t.end]);
        let mut distinct: Vec<&[u8]> = ends.map(Vec::as_slice).collect();
        distinct.sort_unstable();
        distinct.dedup();
        let number = |key: &[u8]| distinct.partition_point(|bound| *bound < key);
        let tombstones = tombstones.iter().map(|t| Bounds {
            start: number(&t.start),
            end: number(&t.end),
            seq: t.seq,
        });
        let tombstones: Vec<Bounds> = tombstones.collect();
        let mut set = RangeTombstones {
            newest: tombstones.iter().map(|t| t.seq).max(),
            tombstones,
            ..RangeTombstones::default()
        };
        for bound in &distinct {
            set.bounds.extend_from_slice(bound);
            set.bound_ends.push(set.bounds.len());
        }
        set.build_tree();
        set
    }

    fn build_tree(&mut self) {
        let pieces = self.pieces();
        let mut newest_first = self.tombstones.clone();
        newest_first.sort_unstable_by_key(|t| std::cmp::Reverse(t.seq));
        let mut counts = vec![0; 2 * pieces];
        for tombstone in &newest_first {
            nodes(tombstone, pieces, |node| counts[node] += 1);
        }
        // Each end begins as the start of its node, and moves as the node is filled.
        let mut total = 0;
        for count in &mut counts {
            total += std::mem::replace(count, total);
        }
        let mut seqs = vec![SeqNo(0); total];
        for tombstone in &newest_first {
            nodes(tombstone, pieces, |node| {
                seqs[counts[node]] = tombstone.seq;
                counts[node] += 1;
            });
        }
        (self.node_ends, self.seqs) = (counts, seqs);
    }

    /// How many tombstones there are.
    pub(crate) fn len(&self) -> usize {
        self.tombstones.len()
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.tombstones.is_empty()
    }

    /// The tombstones, by their starts.
    pub(crate) fn iter(&self) -> impl Iterator<Item = RangeTombstone> {
        self.tombstones.iter().map(|tombstone| RangeTombstone {
            start: self.bound(tombstone.start).to_vec(),
            end: self.bound(tombstone.end).to_vec(),
            seq: tombstone.seq,
        })
    }

    /// The first key that one of them covers, and the first one after all that they cover.
    pub(crate) fn span(&self) -> Option<(&[u8], &[u8])> {
        let last = self.bound_ends.len().checked_sub(1)?;
        Some((self.bound(0), self.bound(last)))
    }

    /// The greatest sequence number.
    pub(crate) fn newest(&self) -> Option<SeqNo> {
        self.newest
    }

    /// Memory that it takes.
    pub(crate) fn memory_bytes(&self) -> usize {
        self.bounds.capacity()
            + (self.bound_ends.capacity() + self.node_ends.capacity()) * size_of::<usize>()
            + self.seqs.capacity() * size_of::<SeqNo>()
            + self.tombstones.capacity() * size_of::<Bounds>()
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

    fn pieces(&self) -> usize {
        self.bound_ends.len().saturating_sub(1)
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
        let pieces = self.pieces();
        if piece >= pieces {
            return None;
        }
        let mut newest = None;
        let mut node = pieces + piece;
        while node > 0 {
            let seqs = self.seqs.get(self.seqs_of(node)).unwrap_or_default();
            if !seqs.is_empty() {
                let at = seqs.partition_point(|seq| *seq > snapshot);
                newest = newest.max(seqs.get(at).copied());
            }
            node /= 2;
        }
        newest
    }

    fn seqs_of(&self, node: usize) -> Range<usize> {
        let end = |node: usize| self.node_ends.get(node).copied().unwrap_or(0);
        node.checked_sub(1).map_or(0, end)..end(node)
    }
}

/// The nodes of the tree that make up a tombstone.
fn nodes(tombstone: &Bounds, pieces: usize, mut each: impl FnMut(usize)) {
    let mut from = tombstone.start + pieces;
    let mut to = tombstone.end + pieces;
    while from < to {
        if from % 2 == 1 {
            each(from);
            from += 1;
        }
        if to % 2 == 1 {
            to -= 1;
            each(to);
        }
        from /= 2;
        to /= 2;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rand::rngs::SmallRng;
    use rand::{Rng, SeedableRng};

    fn tombstone(start: u16, end: u16, seq: u64) -> RangeTombstone {
        RangeTombstone {
            start: start.to_be_bytes().to_vec(),
            end: end.to_be_bytes().to_vec(),
            seq: SeqNo(seq),
        }
    }

    /// What the tombstones say one by one.
    fn expected(all: &[RangeTombstone], key: &[u8], snapshot: SeqNo) -> Option<SeqNo> {
        let covers = |t: &&RangeTombstone| {
            t.start.as_slice() <= key && key < t.end.as_slice() && t.seq <= snapshot
        };
        all.iter().filter(covers).map(|t| t.seq).max()
    }

    #[test]
    fn every_question_is_answered_as_by_asking_each_tombstone() {
        for seed in 0..300 {
            let mut rng = SmallRng::seed_from_u64(seed);
            let n = rng.random_range(0..40);
            let all: Vec<RangeTombstone> = (1..=n)
                .map(|seq| {
                    let start = rng.random_range(0..60);
                    tombstone(start, start + rng.random_range(0..20), seq)
                })
                .collect();
            let set = RangeTombstones::new(all.clone());
            let snapshots: Vec<SeqNo> = (0..3).map(|_| SeqNo(rng.random_range(0..45))).collect();
            for key in 0..85_u16 {
                let key = key.to_be_bytes();
                for snapshot in snapshots.iter().copied().chain([SeqNo::MAX]) {
                    let expected = expected(&all, &key, snapshot);
                    assert_eq!(set.covering(&key, snapshot), expected, "seed {seed}");
                    let piece = set.piece(&key, snapshot);
                    assert_eq!(piece.seq, expected, "seed {seed}");
                    assert!(piece.start.is_none_or(|start| start <= &key[..]));
                    assert!(piece.end.is_none_or(|end| &key[..] < end));
                }
            }
            for _ in 0..50 {
                let first: u16 = rng.random_range(0..80);
                let last: u16 = first + rng.random_range(0..10);
                let keys = first..=last;
                let newest = keys.map(|key| expected(&all, &key.to_be_bytes(), SeqNo::MAX));
                let newest: Vec<Option<SeqNo>> = newest.collect();
                let (first, last) = (first.to_be_bytes(), last.to_be_bytes());
                // Pieces are of all keys, also of those between two numbers: bounds are numbers.
                assert_eq!(
                    set.covering_all(&first, &last),
                    newest.iter().copied().min().flatten(),
                    "seed {seed}"
                );
                let touches = newest.iter().any(Option::is_some);
                assert_eq!(set.touch(&first, &last), touches, "seed {seed}");
                for (start, end) in set.covered(&first, &last) {
                    assert!(start < end && start <= &last[..] && &first[..] < end);
                    assert!(set.covering(start, SeqNo::MAX).is_some());
                }
                assert_eq!(set.covered(&first, &last).count() > 0, touches);
                let end = [&last[..], &[0]].concat();
                assert_eq!(set.meet(&first, Some(&end)), touches, "seed {seed}");
            }
            let mut listed: Vec<_> = all.into_iter().filter(|t| t.start < t.end).collect();
            listed.sort();
            assert_eq!(set.iter().collect::<Vec<_>>(), listed);
        }
    }

    #[test]
    fn nested_tombstones_take_little_memory() {
        let nested = (0..20_000).map(|i| tombstone(i, 50_000 - i, u64::from(i) + 1));
        let set = RangeTombstones::new(nested.collect());
        assert_eq!(set.len(), 20_000);
        assert!(set.memory_bytes() < 20_000 * 600, "{}", set.memory_bytes());
        let inside = 20_000_u16.to_be_bytes();
        assert_eq!(set.covering(&inside, SeqNo::MAX), Some(SeqNo(20_000)));
        assert_eq!(set.covering(&inside, SeqNo(77)), Some(SeqNo(77)));
        assert_eq!(
            set.needed(&inside, &[SeqNo(5), SeqNo(77)], |seq| *seq),
            [SeqNo(20_000), SeqNo(77), SeqNo(5)]
        );
    }

    #[test]
    fn who_sees_the_same_tombstone_is_asked_once() {
        let set = RangeTombstones::new(vec![tombstone(0, 9, 50), tombstone(2, 9, 5_000)]);
        let key = 3_u16.to_be_bytes();
        let snapshots: Vec<_> = (1..100_000).map(SeqNo).collect();
        let asked = std::cell::Cell::new(0);
        let needed = set.needed(&key, &snapshots, |seq| {
            asked.set(asked.get() + 1);
            *seq
        });
        assert_eq!(needed, [SeqNo(5_000), SeqNo(50)]);
        assert!(asked.get() < 50, "{}", asked.get());
        for snapshots in [
            &[][..],
            &[SeqNo(49)],
            &[SeqNo(50)],
            &[SeqNo(4_999)],
            &[SeqNo(5_000)],
        ] {
            let moments = snapshots.iter().rev().copied();
            let moments = std::iter::once(SeqNo::MAX).chain(moments);
            let mut expected: Vec<_> = moments.filter_map(|at| set.covering(&key, at)).collect();
            expected.dedup();
            assert_eq!(set.needed(&key, snapshots, |seq| *seq), expected);
        }
    }

    #[test]
    fn clipping_keeps_what_lies_inside() {
        let all = tombstone(10, 20, 1);
        let key = |n: u16| n.to_be_bytes();
        assert_eq!(
            all.clipped(&key(12), Some(&key(15))),
            Some(tombstone(12, 15, 1))
        );
        assert_eq!(all.clipped(&[], None), Some(all.clone()));
        assert_eq!(all.clipped(&key(20), None), None);
        assert_eq!(all.clipped(&[], Some(&key(10))), None);
    }
}
