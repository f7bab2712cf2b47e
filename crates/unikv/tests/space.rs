//! The promise on disk space (I7), on the real file system: while writers and the background work,
//! a thread lists the directory every few milliseconds, and at least once every two thousand
//! writes, and no listing may exceed
//!
//! > `max_space_amp` × (keys and values of visible records) + 70 bytes and once more the key for
//! > those with keys of more than 32 bytes or values of less than 256 + log + 2 × `unsorted_bytes`
//! > for each background thread + the floor + the change window + what is pinned,
//!
//! and soon after the last write, without the share of the background threads and with nothing
//! pinned. What is visible is the model's own, the least of a listing's time. `Stats` says what is
//! pinned: the bytes of files that are only held, and of older versions, which have their share of
//! garbage and count until the database is idle, as what was kept has to be reclaimed first.

#![allow(
    clippy::unwrap_used,
    clippy::panic,
    reason = "a test that cannot set its stage must fail; the figures are for whoever reads its output"
)]

mod limit;
mod standstill;
mod watched;

use rand::Rng;
use standstill::Standstill;
use unikv::{Clustering, Options};
use watched::{FLOOR_BYTES, LARGE_BYTES, MEMTABLE_BYTES, Stage, listed, options};

/// Runs `play` on a new database while its directory is watched.
fn watched(name: &str, options: Options, play: impl FnOnce(&mut Stage<'_>)) {
    watched::watched(name, options, None, play);
}

const BOTH: [Clustering; 2] = [Clustering::LeastWriting, Clustering::Automatic];

#[test]
fn zipf_updates() {
    for clustering in BOTH {
        watched(
            &format!("zipf updates, {clustering:?}"),
            options(clustering),
            |stage| {
                (0..20_000).for_each(|id| stage.put(id, 1000));
                for _ in 0..80_000 {
                    let id = stage.zipf(20_000);
                    stage.put(id, 1000);
                }
            },
        );
    }
}

#[test]
fn a_small_hot_set() {
    watched("hot set", options(Clustering::LeastWriting), |stage| {
        for i in 0..100_000 {
            stage.put(i % 500, 500);
        }
    });
}

#[test]
fn everything_deleted() {
    for clustering in BOTH {
        watched(
            &format!("deletes, {clustering:?}"),
            options(clustering),
            |stage| {
                (0..40_000).for_each(|id| stage.put(id, 1000));
                for id in 0..40_000u64 {
                    stage.delete(id.wrapping_mul(0x9e37_79b1) % 40_000);
                }
                (0..40_000).for_each(|id| stage.delete(id));
                assert!(stage.lens.is_empty());
                stage.wait_until_idle();
            },
        );
    }
}

#[test]
fn mixed_sizes() {
    for clustering in BOTH {
        watched(
            &format!("mixed sizes, {clustering:?}"),
            options(clustering),
            |stage| {
                for _ in 0..60_000 {
                    let id = stage.rng.random_range(0..8000);
                    let len = match stage.rng.random_range(0..100) {
                        0..5 => 0,
                        5..30 => stage.rng.random_range(120..136),
                        30..80 => stage.rng.random_range(0..1500),
                        80..99 => stage.rng.random_range(0..4000),
                        // Those of a quarter of a memtable and more go to files of their own.
                        _ => stage.rng.random_range(0..4 * LARGE_BYTES),
                    };
                    match stage.rng.random_range(0..4) {
                        0 => stage.delete(id),
                        _ => stage.put(id, len),
                    }
                }
            },
        );
    }
}

#[test]
fn a_change_window() {
    let window = 6 << 20;
    let options = options(Clustering::LeastWriting).change_window_bytes(window);
    watched("change window", options, |stage| {
        for i in 0..40_000 {
            let id = stage.rng.random_range(0..4000);
            let len = match i % 100 {
                // Of files that soon only the window names.
                0 => stage.rng.random_range(LARGE_BYTES..4 * LARGE_BYTES),
                _ => stage.rng.random_range(0..1500),
            };
            stage.put(id, len);
        }
        stage.db.flush().unwrap();
        stage.db.wait_until_idle().unwrap();
        // What recovery needs is next to nothing; a spare segment or two come on top.
        let (log, _) = listed(stage.dir);
        let most = window + 4 * MEMTABLE_BYTES;
        assert!((window / 8..=most).contains(&log), "{log}, at most {most}");
        let oldest = stage.db.oldest_change_token().unwrap();
        let mut changes = stage.db.changes_since(oldest).unwrap();
        let mut seen = 0;
        while changes.try_next().unwrap().is_some() {
            seen += 1;
        }
        assert!(seen > 1000, "{seen} changes in the window");
    });
}

#[test]
fn an_idle_database_has_shrunk() {
    watched("idle", options(Clustering::LeastWriting), |stage| {
        (0..20_000).for_each(|id| stage.put(id, 1000));
        (0..20_000).for_each(|id| stage.delete(id));
        stage.db.wait_until_idle().unwrap();
        // The watcher may hold what was there before for a moment.
        let mut watchdog = Standstill::new(stage.db);
        while listed(stage.dir).1 > FLOOR_BYTES {
            watchdog.look(stage.db, &|| "the database does not shrink".to_owned());
        }
    });
}

#[test]
fn snapshots_held_and_released() {
    for clustering in BOTH {
        let name = format!("snapshots, {clustering:?}");
        watched(&name, options(clustering), |stage| {
            (0..15_000).for_each(|id| stage.put(id, 1000));
            let snapshot = stage.db.snapshot();
            for _ in 0..40_000 {
                let id = stage.zipf(15_000);
                stage.put(id, 1000);
            }
            (0..15_000).for_each(|id| stage.delete(id));
            for id in (0..15_000).step_by(100) {
                assert!(snapshot.contains_key(stage.shared.key(id)).unwrap());
            }
            stage.db.wait_until_idle().unwrap();
            let pins = stage.db.stats().pins;
            // All that it shows has been deleted since. Little of that has not been merged.
            assert!(pins.version_bytes > 10_000_000, "{pins:?}");
            assert!(
                listed(stage.dir).1 > 15_000_000,
                "the snapshot keeps its versions"
            );
            drop(snapshot);
            assert_eq!(stage.db.stats().pins.version_bytes, 0);
        });
    }
}

#[test]
fn iterators_held_and_released() {
    watched("iterators", options(Clustering::Automatic), |stage| {
        (0..15_000).for_each(|id| stage.put(id, 1000));
        let mut iter = stage.db.iter();
        iter.next().unwrap().unwrap();
        for _ in 0..40_000 {
            let id = stage.zipf(15_000);
            stage.put(id, 1000);
        }
        assert!(stage.db.stats().pins.bytes > 0);
        stage.db.release_views();
        // The watcher may hold a view for a moment.
        let mut watchdog = Standstill::new(stage.db);
        while stage.db.stats().pins.views > 0 {
            watchdog.look(stage.db, &|| "a view is held".to_owned());
        }
        assert_eq!(stage.db.stats().pins.iterators, 1);
        for _ in 0..20_000 {
            let id = stage.zipf(15_000);
            stage.put(id, 1000);
        }
        assert_eq!(iter.by_ref().count(), 14_999);
        drop(iter);
    });
}

#[test]
fn small_values() {
    for len in [0, 100, 130] {
        watched(
            &format!("values of {len}"),
            options(Clustering::LeastWriting),
            |stage| {
                for _ in 0..100_000 {
                    let id = stage.zipf(100_000);
                    stage.put(id, len);
                }
                (0..100_000).for_each(|id| stage.delete(id));
            },
        );
    }
}

#[test]
fn large_values_beside_small_ones() {
    for clustering in BOTH {
        watched(
            &format!("large values, {clustering:?}"),
            options(clustering),
            |stage| {
                for _ in 0..1500 {
                    let id = stage.zipf(150);
                    let len = stage.rng.random_range(LARGE_BYTES / 2..4 * LARGE_BYTES);
                    match stage.rng.random_range(0..4) {
                        0 => stage.delete(id),
                        _ => stage.put(id, len),
                    }
                    let small = 1000 + stage.rng.random_range(0..1000);
                    stage.put(small, 500);
                }
                (0..150).for_each(|id| stage.delete(id));
            },
        );
    }
}

#[test]
fn batches_of_a_thousand_puts() {
    watched(
        "batches of puts",
        options(Clustering::LeastWriting),
        |stage| {
            for first in (0..20_000).step_by(1000) {
                stage.batch(first..first + 1000, Some(1000));
            }
            // Those of short values fit into a memtable; the others write their values apart.
            for len in [1000, 200].repeat(20) {
                let ids: Vec<u64> = (0..1000).map(|_| stage.zipf(20_000)).collect();
                stage.batch(ids, Some(len));
            }
        },
    );
}

#[test]
fn batches_of_a_thousand_deletes() {
    watched(
        "batches of deletes",
        options(Clustering::LeastWriting),
        |stage| {
            (0..20_000).for_each(|id| stage.put(id, 1000));
            for first in (0..20_000u64).step_by(1000) {
                let ids = first..first + 1000;
                stage.batch(ids.map(|id| id.wrapping_mul(0x9e37_79b1) % 20_000), None);
            }
        },
    );
}

#[test]
fn four_writers() {
    watched("four writers", options(Clustering::LeastWriting), |stage| {
        let shared = stage.shared;
        std::thread::scope(|scope| {
            let writer = |thread: u64| {
                scope.spawn(move || {
                    let mut stage = Stage::new(shared, thread);
                    (0..5000).for_each(|id| stage.put(id * 4 + thread, 1000));
                    for _ in 0..15_000 {
                        let id = stage.zipf(5000) * 4 + thread;
                        match stage.rng.random_range(0..8) {
                            0 => stage.delete(id),
                            _ => stage.put(id, 1000),
                        }
                    }
                    stage.lens
                })
            };
            let writers = [0, 1, 2, 3].map(writer);
            for writer in writers {
                stage.lens.extend(writer.join().unwrap());
            }
        });
    });
}

#[test]
fn everything_replaced_by_an_ingest() {
    for len in [1000, 130, 20] {
        let name = format!("values of {len} replaced by an ingest");
        watched(&name, options(Clustering::LeastWriting), |stage| {
            (0..12_000).for_each(|id| stage.put(id, len));
            stage.wait_until_idle();
            stage.ingest(0..12_000, 1000);
            stage.wait_until_idle();
        });
    }
}

#[test]
fn long_values_by_short_ones_at_full_speed() {
    for len in [130, 10] {
        let name = format!("values of 1,000 overwritten by {len}");
        watched(&name, options(Clustering::LeastWriting), |stage| {
            for _ in 0..3 {
                stage.ingest(0..12_000, 1000);
                stage.wait_until_idle();
                (0..12_000).for_each(|id| stage.put(id, len));
            }
        });
    }
}

#[test]
fn the_least_factor() {
    let options = options(Clustering::LeastWriting).max_space_amp(1.1);
    watched("a factor of 1.1", options, |stage| {
        (0..30_000).for_each(|id| stage.put(id, 1000));
        for _ in 0..20_000 {
            let id = stage.rng.random_range(0..30_000);
            stage.put(id, 1000);
        }
        (0..10_000).for_each(|id| stage.delete(id));
    });
}
