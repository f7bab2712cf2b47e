//! The two times of the database under test, and what a wrong clock may take of it.
//!
//! Reads go by the wall clock of their opening, and never run backwards within it: that is known
//! exactly ([`time_of`]). Jobs go by a clock that an opening sets forward by less than an hour
//! ([`STEP_MS`]), and by the wall clock. How far they have come is known as a bound: what has
//! expired by [`Times::destroyed_ms`] may be gone, also where a later opening has an earlier wall
//! clock, and all the rest must be there.

use crate::oracle::State;
use std::sync::Arc;
use std::time::{Duration, UNIX_EPOCH};
use unikv::vfs::Runtime;
use unikv::vfs::sim::SimRuntime;
use unikv::{Db, Isolation, Ttl};

/// By how much an opening may set the clock of jobs forward.
pub const STEP_MS: u64 = 3_600_000;
/// Wall clocks before this are wrong, and set the clock of jobs back by nothing.
const RELEASED_MS: u64 = 1_672_531_200_000;
/// Times and spans from here on are for ever.
const FOR_EVER_MS: u64 = 1 << 62;
/// A time that no history reaches.
const FAR_MS: u64 = 1 << 50;

/// The wall clock stands here, if a history is to go on from it.
pub fn possible(wall_ms: u64) -> u64 {
    wall_ms.min(FAR_MS / 2)
}

/// The time of an open database, in milliseconds since 1970.
///
/// It is read off what a transaction would write, which then writes nothing.
pub fn time_of(db: &Db) -> u64 {
    let mut transaction = db.begin_with(Isolation::Snapshot);
    let far = UNIX_EPOCH + Duration::from_millis(FAR_MS);
    let put = transaction.put("the time", "");
    let set = put.and_then(|()| transaction.expire_at("the time", far));
    match set.and_then(|_| transaction.ttl("the time")) {
        Ok(Some(Ttl::Remaining(left))) => FAR_MS - as_ms(left),
        other => panic!("a transaction does not know the time: {other:?}"),
    }
}

/// Whole milliseconds.
pub fn as_ms(span: Duration) -> u64 {
    u64::try_from(span.as_millis()).unwrap_or(u64::MAX)
}

/// When a value expires that is written now and lives so long.
pub fn end(now_ms: u64, ttl_ms: Option<u64>) -> Option<u64> {
    let end = now_ms.saturating_add(ttl_ms.filter(|ms| *ms < FOR_EVER_MS)?);
    Some(end).filter(|end| *end < FOR_EVER_MS)
}

/// When a value expires that is imported at `now_ms`, from an export of `then_ms`.
pub fn moved_end(end_ms: u64, then_ms: u64, now_ms: u64) -> u64 {
    let ahead_ms = then_ms.saturating_sub(now_ms);
    let moves = ahead_ms > 3_600_000 && end_ms > then_ms && now_ms >= RELEASED_MS;
    if moves { end_ms - ahead_ms } else { end_ms }
}

/// The clocks of an open database, as they can be read while the engine is at work.
#[derive(Clone, Debug)]
pub struct Clock {
    /// The clock that it goes on with.
    pub runtime: Arc<SimRuntime>,
    /// What is added to that for reads.
    offset_ms: u64,
    /// What the monotonic clock said at the opening.
    begun_ms: u64,
    /// Jobs go by no later time than this and what has passed since the opening.
    job_base_ms: u64,
}

impl Clock {
    /// The clocks of a database that has just been opened, whose time is this.
    pub fn new(runtime: &Arc<SimRuntime>, time_ms: u64, times: &Times) -> Clock {
        let begun_ms = as_ms(runtime.now());
        assert_eq!(time_ms, runtime.wall_clock_ms(), "the time at an opening");
        Clock {
            runtime: runtime.clone(),
            offset_ms: time_ms - begun_ms,
            begun_ms,
            job_base_ms: times.job_limit_ms(),
        }
    }

    /// The time of reads.
    pub fn now_ms(&self) -> u64 {
        as_ms(self.runtime.now()) + self.offset_ms
    }

    /// Looks at the wall clock.
    pub fn follow(&mut self) {
        let (now_ms, wall_ms) = (as_ms(self.runtime.now()), self.runtime.wall_clock_ms());
        self.offset_ms = self.offset_ms.max(wall_ms.saturating_sub(now_ms));
        if wall_ms >= RELEASED_MS {
            let most_ms = (wall_ms + STEP_MS).saturating_sub(now_ms - self.begun_ms);
            self.job_base_ms = self.job_base_ms.min(most_ms);
        }
    }

    /// The latest time that jobs may go by.
    pub fn job_limit_ms(&self) -> u64 {
        self.job_base_ms + as_ms(self.runtime.now()) - self.begun_ms
    }

    /// The database says that it is this time, which must be what the clock says, perhaps after it
    /// has followed the wall clock. That says whole milliseconds, so the database may be one late.
    pub fn check(&mut self, time_ms: u64) {
        let is_it = |clock: &Clock| time_ms == clock.now_ms() || time_ms + 1 == clock.now_ms();
        if is_it(self) {
            return;
        }
        let before = self.clone();
        self.follow();
        assert!(is_it(self), "the time is {time_ms}, after {before:?}");
    }

    /// Notes how far the clocks have come.
    pub fn note(&self, times: &mut Times) {
        let mut followed = self.clone();
        followed.follow();
        times.latest_ms = self.now_ms();
        times.may_reach(self.runtime.wall_clock_ms(), followed.job_limit_ms());
    }
}

/// What is there at a time.
pub fn visible(state: &State, time_ms: u64) -> State {
    let there = state.iter().filter(|(_, value)| value.is_there(time_ms));
    there
        .map(|(key, value)| (key.clone(), value.clone()))
        .collect()
}

/// What is known of the times of a database.
#[derive(Clone, Debug, Default)]
pub struct Times {
    /// Whether anything in the history expires. Else the time is not looked at, and is 0.
    pub matters: bool,
    /// The wall clock when the database is opened next.
    pub wall_ms: u64,
    /// What had expired by then may have been destroyed.
    pub destroyed_ms: u64,
    /// The latest that may have been noted of the clock of jobs; 0: there is no database yet.
    job_ms: u64,
    /// The time of reads when the database was opened, and when it was last looked at.
    opened_ms: u64,
    latest_ms: u64,
    /// No later opening has an earlier wall clock: that would show values of which the
    /// oracle does not know whether they are there.
    least_ms: u64,
    /// How many openings have been tried since, each of which counts.
    pub tries: u64,
}

impl Times {
    /// Of a database whose time matters, which is opened next when the wall clock stands here.
    pub fn of_wall_clock(wall_ms: u64) -> Times {
        Times {
            matters: true,
            wall_ms,
            ..Times::default()
        }
    }

    /// A machine whose wall clock stands where it is to be.
    pub fn runtime(&self, seed: u64) -> Arc<SimRuntime> {
        let runtime = SimRuntime::new(seed);
        if self.matters {
            runtime.set_wall_clock_ms(self.wall_ms);
        }
        runtime
    }

    /// The latest time of reads that is known.
    pub fn latest_ms(&self) -> u64 {
        self.latest_ms
    }

    /// The latest time that jobs may go by in an opening right now.
    fn job_limit_ms(&self) -> u64 {
        let begin_ms = if self.job_ms == 0 {
            self.wall_ms
        } else {
            self.job_ms
        };
        begin_ms.saturating_add((1 + self.tries) * STEP_MS)
    }

    /// The wall clock, which nobody sets in this opening, is no later than that.
    pub fn saw(&mut self, time_ms: u64) {
        self.latest_ms = self.latest_ms.max(time_ms);
        let passed_ms = self.latest_ms.saturating_sub(self.opened_ms);
        self.may_reach(time_ms, self.job_limit_ms().saturating_add(passed_ms));
    }

    /// The wall clock says this, and jobs go by no later time than `limit_ms`.
    fn may_reach(&mut self, wall_ms: u64, limit_ms: u64) {
        let reached_ms = limit_ms.min(wall_ms);
        self.destroyed_ms = self.destroyed_ms.max(reached_ms);
        let noted_ms = if wall_ms < RELEASED_MS {
            limit_ms.saturating_sub(STEP_MS)
        } else {
            reached_ms
        };
        self.job_ms = self.job_ms.max(noted_ms);
    }

    /// The clocks may have come to any time.
    pub fn may_be_any(&mut self) {
        (self.destroyed_ms, self.job_ms) = (FAR_MS, FAR_MS);
    }

    /// The clocks have come as far as others say.
    pub fn known_by(&mut self, others: &Times) {
        (self.destroyed_ms, self.job_ms) = (others.destroyed_ms, others.job_ms);
    }

    /// The oracle does not know which of the values that are hidden at this time are there.
    pub fn hides(&mut self, time_ms: u64) {
        self.least_ms = self.least_ms.max(time_ms);
    }

    /// Draws where the wall clock stands when the database is opened next.
    pub fn draw_wall(&mut self, draw: u64) {
        const YEARS_MS: u64 = 10 * 365 * 86_400_000;
        let now_ms = self.latest_ms;
        let wall_ms = match draw % 8 {
            0 => 1,
            1 => now_ms.saturating_sub(30_000),
            2 => now_ms + 20_000,
            3 => now_ms + 2 * STEP_MS,
            4 if now_ms < FAR_MS / 2 => now_ms + YEARS_MS,
            5 => now_ms.saturating_sub(YEARS_MS),
            // As it would be if no clock had been set wrong.
            6 => self.job_ms,
            _ => now_ms,
        };
        self.wall_ms = wall_ms.max(self.least_ms).max(1);
    }

    /// Whether a job may have destroyed a value that expires then.
    pub fn may_be_gone(&self, expiry_ms: Option<u64>) -> bool {
        expiry_ms.is_some_and(|end_ms| end_ms <= self.destroyed_ms)
    }

    /// The database was opened again, with this time.
    ///
    /// # Errors
    /// It may not be that.
    pub fn opened(&mut self, time_ms: u64) -> Result<(), String> {
        if !self.matters {
            return Ok(());
        }
        let latest_ms = self.wall_ms.saturating_add(STEP_MS);
        if !(self.wall_ms..=latest_ms).contains(&time_ms) {
            return Err(format!(
                "the time at the opening is {time_ms}, but the wall clock stood at {}: {self:?}",
                self.wall_ms
            ));
        }
        let limit_ms = self.job_limit_ms();
        (self.opened_ms, self.latest_ms) = (time_ms, time_ms);
        if self.wall_ms >= RELEASED_MS {
            self.job_ms = 0;
        }
        self.may_reach(time_ms, limit_ms);
        self.tries = 0;
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::value::Value;

    fn state(ends: &[u64]) -> State {
        let value = |end: &u64| Value::new(1, 9).bytes().until(Some(*end));
        let named = ends.iter().enumerate();
        named.map(|(n, end)| (vec![n as u8], value(end))).collect()
    }

    #[test]
    fn an_opening_far_ahead_may_have_destroyed_an_hour_and_one_behind_nothing() {
        let now_ms = RELEASED_MS + 1_000_000;
        let mut times = Times::of_wall_clock(now_ms);
        times.opened(now_ms).unwrap();
        times.saw(now_ms + 5);
        assert_eq!((times.destroyed_ms, times.job_ms), (now_ms + 5, now_ms + 5));
        times.wall_ms = now_ms * 2;
        times.opened(now_ms * 2).unwrap();
        let hour_later = now_ms + 5 + STEP_MS;
        assert_eq!((times.destroyed_ms, times.job_ms), (hour_later, hour_later));
        // A right clock sets the clock of jobs back.
        times.wall_ms = now_ms + 10;
        times.opened(now_ms + 10).unwrap();
        assert_eq!(
            (times.destroyed_ms, times.job_ms),
            (hour_later, now_ms + 10)
        );
        assert!(times.may_be_gone(Some(hour_later)) && !times.may_be_gone(Some(hour_later + 1)));
        // One that is wrong for certain does not.
        times.wall_ms = 1;
        times.opened(1).unwrap();
        assert_eq!(
            (times.destroyed_ms, times.job_ms),
            (hour_later, now_ms + 10)
        );
        assert!(times.opened(0).is_err());
    }

    #[test]
    fn spans_end_or_last_for_ever() {
        assert_eq!(end(5, Some(7)), Some(12));
        assert_eq!(end(5, None), None);
        assert_eq!(end(5, Some(u64::MAX)), None);
        assert_eq!(end(5, Some(FOR_EVER_MS - 1)), None);
        assert_eq!(visible(&state(&[4, 5, 6]), 5).len(), 1);
    }
}
