//! The memory promise, counted by the allocator: whatever the engine does, what it has allocated
//! stays inside `memory_budget`, down to small budgets and up to many partitions and iterators.
//!
//! The tests hold next to nothing themselves. Threads' stacks are no allocations.

#![allow(unsafe_code, reason = "a global allocator that counts")]
#![allow(clippy::unwrap_used, reason = "a test")]
#![allow(clippy::print_stdout, reason = "figures, shown by --nocapture")]

use std::alloc::{GlobalAlloc, Layout, System};
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};
use unikv::{Batch, Db, Options};

static LIVE_BYTES: AtomicUsize = AtomicUsize::new(0);
static PEAK_BYTES: AtomicUsize = AtomicUsize::new(0);
/// Held by the test that runs: all share the counters.
static TURN: Mutex<()> = Mutex::new(());

struct Counting;

fn grown(bytes: usize) {
    let live = LIVE_BYTES.fetch_add(bytes, Ordering::Relaxed) + bytes;
    PEAK_BYTES.fetch_max(live, Ordering::Relaxed);
}

// SAFETY: all calls go to the system's allocator as they came.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        grown(layout.size());
        // SAFETY: the caller's promise.
        unsafe { System.alloc(layout) }
    }

    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        grown(layout.size());
        // SAFETY: the caller's promise.
        unsafe { System.alloc_zeroed(layout) }
    }

    unsafe fn dealloc(&self, at: *mut u8, layout: Layout) {
        LIVE_BYTES.fetch_sub(layout.size(), Ordering::Relaxed);
        // SAFETY: the caller's promise.
        unsafe { System.dealloc(at, layout) }
    }

    unsafe fn realloc(&self, at: *mut u8, layout: Layout, new_len: usize) -> *mut u8 {
        // As if the old and the new memory never lived together: large ones are moved by their pages.
        if new_len >= layout.size() {
            grown(new_len - layout.size());
        } else {
            LIVE_BYTES.fetch_sub(layout.size() - new_len, Ordering::Relaxed);
        }
        // SAFETY: the caller's promise.
        unsafe { System.realloc(at, layout, new_len) }
    }
}

#[global_allocator]
static ALLOCATOR: Counting = Counting;

/// Watches the peak from its making on.
struct Meter {
    base: usize,
    budget: usize,
}

impl Meter {
    fn new(budget: usize) -> Meter {
        let base = LIVE_BYTES.load(Ordering::Relaxed);
        PEAK_BYTES.store(base, Ordering::Relaxed);
        Meter { base, budget }
    }

    /// The peak since the last check must be within the budget.
    fn check(&self, phase: &str, db: Option<&Db>) {
        let peak = PEAK_BYTES.load(Ordering::Relaxed) - self.base;
        let live = LIVE_BYTES.load(Ordering::Relaxed);
        PEAK_BYTES.store(live, Ordering::Relaxed);
        let memory = db.map(|db| db.stats().memory);
        println!("{phase}: peak {peak}, now {}, {memory:?}", live - self.base);
        assert!(
            peak <= self.budget,
            "{phase}: {peak} of {} bytes; {memory:?}",
            self.budget
        );
    }
}

/// A key of 24 bytes; neighbours stand together, the order of `i` is the order of keys.
fn key(i: u64) -> [u8; 24] {
    let mut key = *b"user....................";
    key[4..24].copy_from_slice(format!("{i:020}").as_bytes());
    key
}

/// Distinct numbers below `1 << 20` in an order that looks random.
fn scrambled(i: u64) -> u64 {
    (i.wrapping_mul(0x9e37_79b1) ^ (i >> 7)) & ((1 << 20) - 1)
}

fn write(db: &Db, keys: impl Iterator<Item = u64>, value: &[u8]) {
    let mut batch = Batch::new();
    for i in keys {
        batch.put(key(i), value);
        if batch.len() == 100 {
            db.write(&batch).unwrap();
            batch.clear();
        }
    }
    db.write(&batch).unwrap();
}

fn read(db: &Db, keys: impl Iterator<Item = u64>, value: &[u8]) {
    for i in keys {
        assert_eq!(db.get(key(i)).unwrap().as_deref(), Some(value), "{i}");
    }
}

/// A directory in memory where there is one: hundreds of merges sync thousands of files.
fn directory() -> tempfile::TempDir {
    let in_memory = tempfile::tempdir_in("/dev/shm");
    in_memory.or_else(|_| tempfile::tempdir()).unwrap()
}

#[test]
fn a_thousand_partitions_of_small_values_fit() {
    const BUDGET: usize = 16 << 20;
    const RECORDS: u64 = 400_000;
    let _turn = TURN.lock();
    let dir = directory();
    let options = Options::default()
        .memory_budget(BUDGET as u64)
        .unsorted_bytes(1 << 20)
        .partition_bytes(16 << 10)
        .key_table_bytes(4 << 10);
    let meter = Meter::new(BUDGET);
    let db = Db::open(dir.path(), options.clone()).unwrap();
    let value = [b'v'; 16];
    write(&db, 0..RECORDS, &value);
    db.compact().unwrap();
    meter.check("load", Some(&db));

    let snapshots: Vec<_> = (0..20).map(|_| db.snapshot()).collect();
    let mut iterators: Vec<_> = (0..200)
        .map(|i| db.range(key(i * RECORDS / 200)..))
        .collect();
    for iterator in &mut iterators {
        assert!(iterator.next().unwrap().is_ok());
    }
    meter.check("opening iterators", Some(&db));
    read(&db, (0..50_000).map(|i| scrambled(i) % RECORDS), &value);
    meter.check("reads", Some(&db));
    write(&db, (0..30_000).map(|i| scrambled(i) % RECORDS), &value);
    meter.check("updates", Some(&db));
    for iterator in &mut iterators {
        assert!(iterator.take(500).all(|item| item.is_ok()));
    }
    meter.check("scans", Some(&db));
    drop((iterators, snapshots));
    db.close().unwrap();
    meter.check("closing", None);

    let db = Db::open(dir.path(), options).unwrap();
    meter.check("reopening", Some(&db));
    read(&db, (0..50_000).map(|i| scrambled(i) % RECORDS), &value);
    db.quiesce().unwrap();
    meter.check("reads after reopening", Some(&db));
    let stats = db.stats();
    assert!(stats.partitions.len() >= 1000, "{}", stats.partitions.len());
    assert!(stats.memory.total() <= BUDGET as u64, "{:?}", stats.memory);
}

#[test]
fn large_batches_of_kilobyte_values_fit() {
    const BUDGET: usize = 32 << 20;
    const RECORDS: u64 = 50_000;
    let _turn = TURN.lock();
    let dir = directory();
    let options = Options::default()
        .memory_budget(BUDGET as u64)
        .unsorted_bytes(8 << 20)
        .partition_bytes(16 << 20)
        .background_threads(3);
    let meter = Meter::new(BUDGET);
    let db = Db::open(dir.path(), options.clone()).unwrap();
    let value = [b'v'; 1000];
    write(&db, (0..RECORDS).map(|i| scrambled(i) % RECORDS), &value);
    meter.check("load", Some(&db));
    let mut batch = Batch::new();
    for round in 0..20 {
        batch.clear();
        for i in round * 1000..(round + 1) * 1000 {
            batch.put(key(scrambled(i) % RECORDS), value);
        }
        db.write(&batch).unwrap();
    }
    drop(batch);
    meter.check("batches of a megabyte", Some(&db));
    std::thread::scope(|scope| {
        for thread in 0..4 {
            let db = &db;
            scope.spawn(move || {
                write(
                    db,
                    (0..10_000).map(|i| scrambled(i * 4 + thread) % RECORDS),
                    &value,
                )
            });
        }
    });
    meter.check("four writers", Some(&db));
    db.compact().unwrap();
    meter.check("compaction", Some(&db));
    let keys: Vec<u64> = (0..20_000).map(|i| scrambled(i) % RECORDS).collect();
    read(
        &db,
        keys.iter().copied().chain(keys.iter().copied()),
        &value,
    );
    meter.check("reads", Some(&db));
    let mut iterators: Vec<_> = (0..200).map(|_| db.iter()).collect();
    for iterator in &mut iterators {
        assert!(iterator.take(1000).all(|item| item.is_ok()));
    }
    meter.check("scans", Some(&db));
    drop(iterators);
    db.close().unwrap();
    let db = Db::open(dir.path(), options).unwrap();
    meter.check("reopening", Some(&db));
}
