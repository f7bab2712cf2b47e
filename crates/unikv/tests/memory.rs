//! The memory promise, counted by the allocator and where memory is mapped: whatever the engine
//! does, what it has taken stays inside `memory_budget`, down to small budgets and up to many
//! partitions and iterators.
//!
//! The tests hold next to nothing themselves. Threads' stacks are no allocations.

#![allow(unsafe_code, reason = "a global allocator that counts")]
#![allow(clippy::unwrap_used, reason = "a test")]

mod counting;
mod limit;

use counting::{PEAK_BYTES, live_bytes};
use limit::limit;
use std::collections::BTreeSet;
use std::path::Path;
use std::sync::Mutex;
use std::sync::atomic::Ordering;
use std::time::Duration;
use unikv::{Batch, Db, Options, Tuning};
use unikv_shapes::Shape;

/// Held by the test that runs: all share the counters.
static TURN: Mutex<()> = Mutex::new(());

/// Watches the peak from its making on.
struct Meter {
    base: usize,
    budget: usize,
}

impl Meter {
    fn new(budget: usize) -> Meter {
        let base = live_bytes();
        PEAK_BYTES.store(base, Ordering::Relaxed);
        Meter { base, budget }
    }

    /// The peak since the last check must be within the budget.
    fn check(&self, phase: &str, db: Option<&Db>) {
        self.check_beside(0, phase, db);
    }

    /// The same beside this many bytes of the caller's.
    fn check_beside(&self, callers: usize, phase: &str, db: Option<&Db>) {
        // What the test before has left may have gone meanwhile: then there is less than at first.
        let since = |bytes: usize| bytes.saturating_sub(self.base);
        let peak = since(PEAK_BYTES.load(Ordering::Relaxed)).saturating_sub(callers);
        let live = live_bytes();
        PEAK_BYTES.store(live, Ordering::Relaxed);
        let memory = db.map(|db| db.stats().memory);
        println!("{phase}: peak {peak}, now {}, {memory:?}", since(live));
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

/// A copy of a directory as of a time in which no file came or went.
fn copied(dir: &Path) -> tempfile::TempDir {
    let names = || -> BTreeSet<_> {
        let entries = std::fs::read_dir(dir).unwrap();
        entries.map(|entry| entry.unwrap().file_name()).collect()
    };
    loop {
        let (copy, before) = (directory(), names());
        let copied = before
            .iter()
            .all(|name| std::fs::copy(dir.join(name), copy.path().join(name)).is_ok());
        if copied && before == names() {
            return copy;
        }
        std::thread::sleep(Duration::from_millis(20));
    }
}

#[test]
fn a_thousand_partitions_of_small_values_fit() {
    const BUDGET: usize = 24 << 20;
    const RECORDS: u64 = 400_000;
    let _turn = TURN.lock();
    let dir = directory();
    let options = Options::default().memory_budget(BUDGET as u64).tuning(
        Tuning::default()
            .unsorted_bytes(1 << 20)
            .partition_bytes(16 << 10)
            .key_table_bytes(4 << 10),
    );
    let meter = Meter::new(BUDGET);
    let db = Db::open(dir.path(), options.clone()).unwrap();
    let value = [b'v'; 16];
    write(&db, 0..RECORDS, &value);
    db.compact().unwrap();
    meter.check("load", Some(&db));
    // How many there are by now depends on the order of flushes and splits: 994 to 1,072.
    let partitions = db.stats().partitions.len();
    assert!(partitions >= 800, "{partitions} partitions");
    read(&db, (0..50_000).map(|i| scrambled(i) % RECORDS), &value);
    meter.check("reads", Some(&db));

    // Each flush reaches hundreds of partitions, and two iterators begin in the view that it made.
    let (mut snapshots, mut iterators) = (Vec::new(), Vec::new());
    for round in 0..100 {
        let keys = (round * 600..(round + 1) * 600).map(|i| scrambled(i) % RECORDS);
        write(&db, keys, &value);
        db.flush().unwrap();
        snapshots.push(db.snapshot());
        for place in [round, 100 + round] {
            let mut iterator = db.range(key(place * RECORDS / 200)..);
            assert!(iterator.next().unwrap().is_ok());
            iterators.push(iterator);
        }
    }
    let pins = db.stats().pins;
    assert_eq!((pins.snapshots, pins.iterators), (100, 200));
    meter.check("a view and a moment of each iterator", Some(&db));
    for iterator in &mut iterators {
        assert!(iterator.take(500).all(|item| item.is_ok()));
    }
    for snapshot in &snapshots {
        assert!(snapshot.iter().take(50).all(|item| item.is_ok()));
    }
    meter.check("scans", Some(&db));
    drop((iterators, snapshots));
    db.close().unwrap();
    meter.check("closing", None);

    // As if the process had been killed: what is copied has a log that was never flushed.
    let db = Db::open(dir.path(), options.clone()).unwrap();
    // Jobs end, so that files can be copied soon; then so little that it stays in the memtable.
    db.flush().unwrap();
    db.wait_until_idle().unwrap();
    write(&db, (0..1000).map(|i| scrambled(i) % RECORDS), &value);
    let killed = copied(dir.path());
    db.close().unwrap();
    meter.check("closing again", None);
    let db = Db::open(killed.path(), options.clone()).unwrap();
    assert!(db.recovery().wal_ops >= 1000, "{:?}", db.recovery());
    meter.check("recovery", Some(&db));
    read(&db, (0..6000).map(|i| scrambled(i) % RECORDS), &value);
    db.close().unwrap();
    meter.check("closing what was recovered", None);

    let db = Db::open(dir.path(), options).unwrap();
    meter.check("reopening", Some(&db));
    read(&db, (0..50_000).map(|i| scrambled(i) % RECORDS), &value);
    db.wait_until_idle().unwrap();
    meter.check("reads after reopening", Some(&db));
    let stats = db.stats();
    assert!(stats.partitions.len() >= 800, "{}", stats.partitions.len());
    assert!(stats.memory.total() <= BUDGET as u64, "{:?}", stats.memory);
}

/// A key and a value of the longest kind, as the caller has them.
const CALLERS: usize = (1 << 20) + (64 << 10);

#[test]
fn every_shape_fits_with_a_hundred_iterators() {
    const BUDGET: usize = 64 << 20;
    const BYTES: u64 = 36 << 20;
    let _turn = TURN.lock();
    for shape in Shape::ALL {
        let dir = directory();
        let options = Options::default()
            .memory_budget(BUDGET as u64)
            .tuning(Tuning::default().unsorted_bytes(8 << 20));
        let meter = Meter::new(BUDGET + BUDGET / 20);
        let db = Db::open(dir.path(), options.clone()).unwrap();
        let value = vec![7; 1 << 20];
        let keys = shape.keys_in(BYTES);
        let put = |id, version| {
            let value = &value[..shape.value_len(id, version)];
            db.put(shape.key(id), value).unwrap();
        };
        let check = |phase: &str, db: Option<&Db>| {
            let phase = format!("{}: {phase}", shape.name());
            meter.check_beside(CALLERS, &phase, db);
        };
        (0..keys).for_each(|id| put(id, 1));
        check("load", Some(&db));
        let scan = |db: &Db| {
            let mut iterators: Vec<_> = (0..100)
                .map(|i| db.range(shape.key(scrambled(i) % keys)..))
                .collect();
            for iterator in &mut iterators {
                assert!(iterator.take(20).all(|item| item.is_ok()));
                assert!(iterator.rev().take(5).all(|item| item.is_ok()));
            }
            check("a hundred iterators", Some(db));
        };
        scan(&db);
        let updates = (keys / 2).max(if keys == 1 { 50_000 } else { 0 });
        for i in 0..updates {
            let id = scrambled(i) % keys;
            match i % 8 {
                0 => db.delete(shape.key(id)).unwrap(),
                _ => put(id, 2 + i / keys),
            }
        }
        check("updates", Some(&db));
        scan(&db);
        db.compact().unwrap();
        check("compaction", Some(&db));
        scan(&db);
        for i in 0..2000 {
            db.get(shape.key(scrambled(i) % keys)).unwrap();
        }
        check("gets", Some(&db));
        db.close().unwrap();
        check("closing", None);
        let db = Db::open(dir.path(), options).unwrap();
        check("reopening", Some(&db));
        scan(&db);
    }
}

/// What the figures of memory count is what is allocated.
#[test]
fn the_figures_of_memory_are_what_is_allocated() {
    const BUDGET: usize = 25 << 20;
    const KEYSPACES: usize = 300;
    let _turn = TURN.lock();
    let dir = directory();
    let base = live_bytes();
    let options = Options::default().memory_budget(BUDGET as u64);
    let db = Db::open(dir.path(), options).unwrap();
    let compare = |phase: &str| {
        db.wait_until_idle().unwrap();
        let (live, memory) = (live_bytes() - base, db.stats().memory);
        let counted = memory.total() as usize;
        println!("{phase}: {live} allocated, {counted} counted, {memory:?}");
        let most = (live / 10).max(1 << 20);
        assert!(live.abs_diff(counted) <= most, "{phase}: {live} {memory:?}");
    };
    compare("open");
    let names: Vec<_> = (0..KEYSPACES).map(|i| format!("keyspace {i}")).collect();
    let default = unikv::KeyspaceOptions::default;
    let made = names
        .iter()
        .map(|name| db.keyspace(name, default()).unwrap());
    let keyspaces: Vec<_> = made.collect();
    for (keyspace, i) in keyspaces.iter().zip(0..) {
        (0..100).for_each(|n| keyspace.put(key(n * 7 + i), [7; 200]).unwrap());
    }
    compare("written");
    db.flush().unwrap();
    compare("flushed");
    write(&db, 0..60_000, &[7; 300]);
    compare("one large keyspace");
    db.compact().unwrap();
    compare("merged");
    read(&db, 0..60_000, &[7; 300]);
    compare("read");
    let snapshots: Vec<_> = (0..50).map(|_| db.snapshot()).collect();
    let mut iterators: Vec<_> = (0..200).map(|i| keyspaces[i].iter()).collect();
    iterators.extend((0..50).map(|i| db.range(key(scrambled(i) % 60_000)..)));
    for iterator in &mut iterators {
        assert!(iterator.take(20).all(|item| item.is_ok()));
    }
    compare("iterators");
    write(&db, (0..60_000).step_by(3), &[7; 300]);
    compare("writes beside iterators");
    let mut transactions: Vec<_> = (0..20).map(|_| db.begin()).collect();
    for (transaction, i) in transactions.iter_mut().zip(0..) {
        for n in 0..1000 {
            transaction
                .get(key(scrambled(n * 20 + i) % 60_000))
                .unwrap();
        }
    }
    compare("transactions");
    drop((iterators, snapshots, transactions));
    compare("all of them gone");
}

#[test]
fn large_batches_of_kilobyte_values_fit() {
    const BUDGET: usize = 32 << 20;
    const RECORDS: u64 = 50_000;
    let _turn = TURN.lock();
    let dir = directory();
    let options = Options::default().memory_budget(BUDGET as u64).tuning(
        Tuning::default()
            .unsorted_bytes(8 << 20)
            .partition_bytes(16 << 20)
            .background_threads(3),
    );
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
    batch.clear();
    for i in 0..8000 {
        batch.put(key(scrambled(i) % RECORDS), value);
    }
    db.write(&batch).unwrap();
    // What comes after has no part of the batch in its peak.
    let callers = batch.byte_len();
    drop(batch);
    let phase = "batches, one of a quarter of the budget";
    meter.check_beside(callers, phase, Some(&db));
    let _limit = limit("writers");
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

/// A value of `len` bytes is put, read, scanned past, checked and moved by garbage collection;
/// beside the caller's own buffers the engine stays within its budget.
fn a_long_value_fits(len: usize, budget: usize) {
    let _turn = TURN.lock();
    let dir = tempfile::tempdir().unwrap();
    let options = Options::default()
        .memory_budget(budget as u64)
        .tuning(Tuning::default().memtable_bytes(1 << 20))
        .max_space_amp(1.1);
    let base = live_bytes();
    let phase = |name: &str, callers: usize| {
        let live = live_bytes();
        let peak = PEAK_BYTES.swap(live, Ordering::Relaxed) - base;
        let own = peak.saturating_sub(callers);
        println!("{name}: peak {own} beside {callers} of the caller's, budget {budget}");
        assert!(own <= budget, "{name}: {own} of {budget} bytes");
    };
    let value: Vec<u8> = (0..len).map(|i| (i ^ (i >> 8) ^ (i >> 16)) as u8).collect();
    phase("value", len);
    let db = Db::open(dir.path(), options).unwrap();
    db.put(b"m", &value).unwrap();
    write(&db, 0..2000, &[7; 1000]);
    phase("put", len);
    let read = db.get(b"m").unwrap().unwrap();
    // Its frame is read with it.
    assert_eq!(read, value);
    phase("get", 2 * len + 4096);
    drop(read);
    let scan = |callers| {
        let past = db.iter().map(|e| e.unwrap().1.len()).sum::<usize>();
        assert_eq!(past, len + 2000 * 1000);
        phase("scan", callers);
    };
    scan(2 * len + 4096);
    db.put(b"m", &value).unwrap();
    phase("overwrite", len);
    db.compact().unwrap();
    scan(2 * len + 4096);
    // Two values in one file, of which the shorter dies.
    let short = (len / 2).min(63 << 20);
    let mut batch = Batch::new();
    batch.put(b"a", &value[..short]).put(b"b", &value);
    let with_batch = 2 * len + short + 4096;
    phase("batch", with_batch);
    db.write(&batch).unwrap();
    phase("write", with_batch);
    drop(batch);
    db.delete(b"a").unwrap();
    db.delete(b"m").unwrap();
    phase("delete", with_batch);
    for _ in 0..2 {
        // The second merge takes the collection along.
        db.put(b"small", b"value").unwrap();
        db.compact().unwrap();
    }
    db.wait_until_idle().unwrap();
    phase("collect", len);
    let stats = db.stats();
    assert!(stats.merge_copied_bytes + stats.gc_copied_bytes >= len as u64);
    assert!(stats.record_file_bytes < (len + (4 << 20)) as u64);
    assert_eq!(db.get(b"b").unwrap().unwrap(), value);
    phase("get", 2 * len + 4096);
    db.close().unwrap();
    let report = Db::check(dir.path()).unwrap();
    assert!(report.is_clean(), "{:?}", report.problems);
    // The check has a cache of its own, of 16 MiB.
    phase("check", 2 * len + (20 << 20));
}

#[test]
fn a_value_longer_than_the_budget_fits() {
    a_long_value_fits(48 << 20, 16 << 20);
}

/// `cargo test --release -p unikv-db --test memory -- --ignored --nocapture`: needs 5 GB of memory.
#[test]
#[ignore = "takes 5 GB of memory and as much disk"]
fn a_value_of_a_gibibyte_fits() {
    a_long_value_fits(1 << 30, 64 << 20);
}
