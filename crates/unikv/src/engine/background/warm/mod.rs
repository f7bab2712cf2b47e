//! The component that keeps the cache warm: what was hot is noted while the database is open, and
//! read back after it is opened again.
//!
//! The hints that the process before has left are read first, the hottest first, in turns with
//! merges. Then they are written again whenever a good part of what the cache holds has changed,
//! but not often; and when the database is closed.
//!
//! A hint leads to a file of the present version or is passed over. It makes reads faster and says
//! nothing of what they find; see [`crate::key_table::hints`]. All is for speed alone: nothing is
//! committed, and a failure is none of the database. Lock: `state`, a leaf, under which nothing is
//! read or written.

mod noting;
mod reading;

use crate::base::sync::Mutex;
use crate::base::sync::atomic::{AtomicBool, Ordering};
use crate::engine::core::Core;
use crate::engine::read::ReadState;
use crate::key_table::{HintReader, Written};
use std::mem;
use std::sync::Arc;
use std::time::Duration;

/// The part of the noted items that must have been read since before they are noted again, and when
/// the database is closed.
const CHANGED_PART: u64 = 8;
const CHANGED_PART_AT_CLOSING: u64 = 64;
/// The same for few items.
const LEAST_CHANGED: u64 = 1 << 10;
const LEAST_CHANGED_AT_CLOSING: u64 = 64;

/// The hints that are sorted at a time, and what is read back at a time, may take this part of the
/// budget.
const MEMORY_PART: u64 = 128;

/// The component that keeps what is hot for the next opening.
pub(crate) struct Warmth {
    core: Arc<Core>,
    read: Arc<ReadState>,
    state: Mutex<State>,
    /// Reading back has had its turn, and no merge since.
    had_turn: AtomicBool,
}

enum State {
    /// Of the process before, left to be read back.
    Left(HintReader),
    /// Being read back or noted.
    Busy,
    /// Noted by this process, or all read back.
    Noted(Noted),
}

#[derive(Clone, Copy)]
struct Noted {
    /// Look-ups had missed this often.
    misses: u64,
    at: Duration,
    written: Written,
    took: Duration,
}

impl State {
    /// These hints are in the file; to write them took that long. The workers are woken when enough
    /// has changed since.
    fn noted(core: &Core, written: Written, took: Duration) -> State {
        let misses = core.cache.misses();
        let noted = Noted {
            misses,
            at: core.now(),
            written,
            took,
        };
        let wakes = misses.saturating_add(noted.enough(CHANGED_PART, LEAST_CHANGED));
        core.cache.wake_at(wakes, &core.work);
        State::Noted(noted)
    }
}

impl Noted {
    /// How many misses after it are enough: this `part` of what was noted, and `least`.
    fn enough(&self, part: u64, least: u64) -> u64 {
        (self.written.hints / part).max(least)
    }

    /// Whether enough has changed for another note, now that look-ups have missed this often.
    fn is_stale(&self, misses: u64) -> bool {
        misses.saturating_sub(self.misses) >= self.enough(CHANGED_PART, LEAST_CHANGED)
    }

    /// The same when the database is closed.
    fn is_stale_at_closing(&self, misses: u64) -> bool {
        let enough = self.enough(CHANGED_PART_AT_CLOSING, LEAST_CHANGED_AT_CLOSING);
        misses.saturating_sub(self.misses) >= enough
    }
}

impl Warmth {
    /// With the hints that the process before has left.
    pub(crate) fn new(core: &Arc<Core>, read: &Arc<ReadState>) -> Warmth {
        let none = || State::noted(core, Written::default(), Duration::ZERO);
        let left = HintReader::of(&core.store);
        Warmth {
            core: Arc::clone(core),
            read: Arc::clone(read),
            state: Mutex::new(left.map_or_else(none, State::Left)),
            had_turn: AtomicBool::new(false),
        }
    }

    /// Bytes of the hints that are there.
    pub(crate) fn bytes(&self) -> u64 {
        match &*self.state.lock() {
            State::Left(reader) => reader.len(),
            // About to be known.
            State::Busy => 0,
            State::Noted(noted) => noted.written.bytes,
        }
    }

    /// Whether there is something left to be read back, that nobody reads.
    pub(crate) fn is_left(&self) -> bool {
        matches!(*self.state.lock(), State::Left(_))
    }

    /// Whether reading back has had its turn, and no merge since: they take turns.
    pub(crate) fn had_turn(&self) -> bool {
        self.had_turn.load(Ordering::Relaxed)
    }

    /// Notes whose turn begins.
    pub(crate) fn turn_begins(&self, is_of_reading: bool) {
        self.had_turn.store(is_of_reading, Ordering::Relaxed);
    }

    /// Takes the reader, which is to be put back with [`Warmth::put`].
    fn take_reader(&self) -> Option<HintReader> {
        let mut state = self.state.lock();
        match mem::replace(&mut *state, State::Busy) {
            State::Left(reader) => Some(reader),
            other => {
                *state = other;
                None
            }
        }
    }

    fn last_noted(&self) -> Option<Noted> {
        match *self.state.lock() {
            State::Noted(noted) => Some(noted),
            State::Left(_) | State::Busy => None,
        }
    }

    /// Takes what is known of the last note, in whose place another is to be put.
    fn take_noted(&self) -> Option<Noted> {
        let mut state = self.state.lock();
        let State::Noted(noted) = *state else {
            return None;
        };
        *state = State::Busy;
        Some(noted)
    }

    fn put(&self, state: State) {
        *self.state.lock() = state;
    }
}

#[cfg(test)]
mod tests;
