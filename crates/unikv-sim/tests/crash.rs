//! The power cut at each call of short histories. See `unikv_sim::crash`.

use unikv_sim::crash::{self, Depth, Tally};
use unikv_sim::runner::Coverage;
use unikv_sim::{budget, story};

fn explore(first: u64, seeds: u64, steps: usize, depth: Depth) -> Tally {
    let mut tally = Tally::default();
    for seed in budget::seeds(first, seeds) {
        crash::explore(seed, budget::steps(steps), depth, &mut tally);
    }
    story::assert_none_failed();
    let Coverage {
        flushes,
        merges,
        splits,
        joins,
        scan_merges,
        large,
        ingests,
        gcs,
        ridden_bytes,
    } = tally.coverage;
    let histories = tally.histories;
    assert!(
        flushes > 4 * histories && merges >= 2 * histories,
        "{flushes} flushes, {merges} merges, {splits} splits and {joins} joins in {histories} histories"
    );
    assert!(
        histories < 100 || 4 * splits.min(2 * scan_merges).min(ingests) > histories,
        "{splits} splits, {scan_merges} scan merges and {ingests} ingests in {histories} histories"
    );
    assert!(
        histories < 100 || (3 * gcs > histories && ridden_bytes > 200 * histories),
        "{gcs} collections and {ridden_bytes} bytes of riding ones in {histories} histories"
    );
    assert!(
        large > histories,
        "{large} large values in {histories} histories"
    );
    tally
}

#[test]
fn every_call_of_a_short_history_may_be_the_last() {
    let depth = Depth {
        points: u64::MAX,
        nested_every: 40,
        nested_points: u64::MAX,
    };
    let tally = explore(1, 3, 60, depth);
    assert_eq!(tally.points, tally.calls);
}

#[test]
fn many_histories_survive_a_sample_of_crashes() {
    let depth = Depth {
        points: 25,
        nested_every: 12,
        nested_points: 6,
    };
    let tally = explore(100, 150, 80, depth);
    assert!(tally.recoveries >= 7 * tally.points);
}
