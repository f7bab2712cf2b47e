//! What reads have made worth doing: scan merges, key blocks and pointer indexes.

use crate::engine::catalog::CatalogState;
use crate::engine::schedule::Scheduler;
use crate::key_table::KeyTable;
use crate::partition::scan_sources;
use crate::version::{Partition, Version};
use std::sync::Arc;

impl Scheduler {
    /// The partition, among those that are free, in which scans have paid for a merge.
    pub(crate) fn plan_scan_merge<'a>(
        &self,
        catalog: &'a CatalogState,
    ) -> Option<&'a Arc<Partition>> {
        let limit = self.core.options.scan_merge_limit as usize;
        let partitions = catalog.version.partitions().iter();
        let mut free = partitions.filter(|p| !catalog.merging.contains(&p.id));
        free.find(|partition| {
            let newest = partition.generations.first();
            newest.is_some_and(|newest| scan_sources::scans_have_paid(newest, limit))
        })
    }

    /// Whether the index of a table is to be made.
    pub(crate) fn is_index_wanted(&self) -> bool {
        let version = &self.read.view.load().version;
        version.key_tables().any(|table| table.wants_index())
            || self.are_indexes_due_when_idle(version)
    }

    /// Whether writers are idle, and there is room for the indexes of all tables, of which some
    /// have none.
    pub(crate) fn are_indexes_due_when_idle(&self, version: &Version) -> bool {
        self.clusters_when_idle()
            && version.key_tables().any(|table| table.may_want_index())
            && KeyTable::index_bytes_of(version.key_tables())
                <= self.core.cache.pointer_index_limit()
    }

    /// Whether the blocks of a table are to be read.
    pub(crate) fn are_blocks_wanted(&self) -> bool {
        let version = &self.read.view.load().version;
        version.key_tables().any(|table| table.wants_blocks())
    }
}
