//! What is measured, as data.
//!
//! Sizes are those of the papers; [`super::expand`] scales them. A step is a list of phases as
//! `unikv ycsb --workload` takes it, run by one process; `@xF` stands for F times the records of
//! the run. A step that ends with `die` kills its process as `kill -9` does.

mod hashkv;
mod living;
mod operations;

use super::contender::Tuning;
use crate::workload::keys::{KEY_BYTES, KeyOrder};
use crate::workload::values::Lengths;

/// A named experiment.
#[derive(Clone, Debug)]
pub struct Experiment {
    /// What it is called on the command line.
    pub name: &'static str,
    /// What it shows.
    pub title: &'static str,
    /// Where it is from.
    pub source: &'static str,
    /// What is run, each over an empty store.
    pub runs: Vec<Run>,
}

/// One run of an experiment.
#[derive(Clone, Debug)]
pub struct Run {
    /// What distinguishes it from the others; empty if there are none.
    pub label: String,
    /// Records to load, at full scale.
    pub records: u64,
    /// Bytes of each value, in the mean.
    pub value_bytes: usize,
    /// How long values are, if not all alike.
    pub mixture: Option<Lengths>,
    /// The order in which keys are loaded.
    pub order: KeyOrder,
    /// Client threads of phases that name no number.
    pub threads: usize,
    /// Lists of phases, a process each.
    pub steps: Vec<&'static str>,
    /// Whether each write is synced.
    pub sync: bool,
    /// How many times the memory the data are; `None`: memory is not limited.
    pub data_over_memory: Option<u64>,
    /// Options of UniKV; with any of them no other engine takes part. Sizes are those at full
    /// scale.
    pub tuning: Tuning,
    /// The length of scans in phases that do not say.
    pub scan_length: Option<u64>,
}

const MILLION: u64 = 1_000_000;
const GB: u64 = 1 << 30;

/// The paper's setting: 100 million records of 24-byte keys and 1,000-byte values, data six times
/// memory, one client thread.
fn paper(label: impl Into<String>, steps: &[&'static str]) -> Run {
    Run {
        label: label.into(),
        records: 100 * MILLION,
        value_bytes: 1_000,
        mixture: None,
        order: KeyOrder::Random,
        threads: 1,
        steps: steps.to_vec(),
        sync: false,
        data_over_memory: Some(6),
        tuning: Tuning::default(),
        scan_length: None,
    }
}

/// Records with values of `value_bytes` that come to `bytes` of data, named for a size.
fn sized(size: usize, value_bytes: usize, bytes: u64, steps: &[&'static str]) -> Run {
    let label = match size {
        n if n >= 1 << 20 => format!("{} MiB", n >> 20),
        n if n >= 1 << 10 => format!("{} KiB", n >> 10),
        n => format!("{n} B"),
    };
    Run {
        records: (bytes / (value_bytes + KEY_BYTES) as u64).min(100 * MILLION),
        value_bytes,
        ..paper(label, steps)
    }
}

/// All experiments.
pub fn all() -> Vec<Experiment> {
    let mut all = of_the_paper();
    all.extend(of_its_parameters());
    all.extend(hashkv::all());
    all.extend(of_others());
    all.extend(operations::all());
    all.extend(living::all());
    all
}

/// UniKV, Experiments 1 to 4.
fn of_the_paper() -> Vec<Experiment> {
    let mixed = |reads, steps| paper(format!("{reads} % reads"), steps);
    let ycsb = |name: &str, phases| paper(name, &[phases]);
    vec![
        Experiment {
            name: "micro",
            title: "Load, read, update and scan; bytes written, read and kept",
            source: "UniKV, Experiment 1",
            runs: vec![paper(
                "",
                &["load,settle,c@x0.1,update@x1,settle,scan50@x0.01"],
            )],
        },
        Experiment {
            name: "mixed",
            title: "Reads and updates mixed",
            source: "UniKV, Experiment 2",
            runs: vec![
                mixed(30, &["load,settle,mix30@x1,settle"]),
                mixed(50, &["load,settle,mix50@x1,settle"]),
                mixed(70, &["load,settle,mix70@x1,settle"]),
            ],
        },
        Experiment {
            name: "ycsb",
            title: "The six YCSB workloads, each after a load of its own",
            source: "UniKV, Experiment 3",
            runs: vec![
                ycsb("A", "load,settle,a@x0.5"),
                ycsb("B", "load,settle,b@x0.5"),
                ycsb("C", "load,settle,c@x0.5"),
                ycsb("D", "load,settle,d@x0.5"),
                Run {
                    scan_length: Some(100),
                    ..ycsb("E", "load,settle,e@x0.1")
                },
                ycsb("F", "load,settle,f@x0.5"),
            ],
        },
        Experiment {
            name: "large",
            title: "Larger stores",
            source: "UniKV, Experiment 4",
            runs: [200, 300]
                .map(|millions| Run {
                    records: millions * MILLION,
                    ..paper(
                        format!("{millions} M records at full scale"),
                        &["load,settle,c@x0.1,update@x1,settle"],
                    )
                })
                .to_vec(),
        },
    ]
}

/// UniKV, Experiments 5 to 11 and S1 to S3.
fn of_its_parameters() -> Vec<Experiment> {
    let sizes = [256, 1 << 10, 4 << 10, 8 << 10, 16 << 10, 32 << 10];
    let read = ["load,settle,c@x0.1"];
    let tuned = |label: String, unsorted_gb: u64, partition_gb: u64| Run {
        tuning: Tuning {
            unsorted_bytes: Some(unsorted_gb * GB),
            partition_bytes: Some(partition_gb * GB),
            ..Tuning::default()
        },
        ..paper(label, &read)
    };
    let load_and_more = |pair_bytes: usize| {
        sized(
            pair_bytes,
            pair_bytes - KEY_BYTES,
            100 * GB,
            &["load,settle,c@x0.1,update@x1,settle"],
        )
    };
    vec![
        Experiment {
            name: "pair-size",
            title: "The size of a record, from 256 B to 32 KiB",
            source: "UniKV, Experiments 5 and S1",
            runs: sizes.map(load_and_more).to_vec(),
        },
        Experiment {
            name: "unsorted-size",
            title: "The size of the UnsortedStore",
            source: "UniKV, Experiment 6",
            runs: [1, 2, 4, 8, 16]
                .map(|gb| tuned(format!("{gb} GB at full scale"), gb, 40))
                .to_vec(),
        },
        Experiment {
            name: "partition-size",
            title: "The size of a partition",
            source: "UniKV, Experiments 7 and S2",
            runs: [20, 30, 40, 50, 60]
                .map(|gb| tuned(format!("{gb} GB at full scale"), 4, gb))
                .to_vec(),
        },
        Experiment {
            name: "scan-threads",
            title: "Scans from several threads",
            source: "UniKV, Experiment 8, which goes to 32 threads",
            runs: vec![paper(
                "",
                &["load,settle,scan50@x0.01*1,scan50@x0.01*2,scan50@x0.01*4,\
                   scan50@x0.01*8,scan50@x0.01*16,scan50@x0.01*31"],
            )],
        },
        Experiment {
            name: "cold",
            title: "Almost no page cache, where the paper uses direct I/O: data are 40 times memory",
            source: "after UniKV, Experiments 9 and S3",
            runs: vec![Run {
                data_over_memory: Some(40),
                ..paper("", &["load,settle,c@x0.1,scan50@x0.01"])
            }],
        },
        Experiment {
            name: "memory",
            title: "Anonymous memory of loads, reads and scans",
            source: "UniKV, Experiment 10",
            runs: vec![paper("", &["load,settle,c@x0.1,scan50@x0.01"])],
        },
        Experiment {
            name: "recovery",
            title: "Opening after a kill at the end of a load",
            source: "UniKV, Experiment 11",
            runs: vec![paper("", &["load,die", "c@x0.001"])],
        },
    ]
}

/// Tucana, and the rows of UniKV's own targets.
fn of_others() -> Vec<Experiment> {
    // As many gets as make a cache's first filling a small part of them.
    let rows = "load,settle,scan50@x0.01,update@x0.5,settle,c@x0.4,scan50@x0.01,\
                mix50:uniform@x0.05,a@x0.05,b@x0.05,d@x0.05,f@x0.05,e@x0.005,settle,\
                update@x0.01,die";
    vec![
        Experiment {
            name: "cycles",
            title: "CPU of an insert, a get and a five-row scan, everything in memory",
            source: "Tucana, cycles per operation",
            runs: vec![Run {
                records: 10 * MILLION,
                data_over_memory: None,
                ..paper(
                    "",
                    &["load,settle,verify,c:uniform@x0.1,scan5:uniform@x0.05"],
                )
            }],
        },
        Experiment {
            name: "tucana",
            title: "YCSB in the order of its author: A, B, C, F and D over one load, E over another",
            source: "Tucana, Figures 5 to 7",
            runs: vec![
                paper(
                    "A to D",
                    &["load,settle,a@x0.1,b@x0.1,c@x0.1,f@x0.1,d@x0.1"],
                ),
                Run {
                    scan_length: Some(100),
                    ..paper("E", &["load,settle,e@x0.02"])
                },
            ],
        },
        Experiment {
            name: "tucana-threads",
            title: "Gets and inserts from 1 to 16 threads, everything in memory",
            source: "Tucana, Figure 9",
            runs: vec![Run {
                records: 10 * MILLION,
                data_over_memory: None,
                ..paper(
                    "",
                    &[
                        "load,settle,verify,c:uniform@x0.5*1,c:uniform@x0.5*2,c:uniform@x0.5*4,\
                       c:uniform@x0.5*8,c:uniform@x0.5*16,insert@x0.1*1,insert@x0.1*2,\
                       insert@x0.1*4,insert@x0.1*8,insert@x0.1*16",
                    ],
                )
            }],
        },
        Experiment {
            name: "rows",
            title: "The columns in which every engine has its strength or its weakness",
            source: "UniKV's targets; at scale 0.06 with 6 million records in 1 GiB",
            runs: vec![
                paper("1 thread", &[rows, "c@x0.001"]),
                Run {
                    threads: 4,
                    ..paper("4 threads", &[rows, "c@x0.001"])
                },
            ],
        },
        Experiment {
            name: "in-memory",
            title: "Everything in memory: at scale 0.06 a million records",
            source: "UniKV's targets",
            runs: vec![Run {
                records: 100 * MILLION / 6,
                data_over_memory: None,
                // What reads every record brings it to memory, also where the background wrote past
                // the page cache.
                ..paper(
                    "",
                    &["load,settle,verify,c:uniform@x0.5,c@x0.5,scan50@x0.02"],
                )
            }],
        },
    ]
}
