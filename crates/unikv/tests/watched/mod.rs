//! A database of which the directory is watched while a stage is played on it: see `space.rs` for
//! what no listing may exceed.

#![allow(dead_code, reason = "each test needs a part of it")]

use super::limit::limit;
use super::standstill::Standstill;
use rand::rngs::SmallRng;
use rand::{Rng, SeedableRng};
use std::collections::HashMap;
use std::fs;
use std::io::ErrorKind;
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Condvar, Mutex};
use std::time::{Duration, Instant};
use unikv::{Batch, Clustering, Db, Options, Stats, Tuning};
use unikv_shapes::Shape;

pub const SPACE_AMP: f64 = 1.5;
pub const MEMTABLE_BYTES: u64 = 256 << 10;
/// Values of a quarter of a memtable are large.
pub const LARGE_BYTES: usize = MEMTABLE_BYTES as usize / 4;
pub const UNSORTED_BYTES: u64 = 2 << 20;
pub const THREADS: u64 = 2;
/// As documented at [`Options::max_space_amp`].
pub const FLOOR_BYTES: u64 = (8 << 20) + 11 * MEMTABLE_BYTES;

/// After this many puts and deletes a writer waits for a listing.
const LISTED_EVERY: u64 = 2000;

pub fn options(clustering: Clustering) -> Options {
    Options::default()
        .tuning(
            Tuning::default()
                .memtable_bytes(MEMTABLE_BYTES)
                .unsorted_bytes(UNSORTED_BYTES)
                .partition_bytes(16 << 20)
                .key_table_bytes(32 << 10)
                .background_threads(THREADS as usize),
        )
        .max_space_amp(SPACE_AMP)
        .memory_budget(16 << 20)
        .clustering(clustering)
}

/// Bytes of the log and of all other files.
pub fn listed(dir: &Path) -> (u64, u64) {
    let (mut log, mut other) = (0, 0);
    for entry in fs::read_dir(dir).unwrap() {
        let entry = entry.unwrap();
        let bytes = match entry.metadata() {
            Ok(meta) => meta.blocks() * 512,
            // Removed since the listing began.
            Err(error) if error.kind() == ErrorKind::NotFound => 0,
            Err(error) => panic!("{error}"),
        };
        if entry.file_name().to_string_lossy().ends_with(".wal") {
            log += bytes
        } else {
            other += bytes
        }
    }
    (log, other)
}

/// What the writers and the watch of a stage share.
pub struct Shared<'a> {
    dir: &'a Path,
    db: &'a Db,
    name: &'a str,
    /// By which ids have their keys; `None`: as text of 16 bytes.
    shape: Option<Shape>,
    /// What is promised for the visible records, at least.
    promised: AtomicU64,
    listings: Listings,
    /// The most that versions took which only snapshots and iterators kept, since the database was
    /// idle.
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
    pub fn key(&self, id: u64) -> Vec<u8> {
        match self.shape {
            Some(shape) => shape.key(id),
            None => format!("user{id:012}").into_bytes(),
        }
    }

    /// What files may take with `kept` bytes in older versions, and no job.
    fn most_with(&self, kept: u64) -> f64 {
        let window = self.db.options().change_window_bytes;
        let promised = self.promised.load(Ordering::SeqCst) + FLOOR_BYTES + window;
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
pub struct Stage<'a> {
    pub shared: &'a Shared<'a>,
    pub dir: &'a Path,
    pub db: &'a Db,
    pub lens: HashMap<u64, usize>,
    pub rng: SmallRng,
    /// Puts and deletes since it waited for a listing.
    writes: u64,
}

/// The bytes that a record may take: see [`Options::max_space_amp`].
fn promised(key: usize, value: usize, amp: f64) -> u64 {
    let frames_count = key > 32 || value < 256 || amp < 1.5;
    let frame = if frames_count { 70 + key } else { 0 };
    ((key + value) as f64 * amp) as u64 + frame as u64
}

impl<'a> Stage<'a> {
    pub fn new(shared: &'a Shared<'a>, seed: u64) -> Stage<'a> {
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
        let promised =
            |len: Option<usize>| len.map_or(0, |len| promised(self.shared.key(id).len(), len, amp));
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

    pub fn put(&mut self, id: u64, len: usize) {
        let value = self.value(len);
        let change = self.note(id, Some(len));
        let key = self.shared.key(id);
        self.counted(change, |db| db.put(key, &value));
    }

    pub fn delete(&mut self, id: u64) {
        let change = self.note(id, None);
        let key = self.shared.key(id);
        self.counted(change, |db| db.delete(key));
    }

    /// Puts, or without a length deletes, in one batch.
    pub fn batch(&mut self, ids: impl IntoIterator<Item = u64>, len: Option<usize>) {
        let (mut batch, mut before, mut after) = (Batch::new(), 0, 0);
        for id in ids {
            match len {
                Some(len) => batch.put(self.shared.key(id), self.value(len)),
                None => batch.delete(self.shared.key(id)),
            };
            let change = self.note(id, len);
            (before, after) = (before + change.0, after + change.1);
        }
        self.counted((before, after), |db| db.write(&batch));
    }

    /// Puts all of these in one ingest; the keys ascend with the ids.
    pub fn ingest(&mut self, ids: impl IntoIterator<Item = u64>, len: usize) {
        let (mut entries, mut before, mut after) = (Vec::new(), 0, 0);
        for id in ids {
            entries.push(Ok((self.shared.key(id), Some(self.value(len)))));
            let change = self.note(id, Some(len));
            (before, after) = (before + change.0, after + change.1);
        }
        self.counted((before, after), |db| {
            db.ingest_sorted(entries, None).map(drop)
        });
    }

    /// One of `n` ids, the k-th with a weight of 1/k, spread over the range.
    pub fn zipf(&mut self, n: u64) -> u64 {
        let rank = (n as f64).powf(self.rng.random::<f64>()) as u64;
        rank.wrapping_mul(0x9e37_79b9_7f4a_7c15) % n
    }

    /// Waits until the promise holds without the background's share and with nothing kept or
    /// pinned, with nobody writing or asking for it.
    pub fn wait_until_idle(&self) {
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
                format!("{name}: idle, {bytes} bytes for {promised:?} promised")
            });
            std::thread::sleep(Duration::from_millis(20));
        }
    }
}

/// Runs `play` on a new database while its directory is watched, and returns the greatest share of
/// the promise that any listing took.
pub fn watched(
    name: &str,
    options: Options,
    shape: Option<Shape>,
    play: impl FnOnce(&mut Stage<'_>),
) -> (f64, Stats) {
    let dir = tempfile::tempdir().unwrap();
    let db = Db::open(dir.path(), options).unwrap();
    let shared = Shared {
        dir: dir.path(),
        db: &db,
        name,
        shape,
        promised: AtomicU64::new(0),
        listings: Listings::default(),
        kept: AtomicU64::new(0),
    };
    let over = AtomicBool::new(false);
    let begin = Instant::now();
    let _limit = limit("a load and its watcher");
    let nearest = std::thread::scope(|scope| {
        let watch = scope.spawn(|| watch(&shared, &over));
        let mut stage = Stage::new(&shared, 1);
        let played = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
            play(&mut stage);
            stage.wait_until_idle();
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
            let value = db.get(shared.key(*id)).unwrap();
            assert_eq!(value.map(|v| v.len()), Some(*len));
        }
        nearest
    });
    (nearest, db.stats())
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
        let (pinned, kept) = (before.0.max(after.0), before.1.min(after.1));
        let most = kept + (2 * UNSORTED_BYTES * THREADS + pinned) as f64;
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
