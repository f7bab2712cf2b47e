//! Keyspaces of a database that is made by hand.
//!
//! The manifest alone says which keyspaces there are, and up to where the log was durable when they
//! changed: only what is written after that can be lost without anything that misses it. So a shape
//! writes something after its last change.

use super::{Maker, key};
use crate::oracle::Change;
use crate::spaces::{self, key_in};
use unikv::{Batch, Keyspace, KeyspaceOptions};

impl Maker {
    fn keyspace(&self, name: &str) -> Keyspace {
        let found = self.db().find_keyspace(name);
        found.expect("the keyspace is there")
    }

    /// The manifest has changed which keyspaces there are.
    fn keyspaces_changed(&mut self, name: &'static str, changes: Vec<Change>) {
        if let Some(keyspace) = self.db().find_keyspace(name) {
            let number = keyspace.number().expect("a number");
            self.numbers.push((number, name));
        }
        self.done(changes, None);
        self.oracle.synced();
    }

    /// Makes a keyspace of one of the names in [`spaces::NAMES`].
    pub(in crate::damage) fn make_keyspace(&mut self, name: &'static str) {
        let made = self.db().keyspace(name, KeyspaceOptions::default());
        made.expect("a keyspace");
        self.keyspaces_changed(name, vec![spaces::present(name, None)]);
    }

    /// Drops a keyspace with all its keys.
    pub(in crate::damage) fn drop_keyspace(&mut self, name: &'static str) {
        let mut changes = spaces::emptied(self.oracle.now(), name);
        changes.push(spaces::absent(name));
        self.keyspace(name).drop_keyspace().expect("a drop");
        self.keyspaces_changed(name, changes);
    }

    /// Empties a keyspace.
    pub(in crate::damage) fn truncate(&mut self, name: &'static str) {
        let changes = spaces::emptied(self.oracle.now(), name);
        self.keyspace(name).truncate().expect("a truncate");
        self.keyspaces_changed(name, changes);
    }

    /// Puts values of `len` bytes into a keyspace.
    pub(in crate::damage) fn put_in(
        &mut self,
        name: &str,
        keys: impl IntoIterator<Item = u32>,
        len: usize,
    ) {
        for n in keys {
            let value = self.value(len).bytes();
            let put = self.keyspace(name).put(key(n), &value);
            put.expect("a put in a keyspace");
            self.done(vec![(key_in(name, &key(n)), Some(value))], None);
        }
    }

    pub(in crate::damage) fn delete_in(&mut self, name: &str, keys: impl IntoIterator<Item = u32>) {
        for n in keys {
            let deleted = self.keyspace(name).delete(key(n));
            deleted.expect("a delete in a keyspace");
            self.done(vec![(key_in(name, &key(n)), None)], None);
        }
    }

    /// One batch that puts a key into the default keyspace and into others, with a commit tag.
    pub(in crate::damage) fn batch_in(&mut self, names: &[&str], n: u32, commit_tag: &[u8]) {
        let mut batch = Batch::new();
        let value = self.value(20).bytes();
        batch.put(key(n), &value);
        let mut changes = vec![(key(n), Some(value))];
        for name in names {
            let value = self.value(20).bytes();
            batch.put_in(&self.keyspace(name), key(n), &value);
            changes.push((key_in(name, &key(n)), Some(value)));
        }
        batch.set_commit_tag(commit_tag);
        self.db().write(&batch).expect("a batch over keyspaces");
        self.done(changes, Some(commit_tag));
    }
}
