//! What decisions go by of the partitions: figures of each, and for each kind of job the partitions
//! in which one may be due, in the order of their urgency.
//!
//! Invariant: an order holds exactly the partitions whose figures say so. Whatever changes a
//! partition, or where its next tables go, has its figures set again
//! (`engine/catalog/partition_figures.rs`), which takes time with the logarithm of the number of
//! partitions; so does a rule's look.
//!
//! Kept under the catalog's lock.

use crate::base::keys::PartitionId;
use std::collections::{BTreeMap, BTreeSet};

/// The figures of a partition.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct PartitionFacts {
    /// Of its data.
    pub(crate) bytes: u64,
    pub(crate) unsorted_bytes: u64,
    pub(crate) key_tables: usize,
    /// It has generations that take no more tables.
    pub(crate) has_frozen: bool,
    /// It has all the generations that it may have, and none of them takes tables.
    pub(crate) blocks_flushes: bool,
    /// It has outgrown its limits, and a border divides it evenly.
    pub(crate) is_to_be_split: bool,
    /// It and the next partition are small, and hold keys of one keyspace.
    pub(crate) join: Option<JoinFacts>,
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
    /// Those to be split, the largest last.
    splits: BTreeSet<(u64, PartitionId)>,
    /// The left ones of those to be joined, the cheapest first.
    joins: BTreeSet<(JoinFacts, PartitionId)>,
}

impl Default for &Partitions {
    fn default() -> Self {
        static NONE: Partitions = Partitions {
            all: BTreeMap::new(),
            merges: BTreeSet::new(),
            splits: BTreeSet::new(),
            joins: BTreeSet::new(),
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
            self.merges.remove(&merge_order(id, &old));
            self.splits.remove(&(old.bytes, id));
            if let Some(join) = old.join {
                self.joins.remove(&(join, id));
            }
        }
        let Some(facts) = facts else {
            return;
        };
        if facts.has_frozen {
            self.merges.insert(merge_order(id, &facts));
        }
        if facts.is_to_be_split {
            self.splits.insert((facts.bytes, id));
        }
        if let Some(join) = facts.join {
            self.joins.insert((join, id));
        }
        self.all.insert(id, facts);
    }

    pub(crate) fn get(&self, id: PartitionId) -> Option<&PartitionFacts> {
        self.all.get(&id)
    }

    /// Those that can be merged, the most urgent first: one that keeps flushes waiting before
    /// others, and then the one with the largest UnsortedStore.
    pub(crate) fn merges(&self) -> impl Iterator<Item = PartitionId> {
        self.merges.iter().rev().map(|(.., id)| *id)
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

fn merge_order(id: PartitionId, facts: &PartitionFacts) -> (bool, u64, PartitionId) {
    (facts.blocks_flushes, facts.unsorted_bytes, id)
}
