//! The promise on disk space (I7), on the real file system: while writers and the background work, a
//! thread lists the directory every few milliseconds, and at least once every two thousand writes, and no
//! listing may exceed
//!
//! > `max_space_amp` × (keys and values of visible records) + 70 bytes and once more the key for those with
//! > keys of more than 32 bytes or values of less than 256 + log + 2 × `unsorted_bytes` for each background
//! > thread + the floor + what is pinned,
//!
//! and soon after the last write, without the share of the background threads and with nothing pinned.
//! What is visible is the model's own, the least of a listing's time. `Stats` tells what is pinned:
//! the bytes of files that are only held, and of older versions, which have their share of garbage and
//! count until all is at rest, as what was kept has to be reclaimed first.

#![allow(
    clippy::unwrap_used,
    clippy::panic,
    clippy::print_stderr,
    reason = "a test that cannot set its stage must fail; the figures are for whoever reads its output"
)]

mod standstill;

use rand::rngs::SmallRng;
use rand::{Rng, SeedableRng};
use standstill::Standstill;
use std::collections::HashMap;
use std::fs;
use std::io::ErrorKind;
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Condvar, Mutex};
use std::time::{Duration, Instant};
use unikv::{Batch, Clustering, Db, Options};

const SPACE_AMP: f64 = 1.5;
const MEMTABLE_BYTES: u64 = 256 << 10;
/// Values of a quarter of a memtable are large.
const LARGE_BYTES: usize = MEMTABLE_BYTES as usize / 4;
const UNSORTED_BYTES: u64 = 2 << 20;
const THREADS: u64 = 2;
/// As documented at [`Options::max_space_amp`].
const FLOOR_BYTES: u64 = (8 << 20) + 11 * MEMTABLE_BYTES;

/// After so many puts and deletes a writer waits for a listing.
const LISTED_EVERY: u64 = 2000;

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

/// What the writers and the watch of a stage share.
struct Shared<'a> {
    dir: &'a Path,
    db: &'a Db,
    name: &'a str,
    /// What is promised for the visible records, at least.
    promised: AtomicU64,
    listings: Listings,
    /// The most that versions took which only snapshots and iterators kept, since all was at rest.
    kept: AtomicU64,
}

/// How often the directory has been listed.
#[derive(Default)]
struct Listings {
    count: Mutex<u64>,
    more: Condvar,
}

impl Listings {
    fn add(&self, more: u64) {
        let mut count = self.count.lock().unwrap();
        *count = count.saturating_add(more);
        self.more.notify_all();
    }

    /// Waits for one that begins from now on: the one that is under way may have begun before.
    fn wait(&self) {
        let mut count = self.count.lock().unwrap();
        let wanted = count.saturating_add(2);
        while *count < wanted {
            count = self.more.wait(count).unwrap();
        }
    }
}

/// Nobody waits for listings that do not come.
struct NoMore<'a>(&'a Listings);

impl Drop for NoMore<'_> {
    fn drop(&mut self) {
        self.0.add(u64::MAX);
    }
}

impl Shared<'_> {
    /// What files may take with `kept` bytes in older versions, and no job.
    fn most_with(&self, kept: u64) -> f64 {
        let promised = self.promised.load(Ordering::SeqCst) + FLOOR_BYTES;
        promised as f64 + kept as f64 * self.db.options().max_space_amp
    }

    /// Bytes of pinned files; notes what kept versions take.
    fn pinned(&self) -> u64 {
        let pins = self.db.stats().pins;
        self.kept.fetch_max(pins.version_bytes, Ordering::SeqCst);
        pins.bytes
    }
}

/// One writer: what it has written the database must hold.
struct Stage<'a> {
    shared: &'a Shared<'a>,
    dir: &'a Path,
    db: &'a Db,
    lens: HashMap<u64, usize>,
    rng: SmallRng,
    /// Puts and deletes since it waited for a listing.
    writes: u64,
}

/// The bytes that a record may take: see [`Options::max_space_amp`].
fn promised(key: usize, value: usize, amp: f64) -> u64 {
    let frames_count = key > 32 || value < 256 || amp < 1.5;
    let frame = if frames_count { 70 + key } else { 0 };
    ((key + value) as f64 * amp) as u64 + frame as u64
}

fn key(id: u64) -> String {
    format!("user{id:012}")
}

impl<'a> Stage<'a> {
    fn new(shared: &'a Shared<'a>, seed: u64) -> Stage<'a> {
        Stage {
            shared,
            dir: shared.dir,
            db: shared.db,
            lens: HashMap::new(),
            rng: SmallRng::seed_from_u64(seed),
            writes: 0,
        }
    }

    /// Notes the new length of an id. Returns the bytes it took and those it takes.
    fn note(&mut self, id: u64, len: Option<usize>) -> (u64, u64) {
        self.writes += 1;
        let before = match len {
            Some(len) => self.lens.insert(id, len),
            None => self.lens.remove(&id),
        };
        let amp = self.db.options().max_space_amp;
        let promised = |len: Option<usize>| len.map_or(0, |len| promised(key(id).len(), len, amp));
        (promised(before), promised(len))
    }

    /// Counts the smaller of both states from before `write` to its end.
    fn counted(
        &mut self,
        (before, after): (u64, u64),
        write: impl FnOnce(&Db) -> unikv::Result<()>,
    ) {
        let promised = &self.shared.promised;
        promised.fetch_sub(before.saturating_sub(after), Ordering::SeqCst);
        write(self.db).unwrap();
        promised.fetch_add(after.saturating_sub(before), Ordering::SeqCst);
        if self.writes >= LISTED_EVERY {
            self.writes = 0;
            self.shared.listings.wait();
        }
    }

    fn value(&mut self, len: usize) -> Vec<u8> {
        let mut value = vec![0; len];
        self.rng.fill(&mut value[..]);
        value
    }

    fn put(&mut self, id: u64, len: usize) {
        let value = self.value(len);
        let change = self.note(id, Some(len));
        self.counted(change, |db| db.put(key(id), &value));
    }

    fn delete(&mut self, id: u64) {
        let change = self.note(id, None);
        self.counted(change, |db| db.delete(key(id)));
    }

    /// Puts, or without a length deletes, in one batch.
    fn batch(&mut self, ids: impl IntoIterator<Item = u64>, len: Option<usize>) {
        let (mut batch, mut before, mut after) = (Batch::new(), 0, 0);
        for id in ids {
            match len {
                Some(len) => batch.put(key(id), self.value(len)),
                None => batch.delete(key(id)),
            };
            let change = self.note(id, len);
            (before, after) = (before + change.0, after + change.1);
        }
        self.counted((before, after), |db| db.write(&batch));
    }

    /// One of `n` ids, the k-th with a weight of 1/k, spread over the range.
    fn zipf(&mut self, n: u64) -> u64 {
        let rank = (n as f64).powf(self.rng.random::<f64>()) as u64;
        rank.wrapping_mul(0x9e37_79b9_7f4a_7c15) % n
    }

    /// Waits until the promise holds without the background's share and with nothing kept or pinned,
    /// with nobody writing or asking for it.
    fn at_rest(&self) {
        let mut watchdog = Standstill::new(self.db);
        loop {
            let pins = self.db.stats().pins;
            assert_eq!(
                (pins.snapshots, pins.iterators, pins.version_bytes),
                (0, 0, 0)
            );
            let (_, bytes) = listed(self.dir);
            if bytes as f64 <= self.shared.most_with(0) && pins.bytes == 0 {
                self.shared.kept.store(0, Ordering::SeqCst);
                return;
            }
            let (name, promised) = (self.shared.name, &self.shared.promised);
            watchdog.look(self.db, &|| {
                format!("{name}: at rest {bytes} bytes for {promised:?} promised")
            });
            std::thread::sleep(Duration::from_millis(20));
        }
    }
}

/// Runs `play` on a new database while its directory is watched.
fn watched(name: &str, options: Options, play: impl FnOnce(&mut Stage<'_>)) {
    let dir = tempfile::tempdir().unwrap();
    let db = Db::open(dir.path(), options).unwrap();
    let shared = Shared {
        dir: dir.path(),
        db: &db,
        name,
        promised: AtomicU64::new(0),
        listings: Listings::default(),
        kept: AtomicU64::new(0),
    };
    let over = AtomicBool::new(false);
    let begin = Instant::now();
    std::thread::scope(|scope| {
        let watch = scope.spawn(|| watch(&shared, &over));
        let mut stage = Stage::new(&shared, 1);
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
        for (id, len) in &stage.lens {
            assert_eq!(db.get(key(*id)).unwrap().map(|v| v.len()), Some(*len));
        }
    });
}

/// Lists the directory until `over`. Returns how often, and how near it came to what is promised.
fn watch(shared: &Shared<'_>, over: &AtomicBool) -> (u64, f64) {
    let _no_more = NoMore(&shared.listings);
    let (mut samples, mut nearest) = (0, 0.0f64);
    let mut breach = None;
    while !over.load(Ordering::SeqCst) {
        let look = || {
            let pinned = shared.pinned();
            (pinned, shared.most_with(shared.kept.load(Ordering::SeqCst)))
        };
        let before = look();
        let (_, bytes) = listed(shared.dir);
        let after = look();
        let (pinned, at_rest) = (before.0.max(after.0), before.1.min(after.1));
        let most = at_rest + (2 * UNSORTED_BYTES * THREADS + pinned) as f64;
        let fill = bytes as f64 / most;
        samples += 1;
        shared.listings.add(1);
        if fill > nearest.max(1.0) {
            let stats = shared.db.stats();
            breach = Some(format!(
                "{bytes} bytes of {most}, of which {pinned} pinned, for {:?} promised and {:?} kept: {stats:?}",
                shared.promised, shared.kept
            ));
        }
        nearest = nearest.max(fill);
        std::thread::sleep(Duration::from_millis(2));
    }
    assert!(breach.is_none(), "{}: {}", shared.name, breach.unwrap());
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
    watched("iterators", options(Clustering::EveryMerge), |stage| {
        (0..15_000).for_each(|id| stage.put(id, 1000));
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
    watched("batches of puts", options(Clustering::Never), |stage| {
        for first in (0..20_000).step_by(1000) {
            stage.batch(first..first + 1000, Some(1000));
        }
        // Those of short values fit into a memtable; the others write their values apart.
        for len in [1000, 200].repeat(20) {
            let ids: Vec<u64> = (0..1000).map(|_| stage.zipf(20_000)).collect();
            stage.batch(ids, Some(len));
        }
    });
}

#[test]
fn batches_of_a_thousand_deletes() {
    watched("batches of deletes", options(Clustering::Never), |stage| {
        (0..20_000).for_each(|id| stage.put(id, 1000));
        for first in (0..20_000u64).step_by(1000) {
            let ids = first..first + 1000;
            stage.batch(ids.map(|id| id.wrapping_mul(0x9e37_79b1) % 20_000), None);
        }
    });
}

#[test]
fn four_writers() {
    watched("four writers", options(Clustering::Never), |stage| {
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
fn the_least_factor() {
    let options = options(Clustering::Never).max_space_amp(1.1);
    watched("a factor of 1.1", options, |stage| {
        (0..30_000).for_each(|id| stage.put(id, 1000));
        for _ in 0..20_000 {
            let id = stage.rng.random_range(0..30_000);
            stage.put(id, 1000);
        }
        (0..10_000).for_each(|id| stage.delete(id));
    });
}
