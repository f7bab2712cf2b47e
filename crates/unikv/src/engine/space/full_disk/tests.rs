use super::*;
use crate::Tuning;
use crate::base::sync::atomic::Ordering;
use crate::engine::space::full_disk::LEAST_BALLAST;
use crate::engine::tests::{Machine, Model, same, small};
use crate::events::Event;
use crate::memtable::Batch;
use crate::vfs::sim::{Fault, Keep, Op, SimRuntime};
use crate::vfs::{Runtime as _, Vfs as _};
use crate::{Clustering, Db, Durability, SecondaryOptions};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::AtomicUsize;
use std::time::Duration;

const BALLAST_PATH: &str = "/db/BALLAST";

/// Lets workers run for some time, also those that wake up by the clock.
fn let_pass(runtime: &SimRuntime, seconds: u64) {
    let never = runtime.event();
    never.wait_past(never.epoch(), Some(Duration::from_secs(seconds)));
}

fn limits() -> SpaceLimits {
    SpaceLimits::of(4 << 10)
}

fn ballast(machine: &Machine) -> u64 {
    let bytes = machine.disk.read_file(Path::new(BALLAST_PATH));
    bytes.map_or(0, |bytes| bytes.len() as u64)
}

fn has_ballast(machine: &Machine) -> bool {
    ballast(machine) > 0
}

/// Puts new keys until the disk is full; returns the error.
fn fill(db: &Db, model: &mut Model, len: usize) -> Error {
    for n in model.len()..100_000 {
        let (key, value) = (format!("key{n:06}"), vec![n as u8; len]);
        match db.put(&key, &value) {
            Ok(()) => drop(model.insert(key.into_bytes(), value)),
            Err(error) => return error,
        }
    }
    panic!("the disk does not become full");
}

/// Deletes all but each `nth` key. Now and then there is no room even for that until the background
/// has made something of what was deleted before.
fn delete_most(db: &Db, runtime: &SimRuntime, model: &mut Model, nth: usize) {
    let keys: Vec<Vec<u8>> = model.keys().cloned().collect();
    let mut tries = 0;
    for (n, key) in keys.iter().enumerate().filter(|(n, _)| n % nth != 0) {
        while let Err(error) = db.delete(key) {
            assert_eq!(error.kind(), ErrorKind::DiskFull);
            assert!(db.get(key).unwrap().is_some());
            tries += 1;
            assert!(tries < 60, "after {n} deletes: {error} {:#?}", db.stats());
            let_pass(runtime, 10);
        }
        model.remove(key);
    }
}

#[test]
fn puts_fail_cleanly_while_reads_and_deletes_go_on_and_writing_resumes_by_itself() {
    let machine = Machine::new(1);
    let (db, runtime) = machine.open(small());
    let mut model = Model::new();
    for n in 0..800u32 {
        let key = format!("big{n:03}").into_bytes();
        db.put(&key, [8; 400]).unwrap();
        model.insert(key, vec![8; 400]);
    }
    runtime.run_until_idle();
    assert_eq!(ballast(&machine), LEAST_BALLAST);
    assert_eq!(db.stats().ballast_bytes, LEAST_BALLAST);
    machine.disk.set_free_space(Some(100_000));
    let error = fill(&db, &mut model, 400);
    assert_eq!(error.kind(), ErrorKind::DiskFull);
    assert_eq!(error.file(), Some(Path::new("/db")));
    let resume_bytes = LEAST_BALLAST + 2 * limits().reserve_bytes();
    assert!(
        error.to_string().contains(&resume_bytes.to_string()),
        "{error}"
    );
    assert!(db.stats().disk_full && !has_ballast(&machine));
    same(&db, &model);

    // Nothing of a batch with a put is there; a batch of deletes is.
    let mut mixed = Batch::new();
    mixed.delete("key000001").put("key000002", "new");
    assert_eq!(db.write(&mixed).unwrap_err().kind(), ErrorKind::DiskFull);
    same(&db, &model);
    let mut deletes = Batch::new();
    deletes.delete("key000003").delete("key000004");
    db.write_with(&deletes, Durability::Sync).unwrap();
    model.remove(b"key000003".as_slice());
    model.remove(b"key000004".as_slice());
    same(&db, &model);
    // Others take what merges give back.
    machine.disk.set_free_space(Some(20_000));
    let_pass(&runtime, 10);
    assert!(db.stats().disk_full);

    machine.disk.set_free_space(Some(resume_bytes));
    let_pass(&runtime, 5);
    assert!(!db.stats().disk_full && has_ballast(&machine));
    db.put("key000001", "new").unwrap();
    model.insert(b"key000001".to_vec(), b"new".to_vec());
    same(&db, &model);
    machine.disk.set_free_space(None);
    db.close().unwrap();
    machine.check();
    let (db, _runtime) = machine.open(small());
    same(&db, &model);
}

#[test]
fn deletes_alone_make_room_for_writing_to_resume() {
    for (seed, inline, len) in [(1, 0, 500), (2, 16, 100), (3, 0, 100)] {
        let machine = Machine::new(seed);
        let (db, runtime) = machine.open(small().inline_value_bytes(inline));
        machine.disk.set_free_space(Some(400_000));
        let mut model = Model::new();
        // The space of the ballast and of spare logs may be enough to go on for a while.
        let mut rounds = 0;
        while !db.stats().disk_full {
            rounds += 1;
            assert!(rounds < 1000, "the disk never counts as full");
            assert_eq!(fill(&db, &mut model, len).kind(), ErrorKind::DiskFull);
            let_pass(&runtime, 100);
        }
        delete_most(&db, &runtime, &mut model, 4);
        let_pass(&runtime, 200);
        let stats = db.stats();
        assert!(!stats.disk_full, "seed {seed}: {stats:#?}");
        db.put("resumed", "1").unwrap();
        model.insert(b"resumed".to_vec(), b"1".to_vec());
        same(&db, &model);
        db.wait_until_idle().unwrap();
        same(&db, &model);
        db.close().unwrap();
        machine.check();
    }
}

#[test]
fn deletes_are_refused_cleanly_when_there_is_no_space_for_them_either() {
    let machine = Machine::new(5);
    let (db, runtime) = machine.open(small());
    let mut model = Model::new();
    machine.disk.set_free_space(Some(150_000));
    fill(&db, &mut model, 300);
    machine.disk.set_free_space(Some(0));
    assert_eq!(
        db.delete("key000001").unwrap_err().kind(),
        ErrorKind::DiskFull
    );
    same(&db, &model);
    let_pass(&runtime, 100);
    same(&db, &model);
    machine.disk.set_free_space(None);
    let_pass(&runtime, 5);
    db.delete("key000001").unwrap();
    model.remove(b"key000001".as_slice());
    same(&db, &model);
    db.close().unwrap();
    machine.check();
}

/// Calls that write to a file whose name begins with `prefix` find the disk full, `count` of them.
fn refuse(machine: &Machine, op: Op, prefix: &'static str, count: usize) -> Arc<AtomicUsize> {
    let refused = Arc::new(AtomicUsize::new(0));
    let counter = Arc::clone(&refused);
    machine.disk.set_fault(Box::new(move |call| {
        let name = call.path.file_name().unwrap_or_default().to_string_lossy();
        let concerned = call.op == op && name.starts_with(prefix);
        if !concerned || counter.load(Ordering::Relaxed) == count {
            return Fault::None;
        }
        counter.fetch_add(1, Ordering::Relaxed);
        Fault::Fail(std::io::ErrorKind::StorageFull)
    }));
    refused
}

#[test]
fn a_manifest_that_met_a_full_disk_is_replaced_without_reopening() {
    let operations = [
        (Op::Append, "MANIFEST"),
        (Op::Sync, "MANIFEST"),
        (Op::Create, "MANIFEST"),
    ];
    for (seed, (op, prefix)) in operations.into_iter().enumerate() {
        for count in [1, 2, 5] {
            let machine = Machine::new(seed as u64);
            let (db, runtime) = machine.open(small());
            let mut model = Model::new();
            runtime.run_until_idle();
            // A creation is needed only once another append has failed.
            let first = if op == Op::Create { Op::Append } else { op };
            let refused = refuse(&machine, first, prefix, count);
            for n in 0..20u32 {
                let key = format!("key{n:03}").into_bytes();
                db.put(&key, [7; 100]).unwrap();
                model.insert(key, vec![7; 100]);
            }
            assert_eq!(db.flush().unwrap_err().kind(), ErrorKind::DiskFull);
            assert!(refused.load(Ordering::Relaxed) > 0);
            same(&db, &model);
            if op == Op::Create {
                refuse(&machine, op, prefix, count);
            }
            let_pass(&runtime, 20);
            assert!(!db.stats().disk_full, "{op:?} {count}");
            db.put("after", "1").unwrap();
            model.insert(b"after".to_vec(), b"1".to_vec());
            db.compact().unwrap();
            same(&db, &model);
            db.close().unwrap();
            machine.check();
            let (db, _runtime) = machine.open(small());
            same(&db, &model);
            // What the edits of unknown outcome had made is gone already.
            let rubbish = |name: &&String| name.ends_with(".rec") || name.ends_with(".key");
            let swept = &db.recovery().swept;
            assert_eq!(swept.iter().filter(rubbish).count(), 0, "{swept:?}");
        }
    }
}

/// Only what a manifest may hold is kept until there is another: an edit that was never appended is
/// in none.
#[test]
fn outputs_that_no_manifest_was_asked_to_hold_do_not_gather() {
    let machine = Machine::new(17);
    let (db, runtime) = machine.open(small());
    let mut model = Model::new();
    for n in 0..10u32 {
        let key = format!("key{n:03}").into_bytes();
        db.put(&key, [7; 100]).unwrap();
        model.insert(key, vec![7; 100]);
    }
    runtime.run_until_idle();
    machine.disk.set_fault(Box::new(|call| {
        let is_manifest = call.path.to_string_lossy().contains("MANIFEST");
        if is_manifest && matches!(call.op, Op::Append | Op::Create) {
            return Fault::Fail(std::io::ErrorKind::StorageFull);
        }
        Fault::None
    }));
    assert_eq!(db.flush().unwrap_err().kind(), ErrorKind::DiskFull);
    let record_files = || {
        let names = machine.disk.file_names().into_iter();
        names
            .filter(|path| path.extension().is_some_and(|e| e == "rec"))
            .count()
    };
    let_pass(&runtime, 20);
    assert!(db.stats().job_errors.iter().any(|e| e.retries > 5));
    assert!(record_files() <= 1, "{}", record_files());
    machine.disk.clear_faults();
    let_pass(&runtime, 20);
    db.compact().unwrap();
    same(&db, &model);
    db.close().unwrap();
    machine.check();
}

#[test]
fn a_failed_sync_of_the_manifest_for_another_reason_needs_a_reopening() {
    let machine = Machine::new(9);
    let (db, runtime) = machine.open(small());
    db.put("a", "1").unwrap();
    machine.disk.set_fault(Box::new(|call| {
        let name = call.path.file_name().unwrap_or_default().to_string_lossy();
        if call.op == Op::Sync && name.starts_with("MANIFEST") {
            Fault::Fail(std::io::ErrorKind::Other)
        } else {
            Fault::None
        }
    }));
    db.flush().unwrap_err();
    machine.disk.clear_faults();
    let_pass(&runtime, 100);
    assert_eq!(
        db.put("b", "2").unwrap_err().kind(),
        ErrorKind::WritesSuspended
    );
}

#[test]
fn a_log_that_met_a_full_disk_begins_again_without_a_call() {
    for torn in [0, 30] {
        let machine = Machine::new(6);
        let (db, runtime) = machine.open(small());
        runtime.run_until_idle();
        let mut model = Model::new();
        db.put("before", "1").unwrap();
        model.insert(b"before".to_vec(), b"1".to_vec());
        let mut done = false;
        machine.disk.set_fault(Box::new(move |call| {
            let is_log = call.path.extension().is_some_and(|e| e == "wal");
            if done || !is_log || call.op != Op::Append {
                return Fault::None;
            }
            done = true;
            match torn {
                0 => Fault::Fail(std::io::ErrorKind::StorageFull),
                bytes => Fault::FailAfter { bytes },
            }
        }));
        let error = db.put("torn", "2").unwrap_err();
        match torn {
            // The outcome is unknown, which FullDisk would deny.
            0 => assert_eq!(error.kind(), ErrorKind::WritesSuspended),
            _ => assert_eq!(error.kind(), ErrorKind::Io),
        }
        if torn == 0 {
            db.delete("before").unwrap();
            model.remove(b"before".as_slice());
            let_pass(&runtime, 5);
            db.put("after", "3").unwrap();
            model.insert(b"after".to_vec(), b"3".to_vec());
        }
        same(&db, &model);
    }
}

#[test]
fn a_database_opens_on_a_full_disk() {
    for free in [0, 5_000] {
        let machine = Machine::new(7);
        // Few files, so that a manifest is smaller than the ballast.
        let options = || small().tuning(Tuning::default().memtable_bytes(32 << 10));
        let (db, runtime) = machine.open(options());
        let mut model = Model::new();
        for n in 0..800u32 {
            let key = format!("key{n:03}").into_bytes();
            db.put(&key, [7; 400]).unwrap();
            model.insert(key, vec![7; 400]);
        }
        runtime.run_until_idle();
        assert!(has_ballast(&machine));
        let machine = Machine {
            disk: machine.disk.process_kill(),
            seed: 8,
        };
        machine.disk.set_free_space(Some(free));
        let (db, runtime) = machine.open(options());
        same(&db, &model);
        assert!(db.stats().disk_full);
        assert_eq!(db.put("a", "1").unwrap_err().kind(), ErrorKind::DiskFull);
        db.delete("key001").unwrap();
        model.remove(b"key001".as_slice());
        same(&db, &model);
        let_pass(&runtime, 20);
        same(&db, &model);
        machine.disk.set_free_space(None);
        let_pass(&runtime, 5);
        db.put("a", "1").unwrap();
        model.insert(b"a".to_vec(), b"1".to_vec());
        db.close().unwrap();
        machine.check();
        let (db, _runtime) = machine.open(options());
        same(&db, &model);
    }
}

#[test]
fn a_database_opens_although_no_log_can_be_begun() {
    let machine = Machine::new(10);
    let (db, _runtime) = machine.open(small());
    let mut model = Model::new();
    for n in 0..30u32 {
        let key = format!("key{n:03}").into_bytes();
        db.put(&key, [7; 100]).unwrap();
        model.insert(key, vec![7; 100]);
    }
    let machine = Machine {
        disk: machine.disk.process_kill(),
        seed: 11,
    };
    machine.disk.set_fault(Box::new(|call| {
        let is_log = call.path.extension().is_some_and(|e| e == "wal");
        if is_log && call.op == Op::Append {
            Fault::Fail(std::io::ErrorKind::StorageFull)
        } else {
            Fault::None
        }
    }));
    let (db, runtime) = machine.open(small());
    same(&db, &model);
    let_pass(&runtime, 5);
    same(&db, &model);
    db.put("a", "1").unwrap_err();
    machine.disk.clear_faults();
    let_pass(&runtime, 5);
    db.put("a", "1").unwrap();
    model.insert(b"a".to_vec(), b"1".to_vec());
    same(&db, &model);
    db.close().unwrap();
    machine.check();
}

/// Bytes of all files but the log.
fn file_bytes(db: &Db) -> u64 {
    let stats = db.stats();
    stats.record_file_bytes + stats.key_table_bytes
}

#[test]
fn the_ballast_follows_the_data() {
    let machine = Machine::new(12);
    let options = || {
        small()
            .tuning(Tuning::default().memtable_bytes(64 << 10))
            .memory_budget(16 << 20)
    };
    let (db, runtime) = machine.open(options());
    let limits = SpaceLimits::of(64 << 10);
    let mut sizes = std::collections::BTreeSet::new();
    for n in 0..6000u32 {
        if n % 100 == 0 {
            runtime.run_until_idle();
            let bytes = ballast(&machine);
            let most = (file_bytes(&db) / 16).max(LEAST_BALLAST);
            assert!(bytes <= most, "{bytes}: {:#?}", db.stats());
            assert_eq!(db.stats().ballast_bytes, bytes);
            sizes.insert(bytes);
        }
        db.put(format!("key{n:04}"), [7; 1000]).unwrap();
    }
    let most = limits.most_ballast();
    assert!(sizes.into_iter().eq([LEAST_BALLAST, most / 2, most]));

    // A reopening keeps it; with less data than that it shrinks.
    db.close().unwrap();
    let report = machine.env().check("/db").unwrap();
    assert_eq!((ballast(&machine), report.ballast_bytes), (most, most));
    let (db, runtime) = machine.open(options());
    runtime.run_until_idle();
    assert_eq!(ballast(&machine), most);
    for n in 0..6000u32 {
        db.delete(format!("key{n:04}")).unwrap();
    }
    db.compact().unwrap();
    db.collect_garbage().unwrap();
    runtime.run_until_idle();
    assert_eq!(ballast(&machine), LEAST_BALLAST, "{:#?}", db.stats());
    db.close().unwrap();
    machine.check();
    // Of much data it is a part that does not depend on memtables.
    assert!(limits.ballast_for(1 << 40, 0) >= (1 << 40) / 100);
}

#[test]
fn a_new_database_on_a_full_disk_is_refused_cleanly() {
    let machine = Machine::new(14);
    machine.disk.set_free_space(Some(0));
    let refused = Db::open("/db", small().env(machine.env())).unwrap_err();
    assert_eq!(refused.kind(), ErrorKind::DiskFull);
    machine.disk.set_free_space(None);
    let (db, _runtime) = machine.open(small());
    db.put("key", "1").unwrap();
    db.close().unwrap();
    machine.check();
}

#[test]
fn a_small_database_fails_cleanly_on_a_full_disk_and_resumes() {
    for free in [0, 3_000, 9_000] {
        let machine = Machine::new(13);
        let (db, runtime) = machine.open(small());
        let mut model = Model::new();
        db.put("before", "1").unwrap();
        model.insert(b"before".to_vec(), b"1".to_vec());
        runtime.run_until_idle();
        machine.disk.set_free_space(Some(free));
        let error = fill(&db, &mut model, 300);
        assert!(
            matches!(
                error.kind(),
                ErrorKind::DiskFull | ErrorKind::WritesSuspended
            ),
            "{error}"
        );
        same(&db, &model);
        assert!(db.stats().disk_full);
        machine.disk.set_free_space(None);
        let_pass(&runtime, 2);
        db.put("after", "2").unwrap();
        model.insert(b"after".to_vec(), b"2".to_vec());
        same(&db, &model);
        assert!(!db.stats().disk_full);
        db.close().unwrap();
        machine.check();
        let (db, _runtime) = machine.open(small());
        same(&db, &model);
    }
}

/// The table that is flushed in the end is shorter than the one that could not be listed, for a
/// snapshot has gone meanwhile: what was entered for that one leads nowhere in this one.
#[test]
fn a_flush_that_could_not_be_listed_leaves_no_trace_in_the_index() {
    let machine = Machine::new(9);
    let (db, runtime) = machine.open(small().tuning(Tuning::default().unsorted_bytes(1 << 20)));
    db.put("before", "flushed").unwrap();
    db.flush().unwrap();
    db.put("key", [1; 300]).unwrap();
    let first = db.snapshot();
    db.put("key", [2; 300]).unwrap();
    let second = db.snapshot();
    db.put("later", "seen by neither").unwrap();
    runtime.run_until_idle();
    let refused = Arc::new(AtomicUsize::new(0));
    let count = Arc::clone(&refused);
    machine.disk.set_fault(Box::new(move |call| {
        if call.path.to_string_lossy().contains("MANIFEST") && call.op == Op::Append {
            count.fetch_add(1, Ordering::SeqCst);
            return Fault::Fail(std::io::ErrorKind::StorageFull);
        }
        Fault::None
    }));
    db.flush().unwrap_err();
    assert!(refused.load(Ordering::SeqCst) > 0);
    machine.disk.clear_faults();
    drop(first);
    // No further than the flush: a merge would make another index.
    let is_flushed = || db.0.engine.read.view.load().sealed.is_empty();
    let mut steps = 0;
    while !is_flushed() {
        if !runtime.run_one() {
            runtime.delay(Duration::from_millis(100));
        }
        steps += 1;
        assert!(steps < 1000, "the flush is not tried again");
    }
    assert!(db.stats().unsorted_records > 1);
    assert_eq!(
        db.get("later").unwrap().as_deref(),
        Some(&b"seen by neither"[..])
    );
    assert_eq!(second.get("key").unwrap().as_deref(), Some(&[2; 300][..]));
    assert_eq!(second.get("later").unwrap(), None);
}

#[test]
fn garbage_collection_on_request_does_not_wait_for_room() {
    let machine = Machine::new(11);
    let (db, _) = machine.open(
        small()
            .max_space_amp(100.0)
            .clustering(Clustering::LeastWriting),
    );
    let mut model = Model::new();
    for round in 0..2_u8 {
        for n in (0..400_u32).filter(|n| round == 0 || n % 4 != 0) {
            let key = format!("key{n:03}").into_bytes();
            db.put(&key, [round; 300]).unwrap();
            model.insert(key, vec![round; 300]);
        }
        db.compact().unwrap();
    }
    machine.disk.set_free_space(Some(0));
    let refused = fill(&db, &mut model, 300);
    assert_eq!(refused.kind(), ErrorKind::DiskFull, "{refused}");
    db.close().unwrap();
    // There is garbage beyond this bound, and room for nothing.
    let (db, runtime) = machine.open(
        small()
            .max_space_amp(1.1)
            .clustering(Clustering::LeastWriting),
    );
    machine.disk.set_free_space(Some(0));
    let refused = db.collect_garbage().unwrap_err();
    assert_eq!(refused.kind(), ErrorKind::DiskFull, "{refused}");
    same(&db, &model);
    machine.disk.set_free_space(None);
    let_pass(&runtime, 5);
    db.collect_garbage().unwrap();
    same(&db, &model);
    db.close().unwrap();
    machine.check();
}

#[test]
fn collections_that_do_not_fit_do_not_fill_the_disk_again_and_again() {
    const KEYS: u32 = 2000;
    let options = || {
        small().tuning(
            Tuning::default()
                .unsorted_bytes(256 << 10)
                .partition_bytes(1 << 40),
        )
    };
    let machine = Machine::new(15);
    let mut model = Model::new();
    let (db, _) = machine.open(options().max_space_amp(100.0));
    let mut put = |db: &Db, n: u32, fill: u8, len: usize| {
        let (key, value) = (format!("key{n:05}").into_bytes(), vec![fill; len]);
        db.put(&key, &value).unwrap();
        model.insert(key, value);
    };
    (0..KEYS).for_each(|n| put(&db, n, 1, 1000));
    // Each value log keeps some of its records.
    let dead = |n: &u32| n.is_multiple_of(4);
    (0..KEYS).filter(dead).for_each(|n| put(&db, n, 2, 200));
    db.compact().unwrap();
    db.close().unwrap();

    // What a pass may copy beside the promise does not fit.
    let full = Arc::new(AtomicUsize::new(0));
    let count = Arc::clone(&full);
    let listen = move |event: &Event| {
        let is_full = matches!(event, Event::DiskFull { .. });
        count.fetch_add(usize::from(is_full), Ordering::SeqCst);
    };
    machine.disk.set_free_space(Some(128 << 10));
    let (db, runtime) = machine.open(options().max_space_amp(1.3).listener(listen));
    let before = db.garbage();
    assert!(before.dead_bytes > before.alone_from_bytes, "{before:?}");
    // A pass takes longer than the state lasts.
    let clock = Arc::clone(&runtime);
    machine.disk.set_fault(Box::new(move |call| {
        if call.op == Op::Create {
            clock.delay(Duration::from_millis(300));
        }
        Fault::None
    }));
    let mut refused = 0;
    for round in 0..300 {
        let key = format!("key{:05}", round * 4 + 1);
        match db.put(&key, [3; 100]) {
            Ok(()) => drop(model.insert(key.into_bytes(), vec![3; 100])),
            Err(_) => refused += 1,
        }
        let_pass(&runtime, 1);
    }
    let after = db.garbage();
    let times = full.load(Ordering::SeqCst);
    assert!(
        times <= 2 && refused <= 4,
        "{times} times, {refused} refused"
    );
    assert!(after.dead_bytes <= after.alone_from_bytes, "{after:?}");
    machine.disk.set_free_space(None);
    same(&db, &model);
    db.close().unwrap();
    machine.check();
}

/// With the ballast of the process before or without, and with a log that is flushed or not.
#[test]
fn a_database_is_opened_where_no_byte_is_free() {
    for (is_flushed, has_ballast) in [(true, true), (true, false), (false, true), (false, false)] {
        let machine = Machine::new(9);
        let (db, runtime) = machine.open(small());
        let mut model = Model::new();
        for n in 0..200u32 {
            let key = format!("key{n:03}").into_bytes();
            db.put(&key, [n as u8; 300]).unwrap();
            model.insert(key, vec![n as u8; 300]);
            if is_flushed && n == 199 {
                db.flush().unwrap();
            }
        }
        db.sync().unwrap();
        runtime.run_until_idle();
        assert!(ballast(&machine) > 0);
        let machine = Machine {
            disk: machine.disk.process_kill(),
            seed: 10,
        };
        if !has_ballast {
            machine.disk.remove(Path::new(BALLAST_PATH)).unwrap();
        }
        // A job had begun it, or the manifest that lists it is not durable.
        let orphan = Path::new("/db/000900.key");
        machine.disk.write_file(orphan, b"");
        machine.disk.set_free_space(Some(0));
        let before = machine.disk.file_names();
        // Twice, as others may take at once what an opening frees.
        for round in 0..2 {
            let (db, runtime) = machine.open(small());
            same(&db, &model);
            let snapshot = db.snapshot();
            assert_eq!(snapshot.iter().count(), model.len());
            let refused = db.put("new", "value").unwrap_err();
            assert_eq!(refused.kind(), ErrorKind::DiskFull, "{refused}");
            if has_ballast && round == 0 {
                db.delete("key000").unwrap();
                db.delete_range("key010".."key020").unwrap();
                model.remove(b"key000".as_slice());
                model.retain(|key, _| !key.starts_with(b"key01"));
            } else if !has_ballast {
                let refused = db.delete("key001").unwrap_err();
                assert_eq!(refused.kind(), ErrorKind::DiskFull, "{refused}");
            }
            let_pass(&runtime, 5);
            same(&db, &model);
            drop(snapshot);
            let cut = machine.disk.power_cut(Keep::Nothing);
            cut.set_free_space(None);
            let cut = Machine {
                disk: cut,
                seed: 11,
            };
            let (db, _runtime) = cut.open(small());
            let kept = db.iter().count();
            assert!(kept >= model.len(), "{kept} of {}", model.len());
            db.close().unwrap();
            cut.check();
            machine.disk.set_free_space(Some(0));
        }
        if !has_ballast {
            let same_names = |now: &[PathBuf]| before.iter().all(|name| now.contains(name));
            assert!(same_names(&machine.disk.file_names()), "nothing is removed");
        }
        let (db, runtime) = machine.open(small());
        assert!(has_ballast || machine.disk.file_names().iter().any(|name| name == orphan));
        machine.disk.set_free_space(None);
        let_pass(&runtime, 2);
        db.put("new", "value").unwrap();
        assert!(!machine.disk.file_names().iter().any(|name| name == orphan));
        model.insert(b"new".to_vec(), b"value".to_vec());
        same(&db, &model);
        let secondary =
            Db::open_secondary("/db", SecondaryOptions::default().env(machine.env())).unwrap();
        assert_eq!(secondary.iter().count(), model.len());
        db.close().unwrap();
        machine.check();
        let (db, _runtime) = machine.open(small());
        same(&db, &model);
    }
}

/// A database of two values, flushed or in the log, is opened on a disk that is full.
fn opened_full(seed: u64, is_flushed: bool) -> (Machine, Db) {
    let options = || small().change_window_bytes(1 << 20);
    let machine = Machine::new(seed);
    let (db, _) = machine.open(options());
    db.put("key", "1").unwrap();
    db.put("other", "2").unwrap();
    if is_flushed {
        db.flush().unwrap();
    }
    db.close().unwrap();
    let _there_may_be_none = machine.disk.remove(Path::new(BALLAST_PATH));
    machine.disk.set_free_space(Some(0));
    let (db, _) = machine.open(options());
    (machine, db)
}

/// The ballast takes deletes of a tenth of the data: one key at a time where records have a
/// kilobyte, so that a delete is a hundredth of one and less, and as a range whatever they have.
#[test]
fn a_tenth_of_the_data_can_be_deleted_on_a_full_disk() {
    for (value_bytes, records, every, is_reopened) in [
        (100, 20_000, 40, false),
        (1000, 20_000, 10, false),
        (100, 20_000, 40, true),
        (1000, 2_000, 10, true),
    ] {
        let machine = Machine::new(33);
        let options = || {
            crate::Options::default()
                .memory_budget(16 << 20)
                .tuning(Tuning::default().background_threads(2))
        };
        let (db, runtime) = machine.open(options());
        let mut model = Model::new();
        for n in 0..records {
            let (key, value) = (format!("key{n:09}").into_bytes(), vec![7; value_bytes]);
            db.put(&key, &value).unwrap();
            model.insert(key, value);
        }
        db.flush().unwrap();
        db.wait_until_idle().unwrap();
        runtime.run_until_idle();
        let (db, runtime) = if is_reopened {
            db.close().unwrap();
            machine.disk.set_free_space(Some(0));
            machine.open(options())
        } else {
            machine.disk.set_free_space(Some(0));
            (db, runtime)
        };
        while db.put("new", vec![7; 10_000]).is_ok() {}
        let deleted: Vec<_> = model.keys().step_by(every).cloned().collect();
        for (nth, key) in deleted.iter().enumerate() {
            let done = db.delete(key);
            assert!(done.is_ok(), "{nth} of {}: {done:?}", deleted.len());
            model.remove(key);
            if nth.is_multiple_of(100) {
                let_pass(&runtime, 1);
            }
        }
        let last = model.keys().next_back().unwrap().clone();
        let first = model.keys().rev().nth(records / 10).unwrap().clone();
        db.delete_range(first.as_slice()..=last.as_slice()).unwrap();
        model.retain(|key, _| key < &first);
        let _fitted_before = model.insert(b"new".to_vec(), vec![7; 10_000]);
        if db.get("new").unwrap().is_none() {
            model.remove(b"new".as_slice());
        }
        same(&db, &model);
        machine.disk.set_free_space(None);
        let_pass(&runtime, 3);
        db.put("later", "1").unwrap();
        db.close().unwrap();
        machine.check();
    }
}

#[test]
fn a_database_that_was_only_read_on_a_full_disk_closes_without_an_error() {
    for is_flushed in [true, false] {
        let (machine, db) = opened_full(31, is_flushed);
        assert_eq!(db.get("key").unwrap().as_deref(), Some(&b"1"[..]));
        // What is read may be of a manifest or a log that was never synced.
        assert_eq!(db.sync().unwrap_err().kind(), ErrorKind::DiskFull);
        db.close().unwrap();
        machine.check();
    }
}

#[test]
fn a_token_from_a_full_disk_holds_at_the_next_opening() {
    let (machine, db) = opened_full(32, true);
    let token = db.change_token().unwrap();
    let changes = db.changes_since(token).unwrap();
    assert_eq!(changes.token(), token);
    drop((changes, db));
    machine.disk.set_free_space(None);
    let (db, _) = machine.open(small().change_window_bytes(1 << 20));
    db.put("new", "3").unwrap();
    db.sync().unwrap();
    let mut changes = db.changes_since(token).unwrap();
    assert!(changes.try_next().unwrap().is_some());
    assert!(changes.try_next().unwrap().is_none());
    assert_ne!(
        db.change_token().unwrap().incarnation(),
        token.incarnation()
    );
}

#[test]
fn who_only_reads_leaves_the_ballast_and_all_else() {
    let machine = Machine::new(15);
    let (db, runtime) = machine.open(small());
    db.put("key", "1").unwrap();
    runtime.run_until_idle();
    db.close().unwrap();
    machine.disk.set_free_space(Some(0));
    let before = machine.disk.file_names();
    assert!(ballast(&machine) > 0);
    let secondary =
        Db::open_secondary("/db", SecondaryOptions::default().env(machine.env())).unwrap();
    assert_eq!(secondary.get("key").unwrap().as_deref(), Some(&b"1"[..]));
    assert!(secondary.database_stats().unwrap().ballast_bytes > 0);
    assert!(machine.env().check("/db").unwrap().is_clean());
    assert_eq!(machine.disk.file_names(), before);
}

#[test]
fn a_batch_for_which_there_is_no_room_is_refused_before_anything_of_it_is_written() {
    let machine = Machine::new(16);
    let (db, runtime) = machine.open(small());
    db.put("key", "1").unwrap();
    runtime.run_until_idle();
    machine.disk.set_free_space(Some(600_000));
    let mut batch = Batch::new();
    for n in 0..4000u32 {
        batch.put(format!("new{n:04}"), [7; 100]);
    }
    let refused = db.write(&batch).unwrap_err();
    assert_eq!(refused.kind(), ErrorKind::DiskFull, "{refused}");
    assert_eq!(db.iter().count(), 1);
    assert!(!db.stats().disk_full);
    db.put("other", "2").unwrap();
    machine.disk.set_free_space(None);
    db.write(&batch).unwrap();
    assert_eq!(db.iter().count(), 4002);
    db.close().unwrap();
    machine.check();
}
