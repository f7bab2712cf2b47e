//! Noting what the cache holds, for the process that opens the database next (see
//! [`crate::engine::background::kinds::warm`]).
//!
//! It is for speed alone: nothing is committed, and a failure is none of the database.

use crate::engine::background::kinds::warm::warmth::{MEMORY_PART, Noted, State};
use crate::engine::background::scheduler::Ask;
use crate::engine::background::{Background, Job, JobKind};
use crate::engine::health::JobName;
use crate::error::Result;
use crate::jobs::plan::Why;
use crate::key_table::{Hint, Written, write_hints};
use crate::record;
use std::iter;
use std::sync::Arc;
use std::time::Duration;

/// Time between two notes: this, and this many times what the last one took.
pub(in crate::engine::background::kinds) const REST: Duration = Duration::from_secs(5);
const REST_PER_NOTE: u32 = 50;

/// Notes what the cache holds, once enough of that has changed.
pub(crate) struct HintNotes;

impl JobKind for HintNotes {
    fn name(&self) -> JobName {
        "cache hints"
    }

    fn is_for_reads(&self) -> bool {
        true
    }

    fn find(&self, background: &Background, _: &Ask<'_>) -> Option<(Job, Why)> {
        background
            .are_hints_due()
            .then_some((Job::NoteHints, Why::CacheChanged))
    }

    fn due_in(&self, background: &Background, now: Duration) -> Option<Duration> {
        background.hints_due_in(now)
    }
}

impl Background {
    /// Whether enough has changed for hints to be noted now.
    fn are_hints_due(&self) -> bool {
        self.hints_due_in(self.core.now()) == Some(Duration::ZERO)
    }

    /// How long after `now` hints are to be noted, as far as is known.
    fn hints_due_in(&self, now: Duration) -> Option<Duration> {
        let noted = self.warmth.last_noted()?;
        let misses = self.core.cache.misses();
        let may = noted.is_stale(misses) && !self.space.full_disk.is_full();
        let rest = REST.max(noted.took * REST_PER_NOTE);
        may.then(|| rest.saturating_sub(now.saturating_sub(noted.at)))
    }

    /// Notes what is hot. False: somebody else does.
    pub(in crate::engine::background) fn note_hints(&self) -> bool {
        let Some(before) = self.warmth.take_noted() else {
            return false;
        };
        // What was noted before stays where this fails; then as much more must change.
        let begin = self.core.now();
        let written = self.write_hints().unwrap_or(before.written);
        let took = self.core.now().saturating_sub(begin);
        self.warmth.put(State::noted(&self.core, written, took));
        true
    }

    /// Notes what is hot when the workers have ended, if a part of it has changed.
    pub(crate) fn note_hints_at_closing(&self) {
        let misses = self.core.cache.misses();
        let is_stale = |noted: Noted| noted.is_stale_at_closing(misses);
        let directory = self.core.directory.lock();
        // Where another call has released the directory meanwhile, it may be another process's.
        let may = directory.is_some()
            && !self.core.health.is_suspended()
            && !self.space.full_disk.is_full();
        if may && self.warmth.last_noted().is_some_and(is_stale) {
            self.note_hints();
        }
    }

    fn write_hints(&self) -> Result<Written> {
        let version = Arc::clone(&self.read.view.load().version);
        let indexed = version.key_tables().filter(|table| table.index().is_some());
        let indexes = indexed.map(|table| table.meta().number);
        let mut indexes: Vec<_> = indexes.map(|file| Hint::Index { file }).collect();
        indexes.sort_unstable_by_key(Hint::place);
        let most = self.core.memory.plan.budget_bytes / MEMORY_PART / size_of::<Hint>() as u64;
        let most = most.max(1) as usize;
        let cached = self.core.cache.hints(most, record::len_of_kept);
        write_hints(&self.core.store, iter::once(indexes).chain(cached))
    }
}
