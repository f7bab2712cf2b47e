//! What the keys and values keep in memory that a caller holds: little more than themselves, and
//! what the memory budget counts. Counted by the allocator.

#![allow(unsafe_code, reason = "a global allocator that counts")]
#![allow(clippy::unwrap_used, reason = "a test")]

mod counting;

use counting::live_bytes;
use std::sync::Mutex;
use unikv::{Batch, Bytes, Clustering, Db, Options, Tuning};

const BUDGET: usize = 16 << 20;
const RECORDS: usize = 4000;
/// How many keys or values are held at last.
const HELD: usize = 100_000;
/// Beside the bytes themselves: a record's header, its key, the slack of its buffer, and what
/// stands before shared bytes.
const BESIDE: usize = 160;

/// Held by the test that runs: all share the counters.
static TURN: Mutex<()> = Mutex::new(());

/// What a test holds, and what was allocated before there was a database.
struct Held {
    base: usize,
    bytes: Vec<Bytes>,
    own: usize,
}

impl Held {
    fn new() -> Held {
        Held {
            base: live_bytes(),
            bytes: Vec::with_capacity(HELD),
            own: 0,
        }
    }

    fn hold(&mut self, bytes: Bytes, db: &Db) {
        self.own += bytes.len() + bytes.len() / 4 + BESIDE;
        self.bytes.push(bytes);
        if self.bytes.len().is_multiple_of(1000) {
            self.check(db);
        }
    }

    /// All that is allocated is the database's, which counts it, or what is held.
    fn check(&self, db: &Db) {
        let handles = self.bytes.capacity() * size_of::<Bytes>();
        let all = live_bytes() - self.base - handles;
        let (held, memory) = (self.bytes.len(), db.stats().memory);
        assert!(
            all <= self.own + BUDGET,
            "{all} bytes with {held} held, which may be {}; {memory:?}",
            self.own
        );
        assert!(memory.total() <= BUDGET as u64, "{memory:?}");
        assert!(memory.handed_out <= BUDGET as u64 / 4, "{memory:?}");
    }
}

fn options() -> Options {
    Options::default()
        .memory_budget(BUDGET as u64)
        .tuning(Tuning::default().memtable_bytes(1 << 20))
        .clustering(Clustering::LeastWriting)
}

/// Keys of `len` bytes, in the order of `i`.
fn key(i: usize, len: usize) -> Vec<u8> {
    format!("{:a<len$}", format!("{:06}", i % RECORDS)).into_bytes()
}

fn loaded(dir: &tempfile::TempDir, key_len: usize, value_len: usize) -> Db {
    let db = Db::open(dir.path(), options()).unwrap();
    for i in 0..RECORDS {
        let value = vec![i as u8; value_len];
        db.put(key(i, key_len), value).unwrap();
    }
    db
}

#[test]
fn one_value_of_many_that_were_read_together_keeps_only_itself() {
    let _turn = TURN.lock();
    let dir = tempfile::tempdir().unwrap();
    let mut held = Held::new();
    let db = loaded(&dir, 16, 300);
    for is_sorted in [false, true] {
        if is_sorted {
            db.compact().unwrap()
        } else {
            db.flush().unwrap()
        }
        for i in 0..HELD / 2 {
            let from = key(i * 13 % (RECORDS - 16), 16);
            let mut iter = db.range(from..).expecting(16);
            let (_, value) = iter.nth(i % 3).unwrap().unwrap();
            held.hold(value, &db);
        }
    }
    held.check(&db);
    assert!(db.stats().memory.handed_out > 0);
    held.bytes.clear();
    assert_eq!(db.stats().memory.handed_out, 0);
}

#[test]
fn one_key_of_a_batch_keeps_only_itself() {
    let _turn = TURN.lock();
    let dir = tempfile::tempdir().unwrap();
    let mut held = Held::new();
    let db = loaded(&dir, 600, 20);
    db.flush().unwrap();
    for i in 0..HELD {
        let next = match i % 4 {
            0 => db.keys(key(i * 13, 600)..).next(),
            1 => db.keys(..=key(i * 13, 600)).next_back(),
            2 => db.begin().keys(key(i * 13, 600)..).next(),
            _ => db
                .snapshot()
                .range(key(i * 13, 600)..)
                .next()
                .map(|entry| entry.map(|(key, _)| key)),
        };
        held.hold(next.unwrap().unwrap(), &db);
    }
    held.check(&db);
    held.bytes.clear();
    assert_eq!(db.stats().memory.handed_out, 0);
}

#[test]
fn a_short_value_keeps_no_long_key() {
    let _turn = TURN.lock();
    let dir = tempfile::tempdir().unwrap();
    let mut held = Held::new();
    let db = loaded(&dir, 3000, 200);
    let key = |i: usize| key(i * 13, 3000);
    for is_sorted in [false, true] {
        if is_sorted {
            db.compact().unwrap()
        } else {
            db.flush().unwrap()
        }
        for i in 0..HELD / 4 {
            let value = match i % 8 {
                0..3 => db.get(key(i)).unwrap(),
                // What was just read is in the cache.
                3 => db.get(key(i - 1)).unwrap(),
                4 => db.get_range(key(i), 1..).unwrap(),
                5 => db.multi_get([key(i), key(i + 1)]).unwrap().remove(0),
                6 => db.begin().get(key(i)).unwrap(),
                _ => {
                    let mut cursor = db.cursor();
                    assert!(cursor.seek(key(i)).unwrap());
                    cursor.value().unwrap()
                }
            };
            held.hold(value.unwrap(), &db);
        }
    }
    held.check(&db);
}

#[test]
fn parts_of_values_and_whole_scans_keep_only_themselves() {
    let _turn = TURN.lock();
    let dir = tempfile::tempdir().unwrap();
    let mut held = Held::new();
    let db = loaded(&dir, 16, 900);
    let mut batch = Batch::new();
    for i in (0..RECORDS).step_by(8) {
        batch.put(key(i, 16), vec![1; 5000]);
    }
    db.write(&batch).unwrap();
    drop(batch);
    db.flush().unwrap();
    for i in 0..HELD / 10 {
        let part = db.get_range(key(i, 16), 100..700).unwrap();
        held.hold(part.unwrap(), &db);
    }
    // All of a scan is held: most of it is copies, what is not fills its buffers.
    for _ in 0..4 {
        for entry in db.iter() {
            let (key, value) = entry.unwrap();
            held.hold(key, &db);
            held.hold(value, &db);
        }
    }
    held.check(&db);
}

#[test]
fn a_short_part_of_a_long_value_keeps_only_itself() {
    let _turn = TURN.lock();
    let dir = tempfile::tempdir().unwrap();
    let mut held = Held::new();
    // All values together are more than the budget allows.
    let db = loaded(&dir, 16, 10_000);
    for is_sorted in [false, true] {
        if is_sorted {
            db.compact().unwrap()
        } else {
            db.flush().unwrap()
        }
        for i in 0..RECORDS {
            let from = i % 9_000;
            let part = db.get_range(key(i, 16), from..from + 50).unwrap();
            held.hold(part.unwrap(), &db);
        }
        held.check(&db);
    }
    assert!(held.bytes.iter().all(|part| part.len() == 50));
}
