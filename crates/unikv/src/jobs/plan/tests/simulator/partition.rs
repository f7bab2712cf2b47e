//! A partition of the model: its range, and the bytes of its tables and generations.

use super::values::Live;
use crate::base::keys::{FileNumber, PartitionId};
use crate::jobs::plan::partitions::{ForScans, Frozen, JoinFacts, PartitionFacts};

/// Generations that a partition may have.
pub(super) const MAX_GENERATIONS: usize = 4;

/// Tables of an UnsortedStore that are merged together.
#[derive(Clone, Copy, Debug)]
pub(super) struct Generation {
    pub(super) bytes: u64,
    /// The oldest of its tables, which other partitions may share.
    pub(super) oldest_file: FileNumber,
    pub(super) tables: usize,
    /// Some of its tables have tombstones.
    pub(super) has_tombstones: bool,
    pub(super) are_tombstones_counted: bool,
    /// Its records may hide more than there may be when idle.
    pub(super) hides: bool,
}

/// An open generation of no more tables is not merged for scans alone.
const FEW_TABLES: usize = 3;

#[derive(Clone, Debug, Default)]
pub(super) struct Partition {
    pub(super) id: PartitionId,
    /// The least key that it may hold.
    pub(super) start: Vec<u8>,
    /// The keyspaces in which its range begins and ends. At most one keyspace exists in the range.
    pub(super) keyspaces: (u32, u32),
    /// Bytes of each key table, in key order.
    pub(super) key_tables: Vec<u64>,
    /// The frozen generations, the oldest first.
    pub(super) frozen: Vec<Generation>,
    /// The generation that takes tables.
    pub(super) open: Option<Generation>,
    pub(super) live: Live,
    /// Bytes that scans have charged for values that are spread.
    pub(super) charge: u64,
    /// Bytes that scans have lost to the number of tables.
    pub(super) lost_by_scans: u64,
}

impl Partition {
    pub(super) fn sorted_bytes(&self) -> u64 {
        self.key_tables.iter().sum()
    }

    pub(super) fn unsorted_bytes(&self) -> u64 {
        let all = self.frozen.iter().chain(&self.open);
        all.map(|generation| generation.bytes).sum()
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
        let is_full = self.open.is_none_or(|open| open.bytes >= limit);
        is_full && self.has_all_generations()
    }

    /// Freezes its open generation, unless that would make it one too many.
    pub(super) fn freeze(&mut self) {
        if !self.has_all_generations() {
            self.frozen.extend(self.open.take());
        }
    }

    /// Whether scans look into many tables of its open generation, whose merge writes more of
    /// values than of keys that are there already.
    pub(super) fn has_many_tables(&self) -> bool {
        let is_worth_merging =
            |open: Generation| open.tables > FEW_TABLES && open.bytes >= self.sorted_bytes();
        !self.has_all_generations() && self.open.is_some_and(is_worth_merging)
    }

    /// Whether its open generation can be frozen, and has tombstones that are not counted.
    pub(super) fn has_tombstones(&self) -> bool {
        let has_any = |open: Generation| open.has_tombstones && !open.are_tombstones_counted;
        !self.has_all_generations() && self.open.is_some_and(has_any)
    }

    /// Whether scans have lost as much as the merge of the keys of its newest generation costs.
    pub(super) fn wants_scan_merge(&self) -> bool {
        let newest = self.open.or(self.frozen.last().copied());
        newest.is_some_and(|newest| self.lost_by_scans >= newest.bytes)
    }

    /// The oldest of its frozen tables.
    pub(super) fn oldest_file(&self) -> Option<FileNumber> {
        let files = self.frozen.iter().map(|generation| generation.oldest_file);
        files.min()
    }

    /// Its figures, without a join.
    pub(super) fn figures(&self, most: u64) -> PartitionFacts {
        let has_all = self.has_all_generations();
        let frozen = Frozen {
            oldest_file: self.oldest_file(),
        };
        PartitionFacts {
            start: self.start.as_slice().into(),
            bytes: self.bytes(),
            unsorted_bytes: self.unsorted_bytes(),
            key_tables: self.key_tables.len(),
            frozen: (!self.frozen.is_empty()).then_some(frozen),
            blocks_flushes: has_all && self.open.is_none(),
            is_to_be_split: !has_all && self.is_outgrown(most),
            join: None,
            key_table_bytes: self.sorted_bytes(),
            for_scans: ForScans {
                has_many_tables: self.has_many_tables(),
                is_charged: self.charge > 0,
                wants_scan_merge: self.wants_scan_merge(),
            },
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

/// A key between two others; `None`: there is no other after it.
pub(super) fn key_between(before: &[u8], after: Option<&[u8]>) -> Vec<u8> {
    let mut key = Vec::new();
    let mut after = after;
    for place in 0.. {
        let least = before.get(place).copied().map_or(0, u32::from);
        let end = after.map_or(256, |it| it.get(place).copied().map_or(0, u32::from));
        if least + 1 < end {
            key.push(((least + end) / 2) as u8);
            break;
        }
        key.push(least as u8);
        if least < end {
            after = None;
        }
    }
    key
}
