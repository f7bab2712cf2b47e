//! Storms: a drawn history in which errors of the disk come again and again.
//!
//! The fault explorer lets one call fail; here any may, by rules about kinds of files and calls,
//! each with a probability. The verdict is the same: every answer is right or a typed error,
//! nothing that was acknowledged is lost to a crash, writing comes back when the errors end, and
//! the database then opens and is whole.

use crate::fault;
use crate::history::History;
use crate::oracle::Ending;
use crate::runner::{Runner, Storms, Tolerance};
use crate::story;
use crate::verify;
use rand::rngs::SmallRng;
use rand::seq::IndexedRandom;
use rand::{Rng, SeedableRng};
use std::io::ErrorKind;
use unikv::vfs::sim::{Fault, Keep, Op, Rule, SimVfs};

/// Kinds of files by their paths; the last stands for all of them and the directory.
const FILES: [&str; 6] = ["*.wal", "*.rec", "*.key", "*/MANIFEST-*", "*/CURRENT*", "*"];
/// Calls that change the disk, as they fail together.
const CHANGES: [&[Op]; 5] = [
    &[Op::Append],
    &[Op::Sync, Op::Finish],
    &[Op::Create],
    &[Op::SyncDir, Op::Rename],
    &[Op::Remove],
];
/// Calls that only look.
const LOOKS: [&[Op]; 3] = [
    &[Op::Read],
    &[Op::Open],
    &[Op::List, Op::Len, Op::FreeSpace],
];

/// Several rules: some about changes, one about looks.
pub fn errors(seed: u64) -> Vec<Rule> {
    let mut rng = SmallRng::seed_from_u64(seed);
    let mut rules = Vec::new();
    for n in 0..rng.random_range(2..6) {
        let looks = n == 0;
        let (calls, chances) = if looks {
            (&LOOKS[..], &[0.001, 0.01, 0.03])
        } else {
            (&CHANGES[..], &[0.01, 0.1, 0.3])
        };
        let fault = match rng.random_range(0..4) {
            0 if !looks => Fault::Fail(ErrorKind::StorageFull),
            1 if !looks => Fault::FailAfter {
                bytes: rng.random_range(0..600),
            },
            _ => Fault::Fail(ErrorKind::Other),
        };
        let files = FILES.choose(&mut rng).expect("a choice");
        let calls = calls.choose(&mut rng).expect("a choice");
        let chance = *chances.choose(&mut rng).expect("a choice");
        let rule = Rule::new(fault).path(files).on(calls);
        rules.push(rule.chance(chance, rng.random()));
    }
    rules
}

/// The process is out of file descriptors: always, or nearly so; now and then for new files alone.
pub fn no_descriptors(seed: u64) -> Vec<Rule> {
    const ALL: &[Op] = &[Op::Create, Op::Lock, Op::SyncDir, Op::Open, Op::List];
    let mut rng = SmallRng::seed_from_u64(seed);
    let calls = *[ALL, ALL, &[Op::Create], &[Op::Open]]
        .choose(&mut rng)
        .expect("a choice");
    let chance = *[1.0, 1.0, 0.7, 0.2].choose(&mut rng).expect("a choice");
    let rule = Rule::new(Fault::Os(fault::OUT_OF_DESCRIPTORS)).on(calls);
    vec![rule.chance(chance, rng.random())]
}

/// Runs the history drawn from `seed` in storms of these rules. Returns how many calls of the
/// engine have failed.
pub fn run(seed: u64, steps: usize, rules: fn(u64) -> Vec<Rule>) -> u64 {
    let _seed = story::scope("UNIKV_SEED", seed);
    let _steps = story::scope("UNIKV_STEPS", steps);
    play(&fault::draw(seed, steps), rules)
}

fn play(history: &History, rules: fn(u64) -> Vec<Rule>) -> u64 {
    let storms = Tolerance::Storms(Storms::new(history.seed, rules));
    let mut runner = Runner::new(history, SimVfs::new(), storms);
    runner.play(&history.ops).expect("the machine is there");
    runner.calm();
    runner.check_all().expect("the machine is there");
    let killed = runner.vfs.process_kill();
    let mut oracle = runner.crashed();
    verify::recovered(&killed, &history.config, &mut oracle, Ending::Kill);
    let cut = runner.vfs.power_cut(Keep::Torn(history.seed));
    let mut oracle = runner.crashed();
    verify::recovered(&cut, &history.config, &mut oracle, Ending::PowerCut);
    let failed = runner.faults_seen();
    runner.finish();
    failed
}
