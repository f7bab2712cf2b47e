//! Collecting garbage alone, when no merge takes it along in time (see
//! [`crate::jobs::compact::gc`]).
//!
//! One choice of victims serves many partitions ([`Round`]), and small partitions share a job.

use crate::base::keys::PartitionId;
use crate::engine::background::passes::{Look, Round};
use crate::engine::background::scheduler::Ask;
use crate::engine::background::{Background, JobKind};
use crate::engine::health::{COLLECT, JobName};
use crate::error::Error;
use crate::jobs::compact::gc::{self, Scope};
use crate::jobs::compact::parts::MergeInputs;
use crate::jobs::compact::parts::MergePlan;
use crate::jobs::plan::{Filter, Job, Why};
use crate::jobs::space::garbage::Pressure;
use crate::record::RecordFile;
use crate::version::{Partition, Version};
use std::cmp::Reverse;
use std::sync::Arc;
use std::time::Duration;

/// Moves what lives in value logs with much garbage, first in the partitions that hold most of it.
pub(crate) struct Collections;

impl JobKind for Collections {
    fn name(&self) -> JobName {
        COLLECT
    }

    fn is_listed_for(&self) -> Filter {
        Filter::Worker
    }

    fn find(&self, background: &Background, ask: &Ask<'_>) -> Option<(Job, Why)> {
        let plans = background.plan_collections(ask, &|id| ask.is_free(id));
        if plans.is_empty() {
            return None;
        }
        let (space, limit) = (&background.space, background.space.space_limit());
        let found = space.space_of(&ask.catalog.version, limit.horizon);
        let why = Why::Garbage {
            bytes: found.reclaimable_bytes(),
            most: found.begins_at(limit, background.pressure_due()),
        };
        Some((Job::Collect(plans), why))
    }

    /// What has expired since may make one due.
    fn due_in(&self, background: &Background, _: Duration) -> Option<Duration> {
        background.space.look_again_in()
    }

    fn failed(&self, background: &Background, partition: Option<PartitionId>, error: &Error) {
        background.note_failure(COLLECT, partition, error);
        // What failed may be a victim that is left alone from now on.
        background.passes.collections.end();
    }
}

impl Background {
    /// The collections that are due in the partitions that are free, as one job.
    pub(crate) fn plan_collections(
        &self,
        ask: &Ask<'_>,
        is_free: &dyn Fn(PartitionId) -> bool,
    ) -> Vec<MergePlan> {
        let version = &ask.catalog.version;
        let may = |id| is_free(id) && ask.allows(COLLECT, Some(id));
        // While the disk is full, each pass may leave room for other victims than before.
        if !ask.is_by_worker() || self.space.tight_space().is_some() {
            let first = self.first_collection(version, &may);
            let plan = first.map(|(victims, partition)| plan_of(partition, &victims));
            return plan.into_iter().collect();
        }
        let scope = self.due_scope(version, &may);
        let rounds = &self.passes.collections;
        let present = rounds.present(|pressure| *pressure == scope.pressure);
        let present = present.filter(|round| still_serves(&scope, round));
        let next = |round| self.next_of_collections(&scope, &round, is_free);
        // A choice made now serves: workers must find every collection that waiters find.
        let begun = || next(self.begin_collections(&scope)?);
        present.and_then(next).or_else(begun).unwrap_or_default()
    }

    /// The same under the pressure that is due.
    fn due_scope<'a>(
        &'a self,
        version: &'a Arc<Version>,
        can_run: &'a dyn Fn(PartitionId) -> bool,
    ) -> Scope<'a> {
        self.space.scope(version, self.pressure_due(), can_run)
    }

    fn pressure_due(&self) -> Pressure {
        if self.garbage_requests.any() {
            Pressure::Riding
        } else {
            Pressure::Alone
        }
    }

    /// The next job of a choice; it is empty while others work on the rest. `None`: nothing is left
    /// that could be done.
    fn next_of_collections(
        &self,
        scope: &Scope<'_>,
        round: &Round<Pressure>,
        is_free: &dyn Fn(PartitionId) -> bool,
    ) -> Option<Vec<MergePlan>> {
        let version = scope.version;
        let victims = round.files_in(version, |file| !scope.left_alone.contains(file));
        let numbers = gc::numbers(&victims);
        let bytes_in = |partition: &Partition| {
            if round.is_of_files() {
                gc::bytes_in(partition, &numbers)
            } else {
                scope.obsolete_in(partition)
            }
        };
        let look = Look {
            version,
            is_free,
            bytes_in: &bytes_in,
            cost_if_due: &|bytes, partition| {
                let cost = if self.is_tried_alone(COLLECT, partition.id) {
                    u64::MAX
                } else {
                    bytes.saturating_add(partition.key_table_bytes())
                };
                (scope.can_run)(partition.id).then_some(cost)
            },
        };
        let most_bytes = self.most_together_bytes(version);
        let partitions = self.passes.collections.next(round, most_bytes, &look)?;
        let plans = partitions.iter().map(|p| plan_of(p, &victims));
        Some(plans.collect())
    }

    /// Makes a new choice in the place of the present one, if anything is to be reclaimed.
    fn begin_collections(&self, scope: &Scope<'_>) -> Option<Round<Pressure>> {
        let victims = scope.victims();
        let mut found = scope.partitions_of(&victims);
        if found.is_empty() {
            self.passes.collections.end();
            return None;
        }
        found.sort_by_key(|(gain, _)| Reverse(*gain));
        let is_of_files = found.iter().any(|(gain, _)| gain.moved_bytes > 0);
        let victims = if is_of_files { &victims[..] } else { &[] };
        let partitions = found.iter().map(|(_, partition)| partition.id);
        let round = Round::new(victims, partitions, scope.pressure);
        self.passes.collections.begin(round.clone());
        Some(round)
    }

    /// What garbage collection is to reclaim alone, and where first, among the partitions that may
    /// be.
    pub(crate) fn first_collection<'a>(
        &'a self,
        version: &'a Arc<Version>,
        can_run: &'a dyn Fn(PartitionId) -> bool,
    ) -> Option<(Vec<Arc<RecordFile>>, &'a Arc<Partition>)> {
        let scope = self.due_scope(version, can_run);
        let victims = match self.space.tight_space() {
            None => scope.victims(),
            Some(free_bytes) => gc::victims_on_full_disk(version, free_bytes, &scope.left_alone),
        };
        let partition = scope.partition_of(&victims)?;
        Some((victims, partition))
    }

    /// What a merge takes along.
    pub(crate) fn riding_victims(&self, version: &Arc<Version>) -> Vec<Arc<RecordFile>> {
        self.space
            .scope(version, Pressure::Riding, &|_| true)
            .victims()
    }

    /// Why garbage stays that is out of bounds: what it is in could not be read.
    pub(crate) fn why_garbage_stays(&self) -> Option<Error> {
        let error = self.space.why_left_alone()?;
        let version = Arc::clone(&self.read.view.load().version);
        let is_there = self.space.has_garbage(&version, Pressure::Alone);
        let is_due = self.first_collection(&version, &|_| true).is_some();
        (is_there && !is_due).then_some(error)
    }
}

/// Whether a choice is still to be reclaimed, and there is room for it.
fn still_serves(scope: &Scope<'_>, round: &Round<Pressure>) -> bool {
    if !round.is_of_files() {
        return scope.is_obsolete_due();
    }
    let victims = round.files_in(scope.version, |file| !scope.left_alone.contains(file));
    let live = victims
        .iter()
        .map(|file| scope.version.live(file.meta().number).bytes);
    scope.excess() > 0 && live.sum::<u64>() <= scope.most_live_bytes()
}

fn plan_of(partition: &Arc<Partition>, victims: &[Arc<RecordFile>]) -> MergePlan {
    MergePlan {
        partition: Arc::clone(partition),
        inputs: MergeInputs::collect(victims.to_vec()),
    }
}
