//! The power cut at each call of scenarios and of drawn histories. See `unikv_sim::crash`.

use std::sync::{Mutex, PoisonError};
use unikv_sim::crash::{self, Depth, Tally};
use unikv_sim::scenario::{self, Scenario};
use unikv_sim::{budget, story};

/// At how many of its crash points recovery is cut too: every how manieth.
const NESTED_EVERY: u64 = 120;

/// Scenarios explored so far by this process, disks that were recovered after one crash, and after
/// several.
static SUM: Mutex<(usize, u64, u64)> = Mutex::new((0, 0, 0));

/// The last of all scenarios asserts how much they were together.
fn add_up(tally: &Tally) {
    let mut sum = SUM.lock().unwrap_or_else(PoisonError::into_inner);
    sum.0 += 1;
    sum.1 += tally.recoveries - tally.doubles - tally.triples;
    sum.2 += tally.doubles;
    if sum.0 == scenario::all().len() {
        println!(
            "{} images, {} of them after a second crash",
            sum.1 + sum.2,
            sum.2
        );
        assert!(sum.1 >= 100_000 && sum.2 >= 10_000, "{sum:?}");
    }
}

/// The power goes before each call of a scenario, and before each call of many of its recoveries.
fn explore(name: &str) {
    let mut tally = Tally::default();
    for seed in budget::share_of_seeds(1, 1, 100) {
        let _seed = story::scope("UNIKV_SEED", seed);
        let scenario = Scenario::named(name, seed);
        let depth = Depth {
            points: u64::MAX,
            nested_every: NESTED_EVERY,
            nested_points: u64::MAX,
        };
        let seen = crash::explore_and_shrink(&scenario.history, depth, &mut tally);
        scenario.assert_did(&seen);
    }
    story::assert_none_failed();
    println!("{name}: {tally:?}");
    if !budget::replays() {
        assert_eq!(tally.points, tally.calls, "every call is a crash point");
        add_up(&tally);
    }
}

unikv_sim::scenario_tests!(
    explore, but []:
    flush,
    merge,
    clustering_for_scans,
    clustering_when_idle,
    scan_merge,
    gc_alone,
    gc_riding,
    split,
    split_under_load,
    join,
    copies,
    large_values,
    large_batches,
    batches_beyond_memory,
    wide_range_deletes,
    keyspace_churn,
    long_transactions,
    many_partitions,
    ingest,
    wal_rotation,
    manifest_renewal,
    disk_full,
    reopening,
    snapshots,
    deletes,
    batches_over_partitions,
    expiry,
    changes,
);

#[test]
fn many_histories_survive_a_sample_of_crashes() {
    let depth = Depth {
        points: 25,
        nested_every: 12,
        nested_points: 6,
    };
    let mut tally = Tally::default();
    for seed in budget::seeds(100, 60) {
        crash::explore(seed, budget::steps(80), depth, &mut tally);
    }
    story::assert_none_failed();
    let (histories, it) = (tally.histories, tally.coverage);
    println!("{tally:?}");
    if budget::replays() {
        return;
    }
    assert!(
        it.flushes > 4 * histories && it.merges >= 2 * histories,
        "{tally:?}"
    );
    assert!(
        4 * it.splits.min(2 * it.scan_merges).min(it.ingests) > histories,
        "{tally:?}"
    );
    assert!(
        3 * it.gcs > histories && it.ridden_bytes > 200 * histories,
        "{tally:?}"
    );
    assert!(it.large > histories, "{tally:?}");
    assert!(it.rebuilt_collisions > histories, "{tally:?}");
    assert!(tally.recoveries >= 7 * tally.points, "{tally:?}");
    assert!(tally.tokens_held > 10 * histories, "{tally:?}");
}
