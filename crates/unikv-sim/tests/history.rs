//! Long histories against the oracle, with reads, snapshots, iterators, kills and power cuts.

use unikv_sim::history::{History, Mix};
use unikv_sim::runner::{self, Coverage};
use unikv_sim::{budget, shrink, story};

fn run_seeds(first: u64, count: u64, steps: usize, mix: fn(usize) -> Mix) {
    thread_local! {
        static COVERAGE: std::cell::Cell<Coverage> = const { std::cell::Cell::new(Coverage { flushes: 0, merges: 0, splits: 0, joins: 0, scan_merges: 0, large: 0, ingests: 0, gcs: 0, ridden_bytes: 0 }) };
    }
    let mut runs = 0;
    for seed in budget::seeds(first, count) {
        let steps = budget::steps(steps);
        let _seed = story::scope("UNIKV_SEED", seed);
        let _steps = story::scope("UNIKV_STEPS", steps);
        shrink::checked(&History::draw(seed, mix(steps)), |history| {
            let mut sum = COVERAGE.get();
            sum.add(runner::run(history));
            COVERAGE.set(sum);
        });
        runs += 1;
    }
    let sum = COVERAGE.get();
    assert!(
        sum.flushes > 5 * runs
            && sum.merges > runs
            && sum.splits > runs
            && sum.joins > runs / 2
            && sum.scan_merges > runs
            && sum.large > 5 * runs
            && sum.ingests > runs
            && sum.gcs > runs
            && sum.ridden_bytes > 1000 * runs,
        "{sum:?} in {runs} runs"
    );
}

#[test]
fn histories_agree_with_the_oracle() {
    run_seeds(1, 500, 400, |steps| Mix {
        steps,
        reads: true,
        crashes: false,
        reopens: true,
        busy: false,
    });
}

#[test]
fn histories_with_kills_and_power_cuts_agree_with_the_oracle() {
    run_seeds(1000, 500, 400, |steps| Mix {
        steps,
        reads: true,
        crashes: true,
        reopens: true,
        busy: false,
    });
}

#[test]
fn long_histories_without_reopening_agree_with_the_oracle() {
    run_seeds(2000, 12, 5000, |steps| Mix {
        steps,
        reads: true,
        crashes: false,
        reopens: false,
        busy: false,
    });
}
