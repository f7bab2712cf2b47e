//! Settling what idle writers have left.

use super::{Ended, Kind, Running};
use crate::jobs::plan::tests::simulator::oracle::{Candidate, is_asked};
use crate::jobs::plan::tests::simulator::partition::Partition;
use crate::jobs::plan::tests::simulator::world::World;
use crate::jobs::plan::{Filter, Job, Settling, rules};
use rand::Rng;
use rand::rngs::SmallRng;
use std::time::Duration;

const NAME: &str = "settle";

/// How long nobody must have written, and how long where only scans gain.
const IDLE: Duration = Duration::from_secs(1);
const IDLE_FOR_SCANS: Duration = Duration::from_secs(5);

/// Deletes in the open memtable that are flushed for scans.
const MANY_DELETES: usize = 2;

/// Due for workers once nobody has written for a second, where the memtable or generations hide too
/// much or hold something of keyspaces that are gone; after five seconds where the memtable has
/// many deletes; and where anything of that can be done. No caller waits for it.
pub(super) const SETTLE: Kind = Kind {
    rule: rules::settle::SETTLE,
    is_flush: true,
    may_fail: false,
    candidates: |world, filter| {
        let is_asked = match filter {
            Filter::Worker | Filter::Listing => is_asked(world, filter, NAME, None),
            Filter::Waiter | Filter::Failure(_) => false,
        };
        Candidate::if_due(is_asked && due(world) != Settling::default())
    },
    begin: |world, running| {
        let due = due(world);
        assert!(matches!(running.job, Job::Settle(what) if what == due));
    },
    end: settle,
};

fn settle(world: &mut World, running: &mut Running, rng: &mut SmallRng) -> Ended {
    let Job::Settle(what) = running.job else {
        panic!("settling is no such job");
    };
    // The commit lock may not be free.
    let is_locked = what.seals && rng.random_ratio(1, 4);
    if what.seals && !is_locked && may_seal(world) {
        let writes = std::mem::take(&mut world.open);
        world.sealed.push_back(writes);
    }
    if what.freezes {
        for at in 0..world.partitions.len() {
            world.change(at, Partition::freeze);
        }
    }
    world.changed();
    if is_locked && !what.freezes {
        Ended::GivenUp
    } else {
        Ended::Done
    }
}

/// What is to be done now.
fn due(world: &World) -> Settling {
    let hides = memtable_hides(world) || generations_hide(world);
    let is_urgent = hides || gone_await_flush(world);
    let wait = if is_urgent { IDLE } else { IDLE_FOR_SCANS };
    if world.idle_time() < wait {
        return Settling::default();
    }
    let is_flush_wanted =
        memtable_hides(world) || gone_await_flush(world) || has_many_deletes(world);
    Settling {
        seals: is_flush_wanted && may_seal(world),
        freezes: hides && may_freeze(world),
    }
}

/// Whether anything is to be done once writers have been idle for long.
pub(in super::super) fn is_unsettled(world: &World) -> bool {
    let memtable = memtable_hides(world) || gone_await_flush(world) || has_many_deletes(world);
    memtable || generations_hide(world)
}

pub(in super::super) fn memtable_hides(world: &World) -> bool {
    world.open.iter().any(|write| write.hides)
}

pub(in super::super) fn has_many_deletes(world: &World) -> bool {
    let deletes = world.open.iter().filter(|write| write.has_deletes);
    deletes.count() >= MANY_DELETES
}

pub(in super::super) fn generations_hide(world: &World) -> bool {
    let all = world.partitions.iter();
    let mut all = all.flat_map(|p| p.frozen.iter().chain(&p.open));
    all.any(|generation| generation.hides)
}

pub(in super::super) fn gone_await_flush(world: &World) -> bool {
    let mut all = world.sealed.iter().flatten().chain(&world.open);
    all.any(|write| !world.keyspaces.contains(&write.keyspace))
}

pub(in super::super) fn may_seal(world: &World) -> bool {
    world.sealed.is_empty() && !world.open.is_empty()
}

pub(in super::super) fn may_freeze(world: &World) -> bool {
    let mut all = world.partitions.iter();
    all.any(|p| p.open.is_some() && !p.has_all_generations())
}
