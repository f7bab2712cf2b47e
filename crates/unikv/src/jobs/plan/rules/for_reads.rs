//! What reads have made worth its cost, in memory alone.

use super::never;
use crate::jobs::plan::{Filter, Job, OfCatalog, OnFailure, Rule, Why};

/// Makes the pointer index of a table for which it is worth its cost.
pub(crate) const POINTER_INDEX: Rule = Rule {
    name: "pointer index",
    of_catalog: OfCatalog::Nothing,
    is_for_reads: true,
    on_failure: OnFailure::Retried,
    listed_for: Filter::Waiter,
    find: |facts, _| {
        let is_due = facts.wishes.index;
        is_due.then_some((Job::PointerIndex, Why::WorthAnIndex))
    },
    due_in: never,
};

/// Reads the key blocks of a table where that is worth its cost to scans and those of all tables
/// have room in the cache: else each table would drive out the blocks of another.
pub(crate) const KEY_BLOCKS: Rule = Rule {
    name: "key blocks",
    find: |facts, _| {
        let is_due = facts.wishes.blocks;
        is_due.then_some((Job::KeyBlocks, Why::WorthAllBlocks))
    },
    ..POINTER_INDEX
};

/// Has the pointer indexes of all tables made while writers are idle.
pub(crate) const INDEXES_WHEN_IDLE: Rule = Rule {
    name: "pointer indexes when idle",
    of_catalog: OfCatalog::Indexes,
    find: |facts, _| {
        let is_due = facts.clusters_when_idle() && facts.scans.lack_indexes;
        is_due.then_some((Job::PointerIndexes, Why::RoomForIndexes))
    },
    due_in: |facts| facts.clusters_in(),
    ..POINTER_INDEX
};
