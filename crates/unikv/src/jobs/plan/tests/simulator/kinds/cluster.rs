//! Clustering: slices that move values, and the merges that must precede them.

use super::{Ended, Kind, Running, takes_nothing};
use crate::base::keys::PartitionId;
use crate::jobs::plan::tests::simulator::oracle::Candidate;
use crate::jobs::plan::tests::simulator::partition::Partition;
use crate::jobs::plan::tests::simulator::world::World;
use crate::jobs::plan::{Job, MERGE, Pass, rules};
use rand::Rng;
use rand::rngs::SmallRng;

/// While nobody writes, partitions with many tables in open generations come first, unless their
/// merges have failed. Then come slices, where scans have charged what they cost or nobody writes.
pub(super) const CLUSTERINGS: Kind = Kind {
    rule: rules::cluster::CLUSTERINGS,
    is_flush: false,
    may_fail: true,
    candidates: |world, filter| {
        if !to_be_merged_first(world).is_empty() {
            return Candidate::if_due(true);
        }
        let slice = world.next_slice(filter);
        slice.map_or(Vec::new(), |slice| Candidate::only(slice.partitions))
    },
    begin: |world, running| match &running.job {
        Job::FreezeToCluster(ids) => assert_eq!(*ids, to_be_merged_first(world)),
        Job::Cluster(slice) => check(world, slice),
        _ => panic!("clustering is no such job"),
    },
    end: |world, running, rng| match &running.job {
        Job::FreezeToCluster(ids) => freeze(world, &ids.clone()),
        Job::Cluster(slice) => move_slice(world, &slice.clone(), rng),
        _ => panic!("clustering is no such job"),
    },
};

fn to_be_merged_first(world: &World) -> Vec<PartitionId> {
    if !world.clusters_when_idle() {
        return Vec::new();
    }
    let all = world.partitions.iter().filter(|p| p.has_many_tables());
    let all = all.filter(|p| !world.failures.has_failed((MERGE, Some(p.id))));
    let mut ids: Vec<_> = all.map(|p| p.id).collect();
    ids.sort();
    ids
}

fn freeze(world: &mut World, ids: &[PartitionId]) -> Ended {
    let mut ended = Ended::Nothing;
    for id in ids {
        let at = world.position(*id);
        if let Some(at) = at.filter(|at| world.partitions[*at].has_many_tables()) {
            world.change(at, Partition::freeze);
            ended = Ended::Done;
        }
    }
    ended
}

/// A slice copies no more than may be copied, and only what is worth it.
fn check(world: &World, slice: &Pass) {
    let files = slice.files.iter().copied().collect();
    let is_idle = world.clusters_when_idle();
    let mut sum = 0;
    for partition in slice.partitions.iter().filter_map(|id| world.get(*id)) {
        let cost = partition.to_move(&files).min(world.slice_bytes);
        assert!(cost > 0, "nothing to move");
        assert!(is_idle || partition.charge >= cost, "not worth its cost");
        let has_failed = world.failed_slices.contains(&partition.id);
        assert!(!has_failed, "a slice has failed there");
        sum += cost;
    }
    assert!(sum <= world.copies_left, "copies too much");
    assert!(world.may_cluster && !world.disk.is_full, "may not copy");
}

fn move_slice(world: &mut World, slice: &Pass, rng: &mut SmallRng) -> Ended {
    let files = slice.files.iter().copied().collect();
    let to = world.new_file();
    for id in &slice.partitions {
        let Some(at) = world.position(*id) else {
            panic!("a slice holds {id:?}, which is not there");
        };
        let cost = world.partitions[at].to_move(&files).min(world.slice_bytes);
        world.move_values(at, &files, to);
        world.copies_left = world.copies_left.saturating_sub(cost);
        world.change(at, |p| p.charge = p.charge.saturating_sub(cost));
    }
    // Look-ups may have waited for the device.
    if rng.random_ratio(1, 4) {
        world.give_way(rng.random_range(1..=6_000));
    }
    Ended::Done
}

/// A slice that failed is not tried again there.
pub(super) fn slice_failed(world: &mut World, running: &Running) {
    world.failed_slices.extend(running.partitions.first());
    *world.choices.slices.borrow_mut() = None;
}

/// Due while nobody writes and tables lack pointer indexes for which there is room.
pub(super) const INDEXES_WHEN_IDLE: Kind = Kind {
    rule: rules::for_reads::INDEXES_WHEN_IDLE,
    is_flush: false,
    may_fail: false,
    candidates: |world, _| Candidate::if_due(world.clusters_when_idle() && world.lack_indexes),
    begin: takes_nothing,
    end: |world, _, rng| {
        world.lack_indexes = false;
        world.index_wishes += rng.random_range(0..=2);
        Ended::Done
    },
};
