//! The suite with UniKV and the engines that it is measured against, as far as features bring them
//! in.
//!
//! # What the one number of bytes of memory becomes
//!
//! UniKV takes it as its `memory_budget`: memtables, hash indexes, what it knows of its files,
//! buffers of jobs and the read cache together. A peer gets a sixteenth for each memtable, as
//! UniKV's default is, with at most four, and three quarters for its block cache; so no peer gets
//! less than UniKV, and what it allocates beside them comes on top. BadgerDB's cache is half for
//! blocks, half for indexes, and its values are read through the page cache. LMDB has no memory of
//! its own: all the page cache is its cache. redb has one cache. Nothing is compressed. What a
//! write has survived when it is acknowledged stands in the settings of each.

#[cfg(feature = "fjall")]
mod fjall;
#[cfg(feature = "go")]
mod go;
#[cfg(feature = "leveldb")]
mod leveldb;
#[cfg(feature = "lmdb")]
mod lmdb;
#[cfg(feature = "redb")]
mod redb;
#[cfg(feature = "rocksdb")]
mod rocksdb;
mod share;

use std::process::ExitCode;
use unikv_bench::suite::command;
use unikv_bench::suite::contender::{self, Contender};

fn main() -> ExitCode {
    command::main(&all())
}

fn all() -> Vec<Box<dyn Contender>> {
    let mut all = contender::own();
    #[cfg(feature = "rocksdb")]
    all.extend(rocksdb::entrants());
    #[cfg(feature = "leveldb")]
    all.extend(leveldb::entrants());
    #[cfg(feature = "fjall")]
    all.extend(fjall::entrants());
    #[cfg(feature = "go")]
    all.extend(go::entrants());
    #[cfg(feature = "redb")]
    all.extend(redb::entrants());
    #[cfg(feature = "lmdb")]
    all.extend(lmdb::entrants());
    all
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

    use unikv_bench::run::plan::Plan;
    use unikv_bench::suite::contender::{Progress, Terms, Tuning};
    use unikv_bench::workload::keys::KeyOrder;
    use unikv_bench::workload::phases::Phase;
    use unikv_bench::workload::values::Lengths;

    const PHASES: &str = "load,settle,mix50,scan20,rscan20,delete@300,absent50,multi10@50,batch10@50,\
                          flush,settle,reopen,verify";

    /// Every engine in every durability, with every value verified.
    #[test]
    fn every_engine_holds_what_it_was_given() {
        for contender in super::all() {
            for sync in [false, true] {
                let dir = tempfile::tempdir().unwrap();
                let plan = Plan {
                    dir: dir.path().join("store"),
                    phases: PHASES
                        .split(',')
                        .map(|phase| Phase::parse(phase).unwrap())
                        .collect(),
                    records: 1_000,
                    operations: 500,
                    values: Lengths::fixed(300),
                    threads: 2,
                    distribution: None,
                    scan_length: None,
                    order: KeyOrder::Random,
                    verify: true,
                    settle: false,
                    duration: None,
                    load_duration: None,
                    seed: 5,
                    check_space: false,
                    space_floor: None,
                };
                let terms = Terms {
                    memory_bytes: 32 << 20,
                    sync,
                    tuning: Tuning::default(),
                };
                let mut phases = 0;
                let outcome = contender.run(&plan, &terms, &mut |progress| {
                    phases += usize::from(matches!(progress, Progress::Phase(_)));
                    Ok(())
                });
                assert!(outcome.is_ok(), "{}: {outcome:?}", contender.name());
                assert_eq!(phases, PHASES.split(',').count(), "{}", contender.name());
            }
        }
    }
}
