//! What a transaction has written and nobody else sees yet.
//!
//! A range that it has deleted takes away what it had written there; what it writes there later
//! stands beside the range, and wins. So the ranges come first when the transaction commits.
//!
//! An iterator holds a copy, which stays as it is: copies share what they have in common, so that
//! neither making one nor writing beside it takes time in proportion to the writes. No locks.

use crate::base::keys::{KEYSPACE_PREFIX_LEN, KeyspaceId};
use crate::base::sorted::Map;
use crate::base::sorted::range_set::{Added, RangeSet};
use crate::memtable::Lifetime;
use bytes::Bytes;

/// Writes by engine key, and deleted ranges.
#[derive(Clone, Default)]
pub(crate) struct OwnWrites {
    writes: Map<OwnWrite>,
    /// By keyspace: ranges that meet are one, and no operation deletes from two keyspaces.
    deleted: Map<RangeSet>,
    /// How many changes there have been.
    changes: u64,
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
    Write(Bytes, Option<OwnWrite>),
    /// The writes that a range delete took away, and what it made of the ranges before it.
    Range(Vec<(Bytes, OwnWrite)>, KeyspaceId, Option<Added>),
}

impl OwnWrites {
    pub(crate) fn is_empty(&self) -> bool {
        self.writes.is_empty() && self.deleted.iter().all(|(_, ranges)| ranges.is_empty())
    }

    /// How many keys and ranges it has changed.
    pub(super) fn counts(&self) -> (usize, usize) {
        let deleted = self.deleted.iter().map(|(_, ranges)| ranges.len());
        (self.writes.len(), deleted.sum())
    }

    /// Whether it has changed a key.
    pub(super) fn changes_key(&self, key: &[u8]) -> bool {
        self.writes.get(key).is_some() || self.deleted_with(key).is_some()
    }

    /// Whether it has changed a key from `start` to before `end`, which are of one keyspace.
    pub(super) fn meets(&self, start: &[u8], end: &[u8]) -> bool {
        let prefix = start.get(..KEYSPACE_PREFIX_LEN).unwrap_or_default();
        let deleted = self.deleted.get(prefix);
        self.first(start, end).is_some() || deleted.is_some_and(|ranges| ranges.meets(start, end))
    }

    /// How many changes there have been: what a copy with this number has.
    pub(crate) fn changes(&self) -> u64 {
        self.changes
    }

    /// What has become of a key, if anything.
    pub(crate) fn get(&self, key: &[u8]) -> Option<OwnWrite> {
        let written = self.writes.get(key).cloned();
        let removed = || OwnWrite {
            value: None,
            lifetime: Lifetime::AsUsual,
        };
        written.or_else(|| self.deleted_with(key).map(|_| removed()))
    }

    /// The range that has been deleted with this key: its first one, and the first one after.
    pub(crate) fn deleted_with(&self, key: &[u8]) -> Option<(&Bytes, &Bytes)> {
        let ranges = self.deleted.get(key.get(..KEYSPACE_PREFIX_LEN)?)?;
        ranges.range_with(key)
    }

    /// The writes to single keys, in their order.
    pub(crate) fn writes(&self) -> impl Iterator<Item = (&Bytes, &OwnWrite)> {
        self.writes.iter()
    }

    /// The ranges that have been deleted, in their order.
    pub(crate) fn deleted(&self) -> impl Iterator<Item = (&Bytes, &Bytes)> {
        self.deleted.iter().flat_map(|(_, ranges)| ranges.iter())
    }

    /// The first write from `lower` to before `upper`.
    pub(crate) fn first(&self, lower: &[u8], upper: &[u8]) -> Option<(&Bytes, Option<&Bytes>)> {
        let first = self.writes.first_from(lower);
        let (key, write) = first.filter(|(key, _)| key[..] < *upper)?;
        Some((key, write.value.as_ref()))
    }

    /// The last write from `lower` to before `upper`.
    pub(crate) fn last(&self, lower: &[u8], upper: &[u8]) -> Option<(&Bytes, Option<&Bytes>)> {
        let last = self.writes.last_before(upper);
        let (key, write) = last.filter(|(key, _)| key[..] >= *lower)?;
        Some((key, write.value.as_ref()))
    }

    pub(crate) fn write(&mut self, key: Bytes, write: OwnWrite) -> Undo {
        self.changes += 1;
        let before = self.writes.insert(key.clone(), write);
        Undo::Write(key, before)
    }

    /// Deletes the keys of one keyspace from `start` to before `end`.
    pub(crate) fn delete_range(&mut self, start: Vec<u8>, end: Vec<u8>) -> Undo {
        self.changes += 1;
        let mut taken = Vec::new();
        while let Some((key, _)) = self.first(&start, &end) {
            let key = key.clone();
            taken.extend(self.writes.remove(&key));
        }
        let keyspace = KeyspaceId::of(&start);
        let mut added = None;
        self.with_deleted(keyspace, |ranges| added = ranges.add(start, end));
        Undo::Range(taken, keyspace, added)
    }

    /// Takes the newest write back that has not been taken back.
    pub(crate) fn undo(&mut self, undo: Undo) {
        self.changes += 1;
        match undo {
            Undo::Write(key, Some(before)) => drop(self.writes.insert(key, before)),
            Undo::Write(key, None) => drop(self.writes.remove(&key)),
            Undo::Range(taken, keyspace, added) => {
                for (key, write) in taken {
                    self.writes.insert(key, write);
                }
                if let Some(added) = added {
                    self.with_deleted(keyspace, |ranges| ranges.take_back(added));
                }
            }
        }
    }

    fn with_deleted(&mut self, keyspace: KeyspaceId, change: impl FnOnce(&mut RangeSet)) {
        let prefix = Bytes::copy_from_slice(&keyspace.0.to_be_bytes());
        // Taken out meanwhile: of what stands in the map a change would copy more.
        let ranges = self.deleted.remove(&prefix).map(|(_, ranges)| ranges);
        let mut ranges = ranges.unwrap_or_default();
        change(&mut ranges);
        self.deleted.insert(prefix, ranges);
    }
}
