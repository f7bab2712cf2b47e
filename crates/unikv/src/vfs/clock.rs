//! The time of an open database, by which what is written expires: milliseconds since 1970.
//!
//! It begins as the wall clock stands, but not before the greatest time that was acted upon earlier
//! and noted in the manifest, and goes on with the monotonic clock. So it never runs backwards
//! within one opening, whatever happens to the wall clock. A wall clock that has run ahead by up to
//! an hour is followed when [`Clock::follow_wall_clock`] is called; one that is further ahead is
//! reported, and followed at the next opening: nothing is to expire because a clock was set wrong
//! for a moment. One that stands back is never followed.
//!
//! Invariant: what [`Clock::now_ms`] returns never decreases, over all threads. A time that one
//! thread has acted upon and published is in the past for every other one.

use super::Runtime;
use crate::base::seeded::seeded;
use crate::base::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::Arc;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

/// By how much a wall clock may run ahead of the monotonic one and be followed.
const MOST_AHEAD_MS: u64 = 60 * 60 * 1000;

/// The time is noted after this, while something expires.
const NOTE_PERIOD: Duration = Duration::from_secs(60);

/// The time of an open database.
#[derive(Debug)]
pub(crate) struct Clock {
    runtime: Arc<dyn Runtime>,
    /// What is added to the monotonic clock. Only grows.
    offset_ms: AtomicU64,
    /// The same as it was at the opening.
    offset_at_open_ms: u64,
    /// By how much the wall clock is ahead, where that is too far for being followed; else 0.
    jump_ms: AtomicU64,
    /// Whether the database has, or may soon have, something that expires.
    is_needed: AtomicBool,
    /// When the time is to be noted next, in milliseconds on the runtime's clock.
    note_at_ms: AtomicU64,
}

impl Clock {
    /// The clock of a database that has acted upon times up to `mark_ms` before.
    pub(crate) fn new(runtime: &Arc<dyn Runtime>, mark_ms: u64) -> Clock {
        let now_ms = millis(runtime.now());
        let mark_ms = if seeded!(MarkIgnored) { 0 } else { mark_ms };
        let begin_ms = runtime.wall_clock_ms().max(mark_ms);
        // A wall clock that no battery keeps may be behind the other one.
        let offset_ms = begin_ms.saturating_sub(now_ms);
        Clock {
            runtime: Arc::clone(runtime),
            offset_ms: AtomicU64::new(offset_ms),
            offset_at_open_ms: offset_ms,
            jump_ms: AtomicU64::new(0),
            is_needed: AtomicBool::new(false),
            note_at_ms: AtomicU64::new(0),
        }
    }

    /// The time.
    #[cold]
    pub(crate) fn now_ms(&self) -> u64 {
        if seeded!(ExpiryByWallClock) {
            return self.runtime.wall_clock_ms();
        }
        self.at_ms(self.runtime.now())
    }

    /// The time when the monotonic clock stands at `now`.
    pub(crate) fn at_ms(&self, now: Duration) -> u64 {
        let offset_ms = self.offset_ms.load(Ordering::Acquire);
        millis(now).saturating_add(offset_ms)
    }

    /// Follows a wall clock that has run ahead, if not too far, and notes if it is.
    pub(crate) fn follow_wall_clock(&self) {
        let now_ms = millis(self.runtime.now());
        let offset_ms = self.runtime.wall_clock_ms().saturating_sub(now_ms);
        let ahead_ms = offset_ms.saturating_sub(self.offset_at_open_ms);
        let is_too_far = ahead_ms > MOST_AHEAD_MS;
        if !is_too_far {
            self.offset_ms.fetch_max(offset_ms, Ordering::AcqRel);
        }
        let jump_ms = if is_too_far { ahead_ms } else { 0 };
        self.jump_ms.store(jump_ms, Ordering::Relaxed);
    }

    /// Another process has acted upon `mark_ms`: it is not earlier from now on.
    pub(crate) fn advance_to(&self, mark_ms: u64) {
        let offset_ms = mark_ms.saturating_sub(millis(self.runtime.now()));
        self.offset_ms.fetch_max(offset_ms, Ordering::AcqRel);
    }

    /// By how much the wall clock was ahead when last compared, if that is too far for being
    /// followed before the next opening.
    pub(crate) fn jump(&self) -> Option<Duration> {
        let jump_ms = self.jump_ms.load(Ordering::Relaxed);
        (jump_ms > 0).then(|| Duration::from_millis(jump_ms))
    }

    /// Something that expires is about to be written, or was found. To be said before it is
    /// visible. True: that is new, and the time is to be noted.
    pub(crate) fn need(&self) -> bool {
        if self.is_needed() {
            return false;
        }
        self.follow_wall_clock();
        !self.is_needed.swap(true, Ordering::AcqRel)
    }

    /// When the time is to be noted, by the runtime's clock; `None`: nothing expires.
    pub(crate) fn note_at(&self) -> Option<Duration> {
        let at = || Duration::from_millis(self.note_at_ms.load(Ordering::Relaxed));
        self.is_needed().then(at)
    }

    /// The time that it was at `now` has been noted, if it was needed then.
    pub(crate) fn noted(&self, now: Duration) {
        let next_ms = millis(now.saturating_add(NOTE_PERIOD));
        self.note_at_ms.fetch_max(next_ms, Ordering::Relaxed);
    }

    /// Whether there may be something that expires.
    pub(crate) fn is_needed(&self) -> bool {
        self.is_needed.load(Ordering::Acquire)
    }
}

/// A caller's time in milliseconds since 1970; earlier ones count as that.
pub(crate) fn since_1970(time: SystemTime) -> u64 {
    millis(time.duration_since(UNIX_EPOCH).unwrap_or_default())
}

/// Whole milliseconds, which have passed.
fn millis(time: Duration) -> u64 {
    u64::try_from(time.as_millis()).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::vfs::sim::SimRuntime;

    const HOUR: u64 = 3_600_000;

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
    fn a_wall_clock_that_runs_ahead_is_followed_for_an_hour_at_most() {
        let (sim, clock) = clock(0);
        sim.set_wall_clock_ms(1_000_000 + HOUR / 2);
        clock.follow_wall_clock();
        assert_eq!((clock.now_ms(), clock.jump()), (1_000_000 + HOUR / 2, None));
        // Behind: it goes on.
        sim.set_wall_clock_ms(1_000_000);
        clock.follow_wall_clock();
        assert_eq!(clock.now_ms(), 1_000_000 + HOUR / 2);
        // An hour in all, and not one each time.
        sim.set_wall_clock_ms(1_000_000 + HOUR + 1);
        clock.follow_wall_clock();
        assert_eq!(clock.now_ms(), 1_000_000 + HOUR / 2);
        assert_eq!(clock.jump(), Some(Duration::from_millis(HOUR + 1)));
        sim.set_wall_clock_ms(1_000_000 + HOUR);
        clock.follow_wall_clock();
        assert_eq!((clock.now_ms(), clock.jump()), (1_000_000 + HOUR, None));
    }

    #[test]
    fn clocks_that_stand_anywhere_do_not_overflow() {
        let (sim, clock) = clock(u64::MAX);
        sim.delay(Duration::from_secs(1));
        assert_eq!(clock.now_ms(), u64::MAX);
        clock.follow_wall_clock();
        assert_eq!(clock.now_ms(), u64::MAX);
    }
}
