//! Many threads on one database of the real file system, with limits so small that flushes, merges,
//! splits and collections run all the time: writers, readers both ways, holders of snapshots and
//! iterators, and calls for maintenance. Every value that is read is verified.
//!
//! `scripts/tsan.sh` runs it under ThreadSanitizer, with more operations (`UNIKV_STRESS_OPS`), and
//! demands that [`a_race_is_reported`] is reported.

#![allow(
    clippy::unwrap_used,
    clippy::panic,
    reason = "a test fails by panicking"
)]

mod limit;

use limit::limit;
use rand::rngs::SmallRng;
use rand::{Rng, SeedableRng};
use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use unikv::{Batch, Clustering, Db, Durability, Options, Tuning};

const WRITERS: u32 = 3;
const KEYS: u32 = 150;

fn operations() -> u32 {
    let asked = std::env::var("UNIKV_STRESS_OPS").ok();
    asked.map_or(400, |text| text.parse().unwrap())
}

fn options(clustering: Clustering) -> Options {
    Options::default()
        .tuning(
            Tuning::default()
                .memtable_bytes(16 << 10)
                .unsorted_bytes(48 << 10)
                .partition_bytes(96 << 10)
                .key_table_bytes(4 << 10)
                .block_bytes(512)
                .scan_merge_limit(1)
                .background_threads(3),
        )
        .inline_value_bytes(32)
        .memory_budget(1 << 20)
        .max_space_amp(1.3)
        .clustering(clustering)
}

fn key(writer: u32, n: u32) -> Vec<u8> {
    format!("key{:04}-{writer}", n % KEYS * 7 % KEYS).into_bytes()
}

/// The value of a version of `key`: it names both, and its length follows from the version.
fn value(key: &[u8], version: u32) -> Vec<u8> {
    let mut value = key.to_vec();
    value.extend_from_slice(&version.to_be_bytes());
    let more = match version % 40 {
        0 => 9000,
        n if n < 10 => 4,
        n => 20 * n,
    };
    value.resize(value.len() + more as usize, version as u8);
    value
}

/// Checks a value that somebody wrote under `key`; its version.
fn version_of(key: &[u8], got: &[u8]) -> u32 {
    let version = got.get(key.len()..key.len() + 4);
    let version = u32::from_be_bytes(version.unwrap().try_into().unwrap());
    assert_eq!(
        got,
        value(key, version),
        "a value of {}",
        key.escape_ascii()
    );
    version
}

/// The two keys that a writer always writes in one batch.
fn pair(writer: u32) -> [Vec<u8>; 2] {
    ["a pair", "z pair"].map(|side| format!("{side}-{writer}").into_bytes())
}

/// Writes its own keys in every way and reads back what it wrote.
fn write(db: &Db, writer: u32, model: &mut BTreeMap<Vec<u8>, u32>, round: u32) {
    let mut rng = SmallRng::seed_from_u64(u64::from(writer + 10 * round));
    for op in 0..operations() {
        let version = op + 1_000_000 * (round + 1);
        let mut change = |key: Vec<u8>, deletes: bool, batch: &mut Batch| {
            if deletes {
                batch.delete(&key)
            } else {
                batch.put(&key, value(&key, version))
            };
            if deletes {
                model.remove(&key)
            } else {
                model.insert(key, version)
            };
        };
        let mut batch = Batch::new();
        match rng.random_range(0..12) {
            0 => {
                for key in pair(writer) {
                    change(key, false, &mut batch);
                }
                batch.set_commit_tag(version.to_be_bytes());
            }
            1 => (0..8).for_each(|i| change(key(writer, op + i), i == 3, &mut batch)),
            2 | 3 => change(key(writer, rng.random()), true, &mut batch),
            _ => change(key(writer, rng.random_range(0..KEYS)), false, &mut batch),
        }
        if rng.random_range(0..64) == 0 {
            ingest(db, writer, version, model);
        }
        let durability = match rng.random_range(0..24) {
            0 => Durability::Sync,
            _ => Durability::Buffered,
        };
        db.write_with(&batch, durability).unwrap();
        let key = key(writer, rng.random_range(0..KEYS));
        let got = db.get(&key).unwrap();
        let got = got.as_deref().map(|got| version_of(&key, got));
        assert_eq!(got, model.get(&key).copied(), "{}", key.escape_ascii());
    }
}

fn ingest(db: &Db, writer: u32, version: u32, model: &mut BTreeMap<Vec<u8>, u32>) {
    let mut keys: Vec<_> = (0..20).map(|i| key(writer, version + 3 * i)).collect();
    keys.sort_unstable();
    keys.dedup();
    let entries = keys.iter().map(|key| (key, Some(value(key, version))));
    db.ingest_sorted(entries.map(unikv::Result::Ok), None)
        .unwrap();
    model.extend(keys.iter().map(|key| (key.clone(), version)));
}

/// Reads until asked to end: scans, snapshots, iterators that are held.
fn read(db: &Db, seed: u64, end: &AtomicBool) {
    let mut rng = SmallRng::seed_from_u64(seed);
    let mut held = db.iter();
    while !end.load(Ordering::Relaxed) {
        let snapshot = db.snapshot();
        for writer in 0..WRITERS {
            let versions = pair(writer).map(|key| {
                let got = snapshot.get(&key).unwrap();
                got.map(|got| version_of(&key, &got))
            });
            assert_eq!(versions[0], versions[1], "half of a batch is seen");
        }
        let forward: Vec<_> = snapshot.iter().map(Result::unwrap).collect();
        let mut backward: Vec<_> = snapshot.iter().rev().map(Result::unwrap).collect();
        backward.reverse();
        assert!(forward == backward, "both ways see the same");
        assert!(forward.is_sorted_by(|a, b| a.0 < b.0));
        for (key, value) in &forward {
            version_of(key, value);
        }
        let some: Vec<_> = forward.iter().step_by(9).map(|(key, _)| key).collect();
        for (key, got) in some.iter().zip(snapshot.multi_get(some.iter()).unwrap()) {
            version_of(key, &got.unwrap());
        }
        if rng.random_bool(0.3) {
            held = db.range(&b"key0050"[..]..);
        }
        for (key, value) in held.by_ref().take(20).map(Result::unwrap) {
            version_of(&key, &value);
        }
    }
}

/// Asks for maintenance until asked to end.
fn maintain(db: &Db, end: &AtomicBool) {
    let mut rng = SmallRng::seed_from_u64(77);
    while !end.load(Ordering::Relaxed) {
        match rng.random_range(0..8) {
            0 => db.compact().unwrap(),
            1 => db.compact_range(&b"key0020"[..]..&b"key0080"[..]).unwrap(),
            2 => db.collect_garbage().unwrap(),
            3 => db.release_views(),
            4 => db.sync().unwrap(),
            5 => drop((db.stats(), db.garbage(), db.commit_tag())),
            6 => drop(db.split_key(..).unwrap()),
            _ => db.flush().unwrap(),
        }
    }
}

/// One life of the database: all threads at work, then closing while readers still hold it.
fn live(dir: &Path, clustering: Clustering, models: &mut [BTreeMap<Vec<u8>, u32>], round: u32) {
    let db = Db::open(dir, options(clustering)).unwrap();
    let end = Arc::new(AtomicBool::new(false));
    let beside = |work: fn(&Db, u64, &AtomicBool), seed: u64| {
        let (db, end) = (db.clone(), Arc::clone(&end));
        thread::spawn(move || work(&db, seed, &end))
    };
    let others = [
        beside(read, 1),
        beside(read, 2),
        beside(|db, _, end| maintain(db, end), 3),
    ];
    let mut writers = Vec::new();
    for (writer, model) in (0..WRITERS).zip(models.iter_mut()) {
        let (db, mut own) = (db.clone(), std::mem::take(model));
        writers.push(thread::spawn(move || {
            write(&db, writer, &mut own, round);
            own
        }));
    }
    let _limit = limit("writers, readers and jobs");
    for (writer, model) in writers.into_iter().zip(models.iter_mut()) {
        *model = writer.join().unwrap();
    }
    end.store(true, Ordering::Relaxed);
    others.into_iter().for_each(|other| other.join().unwrap());
    let stats = db.stats();
    assert!(stats.flushes > 0 && stats.merges > 0, "{stats:#?}");
    let mut all = BTreeMap::new();
    models.iter().for_each(|model| all.extend(model.clone()));
    let found = db.iter().map(Result::unwrap);
    let found = found.map(|(key, got)| (key.to_vec(), version_of(&key, &got)));
    assert!(found.eq(all), "a scan at the end differs");
    let held = db.iter();
    db.close().unwrap();
    drop(held);
    assert!(Db::check(dir).unwrap().is_clean());
}

#[test]
fn threads_agree_about_everything() {
    let dir = tempfile::tempdir().unwrap();
    let mut models = vec![BTreeMap::new(); WRITERS as usize];
    for (round, clustering) in [Clustering::LeastWriting, Clustering::Automatic]
        .iter()
        .enumerate()
    {
        live(dir.path(), *clustering, &mut models, round as u32);
    }
}

/// Two threads write to one place without any order. ThreadSanitizer must say so, or it sees
/// nothing.
#[test]
#[ignore = "a race, for scripts/tsan.sh alone"]
#[allow(unsafe_code, reason = "the race that is to be found")]
fn a_race_is_reported() {
    struct Place(std::cell::UnsafeCell<u64>);
    // SAFETY: it is none; that is what the test is for.
    unsafe impl Sync for Place {}
    let place = Arc::new(Place(std::cell::UnsafeCell::new(0)));
    let racer = || {
        let place = Arc::clone(&place);
        thread::spawn(move || {
            for n in 0..1000 {
                // SAFETY: it is none; the place is a number, and any value of it will do.
                unsafe { place.0.get().write_volatile(n) };
            }
        })
    };
    let racers = [racer(), racer()];
    let _limit = limit("two racers");
    racers.into_iter().for_each(|racer| racer.join().unwrap());
}
