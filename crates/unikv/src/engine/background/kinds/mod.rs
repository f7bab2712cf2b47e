//! The kinds of background work, and the order of all. A rule (`jobs/plan`) or a file here says
//! when one is due; a file here does it.

mod clear;
mod cluster;
pub(crate) mod collect;
pub(crate) mod flush;
mod for_reads;
mod freeze;
pub(crate) mod join;
pub(crate) mod merge;
mod notes;
mod scan_merge;
pub(crate) mod split;
pub(crate) mod warm;

use crate::engine::background::facts::ByRule;
use crate::engine::background::{JobKind, Kinds};
use crate::jobs::plan::rules;

/// What the flush worker does.
const FLUSHES: &[&dyn JobKind] = &[&ByRule(rules::FLUSHES)];

/// All other kinds, the most urgent first. The time is noted when it is due, by an edit a minute.
/// What keyspaces held that are gone costs an edit, and spares others work. What was hot before the
/// opening is read back next, which ends and takes turns with merges. Splits come before merges,
/// for they make them smaller; a join that needs no merge costs an edit, and another takes its turn
/// now and then, or merges without a pause would leave more and more empty partitions; what only
/// serves reads comes last.
const OTHERS: &[&dyn JobKind] = &[
    &ByRule(rules::CLOCK_NOTES),
    &ByRule(rules::CLEAR),
    &ByRule(rules::WARM_START),
    &ByRule(rules::SPLIT),
    &ByRule(rules::JOIN_BEFORE_MERGES),
    &ByRule(rules::FREEZE_FOR_SPACE),
    &merge::Merges,
    &collect::Collections,
    &ByRule(rules::POINTER_INDEX),
    &ByRule(rules::KEY_BLOCKS),
    &ByRule(rules::JOIN_LAST),
    &freeze::FreezeForScans,
    &scan_merge::ScanMerges,
    &cluster::Clusterings,
    &for_reads::IndexesWhenIdle,
    &ByRule(rules::HINT_NOTES),
];

/// All of them.
pub(crate) fn all() -> Kinds {
    let others = OTHERS.to_vec();
    #[cfg(test)]
    let others = tests::with_made_up(others);
    Kinds {
        flushes: FLUSHES,
        others,
    }
}

#[cfg(test)]
pub(crate) mod tests;
