//! One error of the disk at each call of scenarios and of drawn histories. See `unikv_sim::fault`.

use unikv::vfs::sim::Rule;
use unikv_sim::fault::{self, Tally};
use unikv_sim::scenario::Scenario;
use unikv_sim::{budget, storm, story};

/// Each call of a scenario fails: with EIO, and in the other ways by turns, or in all if asked to.
fn explore(name: &str) {
    let mut tally = Tally::default();
    for seed in budget::share_of_seeds(1, 1, 100) {
        let _seed = story::scope("UNIKV_SEED", seed);
        let scenario = Scenario::named(name, seed);
        fault::explore_and_shrink(&scenario.history, (u64::MAX, u64::MAX), &mut tally);
    }
    story::assert_none_failed();
    println!("{name}: {tally:?}");
    if !budget::replays() {
        assert_eq!(tally.points, tally.calls, "every call has failed");
        assert!(tally.faults > tally.calls - tally.looks && tally.failed_looks >= tally.looks);
        assert!(
            tally.cuts > 5 * tally.crossed && tally.crossed > 30,
            "{tally:?}"
        );
    }
}

// A full disk is the fault there; it has tests of its own below.
unikv_sim::scenario_tests!(
    explore, but ["disk_full"]:
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
    reopening,
    snapshots,
    deletes,
    batches_over_partitions,
    expiry,
    changes,
);

#[test]
fn an_error_of_the_disk_loses_nothing_acknowledged() {
    let mut tally = Tally::default();
    for seed in budget::seeds(1, 40) {
        fault::explore(seed, budget::steps(60), 25, &mut tally);
    }
    story::assert_none_failed();
    println!("{tally:?}");
    if budget::replays() {
        return;
    }
    // So short a history collects garbage seldom.
    let (histories, it) = (tally.histories, tally.coverage);
    assert!(
        20 * it.gcs > histories && it.ridden_bytes > 20 * histories,
        "{tally:?}"
    );
    assert!(tally.faults > 20 * histories, "{tally:?}");
    assert!(it.collisions > histories, "{tally:?}");
}

#[test]
fn a_full_disk_stops_writes_until_it_has_room() {
    let filled = budget::seeds(900, 120)
        .filter(|&seed| fault::fill_the_disk(seed, 200))
        .count();
    assert!(
        filled > 10 || budget::replays(),
        "only {filled} disks became full"
    );
}

#[test]
fn writing_resumes_by_itself_after_a_time_of_little_space() {
    let mut failed = 0;
    for seed in budget::seeds(700, 24) {
        failed += fault::run_short_of_space(seed, budget::steps(80), 12);
    }
    story::assert_none_failed();
    assert!(
        failed > 100 || budget::replays(),
        "only {failed} calls failed"
    );
}

#[test]
fn space_may_run_out_at_every_call_of_a_short_history() {
    let mut failed = 0;
    for seed in budget::seeds(800, 2) {
        failed += fault::run_short_of_space(seed, budget::steps(40), u64::MAX);
    }
    story::assert_none_failed();
    assert!(
        failed > 10 || budget::replays(),
        "only {failed} calls failed"
    );
}

#[test]
fn reads_that_fail_give_right_answers_or_errors() {
    let failed: u64 = budget::seeds(950, 40)
        .map(|seed| fault::fail_reads(seed, 150))
        .sum();
    assert!(
        failed > 100 || budget::replays(),
        "only {failed} reads failed"
    );
}

/// Histories in storms of these rules; in most of them several calls fail.
fn storms(first: u64, count: u64, rules: fn(u64) -> Vec<Rule>) {
    let (mut histories, mut failed, mut idle) = (0, 0, 0);
    for seed in budget::seeds(first, count) {
        let failures = storm::run(seed, budget::steps(200), rules);
        histories += 1;
        failed += failures;
        idle += u64::from(failures < 3);
    }
    println!("{failed} calls failed in {histories} histories, {idle} of them quiet");
    let enough = failed > 8 * histories && 4 * idle < histories;
    assert!(enough || budget::replays(), "{failed} failed, {idle} quiet");
}

#[test]
fn errors_that_come_again_and_again_lose_nothing_acknowledged() {
    storms(4000, 40, storm::errors);
}

#[test]
fn descriptors_may_be_short_for_many_operations() {
    storms(5000, 20, storm::no_descriptors);
}
