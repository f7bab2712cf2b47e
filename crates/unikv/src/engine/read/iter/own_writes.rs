//! What a transaction has written and nobody else sees yet.
//!
//! A range that it has deleted takes away what it had written there; what it writes there later
//! stands beside the range, and wins. So the ranges come first when the transaction commits. No
//! locks.

use crate::memtable::Lifetime;
use bytes::Bytes;
use std::collections::BTreeMap;
use std::ops::Bound;

/// Writes by engine key, and deleted ranges.
#[derive(Clone, Default)]
pub(crate) struct OwnWrites {
    writes: BTreeMap<Vec<u8>, OwnWrite>,
    /// From each first key to the first one after; disjoint.
    deleted: BTreeMap<Vec<u8>, Vec<u8>>,
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
    /// The writes that a range delete took away, and the ranges before it.
    Range(BTreeMap<Vec<u8>, OwnWrite>, BTreeMap<Vec<u8>, Vec<u8>>),
}

impl OwnWrites {
    pub(crate) fn is_empty(&self) -> bool {
        self.writes.is_empty() && self.deleted.is_empty()
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
        let upto = (Bound::Unbounded, Bound::Included(key));
        let last = self.deleted.range::<[u8], _>(upto).next_back();
        last.is_some_and(|(_, end)| key < end.as_slice())
    }

    /// The writes to single keys, in their order.
    pub(crate) fn writes(&self) -> impl Iterator<Item = (&[u8], &OwnWrite)> {
        let writes = self.writes.iter();
        writes.map(|(key, write)| (key.as_slice(), write))
    }

    /// The ranges that have been deleted, in their order.
    pub(crate) fn deleted(&self) -> impl Iterator<Item = (&[u8], &[u8])> {
        let deleted = self.deleted.iter();
        deleted.map(|(start, end)| (start.as_slice(), end.as_slice()))
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

    /// Deletes the keys from `start` to before `end`.
    pub(crate) fn delete_range(&mut self, start: Vec<u8>, end: Vec<u8>) -> Undo {
        let before = self.deleted.clone();
        let mut taken = self.writes.split_off(&start);
        self.writes.append(&mut taken.split_off(&end));
        self.add_deleted(start, end);
        Undo::Range(taken, before)
    }

    fn add_deleted(&mut self, mut start: Vec<u8>, mut end: Vec<u8>) {
        // From the last one that begins at or before the end, backwards.
        loop {
            let upto = (Bound::Unbounded, Bound::Included(end.as_slice()));
            let last = self.deleted.range::<[u8], _>(upto).next_back();
            let Some((from, to)) = last.filter(|(_, to)| to.as_slice() >= start.as_slice()) else {
                break;
            };
            let from = from.clone();
            end = end.max(to.clone());
            self.deleted.remove(&from);
            start = start.min(from);
        }
        self.deleted.insert(start, end);
    }

    /// Takes the newest write back that has not been taken back.
    pub(crate) fn undo(&mut self, undo: Undo) {
        match undo {
            Undo::Write(key, Some(before)) => drop(self.writes.insert(key, before)),
            Undo::Write(key, None) => drop(self.writes.remove(&key)),
            Undo::Range(mut taken, before) => {
                self.writes.append(&mut taken);
                self.deleted = before;
            }
        }
    }
}
