//! A process that has no descriptor left for a while. One test, as descriptors are the whole
//! process's.

#![allow(
    clippy::unwrap_used,
    reason = "a test that cannot set its stage must fail"
)]
#![allow(clippy::panic, reason = "a test")]

mod standstill;

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use standstill::Standstill;
use std::collections::BTreeMap;
use std::fs::File;
use unikv::{Db, ErrorKind, Options, Tuning};

const DESCRIPTORS: u64 = 200;

fn value(n: u32, round: u32) -> Vec<u8> {
    format!("{round}.{n}.").repeat(40).into_bytes()
}

/// Makes a call until it succeeds: the background may have been refused a file, and waits before it
/// tries again.
fn until_done(db: &Db, what: &str, call: impl Fn() -> unikv::Result<()>) {
    let mut watchdog = Standstill::new(db);
    while let Err(error) = call() {
        watchdog.look(db, &|| format!("{what} fails: {error}"));
    }
}

#[test]
fn a_moment_without_descriptors_suspends_writing_for_no_longer_than_it_lasts() {
    let limit = getrlimit(Resource::Nofile);
    let lowered = Rlimit {
        current: Some(DESCRIPTORS),
        ..limit
    };
    setrlimit(Resource::Nofile, lowered).unwrap();
    let dir = tempfile::tempdir().unwrap();
    let options = || {
        Options::default()
            .tuning(
                Tuning::default()
                    .memtable_bytes(64 << 10)
                    .unsorted_bytes(256 << 10),
            )
            .memory_budget(8 << 20)
    };
    let db = Db::open(dir.path(), options()).unwrap();
    let mut model = BTreeMap::new();
    let put = |round: u32, n: u32| {
        let key = format!("key{n:05}").into_bytes();
        db.put(&key, value(n, round)).map(|()| key)
    };
    for n in 0..2000 {
        model.insert(put(0, n).unwrap(), value(n, 0));
    }
    for round in 1..4 {
        let mut taken = Vec::new();
        while let Ok(file) = File::open("/dev/null") {
            taken.push(file);
        }
        // Across several seals: each needs a segment of the log.
        let mut refused = 0;
        for n in 0..2000 {
            match put(round, n) {
                Ok(key) => drop(model.insert(key, value(n, round))),
                Err(error) => {
                    assert_eq!(error.kind(), ErrorKind::Io, "{error}");
                    refused += 1;
                    if refused > 20 {
                        break;
                    }
                }
            }
        }
        drop(taken);
        // Writing resumes without a reopening.
        let mut watchdog = Standstill::new(&db);
        for n in 0..2000 {
            loop {
                match put(round + 10, n) {
                    Ok(key) => {
                        model.insert(key, value(n, round + 10));
                        break;
                    }
                    Err(error) => watchdog.look(&db, &|| format!("a put is refused: {error}")),
                }
            }
        }
        until_done(&db, "a flush", || db.flush());
    }
    // Closing says what has failed and was not tried again yet.
    until_done(&db, "the background", || db.wait_until_idle());
    let found = db.iter().map(|entry| entry.unwrap());
    assert!(
        found
            .map(|(k, v)| (k.to_vec(), v.to_vec()))
            .eq(model.clone())
    );
    db.close().unwrap();
    let report = Db::check(dir.path()).unwrap();
    assert!(report.is_clean(), "{:?}", report.problems);
    let db = Db::open(dir.path(), options()).unwrap();
    for (key, value) in &model {
        assert_eq!(db.get(key).unwrap().as_deref(), Some(&value[..]));
    }
}
