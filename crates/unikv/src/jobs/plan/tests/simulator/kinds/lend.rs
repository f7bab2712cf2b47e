//! Lending memory to the cache.

use super::{Ended, Kind, Running, takes_nothing};
use crate::jobs::plan::tests::simulator::oracle::Candidate;
use crate::jobs::plan::tests::simulator::world::World;
use crate::jobs::plan::{Filter, Job, rules};
use std::time::Duration;

/// Time without jobs after which their memory is lent.
const LENT_AFTER: Duration = Duration::from_secs(2);

/// Due for workers where no memtable is sealed and no job has run for two seconds.
pub(super) const LEND_MEMORY: Kind = Kind {
    rule: rules::lend::LEND_MEMORY,
    is_flush: true,
    may_fail: false,
    candidates: |world, filter| {
        let are_idle = world.jobs == 0 && world.now >= world.worked_at + LENT_AFTER;
        let is_due = are_idle && !world.is_lent && world.sealed.is_empty();
        Candidate::if_due(is_due && filter == Filter::Worker)
    },
    begin: takes_nothing,
    end: |world, _, _| {
        // A job may have begun meanwhile.
        let may_lend = world.jobs == 0 && !world.is_lent;
        world.is_lent |= may_lend;
        if may_lend {
            Ended::Done
        } else {
            Ended::Nothing
        }
    },
};

/// When the memory is to be lent. While jobs run, nobody knows.
pub(in super::super) fn lend_at(world: &World) -> Option<Duration> {
    let worked_at = if world.jobs > 0 {
        world.now
    } else {
        world.worked_at
    };
    (!world.is_lent).then_some(worked_at + LENT_AFTER)
}

/// Whether a job takes the memory of jobs.
fn takes_memory(running: &Running) -> bool {
    matches!(running.job, Job::Flush) || !running.partitions.is_empty()
}

/// A job begins and takes back what was lent.
pub(in super::super) fn job_begins(world: &mut World, running: &Running) {
    if takes_memory(running) {
        world.is_lent = false;
        world.jobs += 1;
    }
}

pub(in super::super) fn job_ends(world: &mut World, running: &Running) {
    if takes_memory(running) {
        world.jobs -= 1;
        world.worked_at = world.now;
    }
}
