//! What the paper's prototype gets wrong (`design.md`, section 5), each a test.
//!
//! Not here: stalls of several seconds (a measurement, see the benchmarks), scans that rewrite
//! again and again (`engine/background/scan_merge/tests.rs`, as it takes a look inside), 16-byte
//! index entries (the hash index tests its own size).
#![allow(
    clippy::unwrap_used,
    reason = "the helpers of a test fail as the test does"
)]

use std::collections::BTreeMap;
use std::ops::Bound;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;
use unikv::vfs::sim::{SimRuntime, SimVfs};
use unikv::{Batch, Clustering, Db, Options, Tuning};
use unikv_sim::runner::env;

const DIR: &str = "/db";

fn tiny() -> Options {
    Options::default()
        .tuning(
            Tuning::default()
                .memtable_bytes(4 << 10)
                .unsorted_bytes(16 << 10)
                .key_table_bytes(4 << 10),
        )
        .memory_budget(4 << 20)
}

fn open(vfs: &SimVfs, options: Options) -> Db {
    Db::open(DIR, options.env(env(vfs, &SimRuntime::new(1)))).unwrap()
}

fn key(n: u32) -> Vec<u8> {
    format!("user{n:08}").into_bytes()
}

fn value(n: u32, version: u32) -> Vec<u8> {
    let mut out = format!("{n}@{version}:").into_bytes();
    out.resize(out.len() + 20 + (n % 200) as usize, (version % 251) as u8);
    out
}

/// Everything by get and by a scan both ways.
fn assert_content(db: &Db, want: &BTreeMap<Vec<u8>, Vec<u8>>) {
    for (key, value) in want {
        assert_eq!(
            db.get(key).unwrap().as_deref(),
            Some(&value[..]),
            "{}",
            key.escape_ascii()
        );
    }
    let pairs = |iter: &mut dyn Iterator<Item = unikv::Result<_>>| -> Vec<(Vec<u8>, Vec<u8>)> {
        iter.map(|pair| pair.map(|(k, v): (bytes::Bytes, bytes::Bytes)| (k.to_vec(), v.to_vec())))
            .collect::<unikv::Result<_>>()
            .unwrap()
    };
    let forward = pairs(&mut db.iter());
    assert!(
        forward.iter().map(|(k, v)| (k, v)).eq(want),
        "a forward scan differs"
    );
    let backward = pairs(&mut db.iter().rev());
    assert!(
        backward.iter().map(|(k, v)| (k, v)).eq(want.iter().rev()),
        "a backward scan differs"
    );
}

#[test]
fn updates_are_never_answered_with_an_older_value() {
    for clustering in [Clustering::LeastWriting, Clustering::Automatic] {
        let vfs = SimVfs::new();
        let db = open(&vfs, tiny().clustering(clustering));
        let mut want = BTreeMap::new();
        for version in 0..8 {
            for n in 0..400 {
                // Not every key in every round, so that versions lie in different layers.
                if (n * 7 + version) % 3 != 0 {
                    db.put(key(n), value(n, version)).unwrap();
                    want.insert(key(n), value(n, version));
                }
                let probe = (n * 31) % 400;
                let got = db.get(key(probe)).unwrap();
                assert_eq!(got.as_deref(), want.get(&key(probe)).map(|v| &v[..]));
            }
        }
        assert!(
            db.stats().merges > 3,
            "the test needs merges: {}",
            db.stats().merges
        );
        assert_content(&db, &want);
    }
}

#[test]
fn acknowledged_writes_survive_a_killed_process() {
    let vfs = SimVfs::new();
    let db = open(&vfs, tiny());
    let mut want = BTreeMap::new();
    for n in 0..700 {
        db.put(key(n % 300), value(n % 300, n)).unwrap();
        want.insert(key(n % 300), value(n % 300, n));
        if n % 97 == 0 {
            assert_content(&open(&vfs.process_kill(), tiny()), &want);
        }
    }
    assert_content(&open(&vfs.process_kill(), tiny()), &want);
}

#[test]
fn deleted_keys_do_not_come_back_from_the_sorted_store() {
    let vfs = SimVfs::new();
    let db = open(&vfs, tiny());
    let mut want = BTreeMap::new();
    for n in 0..300 {
        db.put(key(n), value(n, 1)).unwrap();
        want.insert(key(n), value(n, 1));
    }
    db.compact().unwrap();
    let assert_gone = |db: &Db, want: &BTreeMap<_, _>| {
        for n in (0..300).step_by(3) {
            assert_eq!(db.get(key(n)).unwrap(), None, "{n} came back");
            assert!(!db.contains_key(key(n)).unwrap());
        }
        assert_content(db, want);
    };
    for n in (0..300).step_by(3) {
        db.delete(key(n)).unwrap();
        want.remove(&key(n));
    }
    assert_gone(&db, &want);
    db.flush().unwrap();
    assert_gone(&db, &want);
    db.compact().unwrap();
    assert_gone(&db, &want);
    db.compact().unwrap();
    db.close().unwrap();
    assert_gone(&open(&vfs, tiny()), &want);
}

#[test]
fn values_with_nul_bytes_come_back_whole() {
    let vfs = SimVfs::new();
    let db = open(&vfs, tiny());
    let mut want = BTreeMap::new();
    for n in 0..200u32 {
        let mut value = vec![0; (n * 13 % 900) as usize];
        if let Some(last) = value.last_mut() {
            *last = n as u8;
        }
        let mut nul_key = key(n);
        nul_key.extend_from_slice(&[0, n as u8, 0]);
        db.put(&nul_key, &value).unwrap();
        want.insert(nul_key, value);
    }
    assert_content(&db, &want);
    db.flush().unwrap();
    assert_content(&db, &want);
    db.compact().unwrap();
    assert_content(&db, &want);
}

#[test]
fn a_scan_starts_between_keys_and_goes_on_to_the_end() {
    let vfs = SimVfs::new();
    let db = open(&vfs, tiny());
    // Layers interleave: some keys merged, some flushed, some in the memtable.
    for layer in 0..3 {
        for n in (layer..900).step_by(3) {
            db.put(key(n * 2), value(n, 0)).unwrap();
        }
        match layer {
            0 => db.compact().unwrap(),
            1 => db.flush().unwrap(),
            _ => {}
        }
    }
    for start in [0u32, 1, 2, 777, 1001, 1795, 1797, 1798, 1799, 5000] {
        let from = |n: u32| (n * 2 >= start).then(|| (key(n * 2), value(n, 0)));
        let want: Vec<_> = (0..900).filter_map(from).collect();
        let mut got = Vec::new();
        for pair in db.range(key(start)..) {
            let (key, value) = pair.unwrap();
            got.push((key.to_vec(), value.to_vec()));
        }
        assert!(
            got == want,
            "from {start}: {} pairs, not {}",
            got.len(),
            want.len()
        );
        let mut seeking = db.iter();
        seeking.seek(key(start));
        let first = seeking
            .next()
            .transpose()
            .unwrap()
            .map(|(key, _)| key.to_vec());
        assert_eq!(first, want.first().map(|(key, _)| key.clone()));

        let up_to = |n: u32| (n * 2 < start).then(|| key(n * 2));
        let below: Vec<_> = (0..900).rev().filter_map(up_to).collect();
        let got: Vec<_> = db
            .range((Bound::Unbounded, Bound::Excluded(key(start))))
            .rev()
            .map(|pair| pair.unwrap().0.to_vec())
            .collect();
        assert!(
            got == below,
            "down from {start}: {} keys, not {}",
            got.len(),
            below.len()
        );
    }
}

#[test]
fn a_batch_holds_more_than_one_operation_and_is_atomic() {
    let vfs = SimVfs::new();
    let db = open(&vfs, tiny());
    let mut want = BTreeMap::new();
    for round in 0..30u32 {
        let mut batch = Batch::new();
        for n in 0..40 {
            if (n + round) % 5 == 0 {
                batch.delete(key(n));
                want.remove(&key(n));
            } else {
                batch.put(key(n), value(n, round));
                want.insert(key(n), value(n, round));
            }
        }
        // The same key again: the last operation holds.
        batch
            .put(key(7), b"first")
            .delete(key(8))
            .put(key(7), b"last");
        want.insert(key(7), b"last".to_vec());
        want.remove(&key(8));
        let before = db.snapshot();
        let seen = before.get(key(7)).unwrap();
        db.write(&batch).unwrap();
        assert_eq!(before.get(key(7)).unwrap(), seen);
        assert_content(&db, &want);
        assert_content(&open(&vfs.process_kill(), tiny()), &want);
    }
}

#[test]
fn keys_are_longer_than_24_bytes() {
    let vfs = SimVfs::new();
    let db = open(&vfs, tiny());
    let mut want = BTreeMap::new();
    for len in [24, 25, 26, 100, 255, 256, 1000, 5000, 65_536] {
        for last in [b'a', b'b'] {
            // They differ in their last byte alone.
            let mut key = vec![b'k'; len - 1];
            key.push(last);
            db.put(&key, [last; 40]).unwrap();
            want.insert(key, vec![last; 40]);
        }
    }
    assert_content(&db, &want);
    db.flush().unwrap();
    assert_content(&db, &want);
    db.compact().unwrap();
    assert_content(&db, &want);
    db.close().unwrap();
    assert_content(&open(&vfs, tiny()), &want);
}

#[test]
fn there_may_be_more_than_200_record_files() {
    let vfs = SimVfs::new();
    let options = || {
        tiny()
            .tuning(Tuning::default().unsorted_bytes(64 << 10))
            .inline_value_bytes(0)
    };
    let db = open(&vfs, options());
    let mut want = BTreeMap::new();
    for n in 0..6_000 {
        db.put(key(n), value(n, 0)).unwrap();
        want.insert(key(n), value(n, 0));
    }
    db.flush().unwrap();
    assert!(
        db.stats().record_files > 200,
        "only {} record files",
        db.stats().record_files
    );
    assert_content(&db, &want);
    db.close().unwrap();
    assert_content(&open(&vfs, options()), &want);
}

#[test]
fn there_may_be_more_than_50_partitions() {
    let vfs = SimVfs::new();
    let options = || {
        tiny().tuning(
            Tuning::default()
                .key_table_bytes(1 << 10)
                .partition_bytes(4 << 10),
        )
    };
    let db = open(&vfs, options());
    let mut want = BTreeMap::new();
    for version in 0..2 {
        for n in 0..2_000 {
            let n = n * 739 % 2_000;
            db.put(key(n), value(n, version)).unwrap();
            want.insert(key(n), value(n, version));
        }
        db.compact().unwrap();
    }
    let partitions = |db: &Db| db.stats().partitions.len();
    assert!(partitions(&db) > 50, "only {} partitions", partitions(&db));
    assert_content(&db, &want);
    let acknowledged = open(&vfs.process_kill(), options());
    assert!(partitions(&acknowledged) > 50);
    assert_content(&acknowledged, &want);
    db.close().unwrap();
    assert_content(&open(&vfs, options()), &want);
}

#[test]
fn garbage_is_collected_without_a_split() {
    const KEYS: u32 = 300;
    let vfs = SimVfs::new();
    let options = || {
        tiny()
            .tuning(Tuning::default().partition_bytes(1 << 40))
            .max_space_amp(2.0)
    };
    let db = open(&vfs, options().clustering(Clustering::LeastWriting));
    let long = |n: u32, version| value(n, version).repeat(8);
    let mut want = BTreeMap::new();
    let mut written = 0;
    for version in 0..12 {
        for n in 0..KEYS {
            // Ever fewer keys, so that each round leaves live records between dead ones.
            if n % 12 >= version {
                let value = long(n, version);
                written += value.len() as u64;
                db.put(key(n), &value).unwrap();
                want.insert(key(n), value);
            }
        }
    }
    db.compact().unwrap();
    db.wait_until_idle().unwrap();
    let (stats, garbage) = (db.stats(), db.garbage());
    let live: u64 = want.iter().map(|(k, v)| (k.len() + v.len()) as u64).sum();
    assert_eq!((stats.splits, stats.partitions.len()), (0, 1));
    // Collections that ride on merges are counted with these, which else copy nothing here.
    assert!(
        stats.gc_copied_bytes + stats.merge_copied_bytes > 0,
        "{stats:#?}"
    );
    assert!(written > 4 * live, "the test needs garbage");
    assert!(
        stats.record_file_bytes <= 2 * live,
        "{} bytes of files for {live} live ones: {garbage:#?}",
        stats.record_file_bytes
    );
    assert_content(&db, &want);
    db.close().unwrap();
    assert_content(&open(&vfs, options()), &want);
}

#[test]
fn reopening_again_and_again_does_not_crash() {
    let vfs = SimVfs::new();
    let mut want = BTreeMap::new();
    for round in 0..40u32 {
        let db = open(&vfs, tiny());
        assert_content(&db, &want);
        for n in 0..50 {
            let n = (n * 17 + round * 29) % 500;
            db.put(key(n), value(n, round)).unwrap();
            want.insert(key(n), value(n, round));
        }
        match round % 4 {
            0 => drop(db.close().unwrap()),
            1 => drop(db),
            2 => {
                db.compact().unwrap();
                db.close().unwrap();
            }
            _ => {
                db.flush().unwrap();
                drop(db);
            }
        }
    }
    assert_content(&open(&vfs, tiny()), &want);
}

/// How far each key has been acknowledged, as the threads see it.
struct Acknowledged(Vec<AtomicU64>);

#[test]
fn four_threads_read_what_was_acknowledged_or_newer() {
    const KEYS: usize = 200;
    const WRITES: u64 = 12_000;
    let dir = tempfile::tempdir().unwrap();
    let db = Db::open(dir.path(), tiny().clustering(Clustering::LeastWriting)).unwrap();
    let acknowledged = Arc::new(Acknowledged((0..KEYS).map(|_| AtomicU64::new(0)).collect()));
    let done = AtomicBool::new(false);
    thread::scope(|scope| {
        let (done, db) = (&done, &db);
        let writers: Vec<_> = (0..2u64)
            .map(|writer| {
                let acknowledged = acknowledged.clone();
                // Each writer has its own keys, so the versions of a key ascend.
                scope.spawn(move || {
                    for version in 1..=WRITES {
                        let n = (version * 7 % (KEYS as u64 / 2) * 2 + writer) as usize;
                        db.put(key(n as u32), versioned(n, version)).unwrap();
                        acknowledged.0[n].store(version, Ordering::SeqCst);
                        if version % 4000 == 0 {
                            db.compact().unwrap();
                        }
                    }
                })
            })
            .collect();
        for reader in 0..2usize {
            let acknowledged = acknowledged.clone();
            scope.spawn(move || {
                let mut n = reader;
                while !done.load(Ordering::SeqCst) {
                    n = (n * 5 + 3) % KEYS;
                    let sure = acknowledged.0[n].load(Ordering::SeqCst);
                    let got = db.get(key(n as u32)).unwrap();
                    assert_version(n, got.as_deref(), sure);
                    if n % 50 == 0 {
                        read_all(db, &acknowledged);
                    }
                }
            });
        }
        let failed = writers.into_iter().any(|writer| writer.join().is_err());
        done.store(true, Ordering::SeqCst);
        assert!(!failed, "a writer failed");
    });
    read_all(&db, &acknowledged);
    assert!(
        db.stats().flushes > 10 && db.stats().merges > 1,
        "the test needs background jobs"
    );
}

fn versioned(n: usize, version: u64) -> Vec<u8> {
    let mut out = format!("{n}@{version}@").into_bytes();
    out.resize(out.len() + n, version as u8);
    out
}

/// Asserts that `got` is a value that was written to key `n`, of version `sure` or newer.
fn assert_version(n: usize, got: Option<&[u8]>, sure: u64) {
    let Some(got) = got else {
        assert_eq!(sure, 0, "key {n} is missing");
        return;
    };
    let version = got.split(|&b| b == b'@').nth(1);
    let version: u64 = std::str::from_utf8(version.unwrap())
        .unwrap()
        .parse()
        .unwrap();
    assert!(
        version >= sure,
        "key {n} has version {version}, but {sure} was acknowledged"
    );
    assert_eq!(got, versioned(n, version), "key {n} has foreign bytes");
}

/// A scan and a snapshot see every key, at its acknowledged version or newer.
fn read_all(db: &Db, acknowledged: &Acknowledged) {
    let load = |n: &AtomicU64| n.load(Ordering::SeqCst);
    let sure: Vec<u64> = acknowledged.0.iter().map(load).collect();
    let mut seen = vec![None; sure.len()];
    for pair in db.iter() {
        let (key, value) = pair.unwrap();
        let n: usize = std::str::from_utf8(&key[4..]).unwrap().parse().unwrap();
        seen[n] = Some(value);
    }
    for (n, got) in seen.iter().enumerate() {
        assert_version(n, got.as_deref(), sure[n]);
    }
    let snapshot = db.snapshot();
    let keys: Vec<Vec<u8>> = (0..sure.len() as u32).map(key).collect();
    let first = snapshot.multi_get(&keys).unwrap();
    for (n, got) in first.iter().enumerate() {
        assert_version(n, got.as_deref(), sure[n]);
    }
    // A snapshot stays as it is.
    assert_eq!(snapshot.multi_get(&keys).unwrap(), first);
}
