//! Where and when something is read: a keyspace, as it is now or as it was at a moment.

use crate::base::keys::KeyspaceId;
use crate::base::seeded::seeded;
use crate::base::sync::Guard;
use crate::error::{Error, Result};
use crate::partition::{View, Visibility};
use std::sync::Arc;

/// A keyspace by its id, now (`None`) or at a moment that is registered.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Source {
    pub(crate) keyspace: KeyspaceId,
    pub(crate) at: Option<Visibility>,
}

/// A view with what is to be read in it.
pub(crate) struct Point {
    pub(crate) view: Guard<Arc<View>>,
    pub(crate) at: Visibility,
    /// What stands before the keys.
    pub(crate) data: KeyspaceId,
}

/// What stands before the keys of a source in `view`. It is the view that decides whether the
/// keyspace is there, so that nobody finds nothing where the data have just been removed.
#[inline(always)]
pub(crate) fn data_id(view: &View, source: Source) -> Result<KeyspaceId> {
    match source.keyspace {
        KeyspaceId::DEFAULT => Ok(KeyspaceId::DEFAULT),
        id => look_up(view, id, source.at),
    }
}

#[inline(never)]
fn look_up(view: &View, id: KeyspaceId, at: Option<Visibility>) -> Result<KeyspaceId> {
    let meta = view.version.keyspaces.existing(id)?;
    if at.is_some_and(|at| at.seq < meta.since) && !seeded!(EmptiedForSnapshots) {
        let what = format!("the keyspace {:?} has been emptied since", meta.name);
        return Err(Error::no_such_keyspace(what));
    }
    Ok(meta.data)
}
