//! Reading key blocks and making pointer indexes that reads have made worth it (see
//! `key_table::reader::section::all_blocks` and `key_table::pointer_index`); and, while writers are
//! idle, the indexes of all tables, if there is room for all. The first look-ups after an idle
//! pass, which replaces the tables, are as fast as later ones then.
//!
//! All is for speed alone and in memory alone: nothing is committed, and a failure is none of the
//! database.

use crate::engine::background::scheduler::Ask;
use crate::engine::background::{Background, JobKind};
use crate::engine::health::JobName;
use crate::jobs::plan::{Job, Why};
use crate::version::Version;
use std::sync::Arc;
use std::time::Duration;

/// Makes the pointer index of a table for which it is worth its cost.
pub(crate) struct PointerIndexes;

impl JobKind for PointerIndexes {
    fn name(&self) -> JobName {
        "pointer index"
    }

    fn is_for_reads(&self) -> bool {
        true
    }

    fn find(&self, _: &Background, ask: &Ask<'_>) -> Option<(Job, Why)> {
        let mut tables = ask.catalog.version.key_tables();
        tables
            .any(|table| table.wants_index())
            .then_some((Job::PointerIndex, Why::WorthAnIndex))
    }
}

/// Reads the key blocks of a table where that is worth its cost to scans and those of all tables
/// have room in the cache: else each table would drive out the blocks of another.
pub(crate) struct KeyBlocks;

impl JobKind for KeyBlocks {
    fn name(&self) -> JobName {
        "key blocks"
    }

    fn is_for_reads(&self) -> bool {
        true
    }

    fn find(&self, _: &Background, ask: &Ask<'_>) -> Option<(Job, Why)> {
        let mut tables = ask.catalog.version.key_tables();
        tables
            .any(|table| table.wants_blocks())
            .then_some((Job::KeyBlocks, Why::WorthAllBlocks))
    }
}

/// Has the pointer indexes of all tables made while writers are idle.
pub(crate) struct IndexesWhenIdle;

impl JobKind for IndexesWhenIdle {
    fn name(&self) -> JobName {
        "pointer indexes when idle"
    }

    fn is_for_reads(&self) -> bool {
        true
    }

    fn find(&self, background: &Background, ask: &Ask<'_>) -> Option<(Job, Why)> {
        let due = background.are_indexes_due_when_idle(&ask.catalog.version);
        due.then_some((Job::PointerIndexes, Why::RoomForIndexes))
    }

    fn due_in(&self, background: &Background, now: Duration) -> Option<Duration> {
        background.idle_begins_in(now)
    }
}

impl Background {
    /// Makes the pointer index of a table that wants one. False: none does any more.
    pub(in crate::engine::background) fn make_index(&self) -> bool {
        let version = Arc::clone(&self.read.view.load().version);
        let mut wanted = version.key_tables().filter(|table| table.wants_index());
        wanted.any(|table| table.make_index(self.core.hash_seed))
    }

    /// Reads the key blocks of a table that wants them. False: none does any more.
    pub(in crate::engine::background) fn read_blocks(&self) -> bool {
        let version = Arc::clone(&self.read.view.load().version);
        let sums = version.partition_sums();
        let bytes = sums.key_table_bytes + sums.saved_bytes;
        let has_room = self.core.cache.has_room_for_blocks(bytes);
        let mut wanted = version.key_tables().filter(|table| table.wants_blocks());
        wanted.any(|table| table.read_blocks(has_room))
    }

    /// Asks for the pointer indexes of all tables.
    pub(in crate::engine::background) fn want_indexes(&self) {
        let version = Arc::clone(&self.read.view.load().version);
        version.key_tables().for_each(|table| table.want_index());
    }

    /// Whether writers are idle, and there is room for the indexes of all tables, of which some
    /// have none.
    fn are_indexes_due_when_idle(&self, version: &Version) -> bool {
        let sums = version.partition_sums();
        let made_one_by_one = sums
            .pointer_index_bytes
            .saturating_add(sums.pointer_index_meanwhile);
        self.clusters_when_idle()
            && made_one_by_one <= self.core.cache.pointer_index_limit()
            && version.key_tables().any(|table| table.may_want_index())
    }
}
