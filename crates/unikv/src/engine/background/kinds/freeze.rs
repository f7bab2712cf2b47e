//! Freezing generations for scans: while nobody writes, those of which much is tombstones, which
//! scans have to step over.

use crate::engine::background::idle::IDLE_FOR_SCANS;
use crate::engine::background::scheduler::Ask;
use crate::engine::background::{Background, JobKind};
use crate::engine::health::JobName;
use crate::jobs::plan::{Job, Why};
use crate::jobs::space::tombstones;
use std::time::Duration;

/// Freezes an open generation of which much is tombstones once nobody has written for a while.
pub(crate) struct FreezeForScans;

impl JobKind for FreezeForScans {
    fn name(&self) -> JobName {
        "freeze for scans"
    }

    fn is_for_reads(&self) -> bool {
        true
    }

    fn find(&self, background: &Background, ask: &Ask<'_>) -> Option<(Job, Why)> {
        let is_idle = background.idle_time(background.core.now()) >= IDLE_FOR_SCANS;
        if !is_idle || background.space.full_disk.is_full() {
            return None;
        }
        let mut partitions = tombstones::perhaps_many(&ask.catalog.version);
        let partition = partitions.find(|p| {
            ask.catalog.may_freeze(p)
                && background.counted.is_due(p)
                && ask.is_free(p.id)
                && ask.allows(self.name(), Some(p.id))
        })?;
        Some((Job::FreezeTombstones(partition.id), Why::Tombstones))
    }

    fn due_in(&self, background: &Background, now: Duration) -> Option<Duration> {
        background.counting_due_in(now)
    }
}
