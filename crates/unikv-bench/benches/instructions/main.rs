//! Instructions of UniKV's operations, counted by callgrind: `make instructions`.
//!
//! Each case is a function that does a fixed number of operations on a database that is ready
//! ([`prepared`]), and has a limit ([`limits`]); a run that exceeds one fails. Counts do not depend
//! on what else the machine does, so a limit can be close to what was measured.
//!
//! Callgrind runs the threads of a process one at a time, and switches counting on and off for each
//! of them by itself: on where a thread enters the case's function, off where it leaves. So what
//! the engine's own threads do is not counted, nor is what prepares and closes the database; but of
//! a merge, a function of the worker is.

#![allow(
    clippy::unwrap_used,
    reason = "a case that cannot go on has failed, which the runner reports"
)]
// Made by the macros.
#![allow(missing_docs, reason = "nobody calls the cases by name")]

mod limits;
mod prepared;

use gungraun::{
    Callgrind, LibraryBenchmarkConfig, library_benchmark, library_benchmark_group, main,
};
use prepared::{Cache, Merging, Place, Reading, Writing};
use std::hint::black_box;
use unikv::Batch;

#[library_benchmark(setup = prepared::writing, teardown = Writing::finish)]
#[bench::one(args = (limits::PUT.operations()), config = limits::PUT.config())]
fn put(case: Writing) -> Writing {
    for (key, value) in case.records() {
        case.db().put(key, value).unwrap();
    }
    case
}

#[library_benchmark(setup = prepared::writing, teardown = Writing::finish)]
#[bench::of_100(args = (100 * limits::BATCH.operations()), config = limits::BATCH.config())]
fn batch(case: Writing) -> Writing {
    for records in case.records().chunks(100) {
        let mut batch = Batch::new();
        for (key, value) in records {
            batch.put(key, value);
        }
        case.db().write(&batch).unwrap();
    }
    case
}

#[library_benchmark(setup = prepared::reading, teardown = Reading::finish)]
#[bench::memtable(
    args = (Place::Memtable, Cache::Warm, limits::GET_MEMTABLE.operations()),
    config = limits::GET_MEMTABLE.config()
)]
#[bench::unsorted_cached(
    args = (Place::Unsorted, Cache::Warm, limits::GET_UNSORTED_CACHED.operations()),
    config = limits::GET_UNSORTED_CACHED.config()
)]
#[bench::unsorted_uncached(
    args = (Place::Unsorted, Cache::Small, limits::GET_UNSORTED_UNCACHED.operations()),
    config = limits::GET_UNSORTED_UNCACHED.config()
)]
#[bench::sorted_cached(
    args = (Place::Sorted, Cache::Warm, limits::GET_SORTED_CACHED.operations()),
    config = limits::GET_SORTED_CACHED.config()
)]
#[bench::sorted_uncached(
    args = (Place::Sorted, Cache::Small, limits::GET_SORTED_UNCACHED.operations()),
    config = limits::GET_SORTED_UNCACHED.config()
)]
fn get(case: Reading) -> Reading {
    for (key, record) in case.wanted() {
        let value = case.db().get(key).unwrap().unwrap();
        prepared::verify(&value, *record);
    }
    case
}

#[library_benchmark(setup = prepared::asking_for_absent, teardown = Reading::finish)]
#[bench::both_stores(
    args = (limits::GET_ABSENT.operations()),
    config = limits::GET_ABSENT.config()
)]
fn get_absent(case: Reading) -> Reading {
    for (key, _) in case.wanted() {
        assert!(black_box(case.db().get(key).unwrap()).is_none());
    }
    case
}

#[library_benchmark(setup = prepared::scanning, teardown = Reading::finish)]
#[bench::sorted_clustered(
    args = (Place::Clustered, limits::SCAN_CLUSTERED.operations()),
    config = limits::SCAN_CLUSTERED.config()
)]
#[bench::sorted_not_clustered(
    args = (Place::Sorted, limits::SCAN_SORTED.operations()),
    config = limits::SCAN_SORTED.config()
)]
#[bench::unsorted(
    args = (Place::Unsorted, limits::SCAN_UNSORTED.operations()),
    config = limits::SCAN_UNSORTED.config()
)]
fn scan_50(case: Reading) -> Reading {
    for (key, _) in case.wanted() {
        prepared::scan(case.db(), key);
    }
    case
}

// Counted in the worker that merges, from the list of snapshots to the commit.
#[library_benchmark(setup = prepared::merging, teardown = Merging::finish)]
#[bench::into_sorted(config = limits::MERGE.config_of("*::run_passes"))]
fn merge(case: Merging) -> Merging {
    case.merge();
    case
}

library_benchmark_group!(name = writes, benchmarks = [put, batch]);
library_benchmark_group!(name = jobs, benchmarks = [merge]);
library_benchmark_group!(name = reads, benchmarks = [get, get_absent, scan_50]);

// Only instructions are looked at, so caches are not simulated. Callgrind takes each byte that a
// `rep stosb` or `rep movsb` fills or copies for an instruction; given that the processor is not
// good at these, the C library does without.
main!(
    config = LibraryBenchmarkConfig::default()
        .tool(Callgrind::with_args(["--cache-sim=no"]))
        .env("GLIBC_TUNABLES", "glibc.cpu.hwcaps=-ERMS"),
    setup = prepared::make(),
    teardown = prepared::remove(),
    library_benchmark_groups = [writes, reads, jobs]
);
