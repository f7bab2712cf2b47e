//! Which keyspaces are gone, dropped or emptied, of which a memtable may still hold something: what
//! is flushed comes to their partitions, which are to stay until then.
//!
//! Kept under the catalog's lock.

use crate::base::keys::{KeyspaceId, SeqNo};
use crate::version::keyspaces::ids_of;
use crate::version::{KeyRange, Version};
use std::collections::BTreeMap;

/// This many of them are worth a flush.
const MANY: usize = 64;

/// See the module.
#[derive(Default)]
pub(crate) struct GoneKeyspaces {
    /// Once this is in tables, memtables hold nothing of those that went before the opening.
    before_opening: SeqNo,
    /// By data id, the last write that was in memory when the keyspace went.
    since: BTreeMap<KeyspaceId, SeqNo>,
}

impl GoneKeyspaces {
    /// Any may be gone that is not listed, and what was recovered reaches up to `recovered`.
    pub(crate) fn before_opening(version: &Version, recovered: Option<SeqNo>) -> GoneKeyspaces {
        let before_opening = recovered.filter(|_| {
            let mut partitions = version.partitions().iter();
            partitions.any(|p| version.keyspaces.count_in(p.range()) == 0)
        });
        GoneKeyspaces {
            before_opening: before_opening.unwrap_or_default(),
            since: BTreeMap::new(),
        }
    }

    /// The keyspaces with these data have gone; memtables hold writes up to `in_memory`, and tables
    /// those up to `flushed`.
    pub(crate) fn add(&mut self, data: &[KeyspaceId], in_memory: SeqNo, flushed: SeqNo) {
        if data.is_empty() {
            return;
        }
        self.since.retain(|_, last| *last > flushed);
        if in_memory > flushed {
            self.since
                .extend(data.iter().map(|data| (*data, in_memory)));
        }
    }

    /// Whether a flush may bring something of those in a range; tables hold what came up to
    /// `flushed`.
    pub(crate) fn may_come_to(&self, range: KeyRange<'_>, flushed: SeqNo) -> bool {
        let mut since = self.since.range(ids_of(range));
        self.before_opening > flushed || since.any(|(_, last)| *last > flushed)
    }

    /// Whether a flush may bring something of any.
    pub(crate) fn await_flush(&self, flushed: SeqNo) -> bool {
        let mut all = self.since.values().chain([&self.before_opening]);
        all.any(|last| *last > flushed)
    }

    /// Whether as many wait as are worth a flush.
    pub(crate) fn are_many(&self) -> bool {
        self.since.len() >= MANY
    }
}
