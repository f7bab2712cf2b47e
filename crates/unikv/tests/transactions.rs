//! Transactions of many threads on one database of the real file system, with limits so small that
//! flushes and merges run all the time: sums that no lost update, write skew or phantom may change,
//! and counters that every thread gets through to.

#![allow(
    clippy::unwrap_used,
    clippy::panic,
    reason = "a test fails by panicking"
)]

mod limit;

use limit::limit;
use rand::rngs::SmallRng;
use rand::{Rng, SeedableRng};
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use unikv::{Bytes, Db, Options, Readable, Result, Transaction, Tuning};

const THREADS: u64 = 16;
const ACCOUNTS: u32 = 12;
const START: u64 = 1000;

fn open(name: &str) -> (tempfile::TempDir, Db) {
    let dir = tempfile::tempdir().unwrap();
    let options = Options::default()
        .tuning(
            Tuning::default()
                .memtable_bytes(16 << 10)
                .unsorted_bytes(48 << 10),
        )
        .memory_budget(2 << 20);
    let db = Db::open(dir.path().join(name), options).unwrap();
    (dir, db)
}

fn number(value: Option<Bytes>) -> u64 {
    value.map_or(0, |value| {
        u64::from_le_bytes(value[..8].try_into().unwrap())
    })
}

fn account(n: u32) -> String {
    format!("account{n:03}")
}

/// With a tail, so that memtables are full soon.
fn balance(amount: u64) -> Vec<u8> {
    let mut value = amount.to_le_bytes().to_vec();
    value.resize(200, 0);
    value
}

fn sum(from: &impl Readable) -> Result<u64> {
    let entries = from.prefix(b"account");
    entries.map(|entry| Ok(number(Some(entry?.1)))).sum()
}

/// Moves an amount, or opens or closes an account: then the sum is read before, as a range.
fn transfer(transaction: &mut Transaction, rng: &mut SmallRng) -> Result<()> {
    let (from, to) = (rng.random_range(0..ACCOUNTS), rng.random_range(0..ACCOUNTS));
    if from == to {
        assert_eq!(sum(transaction)?, START * u64::from(ACCOUNTS));
        return Ok(());
    }
    let has = number(transaction.get(account(from))?);
    let there = number(transaction.get(account(to))?);
    let amount = match rng.random_range(0..4) {
        0 => has,
        _ => has.min(rng.random_range(0..50)),
    };
    if has == amount {
        transaction.delete(account(from))?;
    } else {
        transaction.put(account(from), balance(has - amount))?;
    }
    transaction.put(account(to), balance(there + amount))
}

#[test]
fn transfers_of_many_threads_keep_the_sum() {
    let _limit = limit("transfers");
    let (_dir, db) = open("transfers");
    for n in 0..ACCOUNTS {
        db.put(account(n), balance(START)).unwrap();
    }
    let is_done = AtomicBool::new(false);
    thread::scope(|scope| {
        let writers: Vec<_> = (0..4)
            .map(|seed| {
                let db = &db;
                scope.spawn(move || {
                    let mut rng = SmallRng::seed_from_u64(seed);
                    for n in 0..300 {
                        db.transact(|transaction| transfer(transaction, &mut rng))
                            .unwrap();
                        db.put(format!("noise{seed}-{n}"), [0; 300]).unwrap();
                    }
                })
            })
            .collect();
        let reader = scope.spawn(|| {
            while !is_done.load(Ordering::Relaxed) {
                assert_eq!(sum(&db.begin()).unwrap(), START * u64::from(ACCOUNTS));
                assert_eq!(sum(&db.snapshot()).unwrap(), START * u64::from(ACCOUNTS));
            }
        });
        writers
            .into_iter()
            .for_each(|writer| writer.join().unwrap());
        is_done.store(true, Ordering::Relaxed);
        reader.join().unwrap();
    });
    assert_eq!(sum(&db).unwrap(), START * u64::from(ACCOUNTS));
    assert!(db.stats().flushes > 5, "{:#?}", db.stats());
}

#[test]
fn no_thread_that_counts_on_one_key_starves() {
    let _limit = limit("counters");
    let (_dir, db) = open("counters");
    const EACH: u64 = 40;
    let is_done = AtomicBool::new(false);
    thread::scope(|scope| {
        // Writers that ask nobody make transactions conflict.
        let noise = scope.spawn(|| {
            while !is_done.load(Ordering::Relaxed) {
                // Not synced: where a sync takes longer than who conflicts again and again may be
                // alone, it would not be the engine that lets it starve.
                db.put("plain", "value").unwrap();
            }
        });
        let counters: Vec<_> = (0..THREADS)
            .map(|_| {
                let db = &db;
                scope.spawn(move || {
                    for n in 0..EACH {
                        match n % 3 {
                            0 => drop(db.increment("counter", 1).unwrap()),
                            1 => drop(db.update("counter", one_more).unwrap()),
                            _ => db
                                .transact(|transaction| {
                                    let n = transaction.get("counter")?;
                                    transaction.put("counter", one_more(n.as_deref()).unwrap())?;
                                    // What the other writer writes all the time.
                                    transaction.get("plain")?;
                                    Result::Ok(())
                                })
                                .unwrap(),
                        }
                    }
                })
            })
            .collect();
        counters
            .into_iter()
            .for_each(|counter| counter.join().unwrap());
        is_done.store(true, Ordering::Relaxed);
        noise.join().unwrap();
    });
    assert_eq!(number(db.get("counter").unwrap()), THREADS * EACH);
}

fn one_more(value: Option<&[u8]>) -> Option<Vec<u8>> {
    let n = value.map_or(0, |value| i64::from_le_bytes(value.try_into().unwrap()));
    Some((n + 1).to_le_bytes().to_vec())
}
