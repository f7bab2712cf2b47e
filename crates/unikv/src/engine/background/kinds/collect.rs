//! Collecting garbage alone, when no merge takes it along in time (see
//! [`crate::jobs::compact::gc`]).

use crate::base::keys::PartitionId;
use crate::engine::background::kinds::merge::MergePlan;
use crate::engine::background::scheduler::Ask;
use crate::engine::background::{Background, Ended, Job, JobKind};
use crate::engine::health::{COLLECT, JobName};
use crate::error::Error;
use crate::jobs::compact::gc::{self, Means};
use crate::jobs::compact::left_alone::LeftAlone;
use crate::jobs::compact::parts::MergeInputs;
use crate::jobs::compact::tight_gc;
use crate::jobs::space::Space;
use crate::jobs::space::garbage::Pressure;
use crate::record::RecordFile;
use crate::version::{Partition, Version};
use std::sync::Arc;
use std::time::Duration;

/// Moves what lives in value logs with much garbage, in the partition that holds most of it.
pub(crate) struct Collections;

impl JobKind for Collections {
    fn name(&self) -> JobName {
        COLLECT
    }

    fn find(&self, background: &Background, ask: &Ask<'_>) -> Option<Job> {
        let plan = background.plan_collection(ask, &|id| ask.is_free(id))?;
        Some(Job::new([plan.partition.id], move |background| {
            background.run_plan(&plan).map(|()| Ended::Done)
        }))
    }

    /// What has expired since may make one due.
    fn due_in(&self, background: &Background, _: Duration) -> Option<Duration> {
        background.space.look_again_in()
    }
}

impl Background {
    /// The collection that is due in the partitions that are free.
    pub(crate) fn plan_collection(
        &self,
        ask: &Ask<'_>,
        is_free: &dyn Fn(PartitionId) -> bool,
    ) -> Option<MergePlan> {
        let may = |id| is_free(id) && ask.allows(COLLECT, Some(id));
        let (victims, partition) = self.first_collection(&ask.catalog.version, &may)?;
        Some(MergePlan {
            partition: Arc::clone(partition),
            inputs: MergeInputs::collect(victims),
        })
    }

    /// What garbage collection is to reclaim alone, and where first, among the partitions that may
    /// be.
    pub(crate) fn first_collection<'a>(
        &self,
        version: &'a Arc<Version>,
        can_run: &dyn Fn(PartitionId) -> bool,
    ) -> Option<(Vec<Arc<RecordFile>>, &'a Arc<Partition>)> {
        let limit = self.space.space_limit();
        let space = self.space.space_of(version, limit.horizon);
        let pressure = if self.garbage_requests.any() {
            Pressure::Riding
        } else {
            Pressure::Alone
        };
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
