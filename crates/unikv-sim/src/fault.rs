//! The fault explorer: one history, and one error of the disk at each of its calls.
//!
//! The engine goes on after the error. After a failed change, reads never fail and never answer
//! wrong; a failed write is there whole or not at all; writing comes back after a flush or, where
//! the manifest is concerned, after reopening. After a failed look (opening, listing, lengths,
//! reads, free space) whatever needed it may fail, and works when it is done again. What was
//! acknowledged is there after a clean reopening, a kill, and, if synced, a power cut. Snapshots
//! and iterators are held across all that, and go on.
//!
//! Behind a failed sync or rename the power is cut, too: see [`aftermath`].

use crate::aftermath::{self, Aftermath};
use crate::budget;
use crate::history::{Exit, History, Mix};
use crate::oracle::Ending;
use crate::runner::{Coverage, Interrupt, Runner, Tolerance};
use crate::shrink;
use crate::story;
use crate::verify;
use std::cell::RefCell;
use std::io;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use unikv::vfs::sim::{Fault, FaultRule, Keep, Op, SimVfs};

/// The number of the error "too many open files".
pub(crate) const OUT_OF_DESCRIPTORS: i32 = 24;
/// How many calls in a row fail for want of descriptors.
const OUT_FOR: u64 = 3;

/// Every how manieth of the errors other than [`Kind::Io`] is followed by power cuts.
const CROSSED_EVERY: u64 = 4;

/// The errors that are injected.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// The call does nothing and fails.
    Io,
    /// The disk is full for this call.
    Full,
    /// A part of the bytes is written, then the call fails.
    Short,
    /// The process is out of file descriptors, for some calls.
    Descriptors,
}

impl Kind {
    /// All of them.
    pub const ALL: [Kind; 4] = [Kind::Io, Kind::Full, Kind::Short, Kind::Descriptors];

    fn fault(self, bytes: usize) -> Fault {
        match self {
            Kind::Io => Fault::Fail(io::ErrorKind::Other),
            Kind::Full => Fault::Fail(io::ErrorKind::StorageFull),
            Kind::Short => Fault::FailAfter { bytes: bytes / 2 },
            Kind::Descriptors => Fault::Os(OUT_OF_DESCRIPTORS),
        }
    }

    /// Whether such a call can fail like this.
    fn applies_to(self, op: Op) -> bool {
        match self {
            Kind::Io => true,
            Kind::Full => op.changes_disk() && !matches!(op, Op::Remove | Op::RemoveDir),
            Kind::Short => op == Op::Append,
            Kind::Descriptors => {
                matches!(
                    op,
                    Op::Create | Op::Lock | Op::SyncDir | Op::Open | Op::List
                )
            }
        }
    }
}

/// What was looked at.
#[derive(Clone, Copy, Debug, Default)]
pub struct Tally {
    /// Errors injected into calls that change the disk.
    pub faults: u64,
    /// Of these, those after which the power was cut.
    pub crossed: u64,
    /// Disks that were recovered after such cuts.
    pub cuts: u64,
    /// Errors injected into calls that only look.
    pub failed_looks: u64,
    /// Places of both kinds.
    pub points: u64,
    /// Calls of all histories: those that change the disk, and those that only look.
    pub calls: u64,
    /// The latter.
    pub looks: u64,
    /// Histories explored.
    pub histories: u64,
    /// What the engines did while nothing disturbed them.
    pub coverage: Coverage,
}

/// Explores the history drawn from `seed`: calls that change the disk.
pub fn explore(seed: u64, steps: usize, points: u64, tally: &mut Tally) {
    let _seed = story::scope("UNIKV_SEED", seed);
    let _steps = story::scope("UNIKV_STEPS", steps);
    explore_history(&draw(seed, steps), (points, 0), tally);
}

/// As [`explore_history`], and cuts down what fails.
pub fn explore_and_shrink(history: &History, points: (u64, u64), tally: &mut Tally) {
    const MOST_RUNS: usize = 60;
    const QUICK: u64 = 60;
    let sum = RefCell::new(*tally);
    let check = |history: &History| explore_history(history, points, &mut sum.borrow_mut());
    let recheck = |history: &History| {
        let points = (points.0.min(QUICK), points.1.min(QUICK));
        explore_history(history, points, &mut Tally::default());
    };
    shrink::checked_by(history, check, recheck, MOST_RUNS);
    *tally = sum.into_inner();
}

/// Explores a history: this many of its calls that change the disk, and this many of those that
/// look.
pub fn explore_history(history: &History, points: (u64, u64), tally: &mut Tally) {
    let (calls, looks, coverage) = run_through(history);
    tally.histories += 1;
    tally.coverage.add(coverage);
    tally.calls += (calls.len() + looks.len()) as u64;
    tally.looks += looks.len() as u64;
    for (ops, most) in [(calls, points.0), (looks, points.1)] {
        if most == 0 {
            continue;
        }
        for at in budget::points(ops.len() as u64, most, history.seed) {
            let _at = story::scope("UNIKV_CRASH_AT", at);
            let Some(&op) = ops.get(at as usize - 1) else {
                continue;
            };
            tally.points += 1;
            for (k, kind) in (at..).zip(Kind::ALL) {
                if !kind.applies_to(op) || !is_turn_of(kind, at) {
                    continue;
                }
                let _kind = story::scope("UNIKV_FAULT", format!("{kind:?}"));
                story::place(|| inject(history, (op, at), kind, k, tally));
                tally.faults += u64::from(op.changes_disk());
                tally.failed_looks += u64::from(!op.changes_disk());
            }
        }
    }
}

/// Whether the call at this place fails like that, too. Of the errors other than [`Kind::Io`] one
/// takes its turn at a place, unless more is asked for.
fn is_turn_of(kind: Kind, at: u64) -> bool {
    if budget::replays() {
        return budget::chosen("UNIKV_FAULT", &format!("{kind:?}"));
    }
    kind == Kind::Io || budget::is_thorough() || kind as u64 == 1 + at % 3
}

/// The history drawn from `seed`: with reads and reopenings, without crashes.
pub(crate) fn draw(seed: u64, steps: usize) -> History {
    let mix = Mix {
        steps,
        reads: true,
        crashes: false,
        reopens: true,
        busy: true,
    };
    History::draw(seed, mix)
}

/// The calls that the history makes when nothing disturbs it: those that change the disk, those
/// that only look; and what the engine did.
fn run_through(history: &History) -> (Vec<Op>, Vec<Op>, Coverage) {
    let vfs = SimVfs::new();
    let (calls, looks) = <(Arc<Mutex<Vec<Op>>>, Arc<Mutex<Vec<Op>>>)>::default();
    let note = |ops: &Arc<Mutex<Vec<Op>>>| {
        let ops = ops.clone();
        move |op| ops.lock().expect("nobody panics with it").push(op)
    };
    let (call, look) = (note(&calls), note(&looks));
    vfs.set_fault(Box::new(move |made| {
        call(made.op);
        Fault::None
    }));
    vfs.set_look_fault(Box::new(move |made| {
        look(made.op);
        Fault::None
    }));
    let mut runner = Runner::new(history, vfs.clone(), Tolerance::None).unfollowed();
    runner.play(&history.ops).expect("the machine is there");
    vfs.clear_faults();
    let take = |ops: Arc<Mutex<Vec<Op>>>| std::mem::take(&mut *ops.lock().expect("unpoisoned"));
    (take(calls), take(looks), runner.finish())
}

/// Runs `history` with the `at`-th call that changes the disk, or that looks, failing, and looks at
/// the disk afterwards.
fn inject(history: &History, (op, at): (Op, u64), kind: Kind, n: u64, tally: &mut Tally) {
    let vfs = SimVfs::new();
    let hit = Arc::new(AtomicBool::new(false));
    let tolerance = if op.changes_disk() {
        Tolerance::AfterFault {
            hit: hit.clone(),
            reopens: n % 3 == 1,
        }
    } else {
        Tolerance::AfterReadFault(hit.clone())
    };
    let mut runner = Runner::new(history, vfs.clone(), tolerance);
    // The other errors leave the disk as this one does, but the engine takes some of them
    // otherwise.
    let crosses = aftermath::follows(op) && (kind == Kind::Io || n.is_multiple_of(CROSSED_EVERY));
    let aftermath = crosses.then(|| Aftermath::new(&vfs, runner.watch()));
    let rule = failing(at, kind, hit.clone(), aftermath.clone());
    if op.changes_disk() {
        vfs.set_fault(rule)
    } else {
        vfs.set_look_fault(rule)
    }
    runner.play(&history.ops).expect("the machine is there");
    assert!(hit.load(Ordering::SeqCst), "the run has no such call");
    vfs.clear_faults();
    runner.check_all().expect("the machine is there");

    let mut oracle = runner.crashed();
    if n.is_multiple_of(2) {
        let killed = vfs.process_kill();
        verify::recovered(&killed, &history.config, &mut oracle, Ending::Kill);
    } else {
        let keeps = [Keep::Nothing, Keep::Sectors(at), Keep::Torn(at)];
        let cut = vfs.power_cut(keeps[(at % 3) as usize]);
        verify::recovered(&cut, &history.config, &mut oracle, Ending::PowerCut);
    }
    let reopened = runner.reopen(Exit::Close, None);
    match reopened {
        Err(Interrupt::MachineGone) => panic!("the machine is there"),
        Ok(()) | Err(Interrupt::ReadFailed) => runner.finish(),
    };
    if let Some(aftermath) = aftermath {
        tally.crossed += 1;
        tally.cuts += aftermath.explore(history.seed ^ n);
    }
}

/// The rule that lets the `at`-th call fail and raises the flag.
fn failing(at: u64, kind: Kind, hit: Arc<AtomicBool>, behind: Option<Aftermath>) -> FaultRule {
    let mut count = 0;
    let last = match kind {
        Kind::Descriptors => at + OUT_FOR - 1,
        _ => at,
    };
    Box::new(move |call| {
        count += 1;
        if !(at..=last).contains(&count) || !kind.applies_to(call.op) {
            if let Some(aftermath) = behind.as_ref().filter(|_| count > at) {
                aftermath.next(call);
            }
            return Fault::None;
        }
        hit.store(true, Ordering::SeqCst);
        if let Some(aftermath) = &behind {
            aftermath.failed(call);
        }
        story::step(format!(
            "   the fault: {:?} of {}",
            call.op,
            call.path.display()
        ));
        kind.fault(call.bytes)
    })
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
    let (calls, _, _) = run_through(&history);
    let mut failed = 0;
    for at in budget::points(calls.len() as u64, points, seed) {
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
    let mut oracle = runner.crashed();
    verify::recovered(&killed, &history.config, &mut oracle, Ending::Kill);
    let cut = vfs.power_cut(Keep::Torn(at));
    let mut oracle = runner.crashed();
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
