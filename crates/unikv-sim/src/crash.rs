//! The crash explorer: one history, and the power cut at each call that changes the disk.
//!
//! A first run counts the calls. Then, for each place: run again up to that very call, cut, and
//! look at the disk in every way the machine may come back: the process alone killed; nothing
//! unsynced left; everything left; some prefix of each file; torn sectors. Each must recover to
//! a state the oracle allows, check clean, and live on. For some, recovery itself is cut at each
//! of its calls, and cut again, before anything is flushed.

use crate::budget;
use crate::config::Config;
use crate::history::{History, Mix};
use crate::oracle::{Ending, Oracle};
use crate::runner::{Coverage, DIR, MachineGone, Runner, Tolerance, env};
use crate::story;
use crate::verify;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use unikv::Db;
use unikv::vfs::sim::{Fault, Keep, SimRuntime, SimVfs};

/// How deep to look.
#[derive(Clone, Copy, Debug)]
pub struct Depth {
    /// Crash points per history; all of them if it has fewer.
    pub points: u64,
    /// Every how many crash points recovery itself is cut too.
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
    /// Recoveries that were checked.
    pub recoveries: u64,
    /// What the engines did in the first runs.
    pub coverage: Coverage,
}

/// The ways a machine comes back.
#[derive(Clone, Copy, Debug)]
enum Back {
    Killed,
    Cut(Keep),
}

impl Back {
    fn disk(self, vfs: &SimVfs) -> SimVfs {
        match self {
            Back::Killed => vfs.process_kill(),
            Back::Cut(keep) => vfs.power_cut(keep),
        }
    }

    fn ending(self) -> Ending {
        match self {
            Back::Killed => Ending::Kill,
            Back::Cut(_) => Ending::PowerCut,
        }
    }

    fn all(seed: u64) -> [Back; 7] {
        let cut = |keep| Back::Cut(keep);
        [
            Back::Killed,
            cut(Keep::Nothing),
            cut(Keep::All),
            cut(Keep::Prefix(seed)),
            cut(Keep::Prefix(seed + 1)),
            cut(Keep::Torn(seed)),
            cut(Keep::Torn(seed + 1)),
        ]
    }
}

/// Makes the `at`-th call from now on, counted from 1, the last one before the power goes.
/// The flag goes up when it does.
pub fn cut_at(vfs: &SimVfs, at: u64) -> Arc<AtomicBool> {
    let cut = Arc::new(AtomicBool::new(false));
    let (flag, mut count) = (cut.clone(), 0);
    vfs.set_fault(Box::new(move |_| {
        count += 1;
        if count == at {
            flag.store(true, Ordering::SeqCst);
            return Fault::PowerCut;
        }
        Fault::None
    }));
    cut
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
    let history = History::draw(seed, mix);
    let (calls, coverage) = run_through(&history);
    assert_eq!(
        calls,
        run_through(&history).0,
        "two runs of one seed differ"
    );
    tally.coverage.add(coverage);
    tally.histories += 1;
    tally.calls += calls;
    for (n, at) in budget::points(calls, depth.points, seed)
        .into_iter()
        .enumerate()
    {
        let _at = story::scope("UNIKV_CRASH_AT", at);
        tally.points += 1;
        let (vfs, oracle) = run_until_cut(&history, at);
        let nested = (n as u64 + seed).is_multiple_of(depth.nested_every);
        for (way, back) in Back::all(seed ^ at << 8).into_iter().enumerate() {
            let _back = story::scope("UNIKV_KEEP", format!("{back:?}"));
            let disk = back.disk(&vfs);
            let deep = (n + way) % 3 == 0;
            story::place(|| {
                let oracle = oracle.clone();
                recover(&disk, &history.config, oracle, back.ending(), deep);
            });
            tally.recoveries += 1;
            if nested {
                cut_recovery(
                    &disk,
                    &history.config,
                    &oracle,
                    back.ending(),
                    depth,
                    seed,
                    tally,
                );
            }
        }
    }
}

/// Plays the history undisturbed: how many calls it makes, and what it leads to.
fn run_through(history: &History) -> (u64, Coverage) {
    let vfs = SimVfs::new();
    let mut runner = Runner::new(history, vfs.clone(), Tolerance::None);
    runner.play(&history.ops).expect("the machine is there");
    (vfs.calls(), runner.finish())
}

fn run_until_cut(history: &History, at: u64) -> (SimVfs, Oracle) {
    let vfs = SimVfs::new();
    let cut = cut_at(&vfs, at);
    let mut runner = Runner::new(history, vfs.clone(), Tolerance::UntilCut(cut));
    let ended = runner.play(&history.ops);
    assert!(
        matches!(ended, Err(MachineGone)),
        "the run has fewer calls than the first one"
    );
    story::step("the power is cut".to_owned());
    (vfs, std::mem::take(&mut runner.oracle))
}

/// A copy of a disk, as it is after a crash of the kind of `ending`.
fn fork(disk: &SimVfs, ending: Ending) -> SimVfs {
    match ending {
        Ending::Kill => disk.process_kill(),
        // All that a power cut left is on the disk, so another one takes nothing away.
        Ending::PowerCut => disk.power_cut(Keep::Nothing),
    }
}

fn recover(disk: &SimVfs, config: &Config, mut oracle: Oracle, ending: Ending, deep: bool) {
    let disk = fork(disk, ending);
    if deep && has_database(&disk) {
        // A crash is not damage: the check says so even before anything is recovered.
        verify::check_clean(&disk);
    }
    let (db, _runtime) = verify::recovered(&disk, config, &mut oracle, ending);
    if deep {
        verify::lives_on(&disk, config, db, &mut oracle);
    }
}

/// Whether a database had been created by the time of the crash.
fn has_database(disk: &SimVfs) -> bool {
    disk.read_file(&Path::new(DIR).join("CURRENT")).is_some()
}

/// Cuts the power inside recovery at each of its calls, then inside the recovery of that.
fn cut_recovery(
    disk: &SimVfs,
    config: &Config,
    oracle: &Oracle,
    ending: Ending,
    depth: Depth,
    seed: u64,
    tally: &mut Tally,
) {
    let probe = fork(disk, ending);
    let before = probe.calls();
    drop(verify::open(&probe, config, 11));
    let calls = probe.calls() - before;
    let mut oracle = oracle.clone();
    if ending == Ending::PowerCut {
        // What the first recovery found is on the disk: no later one may find less.
        drop(verify::recovered(
            &fork(disk, ending),
            config,
            &mut oracle,
            ending,
        ));
    }
    for at in spread(calls, depth.nested_points) {
        let _nested = story::scope("UNIKV_NESTED_AT", at);
        let mut disk = fork(disk, ending);
        let mut ending = ending;
        for round in 0..2u64 {
            open_until_cut(&disk, config, at + round);
            let keep = [
                Keep::Nothing,
                Keep::All,
                Keep::Prefix(seed ^ at),
                Keep::Torn(seed ^ at),
            ];
            let keep = keep[(at + round) as usize % 4];
            disk = disk.power_cut(keep);
            // After a kill, what had reached the kernel was there for recovery to see, but only
            // what was synced is sure to outlast the power cut that followed.
            ending = Ending::PowerCut;
        }
        recover(&disk, config, oracle.clone(), ending, at % 4 == 1);
        tally.recoveries += 1;
    }
}

fn spread(count: u64, most: u64) -> Vec<u64> {
    let step = count.div_ceil(most.max(1)).max(1);
    (1..=count).step_by(step as usize).collect()
}

/// Opens the database on `disk` with the power cut at call `at`, or later on after a write.
fn open_until_cut(disk: &SimVfs, config: &Config, at: u64) {
    let cut = cut_at(disk, at);
    let runtime = SimRuntime::new(at);
    match Db::open_in(env(disk, &runtime), DIR, config.options()) {
        Ok(db) => {
            // Recovery was done before the cut, or did not need the call that was cut.
            while runtime.run_one() && !cut.load(Ordering::SeqCst) {}
            drop(db);
        }
        Err(err) => assert!(cut.load(Ordering::SeqCst), "recovery failed: {err:?}"),
    }
}
