//! Where a transaction shows nothing, though there are entries: it has deleted them.
//!
//! An iterator that has passed over many such entries notes the range, and later ones go past it at
//! once. So taking the first key of a prefix and deleting it, again and again, does not step over
//! all that were deleted before.
//!
//! Invariants: in a noted range nothing is shown by the transaction as it is now, nor was anything
//! since the iterator that has noted it was made. A put takes its key out, taking writes back
//! empties the whole. An iterator from before a note does not use it: what it shows may have been
//! deleted since.
//!
//! Lock: `state`, a leaf.

use super::toward::Toward;
use crate::base::seeded::seeded;
use crate::base::sorted::range_set::RangeSet;
use crate::base::sync::Mutex;
use bytes::Bytes;

/// The ranges in which nothing is shown. Moments are given by the number of changes up to them.
#[derive(Default)]
pub(crate) struct Emptied {
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    ranges: RangeSet,
    /// When something has come last.
    filled: u64,
    /// The latest moment of which a range was noted.
    noted: u64,
}

impl Emptied {
    /// The change before `now` was a put.
    pub(crate) fn put(&self, key: &[u8], now: u64) {
        let mut state = self.state.lock();
        state.filled = now;
        if !seeded!(EmptiedKeepsPuts) {
            state.ranges.cut(key);
        }
    }

    /// The changes before `now` may have brought back anything.
    pub(crate) fn clear(&self, now: u64) {
        let mut state = self.state.lock();
        state.filled = now;
        state.ranges = RangeSet::default();
    }

    /// An iterator that was made at `moment` has found nothing from `from` to before `to`.
    #[cold]
    pub(super) fn note(&self, moment: u64, from: &[u8], to: &[u8]) {
        let mut state = self.state.lock();
        if moment >= state.filled {
            state.noted = state.noted.max(moment);
            let bound = Bytes::copy_from_slice;
            state.ranges.add(bound(from), bound(to));
        }
    }

    /// Where an iterator that was made at `moment` may go on, from `at` up or from before it down.
    #[cold]
    pub(super) fn past(&self, moment: u64, at: &[u8], toward: Toward) -> Option<Bytes> {
        let state = self.state.lock();
        if moment < state.noted && !seeded!(EmptiedForEarlier) {
            return None;
        }
        let past = match toward {
            Toward::Upper => state.ranges.range_with(at)?.1,
            Toward::Lower => state.ranges.range_before(at)?.0,
        };
        Some(past.clone())
    }
}
