//! Reads as their callers ask for them, in every handle that reads.

use crate::engine::tests::{Machine, small};
use crate::vfs::Runtime;
use crate::{Db, ErrorKind, Prefix, ReadOptions, Readable, Tuning};
use std::time::Duration;

const KEYS: usize = 400;

fn key(n: usize) -> String {
    format!("key{n:04}")
}

fn value(n: usize) -> String {
    format!("{n}").repeat(100)
}

/// A database of which nothing is in memory: merged, flushed, and with what scans have merged.
fn cold(machine: &Machine) -> (Db, std::sync::Arc<crate::vfs::sim::SimRuntime>) {
    let options = || {
        let tuning = Tuning::default().scan_merge_limit(1);
        small().memory_budget(8 << 20).tuning(tuning)
    };
    let (db, runtime) = machine.open(options());
    for half in 0..2 {
        for n in (half..KEYS).step_by(2) {
            db.put(key(n), value(n)).unwrap();
        }
        if half == 0 {
            db.compact().unwrap();
        } else {
            db.flush().unwrap();
        }
    }
    runtime.run_until_idle();
    db.close().unwrap();
    machine.open(options())
}

#[test]
fn a_read_that_does_not_fill_the_cache_leaves_it_as_it_was() {
    let (db, _runtime) = cold(&Machine::new(1));
    let once = ReadOptions::default().fill_cache(false);
    // Fences are no part of the data, and stay.
    db.get(key(0)).unwrap();
    db.get(key(1)).unwrap();
    let before = db.stats().cache_bytes;
    for n in 0..KEYS {
        let found = db.get_with(key(n), &once).unwrap();
        assert_eq!(found.as_deref(), Some(value(n).as_bytes()));
    }
    assert_eq!(db.iter_with(&once).count(), KEYS);
    let mut cursor = db.cursor_with(&once);
    while cursor.next_entry().unwrap().is_some() {}
    let left = db.stats().cache_bytes - before;
    (0..KEYS).for_each(|n| drop(db.get(key(n)).unwrap()));
    let filled = db.stats().cache_bytes - before;
    assert!(left * 10 < filled, "{left} bytes of {filled}");
}

#[test]
fn a_read_that_takes_too_long_ends_and_another_one_goes_on() {
    let (db, runtime) = cold(&Machine::new(2));
    let soon = ReadOptions::default().timeout(Duration::ZERO);
    let error = db.get_with(key(7), &soon).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::TimedOut, "{error}");
    db.get(key(7)).unwrap();
    let found = db.get_with(key(7), &soon).unwrap();
    assert_eq!(
        found.as_deref(),
        Some(value(7).as_bytes()),
        "it is in memory"
    );

    let mut iter = db.iter_with(&ReadOptions::default().timeout(Duration::from_secs(1)));
    assert_eq!(iter.next().unwrap().unwrap().0, key(0));
    runtime.delay(Duration::from_secs(2));
    let ended = iter.find_map(Result::err).expect("it ends");
    assert_eq!(ended.kind(), ErrorKind::TimedOut);
    assert!(iter.next().is_none());
    let mut cursor = db.cursor_with(&soon);
    assert_eq!(cursor.first().unwrap_err().kind(), ErrorKind::TimedOut);
    assert_eq!(cursor.key(), None, "it stands where it stood");

    // Nothing is taken for damaged.
    assert_eq!(db.iter().filter(Result::is_ok).count(), KEYS);
    assert_eq!(db.stats().failed_scan_merges, 0);
    db.close().unwrap();
}

/// What is in the range of these options, by every handle that reads, both ways.
fn shows(from: &dyn Readable, options: &ReadOptions, expected: &[String]) {
    let keys = |entry: crate::Result<(crate::Bytes, crate::Bytes)>| {
        let (key, value) = entry.unwrap();
        (String::from_utf8(key.to_vec()).unwrap(), value.is_empty())
    };
    let is_empty = |options: &ReadOptions| options.keys_only;
    let found: Vec<_> = from.iter_with(options).map(keys).collect();
    let wanted: Vec<_> = expected
        .iter()
        .map(|key| (key.clone(), is_empty(options)))
        .collect();
    assert_eq!(found, wanted);
    let mut back: Vec<_> = from.iter_with(options).rev().map(keys).collect();
    back.reverse();
    assert_eq!(back, wanted);

    let mut cursor = from.cursor_with(options);
    let mut walked = Vec::new();
    while let Some((key, value)) = cursor.next_entry().unwrap() {
        assert!(!value.is_empty(), "a cursor reads what it is asked for");
        walked.push(String::from_utf8(key.to_vec()).unwrap());
    }
    assert_eq!(walked, expected);
    while let Some((key, _)) = cursor.prev_entry().unwrap() {
        assert_eq!(Some(key), walked.pop().as_deref().map(str::as_bytes));
    }
    assert_eq!(walked, [""; 0]);
    for beyond in ["", "zzz"] {
        let at = cursor
            .seek(beyond)
            .unwrap()
            .then(|| cursor.key().unwrap().to_vec());
        let first = expected.first().filter(|_| beyond.is_empty());
        assert_eq!(at.as_deref(), first.map(|key| key.as_bytes()));
        let at = cursor
            .seek_for_prev(beyond)
            .unwrap()
            .then(|| cursor.key().unwrap().to_vec());
        let last = expected.last().filter(|_| !beyond.is_empty());
        assert_eq!(at.as_deref(), last.map(|key| key.as_bytes()));
    }
}

#[test]
fn what_a_read_asks_for_is_what_every_handle_shows() {
    let (db, _runtime) = cold(&Machine::new(3));
    let space = db.keyspace("space", Default::default()).unwrap();
    let all: Vec<_> = (0..KEYS).map(key).collect();
    for key in &all {
        space.put(key, "other").unwrap();
    }
    let mut transaction = db.begin();
    transaction.put(key(105), "its own").unwrap();
    let (snapshot, of_space) = (db.snapshot(), space.snapshot());
    let in_space = transaction.keyspace(&space);
    let handles: [&dyn Readable; 6] = [&db, &space, &snapshot, &of_space, &transaction, &in_space];
    for from in handles {
        for (options, expected) in [
            (
                ReadOptions::default().range(key(100)..key(120)),
                &all[100..120],
            ),
            (ReadOptions::default().range(..=key(9)), &all[..10]),
            (
                ReadOptions::default().range(Prefix::new("key010")),
                &all[100..110],
            ),
            (ReadOptions::default().range(Prefix::new("none")), &[][..]),
            (ReadOptions::default(), &all[..]),
        ] {
            shows(from, &options, expected);
            shows(from, &options.clone().keys_only(true), expected);
            shows(
                from,
                &options.clone().read_ahead(7).fill_cache(false),
                expected,
            );
            shows(from, &options.timeout(Duration::from_secs(9)), expected);
        }
    }
}
