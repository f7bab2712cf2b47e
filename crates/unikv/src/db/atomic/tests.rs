//! Entries that are taken away, beside others who take and write.

use crate::engine::tests::{Machine, small};
use crate::{Db, KeyspaceOptions, Options, Prefix};
use std::collections::BTreeSet;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;

fn key(n: u32) -> String {
    format!("key{n:06}")
}

#[test]
fn each_of_many_keys_is_taken_once_by_eight_threads() {
    const KEYS: u32 = 100_000;
    let dir = tempfile::tempdir().unwrap();
    let db = Db::open(dir.path().join("db"), Options::default()).unwrap();
    let jobs = db.keyspace("jobs", KeyspaceOptions::default()).unwrap();
    let entries = (0..KEYS).map(|n| Ok((key(n), Some(key(n)))));
    jobs.ingest_sorted::<_, crate::Error>(entries, None)
        .unwrap();
    let taken = Mutex::new(Vec::new());
    thread::scope(|scope| {
        for n in 0..8 {
            let (jobs, taken) = (&jobs, &taken);
            scope.spawn(move || {
                let mut mine = Vec::new();
                loop {
                    let next = if n % 2 == 0 {
                        jobs.pop_first()
                    } else {
                        jobs.pop_last()
                    };
                    let Some((key, value)) = next.unwrap() else {
                        break;
                    };
                    assert_eq!(key, value);
                    mine.push(key);
                }
                taken.lock().unwrap().append(&mut mine);
            });
        }
    });
    let taken = taken.into_inner().unwrap();
    let once: BTreeSet<_> = taken.iter().collect();
    assert_eq!((taken.len(), once.len()), (KEYS as usize, KEYS as usize));
    assert_eq!(jobs.first_key_value().unwrap(), None);
    db.close().unwrap();
}

#[test]
fn what_is_taken_is_the_first_though_others_write_before_it_and_behind() {
    let dir = tempfile::tempdir().unwrap();
    let db = Db::open(dir.path().join("db"), Options::default()).unwrap();
    for n in 100..200 {
        db.put(key(n), "old").unwrap();
    }
    // A writer that puts a smaller key after each look, and greater ones all the time.
    let stop = AtomicBool::new(false);
    thread::scope(|scope| {
        scope.spawn(|| {
            for n in (200..).take_while(|_| !stop.load(Ordering::Relaxed)) {
                db.put(key(n), "new").unwrap();
            }
        });
        for n in 100..200 {
            let (taken, _) = db.pop_first().unwrap().unwrap();
            assert_eq!(taken, key(n));
        }
        stop.store(true, Ordering::Relaxed);
    });
    if let Some((least, _)) = db.first_key_value().unwrap() {
        assert_eq!(least, key(200));
    }
    db.put(key(7), "least").unwrap();
    assert_eq!(db.pop_first().unwrap().unwrap().0, key(7));
    db.close().unwrap();
}

#[test]
fn a_range_or_a_prefix_bounds_what_is_taken() {
    let machine = Machine::new(2);
    let (db, _runtime) = machine.open(small());
    for key in ["a/1", "a/2", "b/1", "b\u{ff}"] {
        db.put(key, "").unwrap();
    }
    let of_a = Prefix::new("a/");
    assert_eq!(db.pop_last_in_range(&of_a).unwrap().unwrap().0, "a/2");
    assert_eq!(db.pop_first_in_range(&of_a).unwrap().unwrap().0, "a/1");
    assert_eq!(db.pop_first_in_range(&of_a).unwrap(), None);
    assert_eq!(db.pop_first_in_range("b/0".."b/1").unwrap(), None);
    assert_eq!(db.pop_last().unwrap().unwrap().0, "b\u{ff}");
    assert_eq!(db.last_key_value().unwrap().unwrap().0, "b/1");
    let all: crate::Result<Vec<_>> = (&db).into_iter().collect();
    assert_eq!(all.unwrap().len(), 1);
    db.close().unwrap();
}

#[test]
fn a_batch_written_to_a_keyspace_goes_there_but_for_what_names_another() {
    let machine = Machine::new(3);
    let (db, _runtime) = machine.open(small());
    let [users, mails] =
        ["users", "mails"].map(|name| db.keyspace(name, KeyspaceOptions::default()).unwrap());
    let default = db.find_keyspace("default").unwrap();
    let mut batch: crate::Batch = [("1", "Ada"), ("2", "Bob")].into_iter().collect();
    batch.put_in(&mails, "m", "1").put_in(&default, "d", "1");
    batch.delete("2").delete_range("3".."4");
    users.put("3", "gone").unwrap();
    db.put("3", "stays").unwrap();
    users.write(&batch).unwrap();
    let all = |keyspace: &crate::Keyspace| -> Vec<_> {
        let keys = keyspace.keys(..).map(|key| key.unwrap());
        keys.collect()
    };
    assert_eq!(all(&users), ["1"]);
    assert_eq!(all(&mails), ["m"]);
    assert_eq!(all(&default), ["3", "d"]);
    // Emptied, it has other keys below: the same batch goes there all the same.
    users.truncate().unwrap();
    let mut batch = crate::Batch::new();
    batch.put("9", "new");
    users.write(&batch).unwrap();
    assert_eq!(all(&users), ["9"]);
    db.close().unwrap();
}

#[test]
fn a_batch_for_the_default_keyspace_of_another_database_is_refused() {
    let (one, other) = (Machine::new(4), Machine::new(5));
    let (db, _runtime) = one.open(small());
    let (of_other, _runtime) = other.open(small());
    let mut batch = crate::Batch::new();
    batch.put_in(&of_other.find_keyspace("default").unwrap(), "key", "");
    let error = db.write(&batch).unwrap_err();
    assert_eq!(error.kind(), crate::ErrorKind::InvalidArgument);
    assert_eq!(db.first_key_value().unwrap(), None);
    of_other.write(&batch).unwrap();
    db.close().unwrap();
    of_other.close().unwrap();
}
