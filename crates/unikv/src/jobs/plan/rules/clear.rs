//! Removing what keyspaces held that are gone.

use super::never;
use crate::base::keys::PartitionId;
use crate::base::seeded::slip;
use crate::jobs::plan::{Facts, Filter, Job, JobName, OfCatalog, OnFailure, Rule, Why};

const CLEAR_NAME: JobName = "clear";

/// Partitions that are cleared or joined by one edit, at most.
const MOST_AT_ONCE: usize = 1_000;

/// Empties the partitions of keyspaces that are gone, and then makes one of neighbours that list
/// nothing.
pub(crate) const CLEAR: Rule = Rule {
    name: CLEAR_NAME,
    of_catalog: OfCatalog::Gone,
    is_for_reads: false,
    on_failure: OnFailure::Retried,
    listed_for: Filter::Waiter,
    find: |facts, filter| {
        let full = facts.gone.full.iter().copied();
        let due = full.filter(|id| filter.may_take(facts, CLEAR_NAME, *id));
        let due: Vec<_> = due.take(MOST_AT_ONCE).collect();
        if due.is_empty() {
            return neighbours(facts, filter);
        }
        let partitions = due.len();
        Some((Job::Clear(due), Why::KeyspacesGone { partitions }))
    },
    due_in: never,
};

/// The first neighbours that list nothing, two at least.
fn neighbours(facts: &Facts<'_>, filter: Filter) -> Option<(Job, Why)> {
    let mut ids: Vec<PartitionId> = Vec::new();
    let is_failure = matches!(filter, Filter::Failure(_));
    // A failure is one of the first of a job's partitions.
    let is_of_another = |id| matches!(filter, Filter::Failure(of) if of != Some(id));
    let all = facts.gone.vacant.iter();
    for vacant in all.skip_while(|vacant| is_of_another(vacant.id)) {
        let is_free = is_failure || filter.may_take(facts, CLEAR_NAME, vacant.id);
        // If the one before it is not taken, `ids` is empty.
        let goes_on = is_free && slip!(JoinAcrossGap, true, vacant.follows);
        if !goes_on || ids.len() == MOST_AT_ONCE {
            if ids.len() >= 2 {
                break;
            }
            ids.clear();
        }
        ids.extend(is_free.then_some(vacant.id));
    }
    if ids.first().is_some_and(|first| is_of_another(*first)) {
        return None;
    }
    let partitions = ids.len();
    let why = Why::NobodysNeighbours { partitions };
    (partitions >= 2).then_some((Job::JoinGone(ids), why))
}
