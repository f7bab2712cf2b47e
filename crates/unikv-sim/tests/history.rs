//! Long histories against the oracle, with reads, snapshots, iterators, kills and power cuts.

use unikv_sim::history::{History, Mix};
use unikv_sim::{budget, runner, story};

fn run_seeds(first: u64, count: u64, steps: usize, mix: fn(usize) -> Mix) {
    for seed in budget::seeds(first, count) {
        let steps = budget::steps(steps);
        let _seed = story::scope("UNIKV_SEED", seed);
        let _steps = story::scope("UNIKV_STEPS", steps);
        runner::run(&History::draw(seed, mix(steps)));
    }
}

#[test]
fn histories_agree_with_the_oracle() {
    run_seeds(1, 150, 400, |steps| Mix { steps, reads: true, crashes: false, reopens: true });
}

#[test]
fn histories_with_kills_and_power_cuts_agree_with_the_oracle() {
    run_seeds(1000, 150, 400, |steps| Mix { steps, reads: true, crashes: true, reopens: true });
}

#[test]
fn one_long_history_without_reopening_agrees_with_the_oracle() {
    run_seeds(2000, 4, 5000, |steps| Mix { steps, reads: true, crashes: false, reopens: false });
}
