//! Draws long runs of deletes, and what iterators and writers do in them: gaps are left there.
//!
//! From a generator beside the others, so that recorded seeds draw the rest as before.

use super::Author;
use crate::history::{Bounds, Key, LONG_SLOT, Op, Range, Walk};
use rand::Rng;
use std::ops::Bound;

/// Histories with runs.
const RUNS_EVERY: u64 = 3;

/// Whether the history of this seed has runs.
pub(super) fn are_in(seed: u64) -> bool {
    seed % RUNS_EVERY == 1
}

impl Author {
    /// Many neighbours are written and deleted, between readers of moments before, between and
    /// after. Scans from several places find little or nothing there, and some keys come back
    /// between them.
    pub(super) fn run(&mut self, ops: &mut Vec<Op>) {
        let keys = self.neighbours();
        let all = (
            Bound::Included(keys[0].clone()),
            Bound::Included(keys[keys.len() - 1].clone()),
        );
        self.look(&all, ops);
        let puts = keys.iter().filter(|_| self.rng.random_range(0..3) > 0);
        let puts: Vec<Key> = puts.cloned().collect();
        let puts = puts.into_iter().map(|key| (key, self.maybe_value()));
        ops.push(Op::Write(puts.collect(), None));
        self.look(&all, ops);
        if self.rng.random_range(0..3) == 0 {
            // Then tombstones of the memtable hide what is in tables.
            ops.push(Op::Flush);
        }
        let deletes = keys.iter().map(|key| (key.clone(), None));
        ops.push(Op::Write(deletes.collect(), None));
        for _ in 0..self.rng.random_range(2..8) {
            ops.push(Op::Scan(Range::Within(all.clone()), self.either()));
            let among = keys[self.rng.random_range(0..keys.len())].clone();
            match self.rng.random_range(0..12) {
                0..4 => ops.push(Op::Set(among.clone(), self.maybe_value())),
                4 => ops.push(Op::Set(among.clone(), None)),
                5 | 6 => {
                    let some = keys.iter().filter(|_| self.rng.random_range(0..16) == 0);
                    let some: Vec<Key> = some.cloned().collect();
                    let entries = some.into_iter().map(|key| (key, self.maybe_value()));
                    ops.push(Op::Ingest(entries.collect(), false));
                }
                7 => ops.push(Op::Flush),
                _ => self.look(&all, ops),
            }
            let part = match self.rng.random_range(0..2) {
                0 => (all.0.clone(), Bound::Included(among)),
                _ => (Bound::Included(among), all.1.clone()),
            };
            ops.push(Op::Scan(Range::Within(part), self.either()));
        }
    }

    /// Keys that stand together: enough that a run of them is worth a gap.
    fn neighbours(&mut self) -> Vec<Key> {
        let count = self.rng.random_range(36..64);
        let first = self.rng.random_range(0..32);
        let key = |n| Key(format!("run {n:03}").into_bytes());
        let mut keys: Vec<Key> = (first..first + count).map(key).collect();
        if self.rng.random_range(0..3) == 0 {
            // And those that the rest of the history has.
            keys.extend(self.keys.iter().cloned());
            keys.sort_unstable();
            keys.dedup();
        }
        keys
    }

    /// A reader of this moment is made, or one that there may be goes on.
    fn look(&mut self, within: &Bounds, ops: &mut Vec<Op>) {
        if !self.mix.reads {
            return;
        }
        let slot = self.rng.random_range(0..=LONG_SLOT);
        let range = Range::Within(within.clone());
        ops.push(match self.rng.random_range(0..6) {
            0 => Op::Snapshot(slot),
            1 => Op::ReadSnapshot(slot, Vec::new(), range, self.either()),
            2 => Op::Iterate(slot, range, None),
            3 => Op::IterateSnapshot(slot, self.slot(), range),
            _ => Op::Advance(slot, self.rng.random_range(1..4), self.either()),
        });
    }

    fn either(&mut self) -> Walk {
        match self.rng.random_range(0..3) {
            0 => Walk::Backward,
            1 => Walk::Forward,
            _ => self.walk(),
        }
    }
}
