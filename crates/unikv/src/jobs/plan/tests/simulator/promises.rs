//! The promises that must hold once nothing is due.

use super::kinds::settle;
use super::partition::Partition;
use super::world::World;
use crate::jobs::plan::Filter;
use crate::jobs::plan::rules::due_by_files;
use std::time::Duration;

/// On a full disk joins and notes wait until there is room.
pub(super) fn check(world: &World) {
    let has_room = !world.disk.is_full;
    let is_over = |at: Option<Duration>| at.is_some_and(|at| at <= world.now);
    assert!(world.leased.is_empty(), "a lease is left");
    assert!(world.sealed.is_empty(), "a memtable is not flushed");
    assert_eq!(
        world.index_wishes + world.block_wishes,
        0,
        "wishes of reads"
    );
    assert_eq!(world.hints_left, 0, "hints are not read back");
    assert!(!has_room || !is_over(world.note_clock_at), "clock");
    assert!(!has_room || !is_over(world.note_hints_at), "hints");
    assert!(!(world.disk.is_full && world.disk.wants_freeze), "freeze");
    let is_looked_after = !world.disk.is_full && world.has_ballast;
    assert!(!world.has_room || is_looked_after, "there is room on disk");
    assert!(
        !settle::is_unsettled(world),
        "what was written may hide much"
    );
    assert!(world.is_lent, "the memory of jobs is not lent");
    assert!(!world.flushes_wait(), "flushes wait, and nothing is due");
    assert!(
        world.failures.failed().is_empty(),
        "a failure is not settled"
    );
    check_values(world);
    for (at, partition) in world.partitions.iter().enumerate() {
        assert!(partition.frozen.is_empty(), "frozen: {partition:?}");
        let is_outgrown = partition.is_outgrown(world.most_bytes);
        assert!(!is_outgrown, "too large: {partition:?}");
        let is_gone = world.is_gone(at);
        assert!(
            !is_gone || world.is_vacant(at),
            "not cleared: {partition:?}"
        );
        let Some(next) = world.partitions.get(at + 1) else {
            break;
        };
        let is_next_gone = world.is_gone(at + 1);
        assert!(
            !(is_gone && is_next_gone),
            "vacant neighbours: {partition:?}"
        );
        assert!(
            !has_room || !are_small(world, at),
            "small: {partition:?} {next:?}"
        );
        // A vacant partition is joined with a neighbour, unless the neighbour has an UnsortedStore.
        let is_vacant_beside = is_gone != is_next_gone && is_merged(partition) && is_merged(next);
        assert!(
            !has_room || !is_vacant_beside,
            "vacant: {partition:?} {next:?}"
        );
    }
    let facts = world.facts();
    let mut by_files = due_by_files(&facts).map(|(name, ..)| name);
    assert_eq!(by_files.next(), None, "the files say that a job is due");
}

/// Garbage is within its bounds, and nothing is left to do for scans that is worth its cost. On a
/// full disk nothing is done for scans but merges of keys.
fn check_values(world: &World) {
    let victims = world.victims();
    let helps = |p: &Partition| p.live_in(&victims) > 0;
    assert!(!world.partitions.iter().any(helps), "garbage");
    let scan_merge = world.partitions.iter().find(|p| p.wants_scan_merge());
    assert!(scan_merge.is_none(), "scan merge: {scan_merge:?}");
    if world.disk.is_full {
        return;
    }
    let uncounted = world.partitions.iter().find(|p| p.has_tombstones());
    assert!(uncounted.is_none(), "tombstones: {uncounted:?}");
    if !world.may_cluster {
        return;
    }
    assert!(!world.lack_indexes, "indexes");
    let many = world.partitions.iter().find(|p| p.has_many_tables());
    assert!(many.is_none(), "many tables: {many:?}");
    let slices = world.choose_slices(Filter::Waiter);
    assert!(slices.is_none(), "slices: {slices:?}");
}

fn is_merged(partition: &Partition) -> bool {
    partition.generations() == 0
}

/// Whether a partition and the next are of one keyspace, and together smaller than a quarter of
/// the limit.
fn are_small(world: &World, at: usize) -> bool {
    let [left, right] = [at, at + 1].map(|at| &world.partitions[at]);
    let lives = |p: &Partition| {
        let (first, last) = p.keyspaces;
        world.keyspaces.range(first..=last).next().copied()
    };
    let is_one = lives(left).is_some() && lives(left) == lives(right);
    is_one && left.bytes() + right.bytes() < world.most_bytes / 4
}
