//! Snapshots: the database as it was at one moment, for as long as the handle lives.

use crate::base::keys::{DatabaseId, KeyspaceId};
use crate::db::reader::Reader;
use crate::engine::handle::Handle;
use crate::engine::read::ReadState;
use crate::engine::read::moment::{Owned, Registered};
use crate::engine::snapshots::Holder;
use crate::error::Result;
use crate::options::KeyspaceOptions;
use std::fmt;
use std::path::Path;
use std::sync::Arc;

/// The database as it was at one moment. Cheap to take and to clone; while it lives, the versions
/// it sees are kept on disk.
///
/// It keeps the database open, also when the last [`Db`](crate::Db) has been dropped;
/// [`Db::close`](crate::Db::close) closes it all the same, and reads fail with `Closed` from then
/// on.
///
/// It reads from the keyspace it was taken of, or the default one; [`Snapshot::keyspace`] shows
/// others at the same moment. Of a keyspace that has been dropped or emptied since it shows
/// nothing: reading is the error `NoSuchKeyspace` then.
#[derive(Clone)]
pub struct Snapshot {
    moment: Owned,
    keyspace: KeyspaceId,
}

impl Snapshot {
    /// The newest state of an open database.
    pub(crate) fn of_open(handle: &Arc<Handle>, keyspace: KeyspaceId) -> Snapshot {
        let read = &handle.engine.read;
        Snapshot {
            moment: Owned::take(read, Holder::Snapshot, handle.kept_open()),
            keyspace,
        }
    }

    /// A state that a secondary shows.
    pub(crate) fn of_state(read: &Arc<ReadState>) -> Snapshot {
        Snapshot {
            moment: Owned::take(read, Holder::Snapshot, None),
            keyspace: KeyspaceId::DEFAULT,
        }
    }

    /// The keyspace with this id, at the same moment.
    pub(crate) fn of(&self, keyspace: KeyspaceId) -> Snapshot {
        Snapshot {
            moment: self.moment.clone(),
            keyspace,
        }
    }

    pub(crate) fn read(&self) -> &Arc<ReadState> {
        self.moment.read()
    }

    /// The number of the keyspace that it reads: see
    /// [`Keyspace::number`](crate::Keyspace::number). Errors: `NoSuchKeyspace`.
    pub fn keyspace_number(&self) -> Result<u32> {
        match self.keyspace {
            KeyspaceId::DEFAULT => Ok(0),
            id => {
                let view = self.read().view.load();
                Ok(view.version.keyspaces.existing(id)?.data.0)
            }
        }
    }

    /// The options that were set for the keyspace that it reads; what is `None` is as the options
    /// of the database say. Errors: `NoSuchKeyspace`.
    pub fn keyspace_options(&self) -> Result<KeyspaceOptions> {
        match self.keyspace {
            KeyspaceId::DEFAULT => Ok(KeyspaceOptions::default()),
            id => {
                let view = self.read().view.load();
                KeyspaceOptions::of(view.version.keyspaces.existing(id)?, Path::new(""))
            }
        }
    }

    /// Whether there may be values that expire. If not, nothing that it shows does.
    pub fn expires(&self) -> bool {
        self.read().core.clock.is_needed()
    }

    pub(crate) fn database(&self) -> DatabaseId {
        self.read().core.store.database()
    }

    /// The number, the time in milliseconds and the keyspace that it shows.
    pub(crate) fn shows(&self) -> (u64, u64, KeyspaceId) {
        let moment = &self.moment;
        (moment.seq().0, moment.time_ms(), self.keyspace)
    }

    /// What holds its number at the time of jobs: see [`Registered::with_hidden`].
    pub(crate) fn with_hidden(&self) -> Arc<Registered> {
        self.moment.with_hidden()
    }

    pub(crate) fn reader(&self) -> Reader<'_> {
        Reader {
            read: self.moment.read(),
            source: self.moment.source(self.keyspace),
            moment: Some(&self.moment),
            handle: None,
        }
    }
}

impl fmt::Debug for Snapshot {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Snapshot")
            .field("seq", &self.moment.seq().0)
            .finish_non_exhaustive()
    }
}
