//! What a transaction has read.
//!
//! Keys that it asked for, present or not, and the ranges that its iterators have passed over: from
//! where one began to the last entry that it has handed out, or to its end once it has found that
//! there is nothing more. A range grows while its iterator goes on.
//!
//! Invariants: what is read before the commit is called is held, exactly or, where it would take
//! more memory than the transaction may, in ranges that hold more ([`Seen::coarsen`]). From then on
//! nothing changes until the transaction has ended: so a leader of writers that looks things up
//! does not wait for who reads, and it is the transaction that frees the memory.
//!
//! Lock: `state`, a leaf.

use crate::base::keys::SeqNo;
use crate::base::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};
use crate::base::sync::{Mutex, MutexGuard};
use crate::engine::memory::{Arbiter, ReadsCharge};
use crate::engine::recent::own_writes::OwnWrites;
use crate::engine::recent::seen::Seen;
use std::collections::BTreeMap;
use std::sync::Arc;

/// A set of reads with no ranges and no more keys than this is looked up in the memtables.
const FEW: usize = 16;
/// Of the memory that it may take, a set is made to take this part when it takes more.
const COARSE_PART: usize = 2;

/// What a transaction has read since its moment, in engine keys.
pub(crate) struct ReadSet {
    /// What is not newer has been compared, or was there at the moment.
    since: AtomicU64,
    /// Others wait for the transaction.
    is_alone: AtomicBool,
    /// How often the leader has found too much to compare under the commit lock, and whether it has
    /// now.
    postponed: AtomicU32,
    is_postponed: AtomicBool,
    /// A keyspace of the transaction was emptied after its moment.
    met_emptied: AtomicBool,
    memory: ReadsCharge,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    seen: Seen,
    /// The ranges that iterators go on with, by their numbers.
    growing: BTreeMap<u64, (Vec<u8>, Vec<u8>)>,
    next: u64,
    /// Nothing is added any more.
    is_closed: bool,
    /// What counts as read because it is written.
    own: Option<Arc<OwnWrites>>,
}

impl ReadSet {
    /// Nothing, as of a moment.
    pub(crate) fn new(since: SeqNo, memory: &Arc<Arbiter>) -> ReadSet {
        ReadSet::charged(since, ReadsCharge::new(memory))
    }

    /// One whose memory is not counted.
    #[cfg(test)]
    pub(crate) fn uncharged(since: SeqNo) -> ReadSet {
        ReadSet::charged(since, ReadsCharge::default())
    }

    fn charged(since: SeqNo, memory: ReadsCharge) -> ReadSet {
        ReadSet {
            since: AtomicU64::new(since.0),
            is_alone: AtomicBool::new(false),
            postponed: AtomicU32::new(0),
            is_postponed: AtomicBool::new(false),
            met_emptied: AtomicBool::new(false),
            memory,
            state: Mutex::default(),
        }
    }

    /// What is newer conflicts.
    pub(crate) fn since(&self) -> SeqNo {
        SeqNo(self.since.load(Ordering::Relaxed))
    }

    /// What was written up to here does not conflict.
    pub(super) fn compared(&self, until: SeqNo) {
        self.since.fetch_max(until.0, Ordering::Relaxed);
    }

    /// Others wait for the transaction.
    pub(crate) fn stay_alone(&self) {
        self.is_alone.store(true, Ordering::Relaxed);
    }

    pub(crate) fn is_alone(&self) -> bool {
        self.is_alone.load(Ordering::Relaxed)
    }

    /// There is too much to compare under the commit lock: it is to be compared outside, and to
    /// come again. False if that has been so `most` times.
    pub(super) fn postpone(&self, most: u32) -> bool {
        let may = self.postponed.fetch_add(1, Ordering::Relaxed) < most;
        self.is_postponed.store(may, Ordering::Relaxed);
        may
    }

    /// Whether it has been postponed since this was last asked.
    pub(crate) fn take_postponed(&self) -> bool {
        self.is_postponed.swap(false, Ordering::Relaxed)
    }

    /// A keyspace of the transaction was emptied after its moment: it cannot go on, and another one
    /// can.
    pub(crate) fn note_emptied(&self) {
        self.met_emptied.store(true, Ordering::Relaxed);
    }

    pub(crate) fn has_met_emptied(&self) -> bool {
        self.met_emptied.load(Ordering::Relaxed)
    }

    pub(crate) fn add_key(&self, key: &[u8]) {
        self.change(|state| state.seen.add_key(key));
    }

    /// An iterator begins to read here. Returns the number of its range.
    pub(crate) fn begin_range(&self, from: &[u8]) -> u64 {
        let mut state = self.state.lock();
        let number = state.next;
        state.next += 1;
        if !state.is_closed {
            state.growing.insert(number, (from.to_vec(), from.to_vec()));
        }
        number
    }

    /// The range with this number goes on up to before `upper`.
    pub(crate) fn extend_up(&self, range: u64, upper: &[u8]) {
        let mut state = self.state.lock();
        if let Some((_, to)) = state.growing.get_mut(&range)
            && to.as_slice() < upper
        {
            to.clear();
            to.extend_from_slice(upper);
        }
    }

    /// The range with this number goes on down to `lower`.
    pub(crate) fn extend_down(&self, range: u64, lower: &[u8]) {
        let mut state = self.state.lock();
        if let Some((from, _)) = state.growing.get_mut(&range)
            && from.as_slice() > lower
        {
            from.clear();
            from.extend_from_slice(lower);
        }
    }

    /// The range with this number grows no more.
    pub(crate) fn end_range(&self, range: u64) {
        // It counts as it is, too. In the child of a fork a thread that is not there may hold the
        // lock.
        let Some(mut state) = self.state.try_lock() else {
            return;
        };
        if let Some((from, to)) = state.growing.remove(&range) {
            state.seen.add_range(from, to);
            drop(state);
            self.change(|_| ());
        }
    }

    /// Nothing is read any more that counts, and so does `own` if it is there.
    pub(crate) fn close(&self, own: Option<Arc<OwnWrites>>) {
        self.change(|state| {
            for (from, to) in std::mem::take(&mut state.growing).into_values() {
                state.seen.add_range(from, to);
            }
            state.own = own;
        });
        self.state.lock().is_closed = true;
    }

    /// The transaction has ended: what iterators still read is nobody's business.
    pub(crate) fn end(&self) {
        let ended = State {
            is_closed: true,
            ..State::default()
        };
        let read = std::mem::replace(&mut *self.state.lock(), ended);
        drop(read);
        self.memory.note(0);
    }

    /// All of it.
    pub(crate) fn observed(&self) -> Observed<'_> {
        Observed(self.state.lock())
    }

    /// Adds something, and sees to the memory.
    fn change(&self, change: impl FnOnce(&mut State)) {
        let bytes = {
            let mut state = self.state.lock();
            if state.is_closed {
                return;
            }
            change(&mut state);
            state.seen.bytes()
        };
        // Under no lock: the memory of others may have to give way.
        let Some(most) = self.memory.note(bytes) else {
            return;
        };
        let mut state = self.state.lock();
        if !state.is_closed && state.seen.bytes() > most {
            state.seen.coarsen(most / COARSE_PART);
            let bytes = state.seen.bytes();
            drop(state);
            self.memory.note(bytes);
        }
    }
}

/// What has been read, for a comparison.
pub(crate) struct Observed<'a>(MutexGuard<'a, State>);

impl Observed<'_> {
    pub(crate) fn is_empty(&self) -> bool {
        self.counts() == (0, 0)
    }

    /// How many keys and ranges there are.
    pub(super) fn counts(&self) -> (usize, usize) {
        let (keys, ranges) = self.0.seen.counts();
        let own = self.0.own.as_ref().map(|own| own.counts());
        let (own_keys, own_ranges) = own.unwrap_or_default();
        (keys + own_keys, ranges + self.0.growing.len() + own_ranges)
    }

    /// Whether there are few keys, and no range that may hold many.
    pub(super) fn is_few(&self) -> bool {
        let (keys, ranges) = self.counts();
        keys <= FEW && ranges == 0
    }

    pub(super) fn keys(&self) -> impl Iterator<Item = &[u8]> {
        let own = self.0.own.iter().flat_map(|own| own.writes());
        self.0.seen.keys().chain(own.map(|(key, _)| &key[..]))
    }

    pub(super) fn ranges(&self) -> impl Iterator<Item = (&[u8], &[u8])> {
        let growing = self.0.growing.values();
        let growing = growing.map(|(lower, upper)| (lower.as_slice(), upper.as_slice()));
        let own = self.0.own.iter().flat_map(|own| own.deleted());
        let own = own.map(|(lower, upper)| (&lower[..], &upper[..]));
        let ranges = growing.chain(self.0.seen.ranges()).chain(own);
        ranges.filter(|(lower, upper)| lower < upper)
    }

    /// Whether a key from `start` to before `end` is among what has been read.
    pub(super) fn meets(&self, start: &[u8], end: &[u8]) -> bool {
        let State {
            seen, growing, own, ..
        } = &*self.0;
        let mut growing = growing.values();
        seen.meets(start, end)
            || growing.any(|(from, to)| from < to && &from[..] < end && start < &to[..])
            || own.as_ref().is_some_and(|own| own.meets(start, end))
    }

    /// Whether a key is among what has been read.
    pub(super) fn holds(&self, key: &[u8]) -> bool {
        let State {
            seen, growing, own, ..
        } = &*self.0;
        let is_in = |(from, to): &(Vec<u8>, Vec<u8>)| from.as_slice() <= key && key < to.as_slice();
        seen.holds(key)
            || growing.values().any(is_in)
            || own.as_ref().is_some_and(|own| own.changes_key(key))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rand::rngs::SmallRng;
    use rand::{Rng, SeedableRng};

    fn key(n: u32) -> Vec<u8> {
        n.to_be_bytes().to_vec()
    }

    #[test]
    fn ranges_that_have_ended_are_merged_and_hold_what_they_held() {
        for seed in 0..50 {
            let mut rng = SmallRng::seed_from_u64(seed);
            let reads = ReadSet::uncharged(SeqNo(7));
            let mut held = [false; 100];
            let mut growing = None;
            for _ in 0..40 {
                let (from, to) = (rng.random_range(0..100), rng.random_range(0..100));
                let range = if rng.random() {
                    let range = reads.begin_range(&key(from));
                    reads.extend_up(range, &key(to));
                    range
                } else {
                    let range = reads.begin_range(&key(to));
                    reads.extend_down(range, &key(from));
                    range
                };
                (from..to).for_each(|n| held[n as usize] = true);
                if let Some(last) = growing.replace(range) {
                    reads.end_range(last);
                }
            }
            let observed = reads.observed();
            for n in 0..100 {
                assert_eq!(
                    observed.holds(&key(n)),
                    held[n as usize],
                    "seed {seed}: {n}"
                );
            }
            assert!(observed.0.seen.len() < 20);
            let ranges: Vec<_> = observed.0.seen.ranges().collect();
            let disjoint = ranges.windows(2).all(|pair| pair[0].1 < pair[1].0);
            assert!(disjoint, "{ranges:?}");
        }
    }

    #[test]
    fn many_walks_over_the_same_keys_take_the_memory_of_one() {
        let reads = ReadSet::uncharged(SeqNo(7));
        for n in 0..10_000 {
            let range = reads.begin_range(&key(n % 10));
            reads.extend_up(range, &key(n % 10 + 5));
            reads.end_range(range);
        }
        assert_eq!(reads.observed().0.seen.len(), 1);
        reads.end();
        let late = reads.begin_range(&key(1));
        reads.extend_up(late, &key(9));
        reads.end_range(late);
        assert!(reads.observed().is_empty());
    }
}
