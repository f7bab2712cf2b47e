//! Sweeping over deletes, so that readers need not step over them: see
//! `engine/read/iter/sweep.rs`.
//!
//! It is for speed alone: nothing is committed, and what cannot be read is left to readers.

use crate::engine::background::scheduler::Ask;
use crate::engine::background::{Background, Ended, Job, JobKind};
use crate::engine::health::JobName;
use crate::engine::read::iter::sweep::sweep;
use crate::error::Result;
use crate::memtable::Memtable;
use crate::partition::Visibility;
use std::sync::Arc;
use std::time::Duration;

/// How long nobody must have written before a sweep is due that is not worth its cost while writers
/// go on.
const PAUSE: Duration = Duration::from_millis(50);

/// Sweeps over the deletes in the open memtable.
pub(crate) struct Sweeps;

impl JobKind for Sweeps {
    fn name(&self) -> JobName {
        "sweep"
    }

    fn is_for_reads(&self) -> bool {
        true
    }

    fn find(&self, background: &Background, _: &Ask<'_>) -> Option<Job> {
        let is_idle = background.idle.asked.any() || background.has_paused();
        let memtable = &background.read.view.load().memtable.table;
        memtable
            .is_sweep_due(is_idle)
            .then(|| Job::new(None, Background::sweep_deletes))
    }

    fn due_in(&self, background: &Background, now: Duration) -> Option<Duration> {
        let memtable = &background.read.view.load().memtable.table;
        if memtable.is_sweep_due(true) {
            background.idle_in(PAUSE, now)
        } else {
            None
        }
    }
}

impl Background {
    fn has_paused(&self) -> bool {
        self.idle_time(self.core.now()) >= PAUSE
    }

    /// Sweeps for a while.
    fn sweep_deletes(&self) -> Result<Ended> {
        let memtable = Arc::clone(&self.read.view.load().memtable.table);
        let Some((lower, upper)) = memtable.take_unswept() else {
            return Ok(Ended::Nothing);
        };
        // After the range was taken: all of it is visible by now, but for the newest writes.
        let (view, seq) = self.read.read_point();
        let view = Arc::clone(&view);
        if let Some(open) = self.memtable_after(&memtable) {
            open.add_unswept(lower, upper, false);
            return Ok(Ended::Done);
        }
        let buffers = self.core.cache.buffers();
        let Ok(swept) = sweep(&view, Visibility::now(seq), (&lower, &upper), buffers) else {
            return Ok(Ended::Nothing);
        };
        memtable.swept(swept.steps, swept.is_all);
        if let Some(open) = self.memtable_after(&memtable) {
            // Gaps that were left after the memtable was sealed are lost.
            open.add_unswept(lower, upper, false);
        } else if let Some(from) = swept.next_from {
            memtable.add_unswept(from, upper, swept.is_all);
        }
        Ok(Ended::Done)
    }

    /// The open memtable if that is another one.
    fn memtable_after(&self, memtable: &Arc<Memtable>) -> Option<Arc<Memtable>> {
        let view = self.read.view.load();
        let open = &view.memtable.table;
        (!Arc::ptr_eq(open, memtable)).then(|| Arc::clone(open))
    }
}
