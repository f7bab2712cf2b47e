//! What users run: the options of the engine's makers, pauses of which no engine knows, writers
//! that never rest, and records of the sizes that stores have.

use super::{Experiment, GB, MILLION, Run, paper, sized};
use crate::workload::values::Lengths;

/// What is measured before, in and after a pause of a minute: of scans and of E the first ten
/// seconds, and some from its second minute on.
const PAUSED: &str = "load,scan50@10s,pause50,scan50@30s,update@x0.5,scan50@10s,pause50,scan50@30s,\
                      e@10s,pause50,e@30s,settle";

/// Gets, writes and scans of records of one shape, and all that they left to be done.
const SHAPES: &str = "load,update@x0.5,c@1min,scan50@1min,mix50:uniform@1min,settle";

/// Beside a writer of this rate from the load on; what comes after two minutes is in a phase of its
/// own.
macro_rules! beside_writer {
    ($rate:literal) => {
        concat!(
            "load,scan50@2min+update~",
            $rate,
            ",scan50@8min+update~",
            $rate,
            ",c@10min+update~",
            $rate,
            ",e@10min+update~",
            $rate,
            ",settle"
        )
    };
}

/// All of them.
pub(super) fn all() -> Vec<Experiment> {
    let one = |name, title, runs| Experiment {
        name,
        title,
        source: "UniKV's suite",
        runs,
    };
    vec![
        one(
            "paused",
            "Scans and YCSB E right after a load and after updates, and after a pause",
            vec![paper("", &[PAUSED])],
        ),
        one(
            "living",
            "Scans, gets and YCSB E beside a writer that never rests, from the load on",
            vec![
                paper("5 k/s", &[beside_writer!("5k")]),
                paper("20 k/s", &[beside_writer!("20k")]),
                paper("50 k/s", &[beside_writer!("50k")]),
                paper(
                    "10 k/s short",
                    &[
                        "load,scan50@1min+update~10k,scan50@1min+update~10k,c@1min+update~10k,\
                         e@1min+update~10k,settle",
                    ],
                ),
            ],
        ),
        one(
            "shapes",
            "Values of 100 bytes, of 16 KB, and a mixture from 16 bytes to 16 KB",
            vec![
                // 20 million of them at scale 0.06.
                Run {
                    records: 333 * MILLION,
                    data_over_memory: Some(10),
                    ..sized(100, 100, GB, &[SHAPES])
                },
                sized(16 << 10, 16 << 10, 100 * GB, &[SHAPES]),
                Run {
                    mixture: Some(MIXTURE),
                    ..Run {
                        label: "mixture".to_owned(),
                        ..sized(MIXTURE.mean(), MIXTURE.mean(), 100 * GB, &[SHAPES])
                    }
                },
            ],
        ),
        one(
            "writers",
            "Buffered puts from 1 to 16 threads",
            vec![paper(
                "",
                &["load*16,update@x0.1*1,update@x0.1*2,update@x0.1*4,update@x0.1*8,update@x0.1*16"],
            )],
        ),
        one(
            "forty",
            "The rows of targets with seven times the data and memory",
            vec![Run {
                records: 700 * MILLION,
                ..paper(
                    "",
                    &[
                        "load,settle,scan50@x0.01,update@x0.5,settle,c@x0.1,scan50@x0.01,\
                       a@x0.05,b@x0.05,e@x0.005,settle",
                    ],
                )
            }],
        ),
        one(
            "warm-start",
            "The first gets after a kill, with the page cache as it was left and without it",
            vec![
                paper(
                    "kept",
                    &["load,settle,c@x0.2,update@x0.01,die", "c@10k,c@90k"],
                ),
                paper(
                    "dropped",
                    &[
                        "load,settle,c@x0.2,update@x0.01,die",
                        "drop-cache,c@10k,c@90k",
                    ],
                ),
            ],
        ),
    ]
}

const MIXTURE: Lengths = Lengths::Spread {
    least: 16,
    most: 16 << 10,
};
