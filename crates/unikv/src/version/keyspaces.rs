//! The keyspaces of a version.
//!
//! A keyspace has two numbers. Its *id* is its name for handles and never changes. Its *data id*
//! stands before its keys; emptying the keyspace gives it another one, so that what it held is gone
//! at once, and a reader that meets the old number knows. Both come from one counter and are never
//! used twice; the default keyspace is number 0 in both, has no entry, and cannot go.
//!
//! Invariants: a key whose keyspace id is the data id of no keyspace is *gone*: nobody reads it,
//! and background work removes it. No partition holds keys of two keyspaces that are there.

use super::edit::{KeyspaceMeta, VersionEdit};
use super::range::KeyRange;
use super::state::chunked::{Chunked, Item};
use crate::base::keys::{KEYSPACE_PREFIX_LEN, KeyspaceId};
use crate::error::{Error, Result};
use std::ops::RangeInclusive;
use std::sync::Arc;

/// The name of the keyspace of the calls that name none.
pub(crate) const DEFAULT_NAME: &str = "default";

/// All keyspaces but the default one.
#[derive(Clone, Default)]
pub(crate) struct Keyspaces {
    ids: Chunked<ById>,
    /// By data id, and by name.
    data: Chunked<ByData>,
    names: Chunked<ByName>,
}

#[derive(Clone)]
struct ById(Arc<KeyspaceMeta>);

#[derive(Clone)]
struct ByData(Arc<KeyspaceMeta>);

#[derive(Clone)]
struct ByName(Arc<KeyspaceMeta>);

impl Item for ById {
    type Key = KeyspaceId;
    type Sum = ();

    fn key(&self) -> &KeyspaceId {
        &self.0.id
    }

    fn add_to(&self, _: Option<&ById>, _: &mut ()) {}
}

impl Item for ByData {
    type Key = KeyspaceId;
    type Sum = ();

    fn key(&self) -> &KeyspaceId {
        &self.0.data
    }

    fn add_to(&self, _: Option<&ByData>, _: &mut ()) {}
}

impl Item for ByName {
    type Key = str;
    type Sum = ();

    fn key(&self) -> &str {
        &self.0.name
    }

    fn add_to(&self, _: Option<&ByName>, _: &mut ()) {}
}

impl Keyspaces {
    /// By ascending id.
    pub(crate) fn all(&self) -> impl Iterator<Item = &KeyspaceMeta> {
        self.ids.iter().map(|ById(meta)| &**meta)
    }

    /// The keyspace with this id.
    pub(crate) fn get(&self, id: KeyspaceId) -> Option<&KeyspaceMeta> {
        self.ids.find(&id).map(|ById(meta)| &**meta)
    }

    /// The keyspace with this id, or the error that it has been dropped.
    pub(crate) fn existing(&self, id: KeyspaceId) -> Result<&KeyspaceMeta> {
        let dropped =
            || Error::no_such_keyspace("the keyspace has been dropped, or is of another database");
        self.get(id).ok_or_else(dropped)
    }

    /// The keyspace of this name.
    pub(crate) fn named(&self, name: &str) -> Option<&KeyspaceMeta> {
        self.names.find(name).map(|ByName(meta)| &**meta)
    }

    /// The keyspace whose keys begin with this data id.
    pub(crate) fn of_data(&self, data: KeyspaceId) -> Option<&KeyspaceMeta> {
        self.data.find(&data).map(|ByData(meta)| &**meta)
    }

    /// The first keyspace that has its keys in a range, unless that is the default one.
    pub(crate) fn first_in(&self, range: KeyRange<'_>) -> Option<&KeyspaceMeta> {
        let ids = ids_of(range);
        let at = self.data.partition_point(|data| data < ids.start());
        let ByData(first) = self.data.get(at)?;
        let is_default = ids.contains(&KeyspaceId::DEFAULT);
        (first.data <= *ids.end() && !is_default).then_some(&**first)
    }

    /// Whether keys with this data id are those of a keyspace that is there.
    pub(crate) fn holds(&self, data: KeyspaceId) -> bool {
        data == KeyspaceId::DEFAULT || self.of_data(data).is_some()
    }

    /// How many keyspaces have their keys in a range.
    pub(crate) fn count_in(&self, range: KeyRange<'_>) -> usize {
        let ids = ids_of(range);
        let from = self.data.partition_point(|data| data < ids.start());
        let to = self.data.partition_point(|data| data <= ids.end());
        to.saturating_sub(from) + usize::from(ids.contains(&KeyspaceId::DEFAULT))
    }

    /// Makes the changes of an edit. Returns the data ids that have come or gone with it. After an
    /// error this is unusable.
    pub(super) fn apply(
        &mut self,
        edit: &VersionEdit,
    ) -> std::result::Result<Vec<KeyspaceId>, String> {
        let mut changed = Vec::new();
        for id in &edit.dropped_keyspaces {
            let removed = self.remove(*id);
            let removed = removed.ok_or_else(|| format!("keyspace {} is unknown", id.0))?;
            changed.push(removed.data);
        }
        // Two may exchange their names.
        for meta in &edit.keyspaces {
            let before = self.remove(meta.id).map(|before| before.data);
            if before != Some(meta.data) {
                changed.extend(before);
                changed.push(meta.data);
            }
        }
        for meta in &edit.keyspaces {
            self.add(Arc::new(meta.clone()))?;
        }
        Ok(changed)
    }

    fn remove(&mut self, id: KeyspaceId) -> Option<Arc<KeyspaceMeta>> {
        let ById(meta) = self.ids.remove(&id)?;
        self.data.remove(&meta.data);
        self.names.remove(&meta.name);
        Some(meta)
    }

    /// Numbers and names stand for one keyspace each.
    fn add(&mut self, meta: Arc<KeyspaceMeta>) -> std::result::Result<(), String> {
        let is_default = [meta.id, meta.data].contains(&KeyspaceId::DEFAULT);
        if is_default
            || !self.ids.insert(ById(Arc::clone(&meta)))
            || !self.data.insert(ByData(Arc::clone(&meta)))
        {
            return Err("two keyspaces have one number".to_owned());
        }
        if !self.names.insert(ByName(Arc::clone(&meta))) {
            return Err(format!("two keyspaces have the name {:?}", meta.name));
        }
        Ok(())
    }
}

/// The keyspace ids of which a range may hold keys.
pub(crate) fn ids_of(range: KeyRange<'_>) -> RangeInclusive<KeyspaceId> {
    let last = match range.end {
        None => KeyspaceId(u32::MAX),
        // Nothing of its own keyspace comes before a border.
        Some(end) if end.len() <= KEYSPACE_PREFIX_LEN => {
            KeyspaceId(KeyspaceId::of(end).0.saturating_sub(1))
        }
        Some(end) => KeyspaceId::of(end),
    };
    KeyspaceId::of(range.start)..=last
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::base::keys::SeqNo;

    fn keyspace(id: u32, data: u32, name: &str) -> KeyspaceMeta {
        KeyspaceMeta {
            id: KeyspaceId(id),
            data: KeyspaceId(data),
            name: name.to_owned(),
            options: Vec::new(),
            since: SeqNo(0),
            default_ttl_ms: None,
        }
    }

    fn edit(keyspaces: Vec<KeyspaceMeta>, dropped: &[u32]) -> VersionEdit {
        VersionEdit {
            keyspaces,
            dropped_keyspaces: dropped.iter().copied().map(KeyspaceId).collect(),
            ..VersionEdit::default()
        }
    }

    #[test]
    fn keyspaces_come_change_and_go() {
        let mut all = Keyspaces::default();
        let two = vec![keyspace(2, 2, "b"), keyspace(1, 1, "a")];
        all.apply(&edit(two, &[])).unwrap();
        let before = all.clone();
        all.apply(&edit(vec![keyspace(2, 5, "c")], &[1])).unwrap();
        assert_eq!(before.all().count(), 2, "a version does not change");
        assert_eq!(all.named("c").map(|meta| meta.data), Some(KeyspaceId(5)));
        assert!(all.get(KeyspaceId(1)).is_none() && all.named("b").is_none());
        let held = [0, 1, 2, 5].map(|data| all.holds(KeyspaceId(data)));
        assert_eq!(held, [true, false, false, true]);
        assert!(all.clone().apply(&edit(Vec::new(), &[1])).is_err());
        for bad in [
            keyspace(3, 3, "c"),
            keyspace(3, 5, "d"),
            keyspace(0, 0, "e"),
        ] {
            assert!(all.clone().apply(&edit(vec![bad], &[])).is_err());
        }
    }

    #[test]
    fn the_keyspaces_of_a_range_are_those_that_may_have_keys_there() {
        let mut all = Keyspaces::default();
        let some = vec![keyspace(1, 1, "a"), keyspace(3, 3, "b")];
        all.apply(&edit(some, &[])).unwrap();
        let count = |start: &[u8], end: Option<&[u8]>| all.count_in(KeyRange { start, end });
        assert_eq!(count(b"", None), 3);
        assert_eq!(count(b"", Some(b"\0\0\0\x01")), 1);
        assert_eq!(count(b"\0\0\0\x01", Some(b"\0\0\0\x03")), 1);
        assert_eq!(count(b"\0\0\0\x02", Some(b"\0\0\0\x03")), 0);
        assert_eq!(count(b"\0\0\0\x01m", Some(b"\0\0\0\x03m")), 2);
        assert_eq!(count(b"\0\0\0\x04", None), 0);
    }
}
