//! Joins.

use super::merge::merge_all;
use super::{Ended, Kind, Running};
use crate::base::keys::PartitionId;
use crate::jobs::plan::facts::Cause;
use crate::jobs::plan::tests::simulator::oracle::{Candidate, is_asked, is_free};
use crate::jobs::plan::tests::simulator::partition::Partition;
use crate::jobs::plan::tests::simulator::world::World;
use crate::jobs::plan::{Filter, Job, MERGE, rules};
use rand::Rng;
use rand::rngs::SmallRng;
use std::cmp::Reverse;

const NAME: &str = "join";

/// How often both sides are merged before a join is given up.
const ROUNDS: usize = 3;

/// Joins that need no merge, and all joins after four jobs that merge.
pub(super) const JOIN_BEFORE_MERGES: Kind = Kind {
    rule: rules::join::JOIN_BEFORE_MERGES,
    candidates: |world, filter| due(world, filter, world.merges_since_join >= 4),
    ..JOIN_LAST
};

pub(super) const JOIN_LAST: Kind = Kind {
    rule: rules::join::JOIN_LAST,
    is_flush: false,
    may_fail: true,
    candidates: |world, filter| due(world, filter, true),
    begin: |world, running| {
        let Job::Join(sides) = running.job else {
            panic!("a join is no such job");
        };
        if world.needs_merge(sides) {
            world.merges_since_join = 0;
        }
    },
    end: try_to_join,
};

/// Due where two neighbours may be one, both are free, and no merge of either has failed. Joins
/// without merges come first, then the smallest. None is due on a full disk, and workers begin none
/// while flushes wait for merges.
fn due(world: &World, filter: Filter, with_merges: bool) -> Vec<Candidate> {
    let gives_way = filter == Filter::Worker && world.flushes_wait();
    if world.disk.is_full || gives_way {
        return Vec::new();
    }
    let candidate = |at| {
        let join = world.join(at)?;
        let left = world.partitions[at].id;
        let sides = [left, join.right];
        let may_be_taken = sides.iter().all(|id| {
            let has_failed = world.failures.has_failed((MERGE, Some(*id)));
            is_free(world, filter, *id) && !has_failed
        });
        let is_asked = is_asked(world, filter, NAME, Some(left));
        let is_due = may_be_taken && is_asked && (with_merges || !join.needs_merge);
        is_due.then(|| Candidate {
            urgency: (u64::from(!join.needs_merge), Reverse(join.bytes)),
            partitions: sides.to_vec(),
        })
    };
    (0..world.partitions.len()).filter_map(candidate).collect()
}

/// Whether a worker could begin a join that needs merges.
pub(in super::super) fn is_one_with_merges_due(world: &World) -> bool {
    let mut due = due(world, Filter::Worker, true).into_iter();
    due.any(|join| join.urgency.0 == 0)
}

/// Joins two neighbours if neither has an UnsortedStore. Otherwise freezes and merges these and
/// goes on. Gives up after some rounds, or when flushes wait.
fn try_to_join(world: &mut World, running: &mut Running, rng: &mut SmallRng) -> Ended {
    let Job::Join([left, right]) = running.job else {
        panic!("a join is no such job");
    };
    let at = world.position(left);
    let next = |at: &usize| world.partitions.get(at + 1).is_some_and(|p| p.id == right);
    let Some(at) = at.filter(next) else {
        panic!("{right:?} does not follow {left:?}");
    };
    let Some(join) = world.join(at) else {
        return Ended::GivenUp;
    };
    if !join.needs_merge {
        commit(world, at);
        return Ended::Done;
    }
    if world.flushes_wait() || running.rounds >= ROUNDS {
        return Ended::GivenUp;
    }
    running.rounds += 1;
    for side in [at, at + 1] {
        world.change(side, Partition::freeze);
    }
    for side in [left, right] {
        if is_failed_merge(world, side, rng) {
            return Ended::GivenUp;
        }
        merge_all(world, side, rng);
    }
    Ended::GoesOn
}

fn commit(world: &mut World, at: usize) {
    let [mut left, right] = [at, at + 1].map(|at| world.partitions[at].clone());
    for (file, bytes) in right.live {
        *left.live.entry(file).or_default() += bytes;
    }
    let joined = Partition {
        id: world.new_id(),
        start: left.start,
        live: left.live,
        keyspaces: (left.keyspaces.0, right.keyspaces.1),
        key_tables: [left.key_tables, right.key_tables].concat(),
        ..Partition::default()
    };
    world.replace(at..at + 2, vec![joined]);
}

/// Lets the merge of a side fail at random, and notes it as a failure of a merge.
fn is_failed_merge(world: &mut World, side: PartitionId, rng: &mut SmallRng) -> bool {
    let fails = rng.random_ratio(world.failing, 1_000);
    if fails {
        let of = (MERGE, Some(side));
        world.failures.fail(of, Cause::Failed, world.now);
        world.changed();
    }
    fails
}
