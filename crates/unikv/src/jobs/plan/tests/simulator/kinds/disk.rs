//! Space on disk.

use super::{Ended, Kind, takes_nothing};
use crate::jobs::plan::tests::simulator::oracle::Candidate;
use crate::jobs::plan::tests::simulator::world::World;
use crate::jobs::plan::{Filter, rules};
use std::time::Duration;

/// Time after a look in vain at a full disk, and at one that has no room for a ballast.
const PROBE_EVERY: Duration = Duration::from_secs(1);
const BALLAST_EVERY: Duration = Duration::from_secs(30);

/// Due for workers while the disk is full or a ballast is missing, and its time has come. A person
/// sees a full disk.
pub(super) const DISK_SPACE: Kind = Kind {
    rule: rules::disk::DISK_SPACE,
    is_flush: true,
    may_fail: false,
    candidates: |world, filter| match filter {
        Filter::Worker => {
            let time = look_at(world).is_some_and(|at| at <= world.now);
            Candidate::if_due(time)
        }
        Filter::Listing => Candidate::if_due(world.disk.is_full),
        Filter::Waiter | Filter::Failure(_) => Vec::new(),
    },
    begin: takes_nothing,
    end: |world, _, _| {
        if world.has_room {
            world.has_ballast = true;
            world.in_vain_at = None;
            world.full_ends();
            return Ended::Done;
        }
        world.in_vain_at = Some(world.now);
        Ended::Nothing
    },
};

/// When the space is to be looked after.
pub(in super::super) fn look_at(world: &World) -> Option<Duration> {
    let pause = match (world.disk.is_full, world.has_ballast) {
        (true, _) => PROBE_EVERY,
        (false, false) => BALLAST_EVERY,
        (false, true) => return None,
    };
    Some(world.in_vain_at.map_or(Duration::ZERO, |at| at + pause))
}
