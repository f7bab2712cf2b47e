//! The kinds of jobs in the model, and the order of all, as in `jobs/plan/rules/mod.rs`.
//!
//! Everything about a kind is in one file: the definition by which it is due, for the oracle, and
//! its changes of the model. To add a kind, add its [`Kind`] and its line in [`KINDS`].

mod clear;
mod cluster;
mod collect;
pub(super) mod disk;
mod flush;
mod for_reads;
pub(super) mod join;
pub(super) mod lend;
mod merge;
mod notes;
mod scans;
pub(super) mod settle;
mod split;

use super::oracle::Candidate;
use super::world::World;
use crate::base::keys::PartitionId;
use crate::jobs::plan::{Facts, Filter, Job, JobName, OfCatalog, OnFailure, Rule};
use rand::rngs::SmallRng;
use std::time::Duration;

/// All kinds, the most urgent first. The flush worker does the first four, the other workers do the
/// others.
pub(super) const KINDS: &[Kind] = &[
    disk::DISK_SPACE,
    flush::FLUSHES,
    settle::SETTLE,
    lend::LEND_MEMORY,
    notes::CLOCK_NOTES,
    clear::CLEAR,
    for_reads::WARM_START,
    split::SPLIT,
    join::JOIN_BEFORE_MERGES,
    flush::FREEZE_FOR_SPACE,
    merge::MERGES,
    collect::COLLECTIONS,
    for_reads::POINTER_INDEX,
    for_reads::KEY_BLOCKS,
    join::JOIN_LAST,
    scans::FREEZE_FOR_SCANS,
    scans::SCAN_MERGES,
    cluster::CLUSTERINGS,
    cluster::INDEXES_WHEN_IDLE,
    notes::HINT_NOTES,
];

pub(super) struct Kind {
    rule: Rule,
    /// The flush worker does it.
    pub(super) is_flush: bool,
    pub(super) may_fail: bool,
    /// All jobs of this kind that are due by its definition. The rule must find the most urgent.
    pub(super) candidates: fn(&World, Filter) -> Vec<Candidate>,
    /// The change of the model at the beginning of a job.
    pub(super) begin: fn(&mut World, &mut Running),
    /// The change of the model at the end of a job that does not fail.
    pub(super) end: fn(&mut World, &mut Running, &mut SmallRng) -> Ended,
}

/// A job that runs.
pub(super) struct Running {
    /// Its place in [`KINDS`].
    pub(super) kind: usize,
    pub(super) job: Job,
    pub(super) partitions: Vec<PartitionId>,
    /// Memtables that it took at its beginning, or generations of each partition.
    pub(super) inputs: Vec<usize>,
    /// Rounds of merges that a join has made.
    pub(super) rounds: usize,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Ended {
    Done,
    /// There was nothing to do after all.
    Nothing,
    GivenUp,
    /// It has not ended yet.
    GoesOn,
}

impl Kind {
    pub(super) fn name(&self) -> JobName {
        self.rule.name
    }

    /// Whether a failure is only counted. The job is not tried again before scans ask for it.
    pub(super) fn is_only_counted(&self) -> bool {
        self.rule.on_failure == OnFailure::Counted
    }

    /// What the rule finds, with what it goes by of the present choices.
    pub(super) fn find(&self, facts: &mut Facts<'_>, world: &World, filter: Filter) -> Option<Job> {
        match self.rule.of_catalog {
            OfCatalog::Collections => facts.garbage.next = world.next_collection(filter),
            OfCatalog::Slices => facts.scans.next_slice = world.next_slice(filter),
            _ => {}
        }
        (self.rule.find)(facts, filter).map(|(job, _)| job)
    }

    /// The time after which it may become due without a notification.
    pub(super) fn due_in(&self, facts: &Facts<'_>) -> Option<Duration> {
        (self.rule.due_in)(facts)
    }
}

/// The change of the model that each failure of a kind makes.
pub(super) fn failed(world: &mut World, running: &Running) {
    match &running.job {
        Job::ScanMerge(id) => {
            if let Some(at) = world.position(*id) {
                world.change(at, |partition| partition.lost_by_scans = 0);
            }
        }
        Job::Cluster(_) => cluster::slice_failed(world, running),
        Job::Collect(_) => *world.choices.collections.borrow_mut() = None,
        _ => {}
    }
}

fn takes_nothing(_: &mut World, _: &mut Running) {}
