//! Long histories against the oracle, with reads, snapshots, iterators, kills and power cuts.

use std::cell::RefCell;
use std::path::PathBuf;
use unikv::vfs::sim::SimVfs;
use unikv_sim::history::{History, Mix, Op};
use unikv_sim::moments::fingerprint;
use unikv_sim::runner::{self, Coverage, Runner, Tolerance};
use unikv_sim::{budget, shrink, story};

/// What the histories of a test did.
#[derive(Debug, Default)]
struct Sum {
    runs: u64,
    operations: u64,
    coverage: Coverage,
}

impl Sum {
    fn assert_covers(&self) {
        let (it, runs) = (self.coverage, self.runs);
        let enough = it.flushes > 5 * runs
            && it.merges > runs
            && it.splits > runs
            && it.joins > runs / 10
            && it.scan_merges > runs
            && it.clusterings > runs / 40
            && it.large > 5 * runs
            && it.ingests > runs
            && it.gcs > runs
            && it.ridden_bytes > 1000 * runs
            && it.clustered_bytes > 1000 * runs
            && (it.exports.min(it.imports) > runs / 4 || runs < 100)
            && (it.followed > 0 && it.changes > 10 * runs && it.histories_gone > 0 || runs < 100)
            && it.collisions > 20 * runs;
        println!("{self:?}");
        assert!(enough || budget::replays(), "{self:?}");
    }
}

fn run_seeds(first: u64, count: u64, steps: usize, mix: fn(usize) -> Mix) {
    let sum = RefCell::new(Sum::default());
    for seed in budget::seeds(first, count) {
        let steps = budget::steps(steps);
        let _seed = story::scope("UNIKV_SEED", seed);
        let _steps = story::scope("UNIKV_STEPS", steps);
        shrink::checked(&History::draw(seed, mix(steps)), |history| {
            let coverage = runner::run(history);
            let mut sum = sum.borrow_mut();
            sum.runs += 1;
            sum.operations += history.ops.len() as u64;
            sum.coverage.add(coverage);
        });
    }
    sum.into_inner().assert_covers();
}

/// Plays the same operations under three choices of options; all answers are the same.
fn compare_seeds(first: u64, count: u64) {
    let sum = RefCell::new(Sum::default());
    for seed in budget::share_of_seeds(first, count, PARTS) {
        let steps = budget::steps(1000);
        let _seed = story::scope("UNIKV_SEED", seed);
        let _steps = story::scope("UNIKV_STEPS", steps);
        // Half of them are never reopened, so that snapshots grow old.
        let mix = Mix {
            steps,
            reads: true,
            crashes: seed % 4 == 0,
            reopens: seed % 2 == 0,
            busy: false,
        };
        let drawn = History::draw(seed, mix).without_power_cuts();
        let answers = RefCell::new(Vec::new());
        for (n, history) in [drawn.clone()].iter().chain(&drawn.variants()).enumerate() {
            if !budget::chosen("UNIKV_VARIANT", &n.to_string()) {
                continue;
            }
            let _variant = story::scope("UNIKV_VARIANT", n);
            shrink::checked(history, |history| {
                let (coverage, answered) = runner::run_for_answers(history);
                let mut sum = sum.borrow_mut();
                sum.runs += 1;
                sum.operations += history.ops.len() as u64;
                sum.coverage.add(coverage);
                answers.borrow_mut().push(answered);
            });
        }
        let answers = answers.into_inner();
        let same = answers.windows(2).all(|pair| pair[0] == pair[1]);
        assert!(same, "the answers depend on the options: {answers:x?}");
    }
    let sum = sum.into_inner();
    let it = sum.coverage;
    assert!(
        it.outlived.all_at_least(sum.runs) && it.rebuilt_collisions > sum.runs || budget::replays(),
        "{sum:?}"
    );
    assert!(
        sum.operations >= sum.runs * 1000 || budget::replays(),
        "{sum:?}"
    );
    sum.assert_covers();
}

/// This many tests share the seeds of the comparison.
const PARTS: u64 = 8;

/// Several tests, so that they run at the same time.
macro_rules! comparisons {
    ($($name:ident: $first:expr),* $(,)?) => {
        $(#[test]
        fn $name() {
            compare_seeds($first, 320 / PARTS);
        })*
    };
}

comparisons!(
    answers_do_not_depend_on_options_1: 1_000_000,
    answers_do_not_depend_on_options_2: 2_000_000,
    answers_do_not_depend_on_options_3: 3_000_000,
    answers_do_not_depend_on_options_4: 4_000_000,
    answers_do_not_depend_on_options_5: 5_000_000,
    answers_do_not_depend_on_options_6: 6_000_000,
    answers_do_not_depend_on_options_7: 7_000_000,
    answers_do_not_depend_on_options_8: 8_000_000,
);

#[test]
fn histories_with_kills_and_power_cuts_agree_with_the_oracle() {
    run_seeds(1000, 300, 400, |steps| Mix {
        steps,
        reads: true,
        crashes: true,
        reopens: true,
        busy: false,
    });
}

#[test]
fn long_histories_without_reopening_agree_with_the_oracle() {
    run_seeds(2004, 12, 5000, |steps| Mix {
        steps,
        reads: true,
        crashes: false,
        reopens: false,
        busy: false,
    });
}

/// What is on a disk, but for what manifests and exports say, which have a time.
fn fingerprint_without_times(vfs: &SimVfs) -> u64 {
    let vfs = vfs.process_kill();
    let has_time = |path: &PathBuf| {
        let path = path.to_string_lossy();
        path.contains("MANIFEST") || path.starts_with("/export")
    };
    for path in vfs.file_names().into_iter().filter(has_time) {
        let len = vfs.read_file(&path).map_or(0, |bytes| bytes.len());
        vfs.write_file(&path, &len.to_le_bytes());
    }
    fingerprint(&vfs)
}

/// Nothing the engine does or writes follows from the wall clock, wherever it jumps, where nothing
/// expires, but the times that openings and exports note. A guard:
/// outside `vfs` the engine never reads that clock, which `tests/layers.rs` of the engine enforces,
/// so this can fail only once a reader is allowed there, or the runtimes let the clock into their
/// timers.
#[test]
fn nothing_depends_on_the_wall_clock() {
    let mut jumps = 0;
    for seed in budget::seeds(3000, 40) {
        let _seed = story::scope("UNIKV_SEED", seed);
        let mix = Mix {
            steps: 300,
            reads: true,
            crashes: false,
            reopens: true,
            busy: false,
        };
        let jumping = History::draw(seed, mix);
        if jumping.expires {
            continue;
        }
        let mut steady = jumping.clone();
        for op in &mut steady.ops {
            if let Op::Clock { wall_ms, .. } = op {
                *wall_ms = 1_700_000_000_000;
                jumps += 1;
            }
        }
        let run = |history: &History| {
            let vfs = SimVfs::new();
            let mut runner = Runner::new(history, vfs.clone(), Tolerance::None);
            runner.play(&history.ops).unwrap();
            let answers = runner.answers();
            (
                vfs.calls(),
                vfs.looks(),
                fingerprint_without_times(&vfs),
                answers,
            )
        };
        assert_eq!(run(&jumping), run(&steady));
    }
    assert!(jumps > 50 || budget::replays(), "only {jumps} jumps");
}
