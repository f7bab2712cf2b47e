//! Collecting garbage alone, when no merge takes it along in time (see
//! [`crate::jobs::compact::gc`]).
//!
//! What is reclaimed is chosen once for many partitions ([`Round`]), of which small ones share a
//! job.

use crate::base::keys::PartitionId;
use crate::engine::background::kinds::merge::{MergePlan, partitions_of};
use crate::engine::background::passes::{Look, Next, Round};
use crate::engine::background::scheduler::Ask;
use crate::engine::background::{Background, Ended, Job, JobKind};
use crate::engine::health::{COLLECT, JobName};
use crate::error::Error;
use crate::jobs::compact::gc::{self, FREE_PART, Means};
use crate::jobs::compact::left_alone::LeftAlone;
use crate::jobs::compact::parts::MergeInputs;
use crate::jobs::compact::tight_gc;
use crate::jobs::space::garbage::Pressure;
use crate::jobs::space::{Space, SpaceLimit};
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

    fn find(&self, background: &Background, ask: &Ask<'_>) -> Option<Job> {
        let plans = background.plan_collections(ask, &|id| ask.is_free(id));
        if plans.is_empty() {
            return None;
        }
        Some(Job::new(partitions_of(&plans), move |background| {
            let ran = background.run_plans(&Collections, &plans);
            ran.map(|()| Ended::Done)
        }))
    }

    /// What has expired since may make one due.
    fn due_in(&self, background: &Background, _: Duration) -> Option<Duration> {
        background.space.look_again_in()
    }
}

/// What collections are chosen by.
struct Scope {
    limit: SpaceLimit,
    space: Space,
    pressure: Pressure,
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
        let scope = self.scope(version);
        let rounds = &self.passes.collections;
        let present = rounds.present(|pressure| *pressure == scope.pressure);
        let present = present.filter(|round| self.still_serves(version, &scope, round, &may));
        let next = |round| self.next_of_collections(version, &scope, &round, is_free, &may);
        // What is chosen now serves: what a waiter finds due a worker must find, too.
        let begun = || next(self.begin_collections(version, &scope, &may)?);
        present.and_then(next).or_else(begun).unwrap_or_default()
    }

    fn scope(&self, version: &Arc<Version>) -> Scope {
        let limit = self.space.space_limit();
        let pressure = if self.garbage_requests.any() {
            Pressure::Riding
        } else {
            Pressure::Alone
        };
        Scope {
            space: self.space.space_of(version, limit.horizon),
            limit,
            pressure,
        }
    }

    /// What comes next of a choice, nothing while others work on what is left of it; `None`:
    /// nothing is left of it that could be done.
    fn next_of_collections(
        &self,
        version: &Arc<Version>,
        scope: &Scope,
        round: &Round<Pressure>,
        is_free: &dyn Fn(PartitionId) -> bool,
        may: &dyn Fn(PartitionId) -> bool,
    ) -> Option<Vec<MergePlan>> {
        let left_alone = self.space.left_alone(version);
        let victims = round.files_in(version, |file| !left_alone.contains(file));
        let numbers = gc::numbers(&victims);
        let bytes_in = |partition: &Partition| {
            if round.is_of_files() {
                gc::bytes_in(partition, &numbers)
            } else {
                gc::obsolete_in(partition, scope.limit, &left_alone)
            }
        };
        let look = Look {
            version,
            is_free,
            bytes_in: &bytes_in,
            cost_if_due: &|bytes, partition| {
                may(partition.id).then(|| bytes.saturating_add(partition.key_table_bytes()))
            },
        };
        let most_bytes = self.most_together_bytes(version);
        match self.passes.collections.next(round, most_bytes, &look) {
            Next::Partitions(partitions) => {
                let plans = partitions.iter().map(|p| plan_of(p, &victims));
                Some(plans.collect())
            }
            Next::AtWork => Some(Vec::new()),
            Next::Ended => None,
        }
    }

    /// Whether what was chosen is still to be reclaimed, and there is room for it.
    fn still_serves(
        &self,
        version: &Arc<Version>,
        scope: &Scope,
        round: &Round<Pressure>,
        can_run: &dyn Fn(PartitionId) -> bool,
    ) -> bool {
        let means = Means {
            free_bytes: &|| self.space.free_bytes(),
            left_alone: &self.space.left_alone(version),
            can_run,
        };
        let (limit, space) = (scope.limit, &scope.space);
        let excess = gc::excess(version, space, limit, scope.pressure, &means);
        if !round.is_of_files() {
            return excess == 0 && space.excess(limit, Pressure::Alone) > 0;
        }
        let victims = round.files_in(version, |file| !means.left_alone.contains(file));
        let live = victims
            .iter()
            .map(|file| version.live(file.meta().number).bytes);
        excess > 0 && live.sum::<u64>() <= self.space.free_bytes() / FREE_PART
    }

    /// Makes a new choice in the place of the present one, if anything is to be reclaimed.
    fn begin_collections(
        &self,
        version: &Arc<Version>,
        scope: &Scope,
        can_run: &dyn Fn(PartitionId) -> bool,
    ) -> Option<Round<Pressure>> {
        let means = Means {
            free_bytes: &|| self.space.free_bytes(),
            left_alone: &self.space.left_alone(version),
            can_run,
        };
        let (limit, space) = (scope.limit, &scope.space);
        let victims = gc::victims(version, space, limit, scope.pressure, &means);
        let mut found = gc::partitions_of(version, space, limit, &victims, &means);
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
        &self,
        version: &'a Arc<Version>,
        can_run: &dyn Fn(PartitionId) -> bool,
    ) -> Option<(Vec<Arc<RecordFile>>, &'a Arc<Partition>)> {
        let Scope {
            limit,
            space,
            pressure,
        } = self.scope(version);
        let means = Means {
            free_bytes: &|| self.space.free_bytes(),
            left_alone: &self.space.left_alone(version),
            can_run,
        };
        let victims = match self.space.tight_space() {
            None => gc::victims(version, &space, limit, pressure, &means),
            Some(free_bytes) => tight_gc::victims(version, free_bytes, means.left_alone),
        };
        let partition = gc::partition_of(version, &space, limit, &victims, &means)?;
        Some((victims, partition))
    }

    /// What a merge takes along.
    pub(crate) fn riding_victims(&self, version: &Arc<Version>) -> Vec<Arc<RecordFile>> {
        let limit = self.space.space_limit();
        let space = self.space.space_of(version, limit.horizon);
        let means = Means {
            free_bytes: &|| self.space.free_bytes(),
            left_alone: &self.space.left_alone(version),
            can_run: &|_| true,
        };
        gc::victims(version, &space, limit, Pressure::Riding, &means)
    }

    /// What would be reclaimed under `pressure` if all of it could be read and would fit, and where
    /// first.
    pub(crate) fn all_garbage<'a>(
        &self,
        version: &'a Arc<Version>,
        pressure: Pressure,
    ) -> (Vec<Arc<RecordFile>>, Option<&'a Arc<Partition>>) {
        let limit = self.space.space_limit();
        let space = Space {
            stuck_bytes: 0,
            ..self.space.space_of(version, limit.horizon)
        };
        let means = Means {
            free_bytes: &|| u64::MAX,
            left_alone: &LeftAlone::default(),
            can_run: &|_| true,
        };
        let victims = gc::victims(version, &space, limit, pressure, &means);
        let partition = gc::partition_of(version, &space, limit, &victims, &means);
        (victims, partition)
    }

    /// Why garbage stays that is out of bounds: what it is in could not be read.
    pub(crate) fn why_garbage_stays(&self) -> Option<Error> {
        let error = self.space.why_left_alone()?;
        let version = Arc::clone(&self.read.view.load().version);
        let is_there = self.all_garbage(&version, Pressure::Alone).1.is_some();
        let is_due = self.first_collection(&version, &|_| true).is_some();
        (is_there && !is_due).then_some(error)
    }
}

fn plan_of(partition: &Arc<Partition>, victims: &[Arc<RecordFile>]) -> MergePlan {
    MergePlan {
        partition: Arc::clone(partition),
        inputs: MergeInputs::collect(victims.to_vec()),
    }
}
