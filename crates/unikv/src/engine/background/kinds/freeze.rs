//! Freezing all generations while the disk is full, so that merges find what is garbage.

use crate::engine::background::scheduler::Ask;
use crate::engine::background::{Background, Ended, Job, JobKind};
use crate::engine::health::JobName;

/// Freezes every open generation once deletes have been flushed on a full disk.
pub(crate) struct FreezeForSpace;

impl JobKind for FreezeForSpace {
    fn name(&self) -> JobName {
        "freeze for space"
    }

    fn find(&self, background: &Background, _: &Ask<'_>) -> Option<Job> {
        let full = &background.space.full;
        let due = full.is_full()
            && full.reclaim.wants_freeze()
            && background.read.view.load().sealed.is_empty();
        due.then(|| {
            Job::new(None, |background| {
                background.space.full.reclaim.frozen();
                background.catalog.lock().freeze_all();
                Ok(Ended::Done)
            })
        })
    }
}
