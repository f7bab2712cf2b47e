//! The fault explorer: one history, and one error of the disk at each call that changes it.
//!
//! The engine goes on after the error. Reads never fail and never answer wrong; a failed write is
//! there whole or not at all; writing comes back after a flush or, where the manifest is
//! concerned, after reopening; what was acknowledged is there after a clean reopening, a kill,
//! and, if synced, a power cut.

use crate::budget;
use crate::history::{Exit, History, Mix};
use crate::oracle::Ending;
use crate::runner::{Coverage, Runner, Tolerance};
use crate::story;
use crate::verify;
use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use unikv::vfs::sim::{Fault, Keep, SimVfs};

/// The errors that are injected.
#[derive(Clone, Copy, Debug)]
pub enum Kind {
    /// The call does nothing and fails.
    Io,
    /// The disk is full for this call.
    Full,
    /// A part of the bytes is written, then the call fails.
    Short,
}

impl Kind {
    /// All of them.
    pub const ALL: [Kind; 3] = [Kind::Io, Kind::Full, Kind::Short];

    fn fault(self, bytes: usize) -> Fault {
        match self {
            Kind::Io => Fault::Fail(io::ErrorKind::Other),
            Kind::Full => Fault::Fail(io::ErrorKind::StorageFull),
            Kind::Short => Fault::FailAfter { bytes: bytes / 2 },
        }
    }
}

/// What was looked at.
#[derive(Clone, Copy, Debug, Default)]
pub struct Tally {
    /// Errors injected.
    pub faults: u64,
    /// Histories explored.
    pub histories: u64,
    /// What the engines did while nothing disturbed them.
    pub coverage: Coverage,
}

/// Explores the history drawn from `seed`.
pub fn explore(seed: u64, steps: usize, points: u64, tally: &mut Tally) {
    let _seed = story::scope("UNIKV_SEED", seed);
    let _steps = story::scope("UNIKV_STEPS", steps);
    let history = draw(seed, steps);
    let (calls, coverage) = run_through(&history);
    tally.histories += 1;
    tally.coverage.add(coverage);
    for (n, at) in budget::points(calls, points, seed).into_iter().enumerate() {
        let _at = story::scope("UNIKV_CRASH_AT", at);
        for (k, kind) in Kind::ALL.into_iter().enumerate() {
            let _kind = story::scope("UNIKV_FAULT", format!("{kind:?}"));
            story::place(|| inject(&history, at, kind, n + k));
            tally.faults += 1;
        }
    }
}

/// The history drawn from `seed`: with reads and reopenings, without crashes.
fn draw(seed: u64, steps: usize) -> History {
    let mix = Mix {
        steps,
        reads: true,
        crashes: false,
        reopens: true,
        busy: true,
    };
    History::draw(seed, mix)
}

/// How many calls the history makes when nothing disturbs it, and what the engine did.
fn run_through(history: &History) -> (u64, Coverage) {
    let vfs = SimVfs::new();
    let mut runner = Runner::new(history, vfs.clone(), Tolerance::None);
    runner.play(&history.ops).expect("the machine is there");
    (vfs.calls(), runner.finish())
}

/// Runs `history` with the `at`-th call failing, and looks at the disk afterwards.
fn inject(history: &History, at: u64, kind: Kind, n: usize) {
    let vfs = SimVfs::new();
    let hit = Arc::new(AtomicBool::new(false));
    let (flag, mut count) = (hit.clone(), 0);
    vfs.set_fault(Box::new(move |call| {
        count += 1;
        if count != at {
            return Fault::None;
        }
        flag.store(true, Ordering::SeqCst);
        story::step(format!(
            "   the fault: {:?} of {}",
            call.op,
            call.path.display()
        ));
        kind.fault(call.bytes)
    }));
    let reopens = n % 3 == 1;
    let tolerance = Tolerance::AfterFault { hit, reopens };
    let mut runner = Runner::new(history, vfs.clone(), tolerance);
    runner.play(&history.ops).expect("the machine is there");
    runner.check_all().expect("the machine is there");

    let killed = vfs.process_kill();
    let mut oracle = runner.oracle.clone();
    verify::recovered(&killed, &history.config, &mut oracle, Ending::Kill);
    let cut = vfs.power_cut(if n.is_multiple_of(2) {
        Keep::Nothing
    } else {
        Keep::Torn(at)
    });
    let mut oracle = runner.oracle.clone();
    verify::recovered(&cut, &history.config, &mut oracle, Ending::PowerCut);
    runner
        .reopen(Exit::Close, None)
        .expect("the machine is there");
    runner.finish();
}

/// Runs the history drawn from `seed` on a disk that becomes full, and has room again once the
/// engine has said so. Returns whether it ever became full.
pub fn fill_the_disk(seed: u64, steps: usize) -> bool {
    let _seed = story::scope("UNIKV_SEED", seed);
    let _steps = story::scope("UNIKV_STEPS", steps);
    let history = draw(seed, steps);
    let vfs = SimVfs::new();
    let full = Arc::new(AtomicBool::new(true));
    let (hit, reopens) = (full, seed.is_multiple_of(3));
    let tolerance = Tolerance::AfterFault { hit, reopens };
    let mut runner = Runner::new(&history, vfs.clone(), tolerance);
    // From a few kilobytes, which creation may exceed, to more than most histories use.
    vfs.set_free_space(Some(
        2_000 + seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) % 100_000,
    ));
    runner.play(&history.ops).expect("the machine is there");
    let faults = runner.faults_seen();
    vfs.set_free_space(None);
    runner.finish();
    faults > 0
}

/// Runs the history drawn from `seed` again and again, each time with the disk full, or nearly so,
/// from another call on, for some operations. Reads are right at all times, what is refused is not
/// there, and writing resumes by itself. Returns how many calls have failed.
pub fn run_short_of_space(seed: u64, steps: usize, points: u64) -> u64 {
    let _seed = story::scope("UNIKV_SEED", seed);
    let _steps = story::scope("UNIKV_STEPS", steps);
    let history = draw(seed, steps);
    let (calls, _) = run_through(&history);
    let mut failed = 0;
    for at in budget::points(calls, points, seed) {
        let _at = story::scope("UNIKV_CRASH_AT", at);
        story::place(|| failed += with_little_space_at(&history, at));
    }
    failed
}

fn with_little_space_at(history: &History, at: u64) -> u64 {
    let vfs = SimVfs::new();
    let short = Arc::new(AtomicBool::new(false));
    let (flag, disk, mut count) = (short.clone(), vfs.clone(), 0);
    // Nothing at all, less than a ballast, about a ballast with its reserve.
    let room = [0, 100, 3_000, 10_000, 20_000][(at % 5) as usize];
    vfs.set_fault(Box::new(move |_| {
        count += 1;
        if count == at {
            story::step(format!("   only {room} bytes are free"));
            disk.set_free_space(Some(room));
            flag.store(true, Ordering::SeqCst);
        }
        Fault::None
    }));
    let mut runner = Runner::new(history, vfs.clone(), Tolerance::ShortOfSpace(short));
    runner.play(&history.ops).expect("the machine is there");
    runner.end_shortage(true).expect("the machine is there");
    runner.check_all().expect("the machine is there");
    let killed = vfs.process_kill();
    let mut oracle = runner.oracle.clone();
    verify::recovered(&killed, &history.config, &mut oracle, Ending::Kill);
    let cut = vfs.power_cut(Keep::Torn(at));
    let mut oracle = runner.oracle.clone();
    verify::recovered(&cut, &history.config, &mut oracle, Ending::PowerCut);
    let failed = runner.faults_seen();
    runner.finish();
    failed
}

/// Runs the history drawn from `seed`, then lets reads of the disk fail. Every answer is right or
/// a typed error, and everything is right again afterwards. Returns how many reads failed.
pub fn fail_reads(seed: u64, steps: usize) -> u64 {
    let _seed = story::scope("UNIKV_SEED", seed);
    let _steps = story::scope("UNIKV_STEPS", steps);
    let mix = Mix {
        steps,
        reads: false,
        crashes: false,
        reopens: false,
        busy: true,
    };
    let history = History::draw(seed, mix);
    let vfs = SimVfs::new();
    let mut runner = Runner::new(&history, vfs.clone(), Tolerance::None);
    runner.play(&history.ops).expect("the machine is there");
    let failed = Arc::new(AtomicU64::new(0));
    let (count, mut n) = (failed.clone(), seed);
    vfs.set_read_fault(Box::new(move |_| {
        n += 1;
        (n % 3 == 0).then(|| {
            count.fetch_add(1, Ordering::SeqCst);
            io::ErrorKind::Other
        })
    }));
    runner.check_right_or_failed();
    vfs.clear_faults();
    // Failed jobs are tried again after a while.
    runner.let_time_pass();
    runner.check_all().expect("the machine is there");
    runner.finish();
    failed.load(Ordering::SeqCst)
}
