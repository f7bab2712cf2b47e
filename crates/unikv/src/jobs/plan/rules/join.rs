//! Joins of neighbours, those that need no merge before others, and the smallest first, so that
//! many grow together evenly.
//!
//! Nobody waits for a join, so there is none while flushes wait for merges. One that needs no merge
//! costs no more than its edit, and comes before merges; another comes after splits and after the
//! merges that are due, or takes its turn among these. While the disk is full nothing is joined:
//! partitions are split then so that their merges fit.

use super::never;
use crate::base::keys::PartitionId;
use crate::base::seeded::{seeded, slip};
use crate::jobs::plan::partitions::JoinFacts;
use crate::jobs::plan::{Facts, Filter, Job, JobName, MERGE, OfCatalog, OnFailure, Rule, Why};

const JOIN: JobName = "join";

/// A join that needs merges takes its turn after this many jobs that merge, even if more of these
/// are due.
const MERGES_PER_JOIN: u64 = 4;

/// Joins that need no merge, and now and then one that does.
pub(crate) const JOIN_BEFORE_MERGES: Rule = Rule {
    name: JOIN,
    of_catalog: OfCatalog::Joins,
    is_for_reads: false,
    on_failure: OnFailure::Retried,
    listed_for: Filter::Waiter,
    find: |facts, filter| {
        let with_merges = slip!(
            JoinPassedByMerges,
            false,
            facts.merges_since_join >= MERGES_PER_JOIN
        );
        cheapest(facts, filter, with_merges)
    },
    due_in: never,
};

/// Joins that need merges, too: they come after the merges that are due.
pub(crate) const JOIN_LAST: Rule = Rule {
    find: |facts, filter| cheapest(facts, filter, true),
    ..JOIN_BEFORE_MERGES
};

/// The cheapest join, with merges or without. No caller waits for a join, so there is none while
/// flushes wait for merges; nor where a side's merge has failed. On a full disk partitions are
/// split.
fn cheapest(facts: &Facts<'_>, filter: Filter, with_merges: bool) -> Option<(Job, Why)> {
    let give_way = filter == Filter::Worker && facts.memtables.are_blocked;
    if facts.disk.is_full || give_way {
        return None;
    }
    let may = |(left, join): &(PartitionId, JoinFacts)| {
        let sides = [*left, join.right];
        let are_free = sides
            .iter()
            .all(|id| facts.is_free(*id, filter) || seeded!(JoinLeased));
        let has_failed = || sides.iter().any(|id| facts.has_failed(MERGE, *id));
        are_free && !has_failed() && filter.allows(facts, JOIN, Some(*left))
    };
    let is_affordable = |(_, join): &(PartitionId, JoinFacts)| with_merges || !join.needs_merge;
    let between = facts.partitions.joins().take_while(is_affordable).find(may);
    let of_gone = facts.gone.joins.iter().copied();
    let of_gone = of_gone.filter(is_affordable).filter(may);
    let all = between.into_iter().chain(of_gone);
    let (left, join) = all.min_by_key(|(_, join)| (join.needs_merge, join.bytes))?;
    let why = Why::SmallNeighbours { bytes: join.bytes };
    Some((Job::Join([left, join.right]), why))
}
