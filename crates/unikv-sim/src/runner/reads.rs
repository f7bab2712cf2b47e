//! The reads of a run: each answer is compared with the oracle, or with the moment that a snapshot
//! or iterator was made at.

use super::{Held, MachineGone, Runner};
use crate::history::{Bounds, Key, Range, Walk};
use crate::oracle::State;
use crate::value::{Bytes, show, show_option};
use crate::verify;
use std::collections::VecDeque;
use std::ops::RangeBounds;
use unikv::{Db, Iter};

impl Runner {
    pub(super) fn get(&self, key: &[u8]) -> Result<(), MachineGone> {
        let got = self.must("get", self.db().get(key))?;
        self.check_key("get", key, got.as_deref());
        let there = self.must("contains_key", self.db().contains_key(key))?;
        if self.oracle.unknowns() == 0 {
            assert_eq!(there, got.is_some(), "contains_key of {}", show(key));
        }
        Ok(())
    }

    pub(super) fn multi_get(&self, keys: &[Key]) -> Result<(), MachineGone> {
        let got = self.must("multi_get", self.db().multi_get(keys))?;
        assert_eq!(got.len(), keys.len());
        for (key, got) in keys.iter().zip(&got) {
            self.check_key("multi_get", key, got.as_deref());
        }
        Ok(())
    }

    pub(super) fn check_key(&self, what: &str, key: &[u8], got: Option<&[u8]>) {
        assert!(
            self.oracle.allows(key, got),
            "{what} of {} answers {}, but {} was written last",
            show(key),
            show_option(got),
            show_option(self.oracle.state().get(key).map(|v| &v[..])),
        );
    }

    pub(super) fn scan(&self, range: &Range, walk: Walk) -> Result<(), MachineGone> {
        if self.oracle.unknowns() > 0 {
            return self.check_all();
        }
        let mut rest = within(self.oracle.state(), &range.bounds());
        let mut iter = self.must("a scan", open_iter(self.db(), range))?;
        let most = rest.len() + 1;
        self.follow(&mut iter, &mut rest, most, walk)
    }

    /// Takes `steps` steps of `iter` and compares each with `rest`.
    pub(super) fn follow(
        &self,
        iter: &mut Iter,
        rest: &mut VecDeque<(Vec<u8>, Bytes)>,
        steps: usize,
        walk: Walk,
    ) -> Result<(), MachineGone> {
        for n in 0..steps {
            let back = walk.is_back(n);
            let (got, want) = match back {
                true => (iter.next_back(), rest.pop_back()),
                false => (iter.next(), rest.pop_front()),
            };
            let got = self.must("a step of an iterator", got.transpose())?;
            let got = got.as_ref().map(|(key, value)| (&key[..], &value[..]));
            let want = want.as_ref().map(|(key, value)| (&key[..], &value[..]));
            assert!(
                got == want,
                "step {n} ({}) of a scan: got {}, want {}",
                if back { "back" } else { "forward" },
                verify::show_pair(got),
                verify::show_pair(want)
            );
        }
        Ok(())
    }

    pub(super) fn read_snapshot(
        &self,
        slot: usize,
        keys: &[Key],
        range: &Range,
        walk: Walk,
    ) -> Result<(), MachineGone> {
        let Some((snapshot, state)) = &self.snapshots[slot] else {
            return Ok(());
        };
        for key in keys {
            let got = self.must("get of a snapshot", snapshot.get(key))?;
            let want = state.get(&key.0).map(|v| &v[..]);
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
        }
        let many = self.must("multi_get of a snapshot", snapshot.multi_get(keys))?;
        for (key, got) in keys.iter().zip(&many) {
            let want = state.get(&key.0).map(|v| &v[..]);
            assert!(
                got.as_deref() == want,
                "multi_get of {} in a snapshot",
                show(key)
            );
        }
        let mut rest = within(state, &range.bounds());
        let most = rest.len() + 1;
        let opened = match range {
            Range::All => snapshot.iter(),
            Range::Within(bounds) => snapshot.range(bounds.clone()),
            Range::Prefix(prefix) => snapshot.prefix(prefix),
        };
        let mut iter = self.must("a scan of a snapshot", Ok(opened))?;
        self.follow(&mut iter, &mut rest, most, walk)
    }

    pub(super) fn iterate(
        &mut self,
        slot: usize,
        range: &Range,
        seek: Option<&[u8]>,
    ) -> Result<(), MachineGone> {
        if self.oracle.unknowns() > 0 {
            return Ok(());
        }
        let mut iter = self.must("an iterator", open_iter(self.db(), range))?;
        let mut rest = within(self.oracle.state(), &range.bounds());
        if let Some(key) = seek {
            iter.seek(key);
            while rest.front().is_some_and(|(first, _)| &first[..] < key) {
                rest.pop_front();
            }
        }
        self.iterators[slot] = Some(Held { iter, rest });
        Ok(())
    }

    pub(super) fn advance(
        &mut self,
        slot: usize,
        steps: usize,
        walk: Walk,
    ) -> Result<(), MachineGone> {
        let Some(mut held) = self.iterators[slot].take() else {
            return Ok(());
        };
        self.follow(&mut held.iter, &mut held.rest, steps, walk)?;
        self.iterators[slot] = Some(held);
        Ok(())
    }

    /// Every key by `get` and by a scan both ways, whatever is unknown.
    pub fn check_all(&self) -> Result<(), MachineGone> {
        for key in self.oracle.keys() {
            self.get(key)?;
        }
        let forward = self.must("a scan", verify::scan(self.db().iter()))?;
        let backward = self.must("a scan", verify::scan_back(self.db().iter()))?;
        verify::same_pairs("backward scan", &backward, &forward);
        let mark = self.db().mark();
        let shown = show_option(mark.as_deref());
        let allowed = self.oracle.allows_mark(mark.as_deref());
        assert!(allowed, "the mark is {shown}");
        for key in self.oracle.keys() {
            self.check_key("a scan", key, forward.get(key).map(|v| &v[..]));
        }
        let foreign = forward
            .keys()
            .find(|key| !self.oracle.keys().contains(*key));
        assert!(
            foreign.is_none(),
            "a scan yields {}, never written",
            show(foreign.unwrap())
        );
        Ok(())
    }
}

/// The pairs of `state` within `bounds`.
fn within(state: &State, bounds: &Bounds) -> VecDeque<(Vec<u8>, Bytes)> {
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

fn open_iter(db: &Db, range: &Range) -> unikv::Result<Iter> {
    Ok(match range {
        Range::All => db.iter(),
        Range::Within(bounds) => db.range(bounds.clone()),
        Range::Prefix(prefix) => db.prefix(prefix),
    })
}
