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
use crate::base::keys::{KEYSPACE_PREFIX_LEN, KeyspaceId};
use crate::error::{Error, Result};
use std::ops::RangeInclusive;
use std::sync::Arc;

/// The name of the keyspace of the calls that name none.
pub(crate) const DEFAULT_NAME: &str = "default";

/// All keyspaces but the default one.
#[derive(Clone, Debug, Default)]
pub(crate) struct Keyspaces(Arc<Inner>);

#[derive(Clone, Debug, Default)]
struct Inner {
    /// By ascending id.
    metas: Vec<KeyspaceMeta>,
    /// The data ids, ascending.
    data: Vec<KeyspaceId>,
}

impl Keyspaces {
    /// By ascending id.
    pub(crate) fn all(&self) -> &[KeyspaceMeta] {
        &self.0.metas
    }

    /// The keyspace with this id.
    pub(crate) fn get(&self, id: KeyspaceId) -> Option<&KeyspaceMeta> {
        let metas = &self.0.metas;
        let at = metas.binary_search_by_key(&id, |meta| meta.id).ok()?;
        metas.get(at)
    }

    /// The keyspace with this id, or the error that it has been dropped.
    pub(crate) fn existing(&self, id: KeyspaceId) -> Result<&KeyspaceMeta> {
        let dropped = || Error::no_such_keyspace("the keyspace has been dropped");
        self.get(id).ok_or_else(dropped)
    }

    /// The keyspace of this name.
    pub(crate) fn named(&self, name: &str) -> Option<&KeyspaceMeta> {
        self.0.metas.iter().find(|meta| meta.name == name)
    }

    /// The keyspace whose keys begin with this data id.
    pub(crate) fn of_data(&self, data: KeyspaceId) -> Option<&KeyspaceMeta> {
        self.0.metas.iter().find(|meta| meta.data == data)
    }

    /// The first keyspace that has its keys in a range, unless that is the default one.
    pub(crate) fn first_in(&self, range: KeyRange<'_>) -> Option<&KeyspaceMeta> {
        let ids = ids_of(range);
        let at = self.0.data.partition_point(|data| data < ids.start());
        let first = self.0.data.get(at).filter(|data| *data <= ids.end())?;
        let is_default = ids.contains(&KeyspaceId::DEFAULT);
        self.of_data(*first).filter(|_| !is_default)
    }

    /// Whether keys with this data id are those of a keyspace that is there.
    pub(crate) fn holds(&self, data: KeyspaceId) -> bool {
        data == KeyspaceId::DEFAULT || self.0.data.binary_search(&data).is_ok()
    }

    /// How many keyspaces have their keys in a range.
    pub(crate) fn count_in(&self, range: KeyRange<'_>) -> usize {
        let ids = ids_of(range);
        let others = &self.0.data;
        let from = others.partition_point(|data| data < ids.start());
        let to = others.partition_point(|data| data <= ids.end());
        to.saturating_sub(from) + usize::from(ids.contains(&KeyspaceId::DEFAULT))
    }

    /// Makes the changes of an edit. After an error this is unusable.
    pub(super) fn apply(&mut self, edit: &VersionEdit) -> std::result::Result<(), String> {
        if edit.keyspaces.is_empty() && edit.dropped_keyspaces.is_empty() {
            return Ok(());
        }
        let inner = Arc::make_mut(&mut self.0);
        let metas = &mut inner.metas;
        let place = |metas: &[KeyspaceMeta], id| metas.binary_search_by_key(&id, |meta| meta.id);
        for id in &edit.dropped_keyspaces {
            let at = place(metas, *id).map_err(|_| format!("keyspace {} is unknown", id.0))?;
            metas.remove(at);
        }
        for meta in &edit.keyspaces {
            match place(metas, meta.id) {
                Ok(at) => drop(metas.get_mut(at).map(|old| old.clone_from(meta))),
                Err(at) => metas.insert(at, meta.clone()),
            }
        }
        inner.data = metas.iter().map(|meta| meta.data).collect();
        inner.data.sort_unstable();
        inner.check()
    }
}

impl Inner {
    /// Numbers and names stand for one keyspace each.
    fn check(&self) -> std::result::Result<(), String> {
        let mut names: Vec<&str> = self.metas.iter().map(|meta| &*meta.name).collect();
        names.sort_unstable();
        if let Some(twice) = names.windows(2).find(|pair| pair.first() == pair.last()) {
            return Err(format!("two keyspaces have the name {:?}", twice.first()));
        }
        let pairs = self.data.windows(2);
        let twice = pairs.filter(|pair| pair.first() == pair.last()).count() > 0;
        let is_default = |id: KeyspaceId| id == KeyspaceId::DEFAULT;
        if twice
            || self
                .metas
                .iter()
                .any(|m| is_default(m.id) || is_default(m.data))
        {
            return Err("two keyspaces have one number".to_owned());
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
        assert_eq!(before.all().len(), 2, "a version does not change");
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
