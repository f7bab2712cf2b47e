//! The right choice, found by brute force over the model.
//!
//! The definitions here and in `kinds/` are written without the rules. A kind of job lists all its
//! candidates with their urgencies. The choice must be one of the most urgent; any of equals is
//! right.

use super::kinds::{KINDS, Kind};
use super::world::World;
use crate::base::keys::PartitionId;
use crate::jobs::plan::{Filter, JobName};
use std::cmp::Reverse;

/// The greater is the more urgent. Only candidates of one kind are compared.
pub(super) type Urgency = (u64, Reverse<u64>);

/// A job that may be chosen.
#[derive(Debug)]
pub(super) struct Candidate {
    pub(super) urgency: Urgency,
    pub(super) partitions: Vec<PartitionId>,
}

impl Candidate {
    /// The larger `bytes`, the more urgent.
    pub(super) fn by_most(bytes: u64, id: PartitionId) -> Candidate {
        Candidate {
            urgency: (bytes, Reverse(0)),
            partitions: vec![id],
        }
    }

    /// The only candidate of its kind.
    pub(super) fn only(partitions: Vec<PartitionId>) -> Vec<Candidate> {
        let urgency = (0, Reverse(0));
        vec![Candidate {
            urgency,
            partitions,
        }]
    }

    /// A candidate without partitions if it is due.
    pub(super) fn if_due(is_due: bool) -> Vec<Candidate> {
        if is_due {
            Candidate::only(Vec::new())
        } else {
            Vec::new()
        }
    }
}

/// Whether no other job holds a partition. The account of failures disregards leases.
pub(super) fn is_free(world: &World, filter: Filter, id: PartitionId) -> bool {
    matches!(filter, Filter::Failure(_)) || !world.leased.contains(&id)
}

/// Whether a job is in question. A worker does not take a job that is held back until later than
/// now. The account of failures asks for the jobs of one partition.
pub(super) fn is_asked(
    world: &World,
    filter: Filter,
    name: JobName,
    of: Option<PartitionId>,
) -> bool {
    match filter {
        Filter::Worker => !world.failures.holds_back((name, of), world.now),
        Filter::Waiter | Filter::Listing => true,
        Filter::Failure(asked) => asked == of,
    }
}

pub(super) fn may_take(world: &World, filter: Filter, name: JobName, id: PartitionId) -> bool {
    is_free(world, filter, id) && is_asked(world, filter, name, Some(id))
}

/// Compares the job that a rule has found with the candidates of its kind.
pub(super) fn check(kind: &Kind, found: Option<&[PartitionId]>, world: &World, filter: Filter) {
    let candidates = (kind.candidates)(world, filter);
    let best = candidates.iter().map(|it| it.urgency).max();
    let mut best = candidates.iter().filter(|it| Some(it.urgency) == best);
    let is_right = match found {
        None => candidates.is_empty(),
        Some(found) => best.any(|it| it.partitions == found),
    };
    assert!(
        is_right,
        "{} for {filter:?} has found {found:?} and not the first of {:#?} in {world:#?}",
        kind.name(),
        {
            let mut candidates = candidates;
            candidates.sort_by_key(|it| Reverse(it.urgency));
            candidates.truncate(3);
            candidates
        },
    );
}

/// Compares all kinds with their candidates, whether or not a more urgent kind is due.
pub(super) fn check_all(world: &World, filter: Filter) {
    let mut facts = world.facts();
    // The account of failures asks only for kinds that can fail.
    let is_asked = |kind: &&Kind| kind.may_fail || !matches!(filter, Filter::Failure(_));
    for kind in KINDS.iter().filter(is_asked) {
        let found = kind
            .find(&mut facts, world, filter)
            .map(|work| work.partitions());
        check(kind, found.as_deref(), world, filter);
    }
}
