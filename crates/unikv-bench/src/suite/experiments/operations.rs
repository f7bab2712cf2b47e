//! Single kinds of operation, and of options.

use super::{Experiment, GB, MILLION, Run, paper, sized};
use crate::suite::contender::{Clusters, Tuning};
use crate::workload::keys::{KEY_BYTES, KeyOrder};

/// All of them.
pub(super) fn all() -> Vec<Experiment> {
    let one = |name, title, run| Experiment {
        name,
        title,
        source: "UniKV's suite",
        runs: vec![run],
    };
    let values = [
        16,
        64,
        256,
        1 << 10,
        4 << 10,
        16 << 10,
        64 << 10,
        256 << 10,
        1 << 20,
    ];
    let by_size = |value_bytes| {
        sized(
            value_bytes,
            value_bytes,
            10 * GB,
            &["load,settle,c@x0.05,scan50@x0.002,update@x0.2,settle"],
        )
    };
    vec![
        one(
            "sync",
            "Synced updates from 1 to 16 threads",
            Run {
                records: MILLION,
                sync: true,
                data_over_memory: None,
                ..paper(
                    "",
                    &["load*16,update@x0.2*1,update@x0.4*2,update@x0.8*4,update@x1*8,update@x1*16"],
                )
            },
        ),
        one(
            "deletes",
            "Half of all records deleted, and reads afterwards",
            paper(
                "",
                &["load,settle,delete@x0.5,settle,c:uniform@x0.05,scan50:uniform@x0.0033"],
            ),
        ),
        one(
            "absent",
            "Gets of keys that are not there: none, half, all",
            paper(
                "",
                &["load,settle,absent0:uniform@x0.05,absent50:uniform@x0.05,\
                   absent100:uniform@x0.05"],
            ),
        ),
        one(
            "scan-updates",
            "Scans forwards and backwards, before and after updates",
            paper(
                "",
                &[
                    "load,settle,scan50@x0.0033,rscan50@x0.0033,update@x0.5,settle,\
                   scan50@x0.0033,rscan50@x0.0033",
                ],
            ),
        ),
        one(
            "multi",
            "Many gets in one call, many puts in one batch",
            paper(
                "",
                &[
                    "load,settle,c:uniform@x0.05,multi10:uniform@x0.005,multi100:uniform@x0.0005,\
                   batch10:uniform@x0.005,batch100:uniform@x0.0005,settle",
                ],
            ),
        ),
        one(
            "sequential",
            "A load in the order of keys",
            Run {
                order: KeyOrder::Sequential,
                ..paper("", &["load,settle,c@x0.05,scan50@x0.0033"])
            },
        ),
        Experiment {
            name: "inlining",
            title: "Small values beside their keys, and apart from them",
            source: "UniKV's suite",
            runs: inlining(),
        },
        Experiment {
            name: "clustering",
            title: "Scans before and after updates, by when values are copied into the order of keys",
            source: "UniKV's suite",
            runs: [
                ("automatic", Clusters::Automatic),
                ("least writing", Clusters::LeastWriting),
            ]
            .map(|(label, clusters)| Run {
                tuning: Tuning {
                    clustering: Some(clusters),
                    ..Tuning::default()
                },
                ..paper(
                    label,
                    &[
                        "load,settle,scan50@x0.005,scan50@x0.005,scan50@x0.005,update@x0.5,settle,\
                       scan50@x0.005,scan50@x0.005,c@x0.05",
                    ],
                )
            })
            .to_vec(),
        },
        Experiment {
            name: "value-size",
            title: "Values from 16 B to 1 MiB",
            source: "UniKV's suite",
            runs: values.map(by_size).to_vec(),
        },
        one(
            "open-loop",
            "Reads and updates that come at a fixed rate, timed from when they were due",
            paper(
                "",
                &["load,settle,a@x0.01~1k,a@x0.02~5k,a@x0.04~10k,a@x0.04~20k,a@x0.08~40k"],
            ),
        ),
    ]
}

/// The threshold of inlining is best where both of a size cost the same.
fn inlining() -> Vec<Run> {
    let mut runs = Vec::new();
    for value_bytes in [32, 64, 128, 256, 512] {
        for (place, inline_value_bytes) in [("beside", 1 << 10), ("apart", 0)] {
            runs.push(Run {
                label: format!("{value_bytes} B {place}"),
                records: 40 * GB / (value_bytes + KEY_BYTES) as u64,
                value_bytes,
                tuning: Tuning {
                    inline_value_bytes: Some(inline_value_bytes),
                    ..Tuning::default()
                },
                ..paper(
                    "",
                    &["load,settle,c@x0.1,scan50@x0.005,update@x0.5,settle,c@x0.1,scan50@x0.005"],
                )
            });
        }
    }
    runs
}
