//! The time of an open database, by which what is written expires: milliseconds since 1970.
//!
//! It begins as the wall clock stands, but not before the greatest time that was acted upon earlier
//! and noted in the manifest, and goes on with the monotonic clock. So it never runs backwards
//! within one opening, whatever happens to the wall clock.
//!
//! Invariant: what [`Clock::now_ms`] returns never decreases, over all threads. A time that one
//! thread has acted upon and published is in the past for every other one.

use super::Runtime;
use crate::base::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::Arc;
use std::time::Duration;

/// The time of an open database.
#[derive(Debug)]
pub(crate) struct Clock {
    runtime: Arc<dyn Runtime>,
    /// What is added to the monotonic clock. Only grows.
    offset_ms: AtomicU64,
    /// Whether the database has, or may soon have, something that expires.
    is_needed: AtomicBool,
}

impl Clock {
    /// The clock of a database that has acted upon times up to `mark_ms` before.
    pub(crate) fn new(runtime: &Arc<dyn Runtime>, mark_ms: u64) -> Clock {
        let now_ms = millis(runtime.now());
        let begin_ms = runtime.wall_clock_ms().max(mark_ms);
        // A wall clock that no battery keeps may be behind the other one.
        let offset_ms = begin_ms.saturating_sub(now_ms);
        Clock {
            runtime: Arc::clone(runtime),
            offset_ms: AtomicU64::new(offset_ms),
            is_needed: AtomicBool::new(false),
        }
    }

    /// The time.
    #[cold]
    pub(crate) fn now_ms(&self) -> u64 {
        self.at_ms(self.runtime.now())
    }

    /// The time when the monotonic clock stands at `now`.
    pub(crate) fn at_ms(&self, now: Duration) -> u64 {
        let offset_ms = self.offset_ms.load(Ordering::Acquire);
        millis(now).saturating_add(offset_ms)
    }

    /// Something that expires is about to be written, or was found. To be said before it is
    /// visible.
    pub(crate) fn need(&self) {
        if !self.is_needed() {
            self.is_needed.store(true, Ordering::Release);
        }
    }

    /// Whether there may be something that expires.
    pub(crate) fn is_needed(&self) -> bool {
        self.is_needed.load(Ordering::Acquire)
    }
}

/// Whole milliseconds, which have passed.
fn millis(time: Duration) -> u64 {
    u64::try_from(time.as_millis()).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::vfs::sim::SimRuntime;

    fn clock(mark_ms: u64) -> (Arc<SimRuntime>, Clock) {
        let sim = SimRuntime::new(1);
        let runtime: Arc<dyn Runtime> = sim.clone();
        sim.delay(Duration::from_secs(7));
        sim.set_wall_clock_ms(1_000_000);
        let clock = Clock::new(&runtime, mark_ms);
        (sim, clock)
    }

    #[test]
    fn it_begins_with_the_wall_clock_or_what_was_acted_upon_and_goes_on_by_itself() {
        for (mark_ms, begin_ms) in [(0, 1_000_000), (5_000_000, 5_000_000)] {
            let (sim, clock) = clock(mark_ms);
            assert_eq!(clock.now_ms(), begin_ms);
            sim.delay(Duration::from_millis(1500));
            assert_eq!(clock.now_ms(), begin_ms + 1500);
            for wall_ms in [0, u64::MAX, 3] {
                sim.set_wall_clock_ms(wall_ms);
                assert_eq!(clock.now_ms(), begin_ms + 1500);
            }
        }
    }

    #[test]
    fn clocks_that_stand_anywhere_do_not_overflow() {
        let (sim, clock) = clock(u64::MAX);
        sim.delay(Duration::from_secs(1));
        assert_eq!(clock.now_ms(), u64::MAX);
    }
}
