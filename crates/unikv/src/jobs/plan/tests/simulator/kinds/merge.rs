//! Merges.

use super::{Ended, Kind};
use crate::base::keys::PartitionId;
use crate::jobs::plan::tests::simulator::oracle::{Candidate, may_take};
use crate::jobs::plan::tests::simulator::partition::{Generation, Partition};
use crate::jobs::plan::tests::simulator::world::World;
use crate::jobs::plan::{Filter, MERGE, rules};
use rand::Rng;
use rand::rngs::SmallRng;

/// Generations that a merge takes at once, unless the partition is small.
const MAX_MERGED: usize = 2;

/// Due where generations are frozen. Partitions with all their generations and no open one come
/// first; then the one that makes flushes wait by the limits of the moment; then the others. The
/// larger UnsortedStore decides among equals.
pub(super) const MERGES: Kind = Kind {
    rule: rules::merge::MERGES,
    is_flush: false,
    may_fail: true,
    candidates: |world, filter| {
        let mut all = ready(world, filter);
        let best = all.iter().map(|it| it.urgency).max();
        for candidate in all.iter_mut().filter(|it| Some(it.urgency) == best) {
            add_others(world, filter, &mut candidate.partitions);
        }
        all
    },
    begin: |world, running| {
        world.hints_had_turn = false;
        world.merges_since_join += 1;
        let inputs = running.partitions.iter().map(|id| {
            let Some(partition) = world.get(*id) else {
                return 0;
            };
            let is_small = partition.bytes() <= world.generation_bytes / 4;
            let most = if is_small { usize::MAX } else { MAX_MERGED };
            partition.frozen.len().min(most)
        });
        running.inputs = inputs.collect();
    },
    end: |world, running, rng| {
        for (id, inputs) in running.partitions.iter().zip(&running.inputs) {
            merge(world, *id, *inputs, rng);
        }
        Ended::Done
    },
};

/// Partitions that one job merges, at most, and those that are looked at besides the first.
const MOST_TOGETHER: usize = 64;
const LOOKED_AT: usize = 256;

/// Adds the partitions that are merged together with the first: those frozen for longest come
/// first, and of one age those in key order. All together cost no more than the limit. A partition
/// whose merge has failed is merged alone.
fn add_others(world: &World, filter: Filter, ids: &mut Vec<PartitionId>) {
    let first = ids[0];
    let has_failed = |id| world.failures.has_failed((MERGE, Some(id)));
    if has_failed(first) {
        return;
    }
    let mut others: Vec<_> = world.partitions.iter().collect();
    others.retain(|p| !p.frozen.is_empty() && p.id != first);
    // The sort keeps the key order of equals.
    others.sort_by_key(|p| p.oldest_file());
    others.truncate(LOOKED_AT);
    others.retain(|p| may_take(world, filter, MERGE, p.id) && !has_failed(p.id));
    let cost = |p: &Partition| p.unsorted_bytes() + p.sorted_bytes();
    let mut sum = world.get(first).map_or(0, cost);
    for other in others {
        if ids.len() < MOST_TOGETHER && sum + cost(other) <= world.most_together_bytes {
            sum += cost(other);
            ids.push(other.id);
        }
    }
}

/// The merges that are due.
pub(super) fn ready(world: &World, filter: Filter) -> Vec<Candidate> {
    let first_blocking = {
        let mut all = world.partitions.iter();
        all.find(|p| p.blocks(world.generation_bytes)).map(|p| p.id)
    };
    let due = world.partitions.iter().filter(|p| !p.frozen.is_empty());
    let due = due.filter(|p| may_take(world, filter, MERGE, p.id));
    let candidates = due.map(|p| {
        let class = if p.has_all_generations() && p.open.is_none() {
            2
        } else {
            u64::from(first_blocking == Some(p.id))
        };
        // No partition has 2^60 bytes.
        Candidate::by_most((class << 60) + p.unsorted_bytes(), p.id)
    });
    candidates.collect()
}

/// Merges the oldest frozen generations of a partition.
pub(super) fn merge(world: &mut World, id: PartitionId, inputs: usize, rng: &mut SmallRng) {
    let Some(at) = world.position(id) else {
        panic!("a merge holds {id:?}, which is not there");
    };
    let table_bytes = world.most_bytes / 8;
    let (mut new_bytes, mut lost) = (0, 0);
    world.change(at, |partition| {
        let merged = partition.frozen.drain(..inputs);
        let merged: u64 = merged.map(|Generation { bytes, .. }| bytes).sum();
        let mut left = partition.sorted_bytes() + merged;
        new_bytes = merged;
        // A part of it is overwritten or deleted; all of it in one of 16 merges.
        lost = match rng.random_range(0..16) {
            0 => left,
            1 => left - left / 8,
            2..8 => rng.random_range(0..=left / 2),
            _ => 0,
        };
        left -= lost;
        partition.key_tables.clear();
        // With large values one key table may have all of it.
        let is_coarse = rng.random_ratio(1, 16);
        while left > 0 {
            let most = if is_coarse {
                left
            } else {
                left.min(table_bytes)
            };
            let table = rng.random_range(most.div_ceil(2)..=most);
            partition.key_tables.push(table);
            left -= table;
        }
    });
    let file = world.new_file();
    world.add_value(at, file, new_bytes);
    let has_any = !world.partitions[at].key_tables.is_empty();
    world.kill(at, if has_any { lost } else { u64::MAX });
    world.lack_indexes |= rng.random_ratio(1, 8);
    world.note(at);
}

/// Merges all frozen generations of a partition, as part of a job of another kind.
pub(super) fn merge_all(world: &mut World, id: PartitionId, rng: &mut SmallRng) {
    while let Some(partition) = world.get(id)
        && !partition.frozen.is_empty()
    {
        let inputs = partition.frozen.len().min(MAX_MERGED);
        merge(world, id, inputs, rng);
    }
}
