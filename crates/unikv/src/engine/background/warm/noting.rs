//! Noting what the cache holds, for the process that opens the database next.

use super::{MEMORY_PART, Noted, State, Warmth};
use crate::error::Result;
use crate::key_table::{Hint, Written, write_hints};
use crate::record;
use std::iter;
use std::sync::Arc;
use std::time::Duration;

/// Time between two notes: this, and this many times what the last one took.
pub(super) const REST: Duration = Duration::from_secs(5);
const REST_PER_NOTE: u32 = 50;

impl Warmth {
    /// When hints are to be noted again, as far as is known.
    pub(crate) fn note_hints_at(&self) -> Option<Duration> {
        let noted = self.last_noted()?;
        let rest = REST.max(noted.took * REST_PER_NOTE);
        let is_stale = noted.is_stale(self.core.cache.misses());
        is_stale.then(|| noted.at.saturating_add(rest))
    }

    /// Notes what is hot. False: somebody else does.
    pub(crate) fn note_hints(&self) -> bool {
        let Some(before) = self.take_noted() else {
            return false;
        };
        // What was noted before stays where this fails; then as much more must change.
        let begin = self.core.now();
        let written = self.write_hints().unwrap_or(before.written);
        let took = self.core.now().saturating_sub(begin);
        self.put(State::noted(&self.core, written, took));
        true
    }

    /// Notes what is hot when the workers have ended, if a part of it has changed.
    pub(crate) fn note_hints_at_closing(&self, disk_is_full: bool) {
        let misses = self.core.cache.misses();
        let is_stale = |noted: Noted| noted.is_stale_at_closing(misses);
        let directory = self.core.directory.lock();
        // Where another call has released the directory meanwhile, it may be another process's.
        let may = directory.is_some() && !self.core.health.is_suspended() && !disk_is_full;
        if may && self.last_noted().is_some_and(is_stale) {
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
