//! What a transaction has written and nobody else sees yet.
//!
//! A range that it has deleted takes away what it had written there; what it writes there later
//! stands beside the range, and wins. So the ranges come first when the transaction commits. No
//! locks.

use crate::base::keys::KeyspaceId;
use crate::base::range_set::{Added, RangeSet};
use crate::memtable::Lifetime;
use bytes::Bytes;
use std::collections::BTreeMap;
use std::ops::Bound;

/// Writes by engine key, and deleted ranges.
#[derive(Clone, Default)]
pub(crate) struct OwnWrites {
    writes: BTreeMap<Vec<u8>, OwnWrite>,
    /// By keyspace: ranges that meet are one, and no operation deletes from two keyspaces.
    deleted: BTreeMap<KeyspaceId, RangeSet>,
}

/// What a transaction has made of a key.
#[derive(Clone)]
pub(crate) struct OwnWrite {
    /// `None`: it has removed it.
    pub(crate) value: Option<Bytes>,
    pub(crate) lifetime: Lifetime,
}

/// How to take a write back.
pub(crate) enum Undo {
    Write(Vec<u8>, Option<OwnWrite>),
    /// The writes that a range delete took away, and what it made of the ranges before it.
    Range(Vec<(Vec<u8>, OwnWrite)>, KeyspaceId, Option<Added>),
}

impl OwnWrites {
    pub(crate) fn is_empty(&self) -> bool {
        self.writes.is_empty() && self.deleted.values().all(RangeSet::is_empty)
    }

    /// What has become of a key, if anything.
    pub(crate) fn get(&self, key: &[u8]) -> Option<OwnWrite> {
        let written = self.writes.get(key).cloned();
        let removed = || OwnWrite {
            value: None,
            lifetime: Lifetime::AsUsual,
        };
        written.or_else(|| self.deletes(key).then(removed))
    }

    /// Whether a range that has been deleted has this key.
    pub(crate) fn deletes(&self, key: &[u8]) -> bool {
        let ranges = self.deleted.get(&KeyspaceId::of(key));
        ranges.is_some_and(|ranges| ranges.holds(key))
    }

    /// The writes to single keys, in their order.
    pub(crate) fn writes(&self) -> impl Iterator<Item = (&[u8], &OwnWrite)> {
        let writes = self.writes.iter();
        writes.map(|(key, write)| (key.as_slice(), write))
    }

    /// The ranges that have been deleted, in their order.
    pub(crate) fn deleted(&self) -> impl Iterator<Item = (&[u8], &[u8])> {
        self.deleted.values().flat_map(RangeSet::iter)
    }

    /// The first and the last write from `lower` to before `upper`.
    pub(super) fn ends(
        &self,
        lower: &[u8],
        upper: &[u8],
    ) -> impl DoubleEndedIterator<Item = (&[u8], Option<&Bytes>)> {
        let bounds = (Bound::Included(lower), Bound::Excluded(upper));
        let within = (lower < upper).then(|| self.writes.range::<[u8], _>(bounds));
        let within = within.into_iter().flatten();
        within.map(|(key, write)| (key.as_slice(), write.value.as_ref()))
    }

    pub(crate) fn write(&mut self, key: Vec<u8>, write: OwnWrite) -> Undo {
        let before = self.writes.insert(key.clone(), write);
        Undo::Write(key, before)
    }

    /// Deletes the keys of one keyspace from `start` to before `end`.
    pub(crate) fn delete_range(&mut self, start: Vec<u8>, end: Vec<u8>) -> Undo {
        let within = (Bound::Included(&start), Bound::Excluded(&end));
        let written = self.writes.range::<Vec<u8>, _>(within);
        let keys: Vec<_> = written.map(|(key, _)| key.clone()).collect();
        let taken = keys
            .into_iter()
            .filter_map(|key| self.writes.remove_entry(&key));
        let taken = taken.collect();
        let keyspace = KeyspaceId::of(&start);
        let added = self.deleted.entry(keyspace).or_default().add(start, end);
        Undo::Range(taken, keyspace, added)
    }

    /// Takes the newest write back that has not been taken back.
    pub(crate) fn undo(&mut self, undo: Undo) {
        match undo {
            Undo::Write(key, Some(before)) => drop(self.writes.insert(key, before)),
            Undo::Write(key, None) => drop(self.writes.remove(&key)),
            Undo::Range(taken, keyspace, added) => {
                self.writes.extend(taken);
                if let (Some(ranges), Some(added)) = (self.deleted.get_mut(&keyspace), added) {
                    ranges.take_back(added);
                }
            }
        }
    }
}
