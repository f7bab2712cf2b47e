//! Real file systems that become full. `scripts/full_disk_test.sh` mounts small ones and runs this;
//! without them the tests are skipped.

#![allow(
    clippy::unwrap_used,
    clippy::panic,
    reason = "a test may fail, and says that it was skipped"
)]

mod standstill;

use standstill::Standstill;
use std::collections::BTreeMap;
use std::path::Path;
use std::time::Duration;
use unikv::{Db, Error, ErrorKind, Options, Tuning};

type Model = BTreeMap<Vec<u8>, u8>;

fn value(seed: u8) -> Vec<u8> {
    let mut value = vec![seed; 1000];
    value[0] = 1;
    value
}

fn verify(db: &Db, model: &Model) {
    for (key, seed) in model {
        assert_eq!(db.get(key).unwrap().as_deref(), Some(&value(*seed)[..]));
    }
    let found = db.iter().map(|pair| pair.unwrap().0.to_vec());
    assert!(found.eq(model.keys().cloned()), "a scan differs");
}

/// Whether a call was refused because the disk is full. It may be a job that took the last byte,
/// so that the log cannot be appended to: then the outcome is unknown.
fn is_full(error: &Error) -> bool {
    let in_the_log = error.kind() == ErrorKind::WritesSuspended;
    error.kind() == ErrorKind::DiskFull
        || in_the_log && error.to_string().contains("No space left on device")
}

/// Puts keys from `first` on until the disk is full. Returns a put that may show after a reopening.
fn fill(db: &Db, model: &mut Model, first: u64) -> (Vec<u8>, u8) {
    let mut n = first;
    loop {
        // Spread over the keys, so that deletes and merges touch everything.
        let key = n.wrapping_mul(0x9e37_79b9_7f4a_7c15).to_be_bytes().to_vec();
        match db.put(&key, value(n as u8)) {
            Ok(()) => drop(model.insert(key, n as u8)),
            Err(error) => {
                assert!(is_full(&error), "{error}");
                assert_eq!(db.get(&key).unwrap(), None);
                return (key, n as u8);
            }
        }
        n += 1;
    }
}

/// Makes a call that may be refused until the background has made room. Returns how often it was.
fn until_taken(db: &Db, what: &str, mut call: impl FnMut() -> unikv::Result<()>) -> u32 {
    let (mut refusals, mut watchdog) = (0, None);
    while let Err(error) = call() {
        assert!(is_full(&error), "{what}: {error}");
        let watchdog = watchdog.get_or_insert_with(|| Standstill::new(db));
        watchdog.look(db, &|| format!("{what} is refused"));
        refusals += 1;
        std::thread::sleep(Duration::from_millis(100));
    }
    refusals
}

#[test]
fn a_small_disk_fills_up_and_deletes_make_room() {
    let Ok(dir) = std::env::var("UNIKV_SMALL_DISK") else {
        println!("skipped: UNIKV_SMALL_DISK names no small file system");
        return;
    };
    let dir = Path::new(&dir).join("db");
    let options = || {
        Options::default()
            .tuning(
                Tuning::default()
                    .memtable_bytes(4 << 20)
                    .unsorted_bytes(32 << 20),
            )
            .memory_budget(64 << 20)
    };
    let db = Db::open(&dir, options()).unwrap();
    let mut model = Model::new();
    fill(&db, &mut model, 0);
    let filled = model.len();
    assert!(filled > 50_000, "only {filled} records fit");
    verify(&db, &model);

    let doomed: Vec<Vec<u8>> = model.keys().step_by(2).cloned().collect();
    let mut refused = 0;
    for key in &doomed {
        refused += until_taken(&db, "a delete", || db.delete(key));
        model.remove(key);
    }
    verify(&db, &model);
    let waited = until_taken(&db, "a put", || db.put(b"after", value(7)));
    model.insert(b"after".to_vec(), 7);
    let mut watchdog = Standstill::new(&db);
    while db.stats().disk_full {
        watchdog.look(&db, &|| "the disk counts as full".to_owned());
    }
    verify(&db, &model);

    // Once more, and over a reopening.
    let (key, n) = fill(&db, &mut model, 10_000_000);
    verify(&db, &model);
    drop(db);
    let db = Db::open(&dir, options()).unwrap();
    if db.contains_key(&key).unwrap() {
        model.insert(key, n);
    }
    verify(&db, &model);
    // The log is synced; a merge may still be without space.
    if let Err(error) = db.close() {
        assert_eq!(error.kind(), ErrorKind::DiskFull, "{error}");
    }
    let report = Db::check(&dir).unwrap();
    assert!(report.is_clean(), "{:#?}", report.problems);
    println!(
        "{filled} records filled the disk; {refused} tenths of a second waited with deletes, {waited} until writing resumed"
    );
}

/// Of a value of any round.
fn large(round: u8, n: u32) -> Vec<u8> {
    let mut value = vec![round; 1000];
    value[..4].copy_from_slice(&n.to_be_bytes());
    value
}

/// With the default options. A call that is refused is made again: the background makes room.
#[test]
fn on_a_disk_of_16_megabytes_four_are_written_and_deleted_again_and_again() {
    let Ok(dir) = std::env::var("UNIKV_SMALLEST_DISK") else {
        println!("skipped: UNIKV_SMALLEST_DISK names no small file system");
        return;
    };
    let dir = Path::new(&dir).join("db");
    let mut db = Db::open(&dir, Options::default()).unwrap();
    let (mut refused, records) = (0, 4000_u32);
    for round in 0..10 {
        for n in 0..records {
            let key = n.wrapping_mul(0x9e37_79b9).to_be_bytes();
            refused += until_taken(&db, "a put", || db.put(key, large(round, n)));
        }
        for n in 0..records {
            let key = n.wrapping_mul(0x9e37_79b9).to_be_bytes();
            assert_eq!(db.get(key).unwrap().as_deref(), Some(&large(round, n)[..]));
        }
        if round % 2 == 0 {
            refused += until_taken(&db, "a range delete", || db.delete_range(..));
        } else {
            for n in 0..records {
                let key = n.wrapping_mul(0x9e37_79b9).to_be_bytes();
                refused += until_taken(&db, "a delete", || db.delete(key));
            }
        }
        assert_eq!(db.iter().count(), 0);
        if round % 3 == 2 {
            db.close().unwrap();
            db = Db::open(&dir, Options::default()).unwrap();
        }
    }
    db.close().unwrap();
    let report = Db::check(&dir).unwrap();
    assert!(report.is_clean(), "{:#?}", report.problems);
    println!("{refused} calls were refused at first");
}

/// Another program takes all that is left, again and again.
#[test]
fn a_database_is_opened_on_a_disk_without_a_free_byte() {
    let Ok(dir) = std::env::var("UNIKV_FILLED_DISK") else {
        println!("skipped: UNIKV_FILLED_DISK names no small file system");
        return;
    };
    let (other, dir) = (
        Path::new(&dir).join("other"),
        Path::new(&dir).join("opened"),
    );
    let db = Db::open(&dir, Options::default()).unwrap();
    let mut model = Model::new();
    for n in 0..1000_u64 {
        let key = n.to_be_bytes().to_vec();
        db.put(&key, value(n as u8)).unwrap();
        model.insert(key, n as u8);
    }
    db.flush().unwrap();
    db.put(b"in the log", value(1)).unwrap();
    model.insert(b"in the log".to_vec(), 1);
    db.sync().unwrap();
    let mut watchdog = Standstill::new(&db);
    while db.stats().ballast_bytes == 0 {
        watchdog.look(&db, &|| "there is no ballast".to_owned());
    }
    drop(db);
    let mut blocker = std::fs::File::create(&other).unwrap();
    let take_all = |blocker: &mut std::fs::File| {
        let mut len = 1 << 20;
        while len > 0 {
            match std::io::Write::write_all(blocker, &vec![1; len]) {
                Ok(()) => {}
                Err(_) => len /= 2,
            }
        }
    };
    for _ in 0..3 {
        take_all(&mut blocker);
        let db = Db::open(&dir, Options::default()).unwrap();
        verify(&db, &model);
        assert_eq!(db.snapshot().iter().count(), model.len());
        assert!(is_full(&db.put(b"after", value(7)).unwrap_err()));
        take_all(&mut blocker);
        verify(&db, &model);
        let _unfinished = db.close();
    }
    let db = Db::open(&dir, Options::default()).unwrap();
    blocker.set_len(0).unwrap();
    let waited = until_taken(&db, "a put", || db.put(b"after", value(7)));
    model.insert(b"after".to_vec(), 7);
    verify(&db, &model);
    db.close().unwrap();
    let report = Db::check(&dir).unwrap();
    assert!(report.is_clean(), "{:#?}", report.problems);
    println!("{waited} tenths of a second until writing resumed");
}
