//! Flushes, and freezing for space.

use super::{Ended, Kind, Running, takes_nothing};
use crate::jobs::plan::tests::simulator::oracle::{Candidate, is_asked};
use crate::jobs::plan::tests::simulator::world::World;
use crate::jobs::plan::{FLUSH, Filter, rules};
use rand::rngs::SmallRng;

/// Due when a memtable is sealed. A worker begins none while flushes wait for merges.
pub(super) const FLUSHES: Kind = Kind {
    rule: rules::flush::FLUSH_OLDEST,
    is_flush: true,
    may_fail: true,
    candidates: |world, filter| {
        let has_to_wait = filter == Filter::Worker && world.flushes_wait();
        let is_due = !world.sealed.is_empty() && !has_to_wait;
        Candidate::if_due(is_due && is_asked(world, filter, FLUSH, None))
    },
    begin: |world, running| {
        // A short memtable is flushed together with the next.
        let is_short = world.sealed.front().is_some_and(|writes| writes.len() < 2);
        let memtables = world.sealed.len().min(1 + usize::from(is_short));
        running.inputs = vec![memtables];
    },
    end: flush,
};

fn flush(world: &mut World, running: &mut Running, _: &mut SmallRng) -> Ended {
    let oldest: Vec<_> = world.sealed.drain(..running.inputs[0]).flatten().collect();
    world.place(&oldest);
    Ended::Done
}

/// Due on a full disk once deletes have been flushed.
pub(super) const FREEZE_FOR_SPACE: Kind = Kind {
    rule: rules::freeze::FREEZE_FOR_SPACE,
    is_flush: false,
    may_fail: false,
    candidates: |world, _| {
        let disk = &world.disk;
        Candidate::if_due(disk.is_full && disk.wants_freeze && world.sealed.is_empty())
    },
    begin: takes_nothing,
    end: |world, _, _| {
        for at in 0..world.partitions.len() {
            world.change(at, |partition| partition.freeze());
        }
        world.disk.wants_freeze = false;
        Ended::Done
    },
};
