//! Sweeps over deletes: after them no reader steps over many.

use crate::base::keys::SeqNo;
use crate::engine::tests::{Machine, small};
use crate::partition::Visibility;
use crate::vfs::Runtime;
use crate::vfs::sim::SimRuntime;
use crate::{Batch, Db};
use rand::SeedableRng;
use rand::rngs::SmallRng;
use rand::seq::SliceRandom;
use std::sync::atomic::Ordering;
use std::time::Duration;

const KEYS: u32 = 4000;

fn key(n: u32) -> Vec<u8> {
    format!("key{n:06}").into_bytes()
}

/// How many keys a reader would step over that comes now and finds all of them deleted.
fn stepped_over(db: &Db, keys: u32) -> u32 {
    let view = db.0.engine.read.view.load_full();
    let at = Visibility::now(SeqNo(db.0.engine.read.visible_seq.load(Ordering::Acquire)));
    let (mut n, mut stepped) = (0, 0);
    while n < keys {
        let engine_key = |n| [&[0; 4], &key(n)[..]].concat();
        match view.end_of_gap(&engine_key(n), at) {
            Some(end) => n = (n..keys).find(|n| engine_key(*n) >= end).unwrap_or(keys),
            None => (n, stepped) = (n + 1, stepped + 1),
        }
    }
    stepped
}

fn run_some(runtime: &SimRuntime) {
    for _ in 0..40 {
        runtime.run_one();
    }
}

/// Puts all keys, compacts, deletes them in this order, with nobody who reads, and lets the
/// background do what it finds until nothing is written for a while.
fn stepped_over_after(seed: u64, order: &[u32], live: &[u32]) -> u32 {
    let machine = Machine::new(seed);
    let options = small().memory_budget(8 << 20).memtable_bytes(128 << 10);
    let (db, runtime) = machine.open(options);
    (0..KEYS).for_each(|n| db.put(key(n), [n as u8; 30]).unwrap());
    db.compact().unwrap();
    for n in order.iter().filter(|n| !live.contains(n)) {
        db.delete(key(*n)).unwrap();
        if n % 16 == 0 {
            runtime.run_one();
        }
    }
    let sealed = db.stats().flushes;
    assert!(sealed > 1, "{sealed}");
    run_some(&runtime);
    runtime.delay(Duration::from_millis(1500));
    run_some(&runtime);
    let stepped = stepped_over(&db, KEYS);
    let found: Vec<_> = db.iter().map(|entry| entry.unwrap().0.to_vec()).collect();
    assert_eq!(found, live.iter().map(|n| key(*n)).collect::<Vec<_>>());
    db.close().unwrap();
    stepped
}

#[test]
fn deletes_are_swept_before_a_reader_comes() {
    let rising: Vec<u32> = (0..KEYS).collect();
    let falling: Vec<u32> = rising.iter().rev().copied().collect();
    let mut mixed = rising.clone();
    mixed.shuffle(&mut SmallRng::seed_from_u64(7));
    for (seed, order) in [rising, falling, mixed].iter().enumerate() {
        let stepped = stepped_over_after(seed as u64, order, &[]);
        assert!(stepped < 100, "order {seed}: {stepped}");
        let stepped = stepped_over_after(seed as u64, order, &[5, 1000, 1001, 3990]);
        assert!(stepped < 300, "order {seed}, some left: {stepped}");
    }
}

#[test]
fn what_is_stepped_over_before_a_gap_is_a_gap_for_the_next_one() {
    for back in [false, true] {
        let machine = Machine::new(9);
        let (db, _) = machine.open(small().memory_budget(8 << 20).memtable_bytes(1 << 20));
        (0..200).for_each(|n| db.put(key(n), b"value").unwrap());
        let mut batch = Batch::new();
        for n in 0..200 {
            batch.delete(key(n));
        }
        db.write(&batch).unwrap();
        let half = if back { ..key(100) } else { ..key(200) };
        if back {
            assert_eq!(db.range(half).rev().count(), 0);
            assert_eq!(db.iter().rev().count(), 0);
        } else {
            assert_eq!(db.range(key(100)..).count(), 0);
            assert_eq!(db.range(half).count(), 0);
        }
        assert_eq!(stepped_over(&db, 200), 0, "back: {back}");
    }
}
