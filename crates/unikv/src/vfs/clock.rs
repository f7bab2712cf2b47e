//! The two times of an open database, by which what is written expires: milliseconds since 1970.
//! `docs/mechanisms.md` says why there are two.
//!
//! *Reads* go by the wall clock, and within an opening never back: their time goes on with the
//! monotonic clock from the latest that the wall clock was seen to say. *Jobs* destroy what has
//! expired by the wall clock and by the job clock, which begins with what the manifest has noted
//! and at most [`MOST_STEP_MS`] more, and advances with the monotonic clock.
//!
//! Invariants: [`Clock::now_ms`] never decreases, over all threads. [`Clock::job_ms`] is never
//! later than what `now_ms` returns afterwards. No locks.

use super::Runtime;
use crate::base::seeded::{seeded, slip};
use crate::base::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::Arc;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

/// By how much an opening may set the job clock forward. Less than an hour, as the time is noted a
/// while before or after a write: what was written with an hour left outlives one wrong clock.
const MOST_STEP_MS: u64 = 55 * 60 * 1000;

/// The beginning of 2023, when this library did not exist. A wall clock that stands before is
/// wrong for certain, as on a machine without a battery, and sets the job clock back by nothing.
const RELEASED_MS: u64 = 1_672_531_200_000;

/// The time is noted after this, while something expires.
const NOTE_PERIOD: Duration = Duration::from_secs(60);

/// The two times of an open database.
#[derive(Debug)]
pub(crate) struct Clock {
    runtime: Arc<dyn Runtime>,
    /// What the monotonic clock said at the opening.
    begun: Duration,
    /// The time of reads is this and what has passed since the opening, in microseconds. Only
    /// grows.
    read_base_us: AtomicU64,
    /// Jobs go by no later time than this and what has passed.
    job_base_us: AtomicU64,
    /// By how much the opening has set that forward.
    step_ms: u64,
    /// Whether the database has, or may soon have, something that expires.
    is_needed: AtomicBool,
    /// When the time is to be noted next, in milliseconds on the runtime's clock.
    note_at_ms: AtomicU64,
}

/// The wall clock, and what has passed since the opening when it was looked at, or a little more.
#[derive(Clone, Copy)]
struct Look {
    wall_ms: u64,
    passed_us: u64,
}

impl Clock {
    /// The clock of a database of which an earlier opening has noted this; `None`: it is new.
    pub(crate) fn new(runtime: &Arc<dyn Runtime>, noted_ms: Option<u64>) -> Clock {
        let clock = Clock {
            step_ms: MOST_STEP_MS,
            ..Clock::of_reader(runtime, u64::MAX)
        };
        let wall_ms = clock.look().wall_ms;
        // A new one that is made before its time waits for a wall clock that may be right.
        let noted_ms = slip!(WallClockDestroys, Some(wall_ms), noted_ms);
        if let Some(noted_ms) = noted_ms {
            let most_us = micros(noted_ms.saturating_add(MOST_STEP_MS));
            clock.job_base_us.fetch_min(most_us, Ordering::AcqRel);
        }
        if seeded!(ReadsByMark) {
            let mark_us = micros(noted_ms.unwrap_or_default());
            clock.read_base_us.fetch_max(mark_us, Ordering::AcqRel);
        }
        clock
    }

    /// The clock of an opening that destroys nothing: it sets the job clock forward by nothing.
    pub(crate) fn of_reader(runtime: &Arc<dyn Runtime>, noted_ms: u64) -> Clock {
        let clock = Clock {
            runtime: Arc::clone(runtime),
            begun: runtime.now(),
            read_base_us: AtomicU64::new(0),
            job_base_us: AtomicU64::new(micros(noted_ms)),
            step_ms: 0,
            is_needed: AtomicBool::new(false),
            note_at_ms: AtomicU64::new(0),
        };
        clock.look();
        clock
    }

    /// The time of a read.
    #[cold]
    pub(crate) fn now_ms(&self) -> u64 {
        let look = self.look();
        if seeded!(ExpiryByWallClock) {
            return look.wall_ms;
        }
        self.read_ms(look.passed_us)
    }

    /// The time of a read when the monotonic clock stands at `now`. Where nothing expires the wall
    /// clock is not looked at.
    pub(crate) fn at_ms(&self, now: Duration) -> u64 {
        if self.is_needed() {
            self.look();
        }
        self.read_ms(whole_micros(now.saturating_sub(self.begun)))
    }

    fn read_ms(&self, passed_us: u64) -> u64 {
        let base_us = self.read_base_us.load(Ordering::Acquire);
        base_us.saturating_add(passed_us) / 1000
    }

    /// The time of jobs: what had expired by then may be destroyed.
    pub(crate) fn job_ms(&self) -> u64 {
        let look = self.look();
        self.most_job_ms(look).min(look.wall_ms)
    }

    fn most_job_ms(&self, look: Look) -> u64 {
        let base_us = self.job_base_us.load(Ordering::Acquire);
        base_us.saturating_add(look.passed_us) / 1000
    }

    /// What is to be noted of the job clock; 0: nothing, as no wall clock was right yet.
    pub(crate) fn note_ms(&self) -> u64 {
        let look = self.look();
        if matches!(self.job_base_us.load(Ordering::Acquire), 0 | u64::MAX) {
            return 0;
        }
        let most_ms = self.most_job_ms(look);
        let note_ms = if look.wall_ms < RELEASED_MS {
            most_ms.saturating_sub(self.step_ms)
        } else {
            most_ms.min(look.wall_ms)
        };
        note_ms.max(1)
    }

    /// By how much the job clock is behind the wall clock.
    pub(crate) fn job_clock_behind(&self) -> Option<Duration> {
        let look = self.look();
        let behind_ms = look.wall_ms.checked_sub(self.most_job_ms(look))?;
        (behind_ms > 0).then(|| Duration::from_millis(behind_ms))
    }

    /// An operator says that the wall clock is right.
    pub(crate) fn trust_wall_clock(&self) {
        let look = self.look();
        let base_us = micros(look.wall_ms).saturating_sub(look.passed_us);
        self.job_base_us.fetch_max(base_us, Ordering::AcqRel);
    }

    /// Looks at the wall clock, which reads follow forward and jobs backward.
    fn look(&self) -> Look {
        // The wall clock comes first. If the thread is held up after it, reads are late by that,
        // which the next look makes up for; the other way round they would be early for good.
        let wall_ms = self.runtime.wall_clock_ms();
        let passed_us = whole_micros(self.runtime.now().saturating_sub(self.begun));
        let base_us = micros(wall_ms).saturating_sub(passed_us);
        if base_us > self.read_base_us.load(Ordering::Acquire) {
            self.read_base_us.fetch_max(base_us, Ordering::AcqRel);
        }
        let most_us = base_us.saturating_add(micros(MOST_STEP_MS));
        if wall_ms >= RELEASED_MS && most_us < self.job_base_us.load(Ordering::Acquire) {
            self.job_base_us.fetch_min(most_us, Ordering::AcqRel);
        }
        Look { wall_ms, passed_us }
    }

    /// Something that expires is about to be written, or was found. To be said before it is
    /// visible. True: that is new, and the time is to be noted.
    pub(crate) fn need(&self) -> bool {
        !self.is_needed() && !self.is_needed.swap(true, Ordering::AcqRel)
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

/// When a value is to expire here that expired at `end_ms` where the time was `then_ms`.
///
/// An end is a time, so it stays as it is. Only if the other clock was ahead of this one by more
/// than an hour, one of the two is wrong, and what had time left there has as much left here.
pub(crate) fn moved_end_ms(end_ms: u64, then_ms: u64, now_ms: u64) -> u64 {
    const HOUR_MS: u64 = 60 * 60 * 1000;
    let ahead_ms = then_ms.saturating_sub(now_ms);
    // By the other clock it had ended: it was written by a third one.
    let had_ended = end_ms <= then_ms;
    if ahead_ms <= HOUR_MS || had_ended || now_ms < RELEASED_MS {
        return end_ms;
    }
    end_ms - ahead_ms
}

/// A caller's time in milliseconds since 1970; earlier ones count as that.
pub(crate) fn since_1970(time: SystemTime) -> u64 {
    millis(time.duration_since(UNIX_EPOCH).unwrap_or_default())
}

/// Whole milliseconds, which have passed.
fn millis(time: Duration) -> u64 {
    u64::try_from(time.as_millis()).unwrap_or(u64::MAX)
}

/// Whole microseconds, which have passed.
fn whole_micros(time: Duration) -> u64 {
    u64::try_from(time.as_micros()).unwrap_or(u64::MAX)
}

/// Milliseconds in microseconds.
fn micros(ms: u64) -> u64 {
    ms.saturating_mul(1000)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::vfs::sim::SimRuntime;

    const HOUR: u64 = 3_600_000;
    const YEARS: u64 = 10 * 365 * 24 * HOUR;
    /// A right time.
    const NOW: u64 = RELEASED_MS + YEARS;

    /// A clock of an opening at which the wall clock stands at `wall_ms`.
    fn clock(wall_ms: u64, noted_ms: Option<u64>) -> (Arc<SimRuntime>, Clock) {
        let sim = SimRuntime::new(1);
        let runtime: Arc<dyn Runtime> = sim.clone();
        sim.delay(Duration::from_secs(7));
        sim.set_wall_clock_ms(wall_ms);
        let clock = Clock::new(&runtime, noted_ms);
        clock.need();
        (sim, clock)
    }

    #[test]
    fn reads_go_by_the_wall_clock_of_their_opening_and_never_back_within_it() {
        for noted_ms in [None, Some(1), Some(NOW), Some(NOW + YEARS)] {
            let (sim, clock) = clock(NOW, noted_ms);
            assert_eq!(clock.now_ms(), NOW);
            sim.delay(Duration::from_millis(1500));
            assert_eq!(clock.at_ms(sim.now()), NOW + 1500);
            sim.set_wall_clock_ms(NOW + YEARS);
            assert_eq!(clock.now_ms(), NOW + YEARS);
            for wall_ms in [0, NOW, 3] {
                sim.set_wall_clock_ms(wall_ms);
                sim.delay(Duration::from_millis(1));
            }
            assert_eq!(clock.now_ms(), NOW + YEARS + 3);
        }
    }

    #[test]
    fn an_opening_sets_the_clock_of_jobs_forward_by_less_than_an_hour() {
        let (sim, first) = clock(NOW, None);
        assert_eq!((first.job_ms(), first.note_ms()), (NOW, NOW));
        sim.delay(Duration::from_secs(60));
        let noted_ms = first.note_ms();
        assert_eq!((first.job_ms(), noted_ms), (NOW + 60_000, NOW + 60_000));
        // Ahead in the same opening.
        sim.set_wall_clock_ms(NOW + YEARS);
        assert_eq!(first.job_ms(), NOW + 60_000 + MOST_STEP_MS);
        // Ahead in the next one.
        let (sim, ahead) = clock(NOW + YEARS, Some(noted_ms));
        assert_eq!(ahead.job_ms(), noted_ms + MOST_STEP_MS);
        assert_eq!(ahead.note_ms(), ahead.job_ms());
        let behind = NOW + YEARS - ahead.job_ms();
        assert_eq!(
            ahead.job_clock_behind(),
            Some(Duration::from_millis(behind))
        );
        sim.delay(Duration::from_millis(HOUR));
        assert_eq!(ahead.job_ms(), noted_ms + MOST_STEP_MS + HOUR);
        ahead.trust_wall_clock();
        assert_eq!(ahead.job_ms(), NOW + YEARS + HOUR);
        assert_eq!(
            (ahead.note_ms(), ahead.job_clock_behind()),
            (ahead.job_ms(), None)
        );
        // A secondary sets nothing forward.
        let runtime: Arc<dyn Runtime> = sim;
        assert_eq!(Clock::of_reader(&runtime, noted_ms).job_ms(), noted_ms);
    }

    #[test]
    fn a_right_wall_clock_sets_the_clock_of_jobs_back_and_an_impossible_one_does_not() {
        let (sim, right) = clock(NOW, Some(NOW + YEARS));
        assert_eq!((right.job_ms(), right.note_ms()), (NOW, NOW));
        sim.set_wall_clock_ms(NOW + YEARS);
        assert_eq!(right.job_ms(), NOW + MOST_STEP_MS);
        let (_, wrong) = clock(5, Some(NOW));
        assert_eq!((wrong.job_ms(), wrong.note_ms()), (5, NOW));
        // A new database waits for a wall clock that may be right.
        let (sim, new) = clock(5, None);
        assert_eq!((new.job_ms(), new.note_ms()), (5, 0));
        sim.set_wall_clock_ms(NOW);
        assert_eq!((new.job_ms(), new.note_ms()), (NOW, NOW));
    }

    #[test]
    fn ends_move_only_where_the_other_clock_was_far_ahead() {
        let moved = |end_ms, then_ms| moved_end_ms(end_ms, then_ms, NOW);
        let far = NOW + YEARS;
        assert_eq!(moved(far + HOUR, far), NOW + HOUR, "written by that clock");
        assert_eq!(moved(NOW + HOUR, far), NOW + HOUR, "written by a right one");
        assert_eq!(moved(far, far), far);
        assert_eq!(moved(NOW + 2 * HOUR, NOW + HOUR), NOW + 2 * HOUR);
        assert_eq!(moved(NOW + 9, NOW - YEARS), NOW + 9, "some time ago");
        assert_eq!(moved_end_ms(far + HOUR, far, 1), far + HOUR, "here is none");
    }

    #[test]
    fn clocks_that_stand_anywhere_do_not_overflow() {
        for (wall_ms, noted_ms) in [(u64::MAX, 1), (0, u64::MAX), (u64::MAX, u64::MAX)] {
            let (sim, clock) = clock(wall_ms, Some(noted_ms));
            sim.set_wall_clock_ms(u64::MAX);
            let now_ms = clock.now_ms();
            assert!(now_ms >= u64::MAX / 1000 && clock.job_ms() <= now_ms + HOUR);
            assert!(clock.note_ms() <= now_ms + HOUR);
            clock.trust_wall_clock();
            assert!(clock.job_clock_behind().is_some());
        }
    }
}
