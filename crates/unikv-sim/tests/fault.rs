//! One error of the disk at each call of a history. See `unikv_sim::fault`.

use unikv_sim::fault::{self, Tally};
use unikv_sim::runner::Coverage;
use unikv_sim::{budget, story};

#[test]
fn an_error_of_the_disk_loses_nothing_acknowledged() {
    let mut tally = Tally::default();
    for seed in budget::seeds(1, 150) {
        fault::explore(seed, budget::steps(60), 25, &mut tally);
    }
    story::assert_none_failed();
    assert!(tally.faults > 0);
    // So short a history collects garbage seldom.
    let Coverage {
        gcs, ridden_bytes, ..
    } = tally.coverage;
    let histories = tally.histories;
    assert!(
        histories < 100 || (20 * gcs > histories && ridden_bytes > 20 * histories),
        "{gcs} collections and {ridden_bytes} bytes of riding ones in {histories} histories"
    );
}

#[test]
fn every_call_of_a_short_history_may_fail() {
    let mut tally = Tally::default();
    for seed in budget::seeds(500, 3) {
        fault::explore(seed, budget::steps(40), u64::MAX, &mut tally);
    }
    story::assert_none_failed();
    assert!(tally.faults > 0);
}

#[test]
fn a_full_disk_stops_writes_until_it_has_room() {
    let filled = budget::seeds(900, 200)
        .filter(|&seed| fault::fill_the_disk(seed, 200))
        .count();
    assert!(filled > 10, "only {filled} disks became full");
}

#[test]
fn writing_resumes_by_itself_after_a_time_of_little_space() {
    let mut failed = 0;
    for seed in budget::seeds(700, 40) {
        failed += fault::run_short_of_space(seed, budget::steps(80), 12);
    }
    story::assert_none_failed();
    assert!(failed > 100, "only {failed} calls failed");
}

#[test]
fn space_may_run_out_at_every_call_of_a_short_history() {
    let mut failed = 0;
    for seed in budget::seeds(800, 2) {
        failed += fault::run_short_of_space(seed, budget::steps(40), u64::MAX);
    }
    story::assert_none_failed();
    assert!(failed > 10, "only {failed} calls failed");
}

#[test]
fn reads_that_fail_give_right_answers_or_errors() {
    let failed: u64 = budget::seeds(950, 60)
        .map(|seed| fault::fail_reads(seed, 150))
        .sum();
    assert!(failed > 100, "only {failed} reads failed");
}
