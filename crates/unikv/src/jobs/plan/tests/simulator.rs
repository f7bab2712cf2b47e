//! A simulation of decisions: the rules are driven with facts of a model of a database, by a random
//! history, and compared with definitions by brute force (`simulator/oracle.rs`).
//!
//! Checked in each history: no two jobs hold one partition; each choice is the most urgent; no
//! worker sleeps past the time at which a job becomes due; joins have their turn among merges;
//! without new input all work ends, and then no promise is broken (`simulator/promises.rs`).
//!
//! `UNIKV_TIMES` runs this many times the seeds, `UNIKV_SEEDS` a number of them, and `UNIKV_SEED`
//! one alone, which prints each step.

mod choices;
mod counts;
mod facts;
mod failures;
mod inputs;
mod kinds;
mod oracle;
mod partition;
mod promises;
mod values;
mod workers;
mod world;

use counts::Counts;
use rand::rngs::SmallRng;
use rand::{Rng, SeedableRng};
use workers::Simulation;

/// The seeds of large worlds begin here.
const LARGE_FROM: u64 = 1 << 40;

/// Histories of small worlds, where jobs meet often.
const SMALL: u64 = 4_000;
/// Histories of up to a thousand partitions, and of more than one job takes.
const LARGE: u64 = 24;

/// The seed of a history, which is printed if the history fails.
struct Seed(u64);

impl Drop for Seed {
    fn drop(&mut self) {
        if std::thread::panicking() {
            let test = "cargo test -p unikv-db --lib plan::tests::simulator";
            eprintln!("replay with: UNIKV_SEED={} {test}", self.0);
        }
    }
}

fn number(name: &str) -> Option<u64> {
    let text = std::env::var(name).ok()?;
    Some(text.parse().unwrap())
}

/// Runs the histories from seed `first` on, each with a number of partitions.
fn run(first: u64, default: u64, partitions: impl Fn(&mut SmallRng) -> usize) -> Counts {
    let seeds = match number("UNIKV_SEED") {
        Some(seed) if (first..first + LARGE_FROM).contains(&seed) => seed..seed + 1,
        Some(_) => 0..0,
        None => {
            let seeds = default * number("UNIKV_TIMES").unwrap_or(1);
            // The given number is that of small worlds.
            let given = number("UNIKV_SEEDS").map(|seeds| (seeds * default).div_ceil(SMALL));
            first..first + given.unwrap_or(seeds)
        }
    };
    let mut counts = Counts::default();
    for seed in seeds {
        let guard = Seed(seed);
        let mut rng = SmallRng::seed_from_u64(!seed);
        let is_printed = number("UNIKV_SEED").is_some();
        let mut simulation = Simulation::new(seed, partitions(&mut rng), is_printed);
        // Some histories are short, so that many first states are tried.
        let most = [8, 100, 1_000][rng.random_range(0..3)];
        (0..rng.random_range(0..most)).for_each(|_| simulation.step());
        simulation.settle();
        counts.add(&simulation.counts);
        drop(guard);
    }
    println!("{counts:?}");
    counts
}

/// Whether the seeds are those of a normal run, or more.
fn is_complete() -> bool {
    number("UNIKV_SEED").is_none() && number("UNIKV_SEEDS").is_none()
}

#[test]
fn decisions_are_right_in_any_history_of_a_small_world() {
    let counts = run(0, SMALL, |rng| match rng.random_range(0..16) {
        0 => rng.random_range(1..=60),
        1..4 => rng.random_range(1..=2),
        _ => rng.random_range(1..=12),
    });
    if is_complete() {
        let least = counts.begun.iter().min();
        assert!(least > Some(&200), "a kind was hardly chosen: {counts:?}");
        let ends = [counts.failed, counts.given_up, counts.vain, counts.rests];
        let all = ends.iter().chain([&counts.together]);
        assert!(all.min() > Some(&200), "{counts:?}");
    }
}

#[test]
fn decisions_are_right_in_any_history_of_a_large_world() {
    let counts = run(LARGE_FROM, LARGE, |rng| match rng.random_range(0..4) {
        0 => rng.random_range(1_001..=1_200),
        _ => rng.random_range(100..=1_000),
    });
    assert!(!is_complete() || counts.decisions > 10_000, "{counts:?}");
}
