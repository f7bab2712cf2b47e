//! HashKV's experiments, 42 million records of 1 KiB and what it varies. Its third is about arrays
//! of disks, its eighth about a log that can be left out; neither has anything to vary here.

use super::{Experiment, GB, MILLION, Run, paper, sized};
use crate::suite::contender::Tuning;
use crate::workload::keys::KEY_BYTES;
use crate::workload::values::Lengths;

/// A load, and as many updates three times over, zipf unless it says otherwise.
const PHASES: &str = "p0,p1,p2,p3,settle";

/// A key of 24 bytes, and all of a value that there has to be.
const SMALL_PAIR: usize = 40;

/// All of them.
pub(super) fn all() -> Vec<Experiment> {
    let one = |name, title, source, runs| Experiment {
        name,
        title,
        source,
        runs,
    };
    vec![
        one(
            "hashkv",
            "Update-heavy phases P0 to P3, with a reserve of 10 to 90 %",
            "HashKV, Experiments 1 and 2",
            reserves(),
        ),
        one(
            "hashkv-size",
            "Update-heavy phases with records from 256 B to 64 KiB",
            "HashKV, Experiment 4",
            [256, 1 << 10, 4 << 10, 16 << 10, 64 << 10]
                .map(|pair| sized(pair, pair - KEY_BYTES, 40 * GB, &[PHASES]))
                .to_vec(),
        ),
        one(
            "hashkv-scans",
            "Scans of 1 MiB, a tenth of the data in all, by the size of records",
            "HashKV, Experiment 5",
            long_scans(),
        ),
        one(
            "hashkv-skew",
            "Updates by Zipf's constant",
            "after HashKV, Experiment 6, which turns hotness awareness off; here it has no switch",
            vec![
                paper("0.9", &["load,settle,update:zipfian0.9@x3,settle"]),
                paper("0.99", &["load,settle,update:zipfian0.99@x3,settle"]),
            ],
        ),
        one(
            "hashkv-mixed",
            "Small records among large ones, small values beside their keys or all apart",
            "HashKV, Experiment 7",
            mixed(),
        ),
        one(
            "hashkv-memtable",
            "The size of a memtable",
            "HashKV, Experiment 9, the write cache",
            [4, 16, 64]
                .map(|mib| {
                    let tuning = Tuning {
                        memtable_bytes: Some(mib << 20),
                        ..Tuning::default()
                    };
                    usual(format!("{mib} MiB"), tuning)
                })
                .to_vec(),
        ),
    ]
}

fn usual(label: String, tuning: Tuning) -> Run {
    Run {
        records: 42 * MILLION,
        value_bytes: 992,
        tuning,
        ..paper(label, &[PHASES])
    }
}

fn reserves() -> Vec<Run> {
    let mut reserves = vec![usual("as it is".to_owned(), Tuning::default())];
    reserves.extend([10, 20, 30, 50, 70, 90].map(|percent| {
        let tuning = Tuning {
            max_space_amp: Some(1.0 + f64::from(percent) / 100.0),
            ..Tuning::default()
        };
        usual(format!("reserve {percent} %"), tuning)
    }));
    reserves
}

fn long_scans() -> Vec<Run> {
    let sizes = [
        (256, "load,settle,scan4096@x0.0000244"),
        (1 << 10, "load,settle,scan1024@x0.0000977"),
        (4 << 10, "load,settle,scan256@x0.00039"),
        (16 << 10, "load,settle,scan64@x0.00156"),
        (64 << 10, "load,settle,scan16@x0.00625"),
    ];
    sizes
        .map(|(pair, steps)| sized(pair, pair - KEY_BYTES, 40 * GB, &[steps]))
        .to_vec()
}

fn mixed() -> Vec<Run> {
    let mut runs = Vec::new();
    for large in [1 << 10, 4 << 10] {
        for ratio in [(1, 2), (1, 1), (2, 1)] {
            for inline_value_bytes in [None, Some(0)] {
                let lengths = Lengths::Two {
                    short: SMALL_PAIR - KEY_BYTES,
                    long: large - KEY_BYTES,
                    ratio,
                };
                let apart = inline_value_bytes.map_or("", |_| ", all apart");
                runs.push(Run {
                    label: format!("{}:{} of {} KiB{apart}", ratio.0, ratio.1, large >> 10),
                    mixture: Some(lengths),
                    tuning: Tuning {
                        inline_value_bytes,
                        ..Tuning::default()
                    },
                    ..sized(large, lengths.mean(), 40 * GB, &[PHASES])
                });
            }
        }
    }
    runs
}
