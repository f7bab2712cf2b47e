//! The corruption matrix: every byte of small databases of every shape. See `unikv_sim::damage`.
//!
//! One test for each shape, so that they run beside each other. All memory is counted, each
//! thread's for itself: a simulated engine has one thread.

#![allow(unsafe_code, reason = "a global allocator that counts")]

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;
use unikv_sim::damage::shapes::{SHAPES, Shape};
use unikv_sim::damage::{self, Memory, Tally};
use unikv_sim::story;

thread_local! {
    /// Bytes allocated now and at the peak. What other threads give back may let the first be below
    /// zero.
    static BYTES: Cell<(isize, isize)> = const { Cell::new((0, 0)) };
}

struct Counting;

fn grown(bytes: isize) {
    // A thread that ends has no place to count any more.
    let _ended = BYTES.try_with(|cell| {
        let (now, peak) = cell.get();
        cell.set((now + bytes, peak.max(now + bytes)));
    });
}

// SAFETY: all calls go to the system's allocator as they came.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        grown(layout.size() as isize);
        // SAFETY: the caller's promise.
        unsafe { System.alloc(layout) }
    }

    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        grown(layout.size() as isize);
        // SAFETY: the caller's promise.
        unsafe { System.alloc_zeroed(layout) }
    }

    unsafe fn dealloc(&self, at: *mut u8, layout: Layout) {
        grown(-(layout.size() as isize));
        // SAFETY: the caller's promise.
        unsafe { System.dealloc(at, layout) }
    }

    unsafe fn realloc(&self, at: *mut u8, layout: Layout, new_len: usize) -> *mut u8 {
        grown(new_len as isize - layout.size() as isize);
        // SAFETY: the caller's promise.
        unsafe { System.realloc(at, layout, new_len) }
    }
}

#[global_allocator]
static ALLOCATOR: Counting = Counting;

const MEMORY: Memory = Memory {
    begin: || BYTES.set((0, 0)),
    peak: || BYTES.get().1.max(0) as usize,
};

/// What must have been looked at in one shape: this many damages, refusals, failed reads, shortened
/// logs, and databases that jobs ran upon.
struct Floor {
    damages: u64,
    refused: u64,
    failed_reads: u64,
    shortened: u64,
    derived: u64,
    live: u64,
}

fn explore(name: &str, floor: &Floor) -> Tally {
    let of_name = SHAPES.iter().filter(|shape| shape.name == name);
    let explored: Vec<_> = of_name.map(|shape| explore_shape(shape, floor)).collect();
    assert_eq!(explored.len(), 1, "shapes of this name");
    explored[0]
}

fn explore_shape(shape: &Shape, floor: &Floor) -> Tally {
    let _seed = story::scope("UNIKV_SEED", 1);
    let name = shape.name;
    let specimen = shape.build(1);
    let tally: Tally = damage::explore(&specimen, Some(MEMORY));
    let files = specimen.files.iter().map(|(path, facts)| {
        let name = path.file_name().unwrap_or_default().to_string_lossy();
        format!("{name} {:?}", facts.kind)
    });
    println!("{name}: {tally:?} {}", files.collect::<Vec<_>>().join(", "));
    if std::env::var_os("UNIKV_DAMAGE").is_some() {
        return tally;
    }
    assert!(tally.damages() >= floor.damages, "{tally:?}");
    assert!(tally.refused >= floor.refused, "{tally:?}");
    assert!(tally.failed_reads >= floor.failed_reads, "{tally:?}");
    assert!(tally.shortened >= floor.shortened, "{tally:?}");
    assert!(tally.derived >= floor.derived, "{tally:?}");
    assert!(tally.live >= floor.live, "{tally:?}");
    // Of each shape a sample is repaired, and some of it is lost for good.
    assert!(tally.repairs >= tally.damages() / 60, "{tally:?}");
    assert!(tally.lossy_repairs > 10, "{tally:?}");
    let verdicts = tally.refused + tally.failed_reads + tally.shortened + tally.equal;
    assert_eq!(verdicts, tally.damages());
    tally
}

#[test]
fn values_inline() {
    explore(
        "inline",
        &Floor {
            damages: 8000,
            refused: 4000,
            failed_reads: 300,
            shortened: 10,
            derived: 500,
            live: 10,
        },
    );
}

#[test]
fn values_apart() {
    explore(
        "separated",
        &Floor {
            damages: 8000,
            refused: 4000,
            failed_reads: 1000,
            shortened: 0,
            derived: 500,
            live: 20,
        },
    );
}

#[test]
fn values_clustered() {
    explore(
        "clustered",
        &Floor {
            damages: 8000,
            refused: 4000,
            failed_reads: 1000,
            shortened: 10,
            derived: 0,
            live: 20,
        },
    );
}

#[test]
fn values_and_blocks_compressed() {
    explore(
        "compressed",
        &Floor {
            damages: 8000,
            refused: 4000,
            failed_reads: 300,
            shortened: 10,
            derived: 500,
            live: 10,
        },
    );
}

#[test]
fn values_with_a_dictionary() {
    explore(
        "dictionary",
        &Floor {
            damages: 12_000,
            refused: 4000,
            failed_reads: 3000,
            shortened: 0,
            derived: 500,
            live: 10,
        },
    );
}

#[test]
fn a_scan_run() {
    explore(
        "scan run",
        &Floor {
            damages: 12_000,
            refused: 7000,
            failed_reads: 1200,
            shortened: 0,
            derived: 2000,
            live: 40,
        },
    );
}

#[test]
fn partitions_after_a_split() {
    explore(
        "split",
        &Floor {
            damages: 15_000,
            refused: 8000,
            failed_reads: 3000,
            shortened: 0,
            derived: 500,
            live: 50,
        },
    );
}

#[test]
fn a_half_merged_generation() {
    explore(
        "half merged",
        &Floor {
            damages: 15_000,
            refused: 8000,
            failed_reads: 3000,
            shortened: 0,
            derived: 500,
            live: 50,
        },
    );
}

#[test]
fn large_values_in_files_of_their_own() {
    explore(
        "large values",
        &Floor {
            damages: 20_000,
            refused: 9000,
            failed_reads: 9000,
            shortened: 400,
            derived: 700,
            live: 100,
        },
    );
}

#[test]
fn large_values_in_compressed_chunks() {
    explore(
        "compressed chunks",
        &Floor {
            damages: 10_000,
            refused: 4000,
            failed_reads: 3000,
            shortened: 50,
            derived: 200,
            live: 30,
        },
    );
}

#[test]
fn ingested_files() {
    explore(
        "ingested",
        &Floor {
            damages: 8000,
            refused: 4000,
            failed_reads: 1000,
            shortened: 0,
            derived: 500,
            live: 20,
        },
    );
}

#[test]
fn versions_of_snapshots_and_tombstones() {
    explore(
        "versions",
        &Floor {
            damages: 10_000,
            refused: 5000,
            failed_reads: 1000,
            shortened: 0,
            derived: 500,
            live: 20,
        },
    );
}

#[test]
fn survivors_of_garbage_collection() {
    explore(
        "survivors",
        &Floor {
            damages: 50_000,
            refused: 9000,
            failed_reads: 6000,
            shortened: 100,
            derived: 2000,
            live: 300,
        },
    );
}

#[test]
fn a_log_with_a_torn_end() {
    explore(
        "torn log",
        &Floor {
            damages: 10_000,
            refused: 4000,
            failed_reads: 200,
            shortened: 4000,
            derived: 500,
            live: 10,
        },
    );
}

#[test]
fn several_segments() {
    explore(
        "segments",
        &Floor {
            damages: 15_000,
            refused: 8000,
            failed_reads: 0,
            shortened: 1000,
            derived: 0,
            live: 0,
        },
    );
}

#[test]
fn a_manifest_of_many_edits() {
    explore(
        "edits",
        &Floor {
            damages: 14_000,
            refused: 8000,
            failed_reads: 1600,
            shortened: 500,
            derived: 2000,
            live: 40,
        },
    );
}

#[test]
fn range_deletes() {
    explore(
        "range deletes",
        &Floor {
            damages: 10_000,
            refused: 4000,
            failed_reads: 500,
            shortened: 10,
            derived: 500,
            live: 20,
        },
    );
}

#[test]
fn range_deletes_over_partitions() {
    explore(
        "range deletes over partitions",
        &Floor {
            damages: 15_000,
            refused: 8000,
            failed_reads: 3000,
            shortened: 0,
            derived: 500,
            live: 50,
        },
    );
}

#[test]
fn a_fresh_manifest_with_options_and_marks() {
    explore(
        "fresh manifest",
        &Floor {
            damages: 10_000,
            refused: 6000,
            failed_reads: 1700,
            shortened: 0,
            derived: 1500,
            live: 30,
        },
    );
}

#[test]
fn values_that_expire() {
    explore(
        "expiring",
        &Floor {
            damages: 20_000,
            refused: 8000,
            failed_reads: 4000,
            shortened: 1000,
            derived: 2000,
            live: 250,
        },
    );
}

#[test]
fn several_keyspaces_of_which_some_were_dropped_and_emptied() {
    explore(
        "keyspaces",
        &Floor {
            damages: 25_000,
            refused: 15_000,
            failed_reads: 3000,
            shortened: 1000,
            derived: 1500,
            live: 200,
        },
    );
}

#[test]
fn what_a_change_window_keeps() {
    let tally = explore(
        "change window",
        &Floor {
            damages: 25_000,
            refused: 9000,
            failed_reads: 4000,
            shortened: 500,
            derived: 700,
            live: 250,
        },
    );
    assert!(tally.kept > 5000 && tally.feeds_ended > 10_000, "{tally:?}");
}
