//! The crash explorer: one history, and the power cut before each call that changes the disk.
//!
//! One run takes a copy of the disk at each such call. Then, for each place, the disk in every way
//! the machine may come back: the process alone killed; nothing unsynced left; everything left; the
//! first changes of the whole disk; some prefix of each file; any subset of sectors; torn sectors.
//! Each must recover to a state the oracle allows. Some are then checked, live on, are closed and
//! opened again. For some, recovery itself is cut at each of its calls, and that recovery again.

use crate::budget;
use crate::config::Config;
use crate::feed;
use crate::history::{History, Mix};
use crate::moments::{self, Moment, Recorder, Seen, fingerprint};
use crate::oracle::{Ending, Oracle};
use crate::runner::{Coverage, DIR, Standing, secondaries};
use crate::shrink;
use crate::spaces;
use crate::story;
use crate::verify;
use std::collections::BTreeSet;
use std::path::Path;
use unikv::Secondary;
use unikv::vfs::sim::{Keep, SimVfs};

/// How deep to look.
#[derive(Clone, Copy, Debug)]
pub struct Depth {
    /// Crash points per history; all of them if it has fewer.
    pub points: u64,
    /// Every how many crash points recovery itself is cut too; 0 for never.
    pub nested_every: u64,
    /// Places at which recovery is cut.
    pub nested_points: u64,
}

/// What was looked at.
#[derive(Clone, Copy, Debug, Default)]
pub struct Tally {
    /// Histories explored.
    pub histories: u64,
    /// Calls of all histories that change the disk.
    pub calls: u64,
    /// Places the power was cut at.
    pub points: u64,
    /// Recoveries that were checked, those after several crashes included.
    pub recoveries: u64,
    /// Of these, how many came after a cut of a recovery.
    pub doubles: u64,
    /// Of these, how many came after a cut of the recovery of that.
    pub triples: u64,
    /// Tokens of copies with which they went on after a recovery.
    pub tokens_held: u64,
    /// What the engines did in the first runs.
    pub coverage: Coverage,
}

/// Of this many changes that a cut may take, each prefix is looked at, at each place.
const FEW_FIRST: u64 = 16;
/// Every how many places each prefix is, however many there are.
const EACH_FIRST_EVERY: u64 = 16;
/// The most prefixes that are looked at elsewhere.
const MOST_FIRST: u64 = 6;
/// Every how many images are checked offline and live on.
const DEEP_EVERY: u64 = 8;
/// Every how many second crashes are followed by a third.
const THIRD_EVERY: u64 = 16;

/// The ways a machine comes back.
#[derive(Clone, Copy, Debug)]
enum Back {
    Killed,
    Cut(Keep),
}

impl Back {
    fn disk(self, vfs: &SimVfs) -> SimVfs {
        let disk = match self {
            Back::Killed => vfs.process_kill(),
            Back::Cut(keep) => vfs.power_cut(keep),
        };
        // An opener of a database on a full disk makes room first.
        disk.set_free_space(None);
        disk
    }

    fn ending(self) -> Ending {
        match self {
            Back::Killed => Ending::Kill,
            Back::Cut(_) => Ending::PowerCut,
        }
    }

    /// With `each_first`, each prefix of the changes is among them.
    fn all(disk: &SimVfs, seed: u64, each_first: bool) -> Vec<Back> {
        let mut ways = vec![
            Keep::Nothing,
            Keep::All,
            Keep::Prefix(seed),
            Keep::Prefix(seed + 1),
            Keep::Torn(seed),
            Keep::Torn(seed + 1),
        ];
        ways.extend((0..4).map(|n| Keep::Sectors(seed + n)));
        let firsts = disk.pending_changes().saturating_sub(1);
        // Those that end with the latest changes are like earlier places; so each place adds few.
        let skip = if each_first {
            1
        } else {
            firsts.div_ceil(MOST_FIRST).max(1)
        };
        let step = usize::try_from(skip).unwrap_or(usize::MAX);
        ways.extend((1..=firsts).rev().step_by(step).map(Keep::First));
        let cuts = ways.into_iter().map(Back::Cut);
        [Back::Killed].into_iter().chain(cuts).collect()
    }
}

/// Explores the history drawn from `seed`.
pub fn explore(seed: u64, steps: usize, depth: Depth, tally: &mut Tally) {
    let _seed = story::scope("UNIKV_SEED", seed);
    let _steps = story::scope("UNIKV_STEPS", steps);
    let mix = Mix {
        steps,
        reads: false,
        crashes: false,
        reopens: true,
        busy: true,
    };
    explore_history(&History::draw(seed, mix), depth, tally);
}

/// As [`explore`], and cuts down what fails.
pub fn explore_and_shrink(history: &History, depth: Depth, tally: &mut Tally) -> Seen {
    // A shorter history has other calls, so all of its crash points are looked at, but not deeply.
    let quick = Depth {
        points: 200,
        nested_every: 0,
        nested_points: 0,
    };
    const MOST_RUNS: usize = 150;
    let seen = std::cell::RefCell::new(Seen::default());
    let sum = std::cell::RefCell::new(*tally);
    let check = |history: &History| {
        *seen.borrow_mut() = explore_history(history, depth, &mut sum.borrow_mut());
    };
    let recheck = |history: &History| {
        explore_history(history, quick, &mut Tally::default());
    };
    shrink::checked_by(history, check, recheck, MOST_RUNS);
    *tally = sum.into_inner();
    seen.into_inner()
}

/// Explores a history; returns what its undisturbed run did.
pub fn explore_history(history: &History, depth: Depth, tally: &mut Tally) -> Seen {
    let recording = moments::record(history);
    let (moments, seen) = (recording.moments, recording.seen);
    assert_deterministic(history, &moments);
    let calls = moments.len() as u64;
    tally.coverage.add(seen.coverage);
    tally.histories += 1;
    tally.calls += calls;
    let points = budget::points(calls, depth.points, history.seed);
    for at in points {
        let at = at.clamp(1, calls);
        let _at = story::scope("UNIKV_CRASH_AT", at);
        tally.points += 1;
        let nested =
            depth.nested_every > 0 && (at + history.seed).is_multiple_of(depth.nested_every);
        let nested = nested.then_some(depth.nested_points);
        explore_moment(
            &moments[at as usize - 1],
            history.seed ^ at << 8,
            nested,
            tally,
        );
    }
    seen
}

/// The same history makes the same calls, with the same bytes.
fn assert_deterministic(history: &History, moments: &[Moment]) {
    let again = moments::record(history).moments;
    assert_eq!(again.len(), moments.len(), "two runs of one seed differ");
    let last = |moments: &[Moment]| moments.last().map(|moment| fingerprint(&moment.disk));
    assert!(last(&again) == last(moments), "two runs of one seed differ");
}

/// Looks at one place in every way; with `nested`, recovery is cut too.
fn explore_moment(moment: &Moment, seed: u64, nested: Option<u64>, tally: &mut Tally) {
    story::begin();
    story::step(format!(
        "in operation {} the power is cut before call {}: {}",
        moment.standing.step, moment.call, moment.next
    ));
    let mut seen = BTreeSet::new();
    let few = moment.disk.pending_changes() <= FEW_FIRST;
    let has_turn = (moment.call + seed).is_multiple_of(EACH_FIRST_EVERY);
    // Where recovery is cut as well, each of the disks becomes many.
    let each_first = nested.is_none() && (few || has_turn);
    let ways = Back::all(&moment.disk, seed, each_first);
    for (way, back) in (moment.call..).zip(ways) {
        let _back = story::scope("UNIKV_KEEP", format!("{back:?}"));
        if !budget::chosen("UNIKV_KEEP", &format!("{back:?}")) {
            continue;
        }
        let disk = back.disk(&moment.disk);
        // What is not durable may matter after a kill, but not after a cut: nothing is left of it.
        let is_kill = matches!(back, Back::Killed);
        if !is_kill && !seen.insert(fingerprint(&disk)) {
            continue;
        }
        tally.recoveries += 1;
        let deep = way.is_multiple_of(DEEP_EVERY);
        let (oracle, config) = (&moment.standing.oracle, &moment.standing.config);
        let feeds = &moment.standing.feeds;
        let known = (&**config, Oracle::clone(oracle), feeds);
        story::place(|| tally.tokens_held += recover(&disk, known, back.ending(), deep));
        story::place(|| moment.standing.copies.verify(&disk));
        if let Some(points) = nested {
            story::place(|| {
                cut_recovery(&disk, &moment.standing, back.ending(), points, seed, tally)
            });
        }
    }
}

/// A copy of a disk, as it is after a crash of the kind of `ending`.
pub(crate) fn fork(disk: &SimVfs, ending: Ending) -> SimVfs {
    match ending {
        Ending::Kill => disk.process_kill(),
        // All that a power cut left is on the disk, so another one takes nothing away.
        Ending::PowerCut => disk.power_cut(Keep::Nothing),
    }
}

/// Opens a copy of a disk, which must hold what the oracle allows; a `deep` look also checks it
/// before and lets it live on. Copies go on with their tokens, or are refused with good reason;
/// returns how many have gone on.
pub(crate) fn recover(
    disk: &SimVfs,
    (config, mut oracle, feeds): (&Config, Oracle, &feed::Copies),
    ending: Ending,
    deep: bool,
) -> u64 {
    let disk = fork(disk, ending);
    if deep && has_database(&disk) {
        // A crash is not damage: the check says so even before anything is recovered.
        verify::check_clean(&disk);
    }
    // It shows what recovery is about to find, and goes on beside the next writer.
    let is_followed = deep && has_database(&disk) && !oracle.times.matters;
    let secondary = is_followed.then(|| secondaries::alone(&disk));
    let shown = |secondary: &Secondary| (secondaries::shown_by(secondary), secondary.commit_tag());
    let alone = secondary.as_ref().map(shown);
    let (db, _runtime) = verify::recovered(&disk, config, &mut oracle, ending);
    if let Some((alone, commit_tag)) = &alone {
        let what = "a secondary after a crash";
        secondaries::same(what, alone, &secondaries::held_by(&db));
        assert_eq!(*commit_tag, db.commit_tag(), "the mark of {what}");
    }
    let held = feeds.verify(&db, &oracle.times, ending);
    let held = held.unwrap_or_else(|err| panic!("the change feed fails: {err:?}"));
    if deep {
        let lost = feeds.lost(&db);
        let db = verify::lives_on(&disk, config, db, &mut oracle);
        lost.assert_refused(&db);
        let closed = db.close();
        closed.unwrap_or_else(|err| panic!("a close after recovery failed: {err:?}"));
    }
    if let Some(secondary) = secondary {
        let refreshed = secondary.refresh();
        refreshed.unwrap_or_else(|err| panic!("a refresh after a crash failed: {err:?}"));
        let shows = verify::scan(secondary.iter()).unwrap_or_else(|err| panic!("a scan: {err:?}"));
        let known = spaces::own(oracle.state(), 0);
        verify::same_pairs("a secondary of the next writer", &shows, &known);
    }
    held
}

/// Whether a database had been created by the time of the crash.
fn has_database(disk: &SimVfs) -> bool {
    disk.read_file(&Path::new(DIR).join("CURRENT")).is_some()
}

/// Cuts the power inside recovery at each of its calls, and now and then inside the recovery of
/// that.
fn cut_recovery(
    disk: &SimVfs,
    standing: &Standing,
    ending: Ending,
    points: u64,
    seed: u64,
    tally: &mut Tally,
) {
    let (config, feeds) = (&*standing.config, &standing.feeds);
    let mut oracle = Oracle::clone(&standing.oracle);
    if ending == Ending::PowerCut {
        // What the first recovery found is on the disk: no later one may find less.
        let found = fork(disk, ending);
        drop(verify::recovered(&found, config, &mut oracle, ending));
    }
    for second in chosen(
        &recovery_moments(&fork(disk, ending), config, &oracle),
        points,
    ) {
        let _nested = story::scope("UNIKV_NESTED_AT", second.call);
        // After a kill, what had reached the kernel was there for recovery to see, but only what
        // was synced is sure to outlast the power cut that followed.
        let disk = cut(second, seed);
        let mut known = (config, oracle.clone(), feeds);
        known.1.times.tries += 1;
        let deep = second.call % 8 == 1;
        tally.tokens_held += recover(&disk, known, Ending::PowerCut, deep);
        tally.recoveries += 1;
        tally.doubles += 1;
        if !(second.call + seed).is_multiple_of(THIRD_EVERY) {
            continue;
        }
        for third in chosen(&recovery_moments(&disk, config, &oracle), 2) {
            let _nested = story::scope("UNIKV_THIRD_AT", third.call);
            let mut known = (config, oracle.clone(), feeds);
            known.1.times.tries += 2;
            tally.tokens_held += recover(&cut(third, seed), known, Ending::PowerCut, false);
            tally.recoveries += 1;
            tally.triples += 1;
        }
    }
}

/// The moments of opening a database, and of what its background does at once.
fn recovery_moments(disk: &SimVfs, config: &Config, oracle: &Oracle) -> Vec<Moment> {
    let recorder = Recorder::attach(disk, &moments::standing(oracle.clone(), config));
    let (db, runtime) = verify::open_at(disk, config, 11, &oracle.times);
    runtime.run_until_idle();
    drop(db);
    recorder.finish().0
}

/// At most this many moments, evenly spread.
fn chosen(moments: &[Moment], most: u64) -> impl Iterator<Item = &Moment> {
    let step = (moments.len() as u64).div_ceil(most.max(1)).max(1);
    moments.iter().step_by(step as usize)
}

/// The disk after a cut at a moment of a recovery: in another way at each.
fn cut(moment: &Moment, seed: u64) -> SimVfs {
    let seed = seed ^ moment.call;
    let keeps = [
        Keep::Nothing,
        Keep::All,
        Keep::Prefix(seed),
        Keep::Sectors(seed),
        Keep::Torn(seed),
        Keep::First(seed / 6 % moment.disk.pending_changes().max(1)),
    ];
    moment.disk.power_cut(keeps[(seed % 6) as usize])
}
