//! Building a set of range tombstones: the bounds are sorted as short numbers, and no key is copied
//! before its place is known.

use super::layers::{Layers, Span};
use super::{RangeRef, RangeTombstones};
use crate::base::keys::SeqNo;

/// A bound among those that are being sorted: the bytes after what all of them begin with, as a
/// number, and its place: the start of tombstone `i` is `2 i`, its end `2 i + 1`.
type Unsorted = (u64, u32);

impl RangeTombstones {
    /// The set of these; those that cover nothing are left out. In O(n log n) steps, and with 48
    /// bytes for each of them beside the set until it is built.
    pub(crate) fn of(tombstones: &[RangeRef<'_>]) -> RangeTombstones {
        let mut set = RangeTombstones::default();
        let mut ranges = set.number_bounds(tombstones);
        // Those of a batch come in the order of their numbers, and so does a list after a list.
        ranges.sort_unstable_by_key(|(span, seq)| (*seq, *span));
        ranges.dedup();
        set.spans = ranges.iter().map(|(span, _)| *span).collect();
        set.seqs = ranges.iter().map(|(_, seq)| *seq).collect();
        drop(ranges);
        set.layers = Layers::new(&set.spans, set.bound_ends.len().saturating_sub(1));
        set
    }

    /// Takes over the distinct bounds; returns the tombstones by their numbers.
    fn number_bounds(&mut self, tombstones: &[RangeRef<'_>]) -> Vec<(Span, SeqNo)> {
        let covers = |t: &&RangeRef<'_>| t.start < t.end;
        let prefix = common_prefix(tombstones.iter().filter(covers));
        let head = |key: &[u8]| {
            let mut head = [0; 8];
            let rest = key.get(prefix..).unwrap_or_default();
            let len = rest.len().min(head.len());
            head[..len].copy_from_slice(&rest[..len]);
            u64::from_be_bytes(head)
        };
        let key = |place: u32| {
            let tombstone = &tombstones[place as usize / 2];
            if place.is_multiple_of(2) {
                tombstone.start
            } else {
                tombstone.end
            }
        };
        let mut bounds: Vec<Unsorted> = Vec::with_capacity(2 * tombstones.len());
        for (i, tombstone) in tombstones.iter().enumerate() {
            if covers(&tombstone) {
                bounds.push((head(tombstone.start), 2 * i as u32));
                bounds.push((head(tombstone.end), 2 * i as u32 + 1));
            }
        }
        bounds.sort_unstable_by(|(head, place), (other_head, other)| {
            let by_head = head.cmp(other_head);
            by_head.then_with(|| key(*place).cmp(key(*other)))
        });
        let mut numbers = vec![(0, 0); tombstones.len()];
        let mut last: Option<&[u8]> = None;
        for (_, place) in &bounds {
            let key = key(*place);
            if last != Some(key) {
                self.bounds.extend_from_slice(key);
                self.bound_ends.push(self.bounds.len());
                last = Some(key);
            }
            let (number, i) = (self.bound_ends.len() as u32 - 1, *place as usize / 2);
            if place.is_multiple_of(2) {
                numbers[i].0 = number;
            } else {
                numbers[i].1 = number;
            }
        }
        drop(bounds);
        self.bounds.shrink_to_fit();
        self.bound_ends.shrink_to_fit();
        let numbered = numbers.into_iter().zip(tombstones);
        let numbered = numbered.filter(|((start, end), _)| start < end);
        numbered.map(|(span, t)| (span, t.seq)).collect()
    }
}

/// How many bytes all keys begin with.
fn common_prefix<'a>(tombstones: impl Iterator<Item = &'a RangeRef<'a>>) -> usize {
    let mut common: Option<&[u8]> = None;
    for key in tombstones.flat_map(|t| [t.start, t.end]) {
        let Some(prefix) = common else {
            common = Some(key);
            continue;
        };
        if !key.starts_with(prefix) {
            let same = prefix.iter().zip(key).take_while(|(a, b)| a == b).count();
            common = prefix.get(..same);
        }
    }
    common.map_or(0, <[u8]>::len)
}
