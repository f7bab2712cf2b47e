//! Draws range deletes.
//!
//! From a generator beside the others, so that recorded seeds draw the rest as before.

use super::Author;
use crate::history::{Key, Op, Range, SpaceOp, TxOp};
use crate::spaces::NAMES;
use rand::Rng;
use std::ops::Bound;

/// Histories with range deletes.
const RANGES_EVERY: u64 = 5;

/// Whether the history of this seed deletes ranges.
pub(super) fn are_in(seed: u64) -> bool {
    // Those with keyspaces, those with transactions, and as many others.
    [1, 2, 4].contains(&(seed % RANGES_EVERY)) && (seed / RANGES_EVERY).is_multiple_of(2)
}

impl Author {
    /// A range delete, alone or with puts after it in one batch.
    pub(super) fn range_delete(&mut self) -> Op {
        let range = self.narrow_range();
        let count = match self.rng.random_range(0..3) {
            0 => self.rng.random_range(1..4),
            _ => 0,
        };
        let after = (0..count)
            .map(|_| (self.key(), self.maybe_value()))
            .collect();
        Op::DeleteRange(range, after)
    }

    /// Range deletes in one batch, enough to make it a large one, with puts after them.
    pub(super) fn range_deletes(&mut self) -> Op {
        let count = self.rng.random_range(2..80);
        let ranges = (0..count).map(|_| self.narrow_range()).collect();
        let count = self.rng.random_range(0..6);
        let after = (0..count)
            .map(|_| (self.key(), self.maybe_value()))
            .collect();
        Op::DeleteRanges(ranges, after)
    }

    /// The same in a keyspace.
    pub(super) fn range_delete_in_space(&mut self) -> SpaceOp {
        let name = self.rng.random_range(0..NAMES.len());
        SpaceOp::DeleteRange(name, self.narrow_range())
    }

    /// The same in a transaction.
    pub(super) fn range_delete_in_transaction(&mut self) -> TxOp {
        TxOp::DeleteRange(self.narrow_range())
    }

    /// Mostly a few neighbours.
    fn narrow_range(&mut self) -> Range {
        if self.rng.random_range(0..8) == 0 {
            return self.range();
        }
        let mut keys: Vec<Key> = self.keys.clone();
        keys.sort_unstable();
        let first = self.rng.random_range(0..keys.len());
        let last = (first + self.rng.random_range(0..6)).min(keys.len() - 1);
        let (first, last) = (keys[first].clone(), keys[last].clone());
        match self.rng.random_range(0..4) {
            0 => Range::Within((Bound::Excluded(first), Bound::Included(last))),
            1 => Range::Within((self.bound(first), self.bound(last))),
            _ => Range::Within((Bound::Included(first), Bound::Excluded(last))),
        }
    }
}
