//! The fault explorer: one history, and one error of the disk at each call that changes it.
//!
//! The engine goes on after the error. Reads never fail and never answer wrong; a failed write is
//! there whole or not at all; writing comes back after a flush or, where the manifest is
//! concerned, after reopening; what was acknowledged is there after a clean reopening, a kill,
//! and, if synced, a power cut.

use crate::budget;
use crate::history::{Exit, History, Mix};
use crate::oracle::Ending;
use crate::runner::{Runner, Tolerance};
use crate::story;
use crate::verify;
use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
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
}

/// Explores the history drawn from `seed`.
pub fn explore(seed: u64, steps: usize, points: u64, tally: &mut Tally) {
    let _seed = story::scope("UNIKV_SEED", seed);
    let _steps = story::scope("UNIKV_STEPS", steps);
    let mix = Mix { steps, reads: true, crashes: false, reopens: true };
    let history = History::draw(seed, mix);
    let calls = {
        let vfs = SimVfs::new();
        let mut runner = Runner::new(&history, vfs.clone(), Tolerance::None);
        runner.play(&history.ops).expect("the machine is there");
        vfs.calls()
    };
    for (n, at) in budget::points(calls, points, seed).into_iter().enumerate() {
        let _at = story::scope("UNIKV_CRASH_AT", at);
        for (k, kind) in Kind::ALL.into_iter().enumerate() {
            let _kind = story::scope("UNIKV_FAULT", format!("{kind:?}"));
            inject(&history, at, kind, n + k);
            tally.faults += 1;
        }
    }
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
        story::step(format!("   the fault: {:?} of {}", call.op, call.path.display()));
        kind.fault(call.bytes)
    }));
    let mut runner = Runner::new(history, vfs.clone(), Tolerance::AfterFault(hit));
    runner.play(&history.ops).expect("the machine is there");
    runner.check_all().expect("the machine is there");

    let killed = vfs.process_kill();
    let mut oracle = runner.oracle.clone();
    verify::recovered(&killed, &history.config, &mut oracle, Ending::Kill);
    let cut = vfs.power_cut(if n % 2 == 0 { Keep::Nothing } else { Keep::Torn(at) });
    let mut oracle = runner.oracle.clone();
    verify::recovered(&cut, &history.config, &mut oracle, Ending::PowerCut);
    runner.reopen(Exit::Close, None).expect("the machine is there");
    runner.finish();
}
