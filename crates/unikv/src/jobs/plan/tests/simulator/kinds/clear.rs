//! Clearing partitions of keyspaces that are gone, and joining them.

use super::{Ended, Kind, takes_nothing};
use crate::base::keys::PartitionId;
use crate::jobs::plan::tests::simulator::oracle::{Candidate, may_take};
use crate::jobs::plan::tests::simulator::partition::Partition;
use crate::jobs::plan::tests::simulator::world::World;
use crate::jobs::plan::{Filter, Job, rules};
use rand::Rng;
use rand::rngs::SmallRng;
use std::ops::Range;

const NAME: &str = "clear";

/// Partitions that one job takes, at most.
const MOST_AT_ONCE: usize = 1_000;

/// Due where a partition belongs to no keyspace and is not empty: the first thousand of these, in
/// key order. If there is none, the first group of two or more vacant neighbours is due.
pub(super) const CLEAR: Kind = Kind {
    rule: rules::clear::CLEAR,
    is_flush: false,
    may_fail: true,
    candidates: |world, filter| {
        let may_be_cleared = |at: &usize| {
            let partition = &world.partitions[*at];
            let is_full = world.is_gone(*at) && !partition.is_empty();
            is_full && may_take(world, filter, NAME, partition.id)
        };
        let all = 0..world.partitions.len();
        let full = all.filter(may_be_cleared).take(MOST_AT_ONCE);
        let full: Vec<_> = full.map(|at| world.partitions[at].id).collect();
        if full.is_empty() {
            vacant_neighbours(world, filter)
        } else {
            Candidate::only(full)
        }
    },
    begin: takes_nothing,
    end: |world, running, rng| match &running.job {
        Job::Clear(ids) => clear(world, ids, rng),
        Job::JoinGone(ids) => join_gone(world, ids),
        _ => panic!("clearing is no such job"),
    },
};

/// The first group of two or more. A failure is noted for the first partition of a group. So the
/// account of failures asks for the group that begins there, and disregards leases and pauses.
fn vacant_neighbours(world: &World, filter: Filter) -> Vec<Candidate> {
    let end = |begin: usize, may_be_taken: &dyn Fn(usize) -> bool| {
        let mut group = begin..world.partitions.len().min(begin + MOST_AT_ONCE);
        let end = group.find(|at| !world.is_vacant(*at) || !may_be_taken(*at));
        end.unwrap_or(group.end)
    };
    let group = match filter {
        Filter::Failure(None) => None,
        Filter::Failure(Some(of)) => {
            let begin = world.position(of);
            begin.map(|begin| begin..end(begin, &|_| true))
        }
        Filter::Worker | Filter::Waiter | Filter::Listing => {
            let may_be_taken = |at: usize| may_take(world, filter, NAME, world.partitions[at].id);
            let groups = (0..world.partitions.len()).map(|at| at..end(at, &may_be_taken));
            groups.into_iter().find(|group| group.len() >= 2)
        }
    };
    let group = group.filter(|group| group.len() >= 2);
    let ids = |group: Range<usize>| world.partitions[group].iter().map(|p| p.id).collect();
    group.map_or(Vec::new(), |group| Candidate::only(ids(group)))
}

/// Puts empty partitions in the place of those that still belong to no keyspace.
fn clear(world: &mut World, ids: &[PartitionId], rng: &mut SmallRng) -> Ended {
    let mut is_any = false;
    for id in ids {
        let at = world.position(*id);
        let holds_anything = |at: &usize| !world.partitions[*at].is_empty();
        let Some(at) = at.filter(holds_anything).filter(|at| world.is_gone(*at)) else {
            continue;
        };
        is_any = true;
        world.kill(at, u64::MAX);
        let empty = Partition {
            id: world.new_id(),
            start: world.partitions[at].start.clone(),
            keyspaces: world.partitions[at].keyspaces,
            ..Partition::default()
        };
        world.replace(at..at + 1, vec![empty]);
    }
    // Another partition may have shared a table with large values.
    if rng.random_ratio(1, 4) {
        let at = rng.random_range(0..world.partitions.len());
        world.change(at, Partition::freeze);
    }
    if is_any { Ended::Done } else { Ended::Nothing }
}

/// Puts one partition in the place of neighbours that are still vacant.
fn join_gone(world: &mut World, ids: &[PartitionId]) -> Ended {
    let begin = world.position(ids[0]);
    let Some(begin) = begin else {
        panic!("{:?} is joined, and is not there", ids[0]);
    };
    let group = begin..begin + ids.len();
    let found = world.partitions.get(group.clone());
    let found = found.map(|found| found.iter().map(|p| p.id));
    assert!(
        found.is_some_and(|found| found.eq(ids.iter().copied())),
        "{ids:?} are joined and are no neighbours"
    );
    if !group.clone().all(|at| world.is_vacant(at)) {
        return Ended::Nothing;
    }
    let (first, last) = (group.start, group.end - 1);
    let joined = Partition {
        id: world.new_id(),
        start: world.partitions[first].start.clone(),
        keyspaces: (
            world.partitions[first].keyspaces.0,
            world.partitions[last].keyspaces.1,
        ),
        ..Partition::default()
    };
    world.replace(group, vec![joined]);
    Ended::Done
}
