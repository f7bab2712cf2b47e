//! The promise on disk space (I7), on the real file system: while writers and the background work, a
//! thread lists the directory every few milliseconds, and no listing may exceed
//!
//! > `max_space_amp` × (keys and values of visible records) + log + 2 × `unsorted_bytes` for each
//! > background thread + the floor + what is pinned,
//!
//! and soon after the last write, without the share of the background threads. The visible bytes are
//! the model's own, the least of a listing's time. `Stats` tells the bytes of pinned files; versions that
//! a snapshot keeps are counted as visible while it lives.

#![allow(
    clippy::unwrap_used,
    clippy::panic,
    clippy::print_stderr,
    reason = "a test that cannot set its stage must fail; the figures are for whoever reads its output"
)]

use rand::rngs::SmallRng;
use rand::{Rng, SeedableRng};
use std::collections::HashMap;
use std::fs;
use std::io::ErrorKind;
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};
use unikv::{Clustering, Db, Options};

const SPACE_AMP: f64 = 1.5;
const MEMTABLE_BYTES: u64 = 256 << 10;
const UNSORTED_BYTES: u64 = 2 << 20;
const THREADS: u64 = 2;
/// As documented at [`Options::max_space_amp`].
const FLOOR_BYTES: u64 = (8 << 20) + 11 * MEMTABLE_BYTES;

/// Ends a test that would fail anyway.
const PATIENCE: Duration = Duration::from_secs(60);

fn options(clustering: Clustering) -> Options {
    Options::default()
        .memtable_bytes(MEMTABLE_BYTES)
        .unsorted_bytes(UNSORTED_BYTES)
        .partition_bytes(16 << 20)
        .key_table_bytes(32 << 10)
        .max_space_amp(SPACE_AMP)
        .memory_budget(16 << 20)
        .background_threads(THREADS as usize)
        .clustering(clustering)
}

/// Bytes of the log and of all other files.
fn listed(dir: &Path) -> (u64, u64) {
    let (mut log, mut other) = (0, 0);
    for entry in fs::read_dir(dir).unwrap() {
        let entry = entry.unwrap();
        let bytes = match entry.metadata() {
            Ok(meta) => meta.blocks() * 512,
            // Removed since the listing began.
            Err(error) if error.kind() == ErrorKind::NotFound => 0,
            Err(error) => panic!("{error}"),
        };
        match entry.file_name().to_string_lossy().ends_with(".wal") {
            true => log += bytes,
            false => other += bytes,
        }
    }
    (log, other)
}

/// What the database must hold, and how much it may take.
struct Stage<'a> {
    dir: &'a Path,
    db: &'a Db,
    lens: HashMap<u64, usize>,
    rng: SmallRng,
    /// Keys and values of visible records, at least.
    visible: &'a AtomicU64,
    /// Those that only a snapshot sees, at most.
    kept: &'a AtomicU64,
    name: &'a str,
}

fn key(id: u64) -> String {
    format!("user{id:012}")
}

impl Stage<'_> {
    fn put(&mut self, id: u64, len: usize) {
        let mut value = vec![0; len];
        self.rng.fill(&mut value[..]);
        let own = (key(id).len() + len) as u64;
        let before = self.lens.insert(id, len);
        let before = before.map_or(0, |len| (key(id).len() + len) as u64);
        // The smaller of both states from before the write to its end.
        let now = self.visible.load(Ordering::SeqCst) - before + own;
        if own < before {
            self.visible.store(now, Ordering::SeqCst);
        }
        self.db.put(key(id), &value).unwrap();
        self.visible.store(now, Ordering::SeqCst);
    }

    fn delete(&mut self, id: u64) {
        if let Some(len) = self.lens.remove(&id) {
            let own = (key(id).len() + len) as u64;
            self.visible.fetch_sub(own, Ordering::SeqCst);
        }
        self.db.delete(key(id)).unwrap();
    }

    /// One of `n` ids, the k-th with a weight of 1/k, spread over the range.
    fn zipf(&mut self, n: u64) -> u64 {
        let rank = (n as f64).powf(self.rng.random::<f64>()) as u64;
        rank.wrapping_mul(0x9e37_79b9_7f4a_7c15) % n
    }

    /// All that is visible is seen by a snapshot or iterator from now on.
    fn keep(&self) {
        self.kept
            .store(self.visible.load(Ordering::SeqCst), Ordering::SeqCst);
    }

    /// Waits until the promise holds without the background's share and whatever was kept, with nobody
    /// writing or asking for it.
    fn at_rest(&self) {
        let visible = self.visible.load(Ordering::SeqCst);
        let most = (visible as f64 * SPACE_AMP) as u64 + FLOOR_BYTES;
        let begin = Instant::now();
        loop {
            let (_, bytes) = listed(self.dir);
            let pinned = self.db.stats().pins.bytes;
            if bytes <= most + pinned {
                self.kept.store(0, Ordering::SeqCst);
                return;
            }
            assert!(
                begin.elapsed() < PATIENCE,
                "{}: at rest {bytes} bytes, of which {pinned} pinned, for {visible} visible: {:#?}",
                self.name,
                self.db.stats(),
            );
            std::thread::sleep(Duration::from_millis(20));
        }
    }
}

/// Runs `play` on a new database while its directory is watched.
fn watched(name: &str, options: Options, play: impl FnOnce(&mut Stage<'_>)) {
    let dir = tempfile::tempdir().unwrap();
    let db = Db::open(dir.path(), options).unwrap();
    let (visible, kept) = (AtomicU64::new(0), AtomicU64::new(0));
    let over = AtomicBool::new(false);
    let seen = || visible.load(Ordering::SeqCst) + kept.load(Ordering::SeqCst);
    let begin = Instant::now();
    std::thread::scope(|scope| {
        let watch = scope.spawn(|| watch(name, dir.path(), &db, &seen, &over));
        let mut stage = Stage {
            dir: dir.path(),
            db: &db,
            lens: HashMap::new(),
            rng: SmallRng::seed_from_u64(1),
            visible: &visible,
            kept: &kept,
            name,
        };
        let played = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
            play(&mut stage);
            stage.at_rest();
        }));
        over.store(true, Ordering::SeqCst);
        let (samples, nearest) = watch.join().unwrap();
        if let Err(panic) = played {
            std::panic::resume_unwind(panic);
        }
        let (seconds, stats) = (begin.elapsed().as_secs_f32(), db.stats());
        eprintln!(
            "{name}: {samples} listings in {seconds:.1} s, at most {:.0} % of the promise; {} merges, \
             {} collections, write amplification {:.1}, {:?}",
            nearest * 100.0,
            stats.merges,
            stats.gcs,
            stats.write_amplification(),
            stats.stall_causes,
        );
        assert!(samples > 20, "{samples}");
        for (id, len) in &stage.lens {
            assert_eq!(db.get(key(*id)).unwrap().map(|v| v.len()), Some(*len));
        }
    });
}

/// Lists the directory until `over`. Returns how often, and how near it came to what is promised.
fn watch(
    name: &str,
    dir: &Path,
    db: &Db,
    visible: &(dyn Fn() -> u64 + Sync),
    over: &AtomicBool,
) -> (u64, f64) {
    let (mut samples, mut nearest) = (0, 0.0f64);
    let mut breach = None;
    while !over.load(Ordering::SeqCst) {
        let before = (visible(), db.stats().pins.bytes);
        let (_, bytes) = listed(dir);
        let after = (visible(), db.stats().pins.bytes);
        let (visible, pinned) = (before.0.min(after.0), before.1.max(after.1));
        let fixed = 2 * UNSORTED_BYTES * THREADS + FLOOR_BYTES + pinned;
        let fill = bytes as f64 / (visible as f64 * SPACE_AMP + fixed as f64);
        samples += 1;
        if fill > nearest.max(1.0) {
            let stats = db.stats();
            breach = Some(format!(
                "{bytes} bytes, of which {pinned} pinned, for {visible} visible: {stats:?}"
            ));
        }
        nearest = nearest.max(fill);
        std::thread::sleep(Duration::from_millis(2));
    }
    assert!(breach.is_none(), "{name}: {}", breach.unwrap());
    (samples, nearest)
}

const BOTH: [Clustering; 2] = [Clustering::Never, Clustering::EveryMerge];

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
    watched("hot set", options(Clustering::Never), |stage| {
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
                stage.at_rest();
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
                        _ => stage.rng.random_range(0..65536),
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
fn a_quiesced_database_has_shrunk() {
    watched("quiesced", options(Clustering::Never), |stage| {
        (0..20_000).for_each(|id| stage.put(id, 1000));
        (0..20_000).for_each(|id| stage.delete(id));
        stage.db.quiesce().unwrap();
        let (_, bytes) = listed(stage.dir);
        assert!(bytes <= FLOOR_BYTES, "{bytes}: {:#?}", stage.db.stats());
    });
}

#[test]
fn snapshots_held_and_released() {
    for clustering in BOTH {
        let name = format!("snapshots, {clustering:?}");
        watched(&name, options(clustering), |stage| {
            (0..15_000).for_each(|id| stage.put(id, 1000));
            stage.keep();
            let snapshot = stage.db.snapshot();
            for _ in 0..40_000 {
                let id = stage.zipf(15_000);
                stage.put(id, 1000);
            }
            (0..15_000).for_each(|id| stage.delete(id));
            for id in (0..15_000).step_by(100) {
                assert!(snapshot.contains_key(key(id)).unwrap());
            }
            stage.db.quiesce().unwrap();
            assert!(
                listed(stage.dir).1 > 15_000_000,
                "the snapshot keeps its versions"
            );
            drop(snapshot);
        });
    }
}

#[test]
fn iterators_held_and_released() {
    watched("iterators", options(Clustering::EveryMerge), |stage| {
        (0..15_000).for_each(|id| stage.put(id, 1000));
        stage.keep();
        let mut iter = stage.db.iter();
        iter.next().unwrap().unwrap();
        for _ in 0..40_000 {
            let id = stage.zipf(15_000);
            stage.put(id, 1000);
        }
        assert!(stage.db.stats().pins.bytes > 1_000_000);
        stage.db.release_views();
        let pins = stage.db.stats().pins;
        assert_eq!((pins.views, pins.iterators), (0, 1));
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
            options(Clustering::Never),
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
