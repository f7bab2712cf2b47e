//! The time of a run, and the expiry of what it writes.

use super::{Interrupt, Runner};
use crate::history::{Key, Wall};
use crate::oracle::{Change, Oracle, State};
use crate::times::{self, Clock, STEP_MS, as_ms};
use crate::value::{Bytes, Value};
use std::time::{Duration, UNIX_EPOCH};
use unikv::vfs::Runtime;
use unikv::{Batch, Db, Expiry, Keyspace};

/// The wall clock when a history begins.
pub(super) const BEGIN_MS: u64 = 1_700_000_000_000;
/// Time passes in such steps.
const STEP: Duration = Duration::from_secs(60);
/// The longest time that passes at once.
const MOST_MS: u64 = 2 * STEP_MS;

impl Runner {
    /// The time of the database, which must be what its clock makes of it; 0 where it does not
    /// matter.
    pub(super) fn time(&self) -> u64 {
        if !self.oracle.times.matters {
            return 0;
        }
        let mut clock = self.clock.borrow_mut();
        match (&self.db, &mut *clock) {
            (Some(db), Some(clock)) => {
                let time_ms = times::time_of(db);
                clock.check(time_ms);
                time_ms
            }
            _ => self.oracle.times.latest_ms(),
        }
    }

    /// Says the oracle what time it is.
    pub(super) fn note_time(&mut self) {
        let _checked = self.time();
        if let Some(clock) = &*self.clock.borrow() {
            clock.note(&mut self.oracle.times);
        }
    }

    /// What is known when the machine goes away right now.
    pub fn crashed(&self) -> Oracle {
        let mut oracle = self.oracle.clone();
        if let Some(clock) = &*self.clock.borrow() {
            clock.note(&mut oracle.times);
            oracle.times.draw_wall(self.vfs.calls());
        }
        oracle
    }

    /// Time may have passed while the database was being closed, or went away.
    pub(super) fn end_clock(&mut self) {
        if let Some(clock) = self.clock.get_mut().take() {
            clock.note(&mut self.oracle.times);
        }
    }

    /// The database has been opened.
    pub(super) fn begin_clock(&mut self) {
        let times = &self.oracle.times;
        let db = self.db.as_ref().filter(|_| times.matters);
        let clock = db.map(|db| Clock::new(&self.runtime, times::time_of(db), times));
        *self.clock.get_mut() = clock;
    }

    /// Where the wall clock stands when the database is opened next.
    pub(super) fn draw_wall(&mut self) {
        if self.oracle.times.matters {
            let draw = self.seed + 3 * self.incarnation;
            self.oracle.times.draw_wall(draw);
        }
    }

    /// What there is now.
    pub(super) fn visible(&self) -> State {
        self.oracle.visible(self.time())
    }

    /// The time by which it is worked out when a value expires that is written now. The first that
    /// does has the wall clock followed.
    fn time_of_write(&self) -> u64 {
        let time_ms = self.time();
        let clock = self.clock.borrow();
        match &*clock {
            Some(clock) if !self.db().stats().expires => {
                let mut followed = clock.clone();
                followed.follow();
                followed.now_ms()
            }
            _ => time_ms,
        }
    }

    /// A value as it is stored if it is written now, in a keyspace if one is named.
    pub(super) fn stored(&self, keyspace: Option<&Keyspace>, value: Value) -> Bytes {
        self.stored_for(keyspace, value, None)
    }

    /// The same where the write says how long values live that say nothing.
    pub(super) fn stored_for(
        &self,
        keyspace: Option<&Keyspace>,
        value: Value,
        ttl_ms: Option<u64>,
    ) -> Bytes {
        let expiry_ms = self.end(keyspace, value.ttl_ms.or(ttl_ms));
        value.bytes().until(expiry_ms)
    }

    /// When a value expires that is written now and says this of it.
    pub(super) fn end(&self, keyspace: Option<&Keyspace>, ttl_ms: Option<u64>) -> Option<u64> {
        if !self.oracle.times.matters {
            return None;
        }
        let usual = || match keyspace {
            Some(keyspace) => keyspace.options().ok()?.default_ttl.map(as_ms),
            None => self.db().options().default_ttl.map(as_ms),
        };
        let ttl_ms = ttl_ms.or_else(usual)?;
        times::end(self.time_of_write(), Some(ttl_ms))
    }

    /// The changes of the default keyspace as they are stored if they are written now.
    pub(super) fn changes(&self, changes: &[(Key, Option<Value>)]) -> Vec<Change> {
        let stored = |value: &Option<Value>| value.map(|value| self.stored(None, value));
        let changes = changes.iter();
        changes
            .map(|(key, value)| (key.0.clone(), stored(value)))
            .collect()
    }

    /// The wall clock is set, and time passes.
    pub(super) fn set_clocks(&mut self, wall_ms: u64, forward_ms: u64) -> Result<(), Interrupt> {
        if self.oracle.times.matters {
            return self.pass(Some(wall_ms), forward_ms);
        }
        self.runtime.set_wall_clock_ms(wall_ms);
        self.runtime.delay(Duration::from_millis(forward_ms));
        Ok(())
    }

    /// Lets time pass, during which the background works, behind a change of the wall clock.
    pub(super) fn pass(&mut self, wall_ms: Option<u64>, forward_ms: u64) -> Result<(), Interrupt> {
        self.note_time();
        if let Some(ms) = wall_ms {
            self.runtime.set_wall_clock_ms(times::possible(ms));
        }
        let never = self.runtime.event();
        let mut left = Duration::from_millis(forward_ms.min(MOST_MS));
        while !left.is_zero() {
            let step = left.min(STEP);
            never.wait_past(never.epoch(), Some(step));
            left -= step;
        }
        self.note_time();
        self.check_job_clock();
        Ok(())
    }

    /// As an operation says it.
    pub(super) fn pass_by(&mut self, forward_ms: u64, wall: Wall) -> Result<(), Interrupt> {
        let now_ms = self.time();
        let wall_ms = match wall {
            Wall::GoesOn => None,
            Wall::Ahead(ms) => Some(now_ms + ms),
            Wall::Behind(ms) => Some(now_ms.saturating_sub(ms)),
        };
        self.pass(wall_ms, forward_ms)
    }

    /// The clock of jobs is no later than it may be.
    fn check_job_clock(&self) {
        if let Some(clock) = &*self.clock.borrow() {
            let behind = self.db().stats().job_clock_behind;
            let wall_ms = self.runtime.wall_clock_ms();
            let least_ms = wall_ms.saturating_sub(clock.job_limit_ms());
            let behind_ms = behind.map_or(0, as_ms);
            assert!(
                behind_ms >= least_ms,
                "the clock of jobs: {behind:?}, {clock:?}"
            );
        }
    }
}

/// Puts a value into a batch, or deletes the key.
pub(super) fn add(
    batch: &mut Batch,
    keyspace: Option<&Keyspace>,
    key: &[u8],
    value: Option<Value>,
) {
    let bytes = value.map(Value::bytes);
    match (keyspace, &bytes, value.and_then(Value::ttl)) {
        (None, None, _) => batch.delete(key),
        (None, Some(bytes), None) => batch.put(key, bytes),
        (None, Some(bytes), Some(ttl)) => batch.put_with_ttl(key, bytes, ttl),
        (Some(keyspace), None, _) => batch.delete_in(keyspace, key),
        (Some(keyspace), Some(bytes), None) => batch.put_in(keyspace, key, bytes),
        (Some(keyspace), Some(bytes), Some(ttl)) => {
            batch.put_with_ttl_in(keyspace, key, bytes, ttl)
        }
    };
}

/// An entry of a sorted stream.
type Entry<'a> = (&'a [u8], Option<&'a [u8]>, Expiry);

/// The entries of a sorted stream.
pub(super) fn entries(changes: &[Change]) -> impl Iterator<Item = unikv::Result<Entry<'_>>> {
    changes.iter().map(|(key, value)| {
        let end = value.as_ref().and_then(|value| value.expiry_ms);
        let expiry = end.map_or(Expiry::Never, |end| {
            Expiry::At(UNIX_EPOCH + Duration::from_millis(end))
        });
        Ok((&key[..], value.as_deref(), expiry))
    })
}

/// A batch of changes in the default keyspace.
pub(super) fn batch_of(changes: &[(Key, Option<Value>)]) -> Batch {
    let mut batch = Batch::new();
    for (key, value) in changes {
        add(&mut batch, None, key, *value);
    }
    batch
}

/// The default keyspace, or another one, if that is there.
pub(super) fn find(db: &Db, name: Option<&str>) -> Option<Option<Keyspace>> {
    match name {
        None => Some(None),
        Some(name) => db.find_keyspace(name).map(Some),
    }
}
