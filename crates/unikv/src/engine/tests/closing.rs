//! Closing: what keeps the database open, what is still open when it is closed, and reads that are
//! under way while it is closed, opened again and changed.

use super::{Machine, Model, churn, same, small};
use crate::testing::{limit, wait_for};
use crate::vfs::Runtime as _;
use crate::vfs::sim::{Fault, Op};
use crate::{
    Batch, ClosingReport, Cursor, Db, Error, ErrorKind, Event, HolderKind, Iter, Keys,
    KeyspaceOptions, Options, Result, Snapshot,
};
use rand::SeedableRng;
use rand::rngs::SmallRng;
use std::any::Any;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, mpsc};
use std::time::Duration;

/// Has everything of `machine` rewritten, so that no file of before is left.
fn rewrite(machine: &Machine) {
    let (db, _) = machine.open(small().inline_value_bytes(0).max_space_amp(1.1));
    for round in 0..3_u8 {
        for n in 0..100_u32 {
            db.put(format!("key{n:03}"), [round; 300]).unwrap();
        }
        db.compact().unwrap();
    }
    db.collect_garbage().unwrap();
    db.wait_until_idle().unwrap();
    db.close().unwrap();
}

type Read<'a> = &'a dyn Fn(&Db) -> crate::Result<()>;

/// What `read` says if the database is closed and rewritten while it opens a file with `extension`.
fn closed_under(extension: &'static str, read: Read<'_>) -> Error {
    let machine = Machine::new(41);
    rewrite(&machine);
    let old = machine.disk.file_names();
    let (db, _) = machine.open(small().inline_value_bytes(0));
    let (handle, rewritten) = (db.clone(), Arc::new(AtomicBool::new(false)));
    let (done, beside) = (
        Arc::clone(&rewritten),
        Machine {
            disk: machine.disk.clone(),
            seed: 42,
        },
    );
    machine.disk.set_look_fault(Box::new(move |call| {
        let is_one = call.path.extension().is_some_and(|e| e == extension);
        if call.op == Op::Open && is_one && !done.swap(true, Ordering::SeqCst) {
            handle.clone().close().unwrap();
            rewrite(&beside);
        }
        Fault::None
    }));
    let read = read(&db);
    machine.disk.clear_faults();
    assert!(rewritten.load(Ordering::SeqCst), "{extension}: {read:?}");
    let files = machine.disk.file_names();
    let gone = |path: &&PathBuf| path.extension().is_some_and(|e| e == extension);
    assert!(old.iter().filter(gone).all(|path| !files.contains(path)));
    read.unwrap_err()
}

#[test]
fn a_read_that_a_close_overtakes_says_so_and_does_not_speak_of_damage() {
    let get = |db: &Db| db.get("key050").map(drop);
    let scan = |db: &Db| db.iter().try_for_each(|entry| entry.map(drop));
    let count = |db: &Db| db.approximate_size("key010".."key020").map(drop);
    let middle = |db: &Db| db.split_key(..).map(drop);
    let reads: [(&'static str, Read<'_>); 6] = [
        ("rec", &get),
        ("key", &get),
        ("rec", &scan),
        ("key", &scan),
        ("key", &count),
        ("key", &middle),
    ];
    for (extension, read) in reads {
        let error = closed_under(extension, read);
        assert_eq!(error.kind(), ErrorKind::Closed, "{extension}: {error}");
    }
}

fn is_locked(machine: &Machine) -> bool {
    match Db::open("/db", small().env(machine.env())) {
        Ok(_) => false,
        Err(error) => {
            assert_eq!(error.kind(), ErrorKind::Locked, "{error}");
            true
        }
    }
}

/// A database with entries for more than one batch of an iterator.
fn filled(seed: u64) -> (Machine, Db, Model) {
    let machine = Machine::new(seed);
    let (db, _) = machine.open(small());
    let mut model = Model::new();
    churn(&db, &mut model, &mut SmallRng::seed_from_u64(seed), 1000);
    (machine, db, model)
}

type Made = Box<dyn Any>;

/// Drops the last handle while what `make` has made is there, has that read all entries by `read`,
/// and expects the database to be closed when it has been dropped, and not before.
fn outlives<T: 'static>(make: impl FnOnce(&Db) -> T, read: impl FnOnce(&mut T) -> usize) {
    let (machine, db, model) = filled(43);
    let mut made = make(&db);
    drop(db);
    assert!(is_locked(&machine));
    assert_eq!(read(&mut made), model.len());
    assert!(is_locked(&machine));
    drop(made);
    same(&machine.open(small()).0, &model);
    machine.check();
}

/// How many entries there are, none of them an error.
fn count<T>(entries: &mut dyn Iterator<Item = Result<T>>) -> usize {
    let all: Result<Vec<T>> = entries.collect();
    all.unwrap().len()
}

#[test]
fn the_database_closes_when_the_last_of_all_that_was_made_of_it_is_gone() {
    outlives(Db::snapshot, |snapshot| count(&mut snapshot.iter()));
    outlives(
        |db| db.snapshot().clone(),
        |snapshot| count(&mut snapshot.keys(..)),
    );
    let rest = |iter: &mut Iter| count(iter);
    outlives(Db::iter, rest);
    outlives(|db| db.snapshot().iter(), rest);
    outlives(|db| db.begin().iter(), rest);
    let keys = |keys: &mut Keys| count(&mut keys.rev());
    outlives(|db| db.keys(..), keys);
    let walk = |cursor: &mut Cursor| {
        cursor.refresh();
        std::iter::from_fn(|| cursor.next().unwrap().then_some(())).count()
    };
    outlives(Db::cursor, walk);
    outlives(|db| db.snapshot().cursor(), walk);
    outlives(Db::begin, |transaction| count(&mut transaction.iter()));
    let of_keyspace = |db: &Db| {
        let other = db.keyspace("other", KeyspaceOptions::default()).unwrap();
        other.snapshot().find_keyspace("default").unwrap()
    };
    outlives(of_keyspace, |snapshot| count(&mut snapshot.iter()));
}

#[test]
fn a_value_is_read_of_a_database_that_nothing_but_its_snapshot_keeps() {
    let dir = tempfile::tempdir().unwrap();
    let open = || Db::open(dir.path(), Options::default());
    open().unwrap().put("key", "value").unwrap();
    let read = || open()?.snapshot().get("key");
    for _ in 0..2 {
        assert_eq!(read().unwrap().as_deref(), Some(&b"value"[..]));
    }
}

#[test]
fn a_transaction_commits_after_the_last_handle_is_gone() {
    let (machine, db, mut model) = filled(44);
    let mut transaction = db.begin();
    drop(db);
    for n in 0..500_u32 {
        transaction.put(n.to_be_bytes(), [7; 100]).unwrap();
        model.insert(n.to_be_bytes().to_vec(), vec![7; 100]);
    }
    transaction.commit().unwrap();
    assert!(!is_locked(&machine));
    same(&machine.open(small()).0, &model);
    machine.check();
}

#[test]
fn the_background_works_until_the_last_snapshot_is_gone() {
    let machine = Machine::new(45);
    let (db, runtime) = machine.open(small());
    let snapshot = db.snapshot();
    let mut batch = Batch::new();
    for n in 0..200_u32 {
        batch.put(n.to_be_bytes(), [7; 100]);
    }
    db.write(&batch).unwrap();
    let flushes = |snapshot: &Snapshot| {
        let counters = &snapshot.read().core.counters;
        counters.flushes.load(Ordering::Relaxed)
    };
    let before = flushes(&snapshot);
    drop(db);
    runtime.run_until_idle();
    assert!(flushes(&snapshot) > before);
    assert_eq!(snapshot.iter().count(), 0);
}

#[test]
fn any_thread_may_drop_the_last_one_also_one_that_panics() {
    let _limit = limit("the drop of the last snapshot");
    let dir = tempfile::tempdir().unwrap();
    let open = || Db::open(dir.path(), Options::default());
    let snapshot = open().unwrap().snapshot();
    let other = std::thread::spawn(move || drop(snapshot));
    other.join().unwrap();
    let iter = open().unwrap().iter();
    let panics = std::thread::spawn(move || {
        let _dropped_by_the_panic = iter;
        std::panic::resume_unwind(Box::new("as this test wants"));
    });
    panics.join().unwrap_err();
    open().unwrap().close().unwrap();
}

#[test]
fn a_listener_may_drop_the_last_one() {
    let _limit = limit("a listener that drops the last snapshot");
    let dir = tempfile::tempdir().unwrap();
    let slot = Arc::new(Mutex::new(None::<Snapshot>));
    let (dropped, when_dropped) = mpsc::channel::<()>();
    let (of_listener, when_dropped) = (Arc::clone(&slot), Mutex::new(when_dropped));
    let options = Options::default().listener(move |event: &Event| {
        if matches!(event, Event::JobEnded { .. }) {
            let _sender_may_be_gone = when_dropped.lock().unwrap().recv();
            let last = of_listener.lock().unwrap().take();
            drop(last);
        }
    });
    let db = Db::open(dir.path(), options).unwrap();
    db.put("key", "value").unwrap();
    *slot.lock().unwrap() = Some(db.snapshot());
    db.flush().unwrap();
    drop(db);
    dropped.send(()).unwrap();
    wait_for("the closing", || {
        Db::open(dir.path(), Options::default()).is_ok()
    });
}

fn kinds(report: &ClosingReport) -> Vec<HolderKind> {
    report.still_open.iter().map(|open| open.kind).collect()
}

#[test]
fn closing_reports_what_is_still_open_with_its_age() {
    let machine = Machine::new(46);
    let (db, runtime) = machine.open(small());
    db.put("key", "value").unwrap();
    let mut held: Vec<Made> = Vec::new();
    let second = || runtime.delay(Duration::from_secs(1));
    held.push(Box::new(db.snapshot()));
    second();
    held.push(Box::new(db.begin()));
    second();
    let snapshot = db.snapshot();
    held.extend([Box::new(snapshot.clone()) as Made, Box::new(snapshot)]);
    second();
    held.push(Box::new(db.iter()));
    second();
    held.push(Box::new(db.cursor()));
    second();
    // Of these only the iterators are left.
    held.push(Box::new(db.snapshot().iter()));
    second();
    held.push(Box::new(db.begin().iter()));
    second();
    // These are gone.
    drop((db.iter(), db.snapshot(), db.begin(), db.snapshot().iter()));
    drop((db.snapshot().clone(), db.cursor()));
    let report = db.close().unwrap();
    let ages: Vec<u64> = report.still_open.iter().map(|o| o.age.as_secs()).collect();
    assert_eq!(ages, [7, 6, 5, 4, 3, 2, 1], "{report:?}");
    use HolderKind::{Iterator, Snapshot, Transaction};
    let expected = [
        Snapshot,
        Transaction,
        Snapshot,
        Iterator,
        Iterator,
        Iterator,
        Iterator,
    ];
    assert_eq!(kinds(&report), expected);
    drop(held);
    let (db, _) = machine.open(small());
    assert_eq!(db.close().unwrap(), ClosingReport::default());
}

#[test]
fn snapshots_of_one_moment_are_reported_one_by_one() {
    let machine = Machine::new(47);
    let (db, _) = machine.open(small());
    let (first, second) = (db.snapshot(), db.snapshot());
    let (iter, third) = (first.iter(), db.snapshot());
    drop((first, third));
    let report = db.close().unwrap();
    assert_eq!(kinds(&report), [HolderKind::Snapshot, HolderKind::Iterator]);
    drop((second, iter));
}

#[test]
fn what_a_close_has_overtaken_is_closed_at_once() {
    let (machine, db, model) = filled(48);
    let (clone, space) = (db.clone(), db.keyspace("other", KeyspaceOptions::default()));
    let space = space.unwrap();
    let (snapshot, of_space) = (db.snapshot(), space.snapshot());
    let (mut iter, mut back, mut keys) = (db.iter(), snapshot.iter(), db.keys(..));
    let (mut cursor, mut unmoved) = (db.cursor(), snapshot.cursor());
    let (mut transaction, empty) = (db.begin(), db.begin());
    transaction.put("own", "write").unwrap();
    let mut in_transaction = transaction.iter();
    let is_there = [
        iter.next().is_some(),
        back.next_back().is_some(),
        keys.next().is_some(),
        cursor.first().unwrap() && cursor.value().unwrap().is_some(),
        in_transaction.next().is_some(),
    ];
    assert_eq!(is_there, [true; 5]);
    assert_eq!(db.close().unwrap().still_open.len(), 9);

    // Another opener is not disturbed by what is left of the first.
    let (other, _) = machine.open(small());
    let closed = |error: Error| assert_eq!(error.kind(), ErrorKind::Closed, "{error}");
    closed(clone.get("key").unwrap_err());
    closed(space.get("key").unwrap_err());
    closed(snapshot.get("key").unwrap_err());
    closed(of_space.multi_get(["key"]).unwrap_err());
    closed(snapshot.iter().next().unwrap().unwrap_err());
    closed(iter.next().unwrap().unwrap_err());
    closed(back.next_back().unwrap().unwrap_err());
    closed(keys.next().unwrap().unwrap_err());
    closed(in_transaction.next().unwrap().unwrap_err());
    assert!(iter.next().is_none() && in_transaction.next().is_none());
    closed(cursor.value().unwrap_err());
    closed(cursor.next().unwrap_err());
    closed(unmoved.prev().unwrap_err());
    closed(unmoved.seek("key").unwrap_err());
    closed(transaction.get("own").unwrap_err());
    closed(transaction.put("own", "write").unwrap_err());
    closed(transaction.commit().unwrap_err());
    closed(empty.commit().unwrap_err());
    closed(clone.close().unwrap_err());
    drop((space, snapshot, of_space, iter, back, keys, cursor, unmoved));
    drop(in_transaction);
    assert!(is_locked(&machine));
    same(&other, &model);
    other.close().unwrap();
    machine.check();
}
