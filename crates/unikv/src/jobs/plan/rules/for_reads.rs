//! What reads have made worth its cost, in memory alone.

use super::never;
use crate::jobs::plan::{Job, OfCatalog, Rule, Why};

/// Makes the pointer index of a table for which it is worth its cost.
pub(crate) const POINTER_INDEX: Rule = Rule {
    name: "pointer index",
    of_catalog: OfCatalog::Nothing,
    is_for_reads: true,
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
    of_catalog: OfCatalog::Nothing,
    is_for_reads: true,
    find: |facts, _| {
        let is_due = facts.wishes.blocks;
        is_due.then_some((Job::KeyBlocks, Why::WorthAllBlocks))
    },
    due_in: never,
};
