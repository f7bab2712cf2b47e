//! What decisions go by of the partitions: figures of each, and for each kind of job the partitions
//! in which one may be due, in the order of their urgency.
//!
//! Invariant: an order holds exactly the partitions whose figures say so. Whatever changes a
//! partition, or where its next tables go, has its figures set again
//! (`engine/catalog/partition_figures.rs`), which takes time with the logarithm of the number of
//! partitions; so does a rule's look.
//!
//! Kept under the catalog's lock.

use crate::base::keys::{FileNumber, PartitionId};
use crate::base::seeded::slip;
use std::collections::{BTreeMap, BTreeSet};

/// The figures of a partition.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct PartitionFacts {
    /// The least key that it may hold.
    pub(crate) start: Box<[u8]>,
    /// Of its data.
    pub(crate) bytes: u64,
    pub(crate) unsorted_bytes: u64,
    pub(crate) key_tables: usize,
    pub(crate) key_table_bytes: u64,
    /// It has generations that take no more tables.
    pub(crate) frozen: Option<Frozen>,
    /// It has all the generations that it may have, and none of them takes tables.
    pub(crate) blocks_flushes: bool,
    /// It has outgrown its limits, and a border divides it evenly.
    pub(crate) is_to_be_split: bool,
    /// It and the next partition are small, and hold keys of one keyspace.
    pub(crate) join: Option<JoinFacts>,
    pub(crate) for_scans: ForScans,
}

/// The generations of a partition that take no more tables.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Frozen {
    /// The oldest of their tables.
    pub(crate) oldest_file: Option<FileNumber>,
}

/// What would make scans of a partition cheaper.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct ForScans {
    /// Its open generation makes scans look into many tables, and its merge writes more of values
    /// than of keys that are there already.
    pub(crate) has_many_tables: bool,
    /// Scans have charged so much that copying some of it may be worth its cost.
    pub(crate) is_charged: bool,
    /// Scans have charged as much as a merge of the keys of its newest generation costs.
    pub(crate) wants_scan_merge: bool,
}

/// A partition and the one after it, which are to be one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct JoinFacts {
    /// One of them has an UnsortedStore.
    pub(crate) needs_merge: bool,
    /// Of the data of both.
    pub(crate) bytes: u64,
    pub(crate) right: PartitionId,
}

/// The figures of all partitions. See the module.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Partitions {
    all: BTreeMap<PartitionId, PartitionFacts>,
    /// Those with frozen generations, the most urgent last.
    merges: BTreeSet<(bool, u64, PartitionId)>,
    /// The same, those first that have been frozen for longest.
    merges_by_age: BTreeSet<(Option<FileNumber>, Box<[u8]>, PartitionId)>,
    /// Those to be split, the largest last.
    splits: BTreeSet<(u64, PartitionId)>,
    /// The left ones of those to be joined, the cheapest first.
    joins: BTreeSet<(JoinFacts, PartitionId)>,
    many_tables: BTreeSet<PartitionId>,
    charged: BTreeSet<PartitionId>,
    scan_merges: BTreeSet<PartitionId>,
}

impl Default for &Partitions {
    fn default() -> Self {
        static NONE: Partitions = Partitions {
            all: BTreeMap::new(),
            merges: BTreeSet::new(),
            merges_by_age: BTreeSet::new(),
            splits: BTreeSet::new(),
            joins: BTreeSet::new(),
            many_tables: BTreeSet::new(),
            charged: BTreeSet::new(),
            scan_merges: BTreeSet::new(),
        };
        &NONE
    }
}

impl Partitions {
    /// Sets the figures of a partition; `None`: it is not there any more.
    pub(crate) fn set(&mut self, id: PartitionId, facts: Option<PartitionFacts>) {
        if self.all.get(&id) == facts.as_ref() {
            return;
        }
        if let Some(old) = self.all.remove(&id) {
            self.remove(id, &old);
        }
        if let Some(facts) = facts {
            self.insert(id, &facts);
            self.all.insert(id, facts);
        }
    }

    fn remove(&mut self, id: PartitionId, old: &PartitionFacts) {
        if let Some(frozen) = old.frozen {
            self.merges.remove(&merge_order(id, old));
            self.merges_by_age.remove(&age_order(id, old, frozen));
        }
        let bytes = slip!(StaleSplits, 0, old.bytes);
        self.splits.remove(&(bytes, id));
        if let Some(join) = old.join {
            self.joins.remove(&(join, id));
        }
        self.many_tables.remove(&id);
        self.charged.remove(&id);
        self.scan_merges.remove(&id);
    }

    fn insert(&mut self, id: PartitionId, facts: &PartitionFacts) {
        if let Some(frozen) = facts.frozen {
            self.merges.insert(merge_order(id, facts));
            self.merges_by_age.insert(age_order(id, facts, frozen));
        }
        if facts.is_to_be_split {
            self.splits.insert((facts.bytes, id));
        }
        if let Some(join) = facts.join {
            self.joins.insert((join, id));
        }
        let scans = facts.for_scans;
        self.many_tables.extend(scans.has_many_tables.then_some(id));
        self.charged.extend(scans.is_charged.then_some(id));
        self.scan_merges
            .extend(scans.wants_scan_merge.then_some(id));
    }

    pub(crate) fn get(&self, id: PartitionId) -> Option<&PartitionFacts> {
        self.all.get(&id)
    }

    #[cfg(any(test, debug_assertions))]
    pub(crate) fn len(&self) -> usize {
        self.all.len()
    }

    /// Any one of them.
    #[cfg(test)]
    pub(crate) fn any(&self) -> Option<PartitionId> {
        self.all.keys().next().copied()
    }

    /// Those that can be merged, the most urgent first: one that keeps flushes waiting before
    /// others, and then the one with the largest UnsortedStore.
    pub(crate) fn merges(&self) -> impl Iterator<Item = PartitionId> {
        self.merges.iter().rev().map(|(.., id)| *id)
    }

    /// The same, those first that have been frozen for longest, and those of one age in key order:
    /// their shares of a table are so.
    pub(crate) fn merges_by_age(&self) -> impl Iterator<Item = PartitionId> {
        self.merges_by_age.iter().map(|(.., id)| *id)
    }

    /// Those that are to be split, the largest first.
    pub(crate) fn splits(&self) -> impl Iterator<Item = PartitionId> {
        self.splits.iter().rev().map(|(_, id)| *id)
    }

    /// Those that are to be joined with the one after them: those that need no merge before
    /// others, and the smallest first.
    pub(crate) fn joins(&self) -> impl Iterator<Item = (PartitionId, JoinFacts)> {
        self.joins.iter().map(|(join, left)| (*left, *join))
    }
}

impl Partitions {
    /// Those in which scans look into many tables of an open generation.
    pub(crate) fn many_tables(&self) -> impl Iterator<Item = PartitionId> {
        self.many_tables.iter().copied()
    }

    /// Those to which scans have charged much.
    pub(crate) fn charged(&self) -> impl Iterator<Item = PartitionId> {
        self.charged.iter().copied()
    }

    /// Those in which a merge of keys for scans is worth its cost.
    pub(crate) fn scan_merges(&self) -> impl Iterator<Item = PartitionId> {
        self.scan_merges.iter().copied()
    }
}

fn age_order(
    id: PartitionId,
    facts: &PartitionFacts,
    frozen: Frozen,
) -> (Option<FileNumber>, Box<[u8]>, PartitionId) {
    let file = slip!(MergeSmallInKeyOrder, None, frozen.oldest_file);
    (file, facts.start.clone(), id)
}

fn merge_order(id: PartitionId, facts: &PartitionFacts) -> (bool, u64, PartitionId) {
    (facts.blocks_flushes, facts.unsorted_bytes, id)
}
