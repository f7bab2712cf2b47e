//! Keyspaces that are emptied while a transaction is open: it cannot go on, and another one can.
//!
//! No locks.

use super::Txn;
use crate::base::keys::KeyspaceId;
use crate::engine::read::source::data_id;
use crate::error::{Error, ErrorKind, Result};

impl Txn {
    /// What stands before the keys of a keyspace.
    pub(super) fn data_of(&self, keyspace: KeyspaceId) -> Result<KeyspaceId> {
        let view = self.handle.engine.read.view.load();
        data_id(&view, self.moment.source(keyspace)).inspect_err(|_| {
            if view.version.keyspaces.get(keyspace).is_some() {
                self.reads.note_emptied();
            }
        })
    }

    /// The transaction writes to a keyspace.
    pub(super) fn note_written(&mut self, keyspace: KeyspaceId) {
        let is_known = keyspace == KeyspaceId::DEFAULT || self.written.contains(&keyspace);
        if !is_known {
            self.written.push(keyspace);
        }
    }

    /// Notes why a commit has failed, if that was for a keyspace that was emptied.
    pub(super) fn note_if_emptied(&self, error: &Error) {
        let keyspaces = &self.handle.engine.read.view.load().version.keyspaces;
        let is_there = |id: &KeyspaceId| keyspaces.get(*id).is_some();
        if error.kind() == ErrorKind::NoSuchKeyspace && self.written.iter().all(is_there) {
            self.reads.note_emptied();
        }
    }
}
