//! The names in a directory, now and after a power cut.
//!
//! Invariant: `names` of a directory is `durable_names` with `pending` applied in order.

use super::inode::Inode;
use super::over::Moment;
use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;
use std::sync::Arc;

pub(super) type Names = BTreeMap<String, Arc<Inode>>;

#[derive(Default)]
pub(super) struct Dir {
    /// Which directory it is, once somebody holds it; other machines' holds mean nothing on a copy
    /// of the disk.
    pub(super) held_as: Option<u64>,
    /// Removed, but its parent is not synced yet.
    pub(super) removed: Option<Moment>,
    /// Renamed, but its parent is not synced yet.
    pub(super) moved: Option<Moved>,
    pub(super) names: Names,
    pub(super) durable_names: Names,
    pub(super) pending: Vec<(NameOp, Moment)>,
    /// This many of them, the first, were to be made durable by syncs that failed: no later sync
    /// does that.
    pub(super) doubtful: usize,
}

/// From where a directory was renamed.
#[derive(Clone)]
pub(super) struct Moved {
    /// Its name when its parent was last synced.
    pub(super) from: PathBuf,
    pub(super) at: Moment,
    /// A sync that was to make it durable has failed.
    pub(super) is_doubtful: bool,
}

/// A change of a directory that is not durable.
#[derive(Clone)]
pub(super) enum NameOp {
    Link {
        name: String,
        inode: Arc<Inode>,
    },
    Unlink {
        name: String,
    },
    Rename {
        from: String,
        to: String,
        inode: Arc<Inode>,
    },
}

impl NameOp {
    pub(super) fn apply(&self, names: &mut Names) {
        match self {
            NameOp::Link { name, inode } => {
                names.insert(name.clone(), Arc::clone(inode));
            }
            NameOp::Unlink { name } => {
                names.remove(name);
            }
            NameOp::Rename { from, to, inode } => {
                names.remove(from);
                names.insert(to.clone(), Arc::clone(inode));
            }
        }
    }

    fn names(&self) -> [&str; 2] {
        match self {
            NameOp::Link { name, .. } | NameOp::Unlink { name } => [name, name],
            NameOp::Rename { from, to, .. } => [from, to],
        }
    }

    /// What it does to other names than `changed`.
    fn without(self, changed: &BTreeSet<&str>) -> Option<NameOp> {
        let is_left = |name: &String| !changed.contains(name.as_str());
        match self {
            NameOp::Rename { from, to, inode } => match (is_left(&from), is_left(&to)) {
                (true, true) => Some(NameOp::Rename { from, to, inode }),
                (true, false) => Some(NameOp::Unlink { name: from }),
                (false, true) => Some(NameOp::Link { name: to, inode }),
                (false, false) => None,
            },
            NameOp::Link { ref name, .. } | NameOp::Unlink { ref name } => {
                is_left(name).then_some(self)
            }
        }
    }

    /// The file that it gives a name to.
    pub(super) fn inode(&self) -> Option<&Arc<Inode>> {
        match self {
            NameOp::Link { inode, .. } | NameOp::Rename { inode, .. } => Some(inode),
            NameOp::Unlink { .. } => None,
        }
    }

    /// Lets `change` replace the file of this operation, if it has one.
    pub(super) fn each_inode(&mut self, change: impl FnOnce(&mut Arc<Inode>)) {
        match self {
            NameOp::Link { inode, .. } | NameOp::Rename { inode, .. } => change(inode),
            NameOp::Unlink { .. } => {}
        }
    }
}

impl Dir {
    pub(super) fn change(&mut self, op: NameOp, at: Moment) {
        op.apply(&mut self.names);
        self.pending.push((op, at));
    }

    /// What failed syncs were to cover stays pending, but for the names that have changed once
    /// more.
    pub(super) fn make_durable(&mut self) {
        let fresh = self.pending.split_off(self.doubtful);
        let changed: BTreeSet<&str> = fresh.iter().flat_map(|(op, _)| op.names()).collect();
        let doubtful = std::mem::take(&mut self.pending).into_iter();
        self.pending = doubtful
            .filter_map(|(op, at)| Some((op.without(&changed)?, at)))
            .collect();
        self.doubtful = self.pending.len();
        fresh
            .iter()
            .for_each(|(op, _)| op.apply(&mut self.durable_names));
    }

    pub(super) fn fail_sync(&mut self) {
        self.doubtful = self.pending.len();
    }
}
