//! The time of a decision among ten thousand partitions, which is to be below 50 µs. A person runs
//! it (`docs/testing.md`); it asserts nothing, as the time depends on the machine.

use crate::base::keys::{FileNumber, PartitionId};
use crate::jobs::plan::facts::Memtables;
use crate::jobs::plan::partitions::{ForScans, Frozen, JoinFacts, PartitionFacts, Partitions};
use crate::jobs::plan::{Facts, Filter, JobName, plan, rules};
use std::collections::BTreeSet;
use std::hint::black_box;
use std::time::Instant;

const PARTITIONS: u64 = 10_000;
const RUNS: u32 = 10_000;

/// A partition in a hundred is charged, and its join with the next needs a merge. `unmerged` ones
/// in a hundred have frozen generations.
fn figures(id: u64, unmerged: u64) -> PartitionFacts {
    let frozen = Frozen {
        oldest_file: Some(FileNumber(id % 97)),
    };
    let join = JoinFacts {
        needs_merge: true,
        bytes: 1_000 + id,
        right: PartitionId(id + 1),
    };
    PartitionFacts {
        start: id.to_be_bytes().into(),
        bytes: 10_000 + id,
        unsorted_bytes: 100 + id % 89,
        key_tables: 4,
        key_table_bytes: 400,
        frozen: (id % 100 < unmerged).then_some(frozen),
        join: id.is_multiple_of(100).then_some(join),
        for_scans: ForScans {
            is_charged: id.is_multiple_of(100),
            ..ForScans::default()
        },
        ..PartitionFacts::default()
    }
}

fn partitions(unmerged: u64) -> Partitions {
    let mut partitions = Partitions::default();
    for id in 0..PARTITIONS {
        partitions.set(PartitionId(id), Some(figures(id, unmerged)));
    }
    partitions
}

/// Prints the mean time of a run.
fn measure(what: &str, mut run: impl FnMut()) {
    (0..RUNS / 10).for_each(|_| run());
    let begin = Instant::now();
    (0..RUNS).for_each(|_| run());
    let mean = begin.elapsed() / RUNS;
    println!("{what}: {:.1} µs", mean.as_nanos() as f64 / 1_000.0);
}

/// Prints the mean time of a decision over all rules. Flushes wait, so no join may begin.
fn measure_decision(what: &str, partitions: &Partitions, leased: u64, name: Option<JobName>) {
    let leased: BTreeSet<_> = (0..leased).map(PartitionId).collect();
    let mut facts = Facts {
        partitions,
        most_together_bytes: 8 << 20,
        leased,
        memtables: Memtables {
            sealed: 1,
            are_blocked: true,
            ..Memtables::default()
        },
        ..Facts::default()
    };
    let all: Vec<_> = rules::all().copied().collect();
    let mut decide = || plan(&all, &mut facts, Filter::Worker, |_, _| ());
    assert_eq!(decide().map(|planned| planned.rule.name), name);
    measure(what, || drop(black_box(decide())));
}

#[test]
#[ignore = "a measurement, for a person"]
fn a_decision_among_ten_thousand_partitions_takes_microseconds() {
    let merge = Some(super::MERGE);
    let (merged, unmerged, all) = (partitions(0), partitions(10), partitions(100));
    measure_decision("nothing is due", &merged, 0, None);
    measure_decision(
        "1,000 partitions have frozen generations",
        &unmerged,
        0,
        merge,
    );
    measure_decision("all have", &all, 0, merge);
    measure_decision("all have, and jobs hold 640", &all, 640, merge);
    let mut partitions = all;
    let mut nth = 0;
    measure("setting the figures of a partition", || {
        nth += 1;
        let id = nth * 7_919 % PARTITIONS;
        let mut figures = figures(id, 100);
        figures.unsorted_bytes += nth;
        partitions.set(PartitionId(id), Some(figures));
    });
}
