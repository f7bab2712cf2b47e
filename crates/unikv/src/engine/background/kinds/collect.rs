//! Collecting garbage alone, when no merge takes it along in time (see
//! [`crate::jobs::compact::gc`]).

use crate::engine::background::kinds::merge::MergePlan;
use crate::engine::background::scheduler::Ask;
use crate::engine::background::{Background, Ended, Job, JobKind};
use crate::engine::health::{COLLECT, JobName};
use crate::jobs::compact::parts::MergeInputs;
use crate::jobs::compact::{gc, tight_gc};
use crate::jobs::space::garbage::Pressure;
use crate::record::RecordFile;
use crate::version::Version;
use std::sync::Arc;

/// Moves what lives in value logs with much garbage, in the partition that holds most of it.
pub(crate) struct Collections;

impl JobKind for Collections {
    fn name(&self) -> JobName {
        COLLECT
    }

    fn find(&self, background: &Background, ask: &Ask<'_>) -> Option<Job> {
        let plan = background.plan_collection(ask)?;
        Some(Job::new([plan.partition.id], move |background| {
            background.run_plan(&plan).map(|()| Ended::Done)
        }))
    }
}

impl Background {
    /// The collection that is due.
    pub(crate) fn plan_collection(&self, ask: &Ask<'_>) -> Option<MergePlan> {
        let version = &ask.catalog.version;
        let limit = self.space.space_limit();
        let space = self.space.space_of(version, limit.horizon);
        let victims = self.victims_alone(version);
        let may = |id| ask.is_free(id) && ask.allows(COLLECT, Some(id));
        let partition = gc::partition_of(version, &space, limit, &victims, may)?;
        Some(MergePlan {
            partition: Arc::clone(partition),
            inputs: MergeInputs::collect(victims),
        })
    }

    /// What garbage collection is to reclaim alone, if any.
    pub(crate) fn victims_alone(&self, version: &Arc<Version>) -> Vec<Arc<RecordFile>> {
        match self.space.tight_space() {
            None => {
                let pressure = if self.garbage_requests.any() {
                    Pressure::Riding
                } else {
                    Pressure::Alone
                };
                let limit = self.space.space_limit();
                let space = self.space.space_of(version, limit.horizon);
                gc::victims(version, &space, limit, pressure)
            }
            Some(free_bytes) => tight_gc::victims(version, free_bytes),
        }
    }
}
