//! A partition of the model: its range, and the bytes of its tables and generations.

use crate::base::keys::PartitionId;
use crate::jobs::plan::partitions::{Frozen, JoinFacts, PartitionFacts};

/// Generations that a partition may have.
pub(super) const MAX_GENERATIONS: usize = 4;

#[derive(Clone, Debug, Default)]
pub(super) struct Partition {
    pub(super) id: PartitionId,
    /// The keyspaces in which its range begins and ends. At most one keyspace exists in the range.
    pub(super) keyspaces: (u32, u32),
    /// Bytes of each key table, in key order.
    pub(super) key_tables: Vec<u64>,
    /// Bytes of each frozen generation, the oldest first.
    pub(super) frozen: Vec<u64>,
    /// Bytes of the generation that takes tables.
    pub(super) open: Option<u64>,
}

impl Partition {
    pub(super) fn sorted_bytes(&self) -> u64 {
        self.key_tables.iter().sum()
    }

    pub(super) fn unsorted_bytes(&self) -> u64 {
        self.frozen.iter().sum::<u64>() + self.open.unwrap_or(0)
    }

    pub(super) fn bytes(&self) -> u64 {
        self.sorted_bytes() + self.unsorted_bytes()
    }

    pub(super) fn generations(&self) -> usize {
        self.frozen.len() + usize::from(self.open.is_some())
    }

    pub(super) fn has_all_generations(&self) -> bool {
        self.generations() >= MAX_GENERATIONS
    }

    pub(super) fn is_empty(&self) -> bool {
        self.key_tables.is_empty() && self.generations() == 0
    }

    /// The most even border between key tables: the difference of its sides in bytes, and the
    /// number of key tables before it.
    pub(super) fn border(&self) -> Option<(u64, usize)> {
        let borders = 1..self.key_tables.len();
        let differences = borders.map(|at| {
            let (left, right) = self.key_tables.split_at(at);
            let (left, right): (u64, u64) = (left.iter().sum(), right.iter().sum());
            (left.abs_diff(right), at)
        });
        differences.min()
    }

    /// Whether it is larger than `most`, and a border leaves a quarter of it on each side.
    pub(super) fn is_outgrown(&self, most: u64) -> bool {
        let is_even = |(difference, _): (u64, usize)| difference <= self.sorted_bytes() / 2;
        self.bytes() > most && self.border().is_some_and(is_even)
    }

    /// Whether a flush would need one more generation than it may have. An open generation of
    /// `limit` bytes takes no more.
    pub(super) fn blocks(&self, limit: u64) -> bool {
        let is_full = self.open.is_none_or(|bytes| bytes >= limit);
        is_full && self.has_all_generations()
    }

    /// Freezes its open generation, unless that would make it one too many.
    pub(super) fn freeze(&mut self) {
        if !self.has_all_generations() {
            self.frozen.extend(self.open.take());
        }
    }

    /// Its figures, without a join.
    pub(super) fn figures(&self, most: u64) -> PartitionFacts {
        let has_all = self.has_all_generations();
        PartitionFacts {
            bytes: self.bytes(),
            unsorted_bytes: self.unsorted_bytes(),
            key_tables: self.key_tables.len(),
            frozen: (!self.frozen.is_empty()).then(Frozen::default),
            blocks_flushes: has_all && self.open.is_none(),
            is_to_be_split: !has_all && self.is_outgrown(most),
            join: None,
            key_table_bytes: self.sorted_bytes(),
            ..PartitionFacts::default()
        }
    }

    /// The join with the next partition, whatever the keyspaces: both together are smaller than a
    /// quarter of `most`; or they are merged, and one of them is empty.
    pub(super) fn join(&self, right: &Partition, most: u64) -> Option<JoinFacts> {
        let bytes = self.bytes() + right.bytes();
        let needs_merge = self.generations() + right.generations() > 0;
        let is_one_empty = self.is_empty() || right.is_empty();
        let is_due = bytes < most / 4 || (!needs_merge && is_one_empty);
        is_due.then_some(JoinFacts {
            needs_merge,
            bytes,
            right: right.id,
        })
    }
}
