//! Histories that go to the bounds of what is copied for scans: see `runner/clustering.rs`. They
//! are longer than scenarios, and nothing is cut or fails in them.

use super::Scenario;
use super::script::{Script, key, quiet};
use crate::config::Config;
use crate::history::{History, Op, Range, SLOTS, Walk};
use crate::moments::Seen;
use crate::runner::{LARGE_BYTES, Runner, Tolerance};
use unikv::Clustering;
use unikv::vfs::sim::SimVfs;

/// Keys of a history.
const KEYS: u32 = 200;
const VALUE_BYTES: usize = 200;

/// Plays one, with the rules of all histories.
pub fn play(bound: &Scenario) {
    let history = &bound.history;
    // A secondary would be compared with scans of everything.
    let mut runner = Runner::new(history, SimVfs::new(), Tolerance::None).unfollowed();
    runner.play(&history.ops).expect("the machine is there");
    bound.assert_did(&Seen {
        coverage: runner.finish(),
        ..Seen::default()
    });
}

/// All of them.
pub fn all() -> Vec<Scenario> {
    let bound = |name, history, did| Scenario { name, history, did };
    vec![
        bound("twice_what_was_written", twice_what_was_written(), |seen| {
            seen.coverage.clustered_bytes > seen.coverage.written_bytes
        }),
        bound("nobody_scans", nobody_scans(), |seen| {
            seen.coverage.merges > 0 && seen.coverage.clusterings > 0
        }),
        bound("one_scan", one_scan(), |seen| seen.coverage.clusterings > 0),
        bound("no_room", no_room(), |seen| seen.coverage.clusterings == 0),
        bound("no_room_beside_readers", no_room_beside_readers(), |seen| {
            seen.coverage.clusterings > 0
        }),
        bound("a_large_partition", a_large_partition(), |seen| {
            seen.coverage.clusterings > 8
        }),
        bound("large_values", large_values(), |seen| {
            seen.coverage.clusterings == 0 && seen.coverage.merges > 0
        }),
    ]
}

fn under(script: Script, max_space_amp: f64) -> History {
    script.under(Config {
        clustering: Clustering::Automatic,
        unsorted_bytes: 8 << 10,
        max_space_amp,
        ..quiet()
    })
}

/// Neighbours are written at this many different times, and merged.
fn scatter(script: &mut Script, rounds: u32) {
    for part in 0..rounds {
        script.put((part..KEYS).step_by(rounds as usize), VALUE_BYTES);
        script.op(Op::Flush);
    }
    script.op(Op::Compact);
}

/// Nobody writes for so long that writers are idle, and the background does one thing at a time.
fn pause(script: &mut Script) {
    let pass = Op::Clock {
        wall_ms: 1_700_000_000_000,
        forward_ms: 2_000,
    };
    script.steps(50).op(pass).steps(50);
}

/// Runs become one again and again.
fn twice_what_was_written() -> History {
    let mut script = Script::default();
    scatter(&mut script, 8);
    for round in 0..150 {
        for part in 0..5 {
            script.put((round % 7 + 7 * part..KEYS).step_by(35), VALUE_BYTES);
            script.op(Op::Flush);
        }
        script.op(Op::Compact).op(Op::Quiesce);
    }
    under(script, 4.0)
}

/// Nothing is copied while writers write and nobody scans; afterwards it is worth it.
fn nobody_scans() -> History {
    let mut script = Script::default();
    scatter(&mut script, 8);
    for n in 0..40 {
        script.put([n], 20).steps(4);
    }
    script.op(Op::Quiesce);
    under(script, 4.0)
}

/// What one scan has charged is copied once, however long writers write.
fn one_scan() -> History {
    let mut script = Script::default();
    scatter(&mut script, 8);
    script.scans(1);
    for n in 0..40 {
        script.put([n % 3], 20).steps(4);
    }
    under(script, 4.0)
}

/// As little garbage is allowed as can be.
fn no_room() -> History {
    let mut script = Script::default();
    scatter(&mut script, 8);
    pause(&mut script);
    under(script, 1.1)
}

/// Iterators hold all that slices have left.
fn no_room_beside_readers() -> History {
    let mut script = Script::default();
    for round in 0..6 {
        scatter(&mut script, 8);
        let slot = round % SLOTS;
        script.op(Op::Iterate(slot, Range::All, Some(key(7))));
        script.op(Op::Advance(slot, 3, Walk::Forward));
        script.scans(20).steps(50);
    }
    under(script, 2.0)
}

/// A partition of many slices.
fn a_large_partition() -> History {
    let mut script = Script::default();
    for _ in 0..3 {
        scatter(&mut script, 12);
        pause(&mut script);
    }
    under(script, 4.0)
}

/// What is merged first has the later ones between its keys.
fn large_values() -> History {
    let mut script = Script::default();
    for n in [0, 2, 4, 6, 1, 3, 5, 7] {
        script.put([n], LARGE_BYTES).op(Op::Flush);
    }
    script.op(Op::Compact).op(Op::Quiesce);
    let mut history = under(script, 4.0);
    history.config.unsorted_bytes = 1 << 20;
    history
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_bound_holds_where_it_is_met() {
        all().iter().for_each(play);
    }
}
