//! Notes for the next opening.

use super::{Ended, Kind, takes_nothing};
use crate::jobs::plan::rules;
use crate::jobs::plan::tests::simulator::oracle::{Candidate, is_asked};
use std::time::Duration;

const CLOCK: &str = "clock";

/// Time between two notes of the clock.
const CLOCK_PAUSE: Duration = Duration::from_secs(60);

/// Due when its time has come, but not on a full disk.
pub(super) const CLOCK_NOTES: Kind = Kind {
    rule: rules::notes::CLOCK_NOTES,
    is_flush: false,
    may_fail: true,
    candidates: |world, filter| {
        let is_time = world.note_clock_at.is_some_and(|at| at <= world.now);
        let is_due = is_time && !world.disk.is_full;
        Candidate::if_due(is_due && is_asked(world, filter, CLOCK, None))
    },
    begin: takes_nothing,
    end: |world, _, _| {
        if !world.expires {
            world.note_clock_at = None;
            return Ended::Nothing;
        }
        world.note_clock_at = Some(world.now + CLOCK_PAUSE);
        Ended::Done
    },
};

/// Due when its time has come, but not on a full disk.
pub(super) const HINT_NOTES: Kind = Kind {
    rule: rules::notes::HINT_NOTES,
    is_flush: false,
    may_fail: false,
    candidates: |world, _| {
        let is_time = world.note_hints_at.is_some_and(|at| at <= world.now);
        Candidate::if_due(is_time && !world.disk.is_full)
    },
    begin: takes_nothing,
    end: |world, _, _| {
        world.note_hints_at = None;
        Ended::Done
    },
};
