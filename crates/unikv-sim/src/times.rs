//! The time of the database under test, and what a crash may take of it.
//!
//! The time of the engine never runs backwards within one opening. A closed database goes on where
//! it ended, or by the wall clock where that is later; a crash takes at most the last
//! [`UNNOTED_MS`], while there is something that expires. So what has expired longer ago than that
//! never comes back. The model is exact about everything else: it asks the engine for its time
//! ([`time_of`]), checks that it may be that, and then knows which values are there.

use crate::oracle::State;
use std::sync::Arc;
use std::time::{Duration, UNIX_EPOCH};
use unikv::vfs::Runtime;
use unikv::vfs::sim::SimRuntime;
use unikv::{Db, Isolation, Ttl};

/// What a crash takes of the time at most, in milliseconds.
pub const UNNOTED_MS: u64 = 60_000;
/// By how much a wall clock may run ahead within one opening and be followed.
pub const FOLLOWED_MS: u64 = 3_600_000;
/// Times and spans from here on are for ever.
const FOR_EVER_MS: u64 = 1 << 62;
/// A time that no history reaches.
const FAR_MS: u64 = 1 << 50;

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

/// The clock of an open database, as it can be read while the engine is at work.
#[derive(Clone, Debug)]
pub struct Clock {
    /// The clock that it goes on with.
    pub runtime: Arc<SimRuntime>,
    /// What is added to that, now and when the database was opened.
    pub offset_ms: u64,
    /// See there.
    pub opened_with_ms: u64,
}

impl Clock {
    /// The clock of a database whose time is this.
    pub fn new(runtime: &Arc<SimRuntime>, time_ms: u64) -> Clock {
        let offset_ms = time_ms - as_ms(runtime.now());
        Clock {
            runtime: runtime.clone(),
            offset_ms,
            opened_with_ms: offset_ms,
        }
    }

    /// The time.
    pub fn now_ms(&self) -> u64 {
        as_ms(self.runtime.now()) + self.offset_ms
    }

    /// What it goes on with once it has followed the wall clock, if it may.
    fn ahead(&self) -> Option<u64> {
        let now_ms = as_ms(self.runtime.now());
        let wall = self.runtime.wall_clock_ms().saturating_sub(now_ms);
        let is_near = wall.saturating_sub(self.opened_with_ms) <= FOLLOWED_MS;
        Some(wall).filter(|wall| *wall > self.offset_ms && is_near)
    }

    /// By how much the wall clock is ahead, if that is too far for being followed.
    pub fn jump(&self) -> Option<Duration> {
        let now_ms = as_ms(self.runtime.now());
        let wall = self.runtime.wall_clock_ms().saturating_sub(now_ms);
        let ahead = wall.saturating_sub(self.opened_with_ms);
        (ahead > FOLLOWED_MS).then(|| Duration::from_millis(ahead))
    }

    /// Follows the wall clock, if it may.
    pub fn follow(&mut self) {
        self.offset_ms = self.ahead().unwrap_or(self.offset_ms);
    }

    /// The database says that it is this time, which must be what the clock says, perhaps after it
    /// has followed the wall clock.
    pub fn check(&mut self, time_ms: u64) {
        if time_ms == self.now_ms() {
            return;
        }
        let before = self.clone();
        self.follow();
        assert_eq!(time_ms, self.now_ms(), "the time, after {before:?}");
    }

    /// What is known of the time right now, for a crash. The wall clock of the next opening stands
    /// at another place each time.
    pub fn crash(&self, times: &mut Times, draw: u64) {
        let mut followed = self.clone();
        followed.follow();
        let time_ms = self.now_ms();
        times.saw(time_ms);
        times.followed_ms = followed.now_ms();
        times.wall_ms = match draw % 4 {
            0 => 1,
            1 => time_ms + 1,
            2 => time_ms - time_ms.min(10_000),
            _ => time_ms + 2 * FOLLOWED_MS,
        };
    }
}

/// What is there at a time.
pub fn visible(state: &State, time_ms: u64) -> State {
    let there = state.iter().filter(|(_, value)| value.is_there(time_ms));
    there
        .map(|(key, value)| (key.clone(), value.clone()))
        .collect()
}

/// What is known of the time of a database.
#[derive(Clone, Debug, Default)]
pub struct Times {
    /// Whether anything in the history expires. Else the time is not looked at, and is 0.
    pub matters: bool,
    /// The wall clock when the database is opened next.
    pub wall_ms: u64,
    /// It may have been as late as that, if the wall clock has just been followed.
    pub followed_ms: u64,
    /// The time may be noted no more, because something has failed.
    pub unsure: bool,
    /// The latest time that it is known to have been.
    latest_ms: u64,
    /// What no crash goes back behind.
    floor_ms: u64,
    /// Since when, in this opening, there has been something that expires.
    since_ms: Option<u64>,
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

    /// The latest time that it is known to have been.
    pub fn latest_ms(&self) -> u64 {
        self.latest_ms
    }

    /// It is as late as that.
    pub fn saw(&mut self, time_ms: u64) {
        self.latest_ms = self.latest_ms.max(time_ms);
    }

    /// Something that expires is written.
    pub fn expires(&mut self) {
        self.since_ms.get_or_insert(self.latest_ms);
    }

    /// The database has been closed: nothing of the time is lost, if anything expires.
    pub fn closed(&mut self, state: &State) {
        if self.unsure {
            return;
        }
        let mut ends = state.values().filter_map(|value| value.expiry_ms);
        self.floor_ms = if ends.clone().any(|end| end > self.latest_ms) {
            self.latest_ms
        } else {
            self.floor_ms.max(ends.by_ref().max().unwrap_or(0))
        };
    }

    /// The earliest time that the next opening may begin with; `state` is what was written.
    fn earliest_ms(&self, state: &State) -> u64 {
        if self.unsure {
            return self.floor_ms;
        }
        let noted = self.latest_ms.saturating_sub(UNNOTED_MS);
        let ends = || state.values().filter_map(|value| value.expiry_ms);
        let expired = ends().filter(|end| *end <= noted).max();
        let is_noted = self.since_ms.is_some_and(|since| since <= noted);
        let unexpired = (is_noted && ends().any(|end| end > noted)).then_some(noted);
        let least = expired.max(unexpired).unwrap_or(0);
        least.max(self.floor_ms)
    }

    /// The database was opened again, with this time.
    ///
    /// # Errors
    /// It may not be that.
    pub fn opened(&mut self, time_ms: u64, state: &State) -> Result<(), String> {
        if !self.matters {
            return Ok(());
        }
        let earliest = self.earliest_ms(state);
        let latest = self.latest_ms.max(self.wall_ms).max(self.followed_ms);
        if !(earliest..=latest).contains(&time_ms) {
            return Err(format!(
                "the time at the opening is {time_ms}, not in {earliest}..={latest}: {self:?}"
            ));
        }
        (self.unsure, self.followed_ms) = (false, 0);
        self.latest_ms = time_ms;
        let expires = state.values().any(|value| value.expiry_ms > Some(time_ms));
        self.since_ms = expires.then_some(time_ms);
        self.floor_ms = if expires { time_ms } else { earliest };
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

    fn times() -> Times {
        let mut times = Times {
            matters: true,
            ..Times::default()
        };
        times.saw(1_000_000);
        times.expires();
        times
    }

    #[test]
    fn a_crash_takes_a_minute_and_brings_back_what_expired_within_it() {
        let mut times = times();
        times.saw(1_200_000);
        for (ends, earliest) in [
            (&[][..], 0),
            (&[1_100_000], 1_100_000),
            (&[1_140_000], 1_140_000),
            (&[1_140_001], 1_140_000),
            (&[1_100_000, 1_199_000], 1_140_000),
        ] {
            let state = state(ends);
            assert_eq!(times.earliest_ms(&state), earliest, "{ends:?}");
            let opened = |time_ms| times.clone().opened(time_ms, &state).is_ok();
            assert!(opened(earliest) && opened(1_200_000) && !opened(1_200_001));
            assert!(earliest == 0 || !opened(earliest - 1));
        }
        times.closed(&state(&[1_100_000]));
        assert_eq!(times.earliest_ms(&state(&[])), 1_100_000);
        times.closed(&state(&[1_200_001]));
        assert!(times.opened(1_199_999, &state(&[])).is_err());
    }

    #[test]
    fn in_the_first_minute_of_what_expires_nothing_may_be_noted() {
        let mut times = times();
        times.saw(1_059_999);
        assert_eq!(times.earliest_ms(&state(&[2_000_000])), 0);
        times.saw(1_060_000);
        assert_eq!(times.earliest_ms(&state(&[2_000_000])), 1_000_000);
        times.wall_ms = 5_000_000;
        assert!(times.opened(5_000_000, &state(&[])).is_ok());
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
