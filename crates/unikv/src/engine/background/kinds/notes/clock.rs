//! Noting the time, while there is something that expires.
//!
//! The manifest has the greatest time that was acted upon: whatever the wall clock says at the next
//! opening, time begins no earlier. Each edit notes it, and where a minute has passed without one,
//! an edit that does nothing else. So a crash takes a minute at most. Beside that the wall clock is
//! compared ([`crate::vfs::clock`]).

use crate::base::seeded::seeded;
use crate::engine::background::scheduler::Ask;
use crate::engine::background::{Background, Ended, Job, JobKind};
use crate::engine::catalog::Indexes;
use crate::engine::health::JobName;
use crate::error::Result;
use crate::version::edit::VersionEdit;
use std::time::Duration;

const CLOCK: JobName = "clock";

/// Notes the time.
pub(crate) struct ClockMarks;

impl JobKind for ClockMarks {
    fn name(&self) -> JobName {
        CLOCK
    }

    fn find(&self, background: &Background, ask: &Ask<'_>) -> Option<Job> {
        let due = background.mark_due_in(background.core.now()) == Some(Duration::ZERO);
        let may = due && ask.allows(CLOCK, None) && !background.space.full.is_full();
        may.then(|| Job::new(None, Background::note_clock))
    }

    fn due_in(&self, background: &Background, now: Duration) -> Option<Duration> {
        background.mark_due_in(now)
    }
}

impl Background {
    /// How long after `now` the time is to be noted.
    fn mark_due_in(&self, now: Duration) -> Option<Duration> {
        let note_at = self
            .core
            .clock
            .note_at()
            .filter(|_| !seeded!(ClockUnmarked))?;
        Some(note_at.saturating_sub(now))
    }

    fn note_clock(&self) -> Result<Ended> {
        let clock = &self.core.clock;
        clock.follow_wall_clock();
        let view = self.read.view.load_full();
        let is_empty = view.memtable.table.is_empty() && view.sealed.is_empty();
        if is_empty && !view.version.expires() {
            // Nothing expires any more.
            clock.noted(self.core.now());
            return Ok(Ended::Nothing);
        }
        let mut catalog = self.catalog.lock();
        let (edit, indexes) = (VersionEdit::default(), Indexes::new());
        self.catalog
            .commit_edit(&mut catalog, edit, &indexes, |_| ())?;
        Ok(Ended::Done)
    }
}
