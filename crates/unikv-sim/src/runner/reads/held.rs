//! The reads of snapshots and iterators that are held across operations: each answer is compared
//! with the moment at which they were made.

use crate::history::{Bounds, Key, Range, Walk};
use crate::oracle::State;
use crate::runner::{Held, HeldSnapshot, Interrupt, Outlived, Runner};
use crate::spaces;
use crate::value::{Bytes, show, show_option};
use std::ops::RangeBounds;
use unikv::{Iter, Readable};

impl Runner {
    pub(in crate::runner) fn read_snapshot(
        &mut self,
        slot: usize,
        keys: &[Key],
        range: &Range,
        walk: Walk,
    ) -> Result<(), Interrupt> {
        let Some(mut held) = self.snapshots[slot].take() else {
            return Ok(());
        };
        let read = self.compare_snapshot(&held, keys, range, walk);
        if read.is_ok() {
            self.outlives(&mut held.before);
        }
        self.snapshots[slot] = Some(held);
        read
    }

    fn compare_snapshot(
        &self,
        held: &HeldSnapshot,
        keys: &[Key],
        range: &Range,
        walk: Walk,
    ) -> Result<(), Interrupt> {
        let (snapshot, state) = (&held.snapshot, &spaces::own(&held.state, held.time_ms));
        for key in keys {
            let got = self.must("get of a snapshot", snapshot.get(key))?;
            let want = state.get(&key.0).map(|v| &v[..]);
            self.note(got.as_deref());
            assert!(
                got.as_deref() == want,
                "get of {} in a snapshot answers {}, but its moment has {}",
                show(key),
                show_option(got.as_deref()),
                show_option(want)
            );
            let there = self.must("contains_key of a snapshot", snapshot.contains_key(key))?;
            assert_eq!(
                there,
                want.is_some(),
                "contains_key of {} in a snapshot",
                show(key)
            );
            let len = self.must("value_len of a snapshot", snapshot.value_len(key))?;
            assert_eq!(
                len,
                want.map(<[u8]>::len),
                "value_len of {} in a snapshot",
                show(key)
            );
            self.parts_of(snapshot, key, want)?;
        }
        self.ttls_of_snapshot(held, keys)?;
        let many = self.must("multi_get of a snapshot", snapshot.multi_get(keys))?;
        for (key, got) in keys.iter().zip(&many) {
            let want = state.get(&key.0).map(|v| &v[..]);
            assert!(
                got.as_deref() == want,
                "multi_get of {} in a snapshot",
                show(key)
            );
        }
        self.scan_of(snapshot, state, range, walk)?;
        self.compare_spaces(held, range, walk)
    }

    fn ttls_of_snapshot(&self, held: &HeldSnapshot, keys: &[Key]) -> Result<(), Interrupt> {
        for key in keys.iter().filter(|_| self.oracle.times.matters) {
            let ttl = self.must("ttl of a snapshot", held.snapshot.ttl(key))?;
            let end = ttl.map(|ttl| spaces::expiry(ttl, held.time_ms));
            let want = held.state.get(&key.0).map(|value| value.expiry_ms);
            assert_eq!(end, want, "ttl of {} in a snapshot", show(key));
        }
        Ok(())
    }

    pub(in crate::runner) fn iterate(
        &mut self,
        slot: usize,
        range: &Range,
        seek: Option<&[u8]>,
    ) -> Result<(), Interrupt> {
        if self.oracle.unknowns() > 0 {
            return Ok(());
        }
        let mut held = Held::of(
            self.db(),
            &spaces::own(self.oracle.state(), self.time()),
            range,
        );
        if let Some(key) = seek {
            held.seek(key);
        }
        held.before = Outlived::events(self.db());
        self.iterators[slot] = Some(held);
        Ok(())
    }

    /// Makes an iterator of a snapshot, which may outlive it.
    pub(in crate::runner) fn iterate_snapshot(
        &mut self,
        of: usize,
        slot: usize,
        range: &Range,
    ) -> Result<(), Interrupt> {
        if let Some(HeldSnapshot {
            snapshot,
            state,
            time_ms,
            ..
        }) = &self.snapshots[of]
        {
            let mut held = Held::of(snapshot, &spaces::own(state, *time_ms), range);
            held.before = Outlived::events(self.db());
            self.iterators[slot] = Some(held);
        }
        Ok(())
    }

    pub(in crate::runner) fn advance(
        &mut self,
        slot: usize,
        steps: usize,
        walk: Walk,
    ) -> Result<(), Interrupt> {
        let Some(mut held) = self.iterators[slot].take() else {
            return Ok(());
        };
        self.follow(&mut held, steps, walk)?;
        self.outlives(&mut held.before);
        self.iterators[slot] = Some(held);
        Ok(())
    }
}

impl Held {
    /// An iterator over a part of what has this content.
    pub(in crate::runner) fn of(from: &impl Readable, state: &State, range: &Range) -> Held {
        Held::new(iter_of(from, range), within(state, &range.bounds()))
    }

    fn new(iter: Iter, pairs: Vec<(Vec<u8>, Bytes)>) -> Held {
        let left = 0..pairs.len();
        Held {
            iter,
            pairs,
            left,
            before: Outlived::default(),
        }
    }

    /// Moves the front, forward or back; what the back has handed out stays gone.
    pub(in crate::runner) fn seek(&mut self, key: &[u8]) {
        self.iter.seek(key);
        let front = self.pairs.partition_point(|(other, _)| &other[..] < key);
        self.left.start = front.min(self.left.end);
    }
}

/// The pairs of `state` within `bounds`.
fn within(state: &State, bounds: &Bounds) -> Vec<(Vec<u8>, Bytes)> {
    let (low, high) = (
        bounds.0.as_ref().map(|k| &k[..]),
        bounds.1.as_ref().map(|k| &k[..]),
    );
    let inside = state
        .iter()
        .filter(|(key, _)| RangeBounds::<[u8]>::contains(&(low, high), &key[..]));
    inside
        .map(|(key, value)| (key.clone(), value.clone()))
        .collect()
}

fn iter_of(from: &impl Readable, range: &Range) -> Iter {
    match range {
        Range::All => from.iter(),
        Range::Within(bounds) => from.range(bounds),
        Range::Prefix(prefix) => from.prefix(prefix),
    }
}
