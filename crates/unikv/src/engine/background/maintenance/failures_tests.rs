use super::*;
use crate::base::keys::PartitionId;

use crate::engine::tests::{Machine, Model, same, small};
use crate::error::Error;
use crate::vfs::Runtime as _;
use crate::vfs::sim::{SimRuntime, SimVfs};
use crate::{Db, ErrorKind, Options, Tuning};
use std::collections::BTreeSet;
use std::path::PathBuf;
use std::sync::Arc;

fn put_range(db: &Db, model: &mut Model, prefix: &str, keys: std::ops::Range<u32>, len: usize) {
    for n in keys {
        let (key, value) = (format!("{prefix}{n:05}"), vec![n as u8; len]);
        db.put(&key, &value).unwrap();
        model.insert(key.into_bytes(), value);
    }
}

fn record_files(disk: &SimVfs) -> BTreeSet<PathBuf> {
    let is_record = |path: &PathBuf| path.extension().is_some_and(|e| e == "rec");
    disk.file_names().into_iter().filter(is_record).collect()
}

/// Makes every read of one of `paths` fail.
fn refuse_reads(disk: &SimVfs, paths: BTreeSet<PathBuf>) {
    disk.set_read_fault(Box::new(move |call| {
        let refused = paths.contains(call.path);
        refused.then_some(std::io::ErrorKind::Other)
    }));
}

fn let_pass(runtime: &SimRuntime, seconds: u64) {
    // A wait lets workers run that wake up by time; a delay alone would not.
    let never = runtime.event();
    never.wait_past(never.epoch(), Some(Duration::from_secs(seconds)));
}

/// A generation holds one table, so that each flush is followed by a merge.
fn options() -> Options {
    small().tuning(
        Tuning::default()
            .unsorted_bytes(4 << 10)
            .memtable_bytes(16 << 10),
    )
}

#[test]
fn writers_wait_for_a_failing_merge_only_when_flushes_do() {
    let machine = Machine::new(1);
    let (db, runtime) = machine.open(options());
    let mut model = Model::new();
    put_range(&db, &mut model, "a", 0..20, 500);
    // Only the merge reads the table again; the memtable of a later one is written all the same.
    let before = record_files(&machine.disk);
    assert!(before.is_empty());
    refuse_reads(
        &machine.disk,
        (1..100)
            .map(|n| PathBuf::from(format!("/db/{n:06}.rec")))
            .collect(),
    );
    db.flush().unwrap();
    let_pass(&runtime, 100);
    let errors = db.stats().job_errors;
    assert_eq!(errors.len(), 1, "{errors:?}");
    assert_eq!((errors[0].job, errors[0].partition), ("merge", Some(0)));
    assert!(errors[0].message.contains(".rec"), "{}", errors[0].message);
    // Tried again after 1, 2, 4, 8, 16, 32 seconds, and then each minute.
    assert!((4..=8).contains(&errors[0].retries), "{errors:?}");
    assert_eq!(db.wait_until_idle().unwrap_err().kind(), ErrorKind::Io);
    assert_eq!(db.compact().unwrap_err().kind(), ErrorKind::Io);

    // Flushes go on until the partition has all the generations that it may have.
    put_range(&db, &mut model, "b", 0..20, 500);
    db.flush().unwrap();
    let mut refused = None;
    for n in 0..1000u32 {
        let (key, value) = (format!("c{n:05}"), vec![7; 500]);
        match db.put(&key, &value) {
            Ok(()) => drop(model.insert(key.into_bytes(), value)),
            Err(error) => {
                refused = Some(error);
                break;
            }
        }
    }
    assert_eq!(refused.map(|e| e.kind()), Some(ErrorKind::Io));

    machine.disk.clear_faults();
    let_pass(&runtime, 70);
    db.wait_until_idle().unwrap();
    assert!(db.stats().job_errors.is_empty());
    db.put("d", "1").unwrap();
    model.insert(b"d".to_vec(), b"1".to_vec());
    same(&db, &model);
    db.close().unwrap();
    machine.check();
}

/// A merged database of several partitions, with keys of `a` in the first and of `z` in the last.
fn some_partitions(seed: u64) -> (Machine, Db, Arc<SimRuntime>, Model) {
    let machine = Machine::new(seed);
    let (db, runtime) = machine.open(options().tuning(Tuning::default().partition_bytes(32 << 10)));
    let mut model = Model::new();
    put_range(&db, &mut model, "a", 0..100, 200);
    put_range(&db, &mut model, "z", 0..100, 200);
    db.compact().unwrap();
    db.wait_until_idle().unwrap();
    let partitions = db.stats().partitions;
    assert!(partitions.len() > 1, "{partitions:?}");
    (machine, db, runtime, model)
}

#[test]
fn a_partition_whose_merge_fails_does_not_hold_up_the_others() {
    let (machine, db, runtime, mut model) = some_partitions(2);
    let before = record_files(&machine.disk);
    put_range(&db, &mut model, "a", 0..10, 500);
    refuse_reads(
        &machine.disk,
        (1..1000)
            .map(|n| PathBuf::from(format!("/db/{n:06}.rec")))
            .filter(|path| !before.contains(path))
            .collect(),
    );
    db.flush().unwrap();
    runtime.run_until_idle();
    let failing: BTreeSet<PathBuf> = &record_files(&machine.disk) - &before;
    let merges = db.stats().merges;
    assert_eq!(
        db.stats().job_errors.len(),
        1,
        "{:?}",
        db.stats().job_errors
    );
    refuse_reads(&machine.disk, failing);

    for round in 1..6 {
        put_range(&db, &mut model, "z", 90..100, 500 + round);
        db.flush().unwrap();
        runtime.run_until_idle();
    }
    let stats = db.stats();
    assert!(
        stats.merges >= merges + 5,
        "{} merges",
        stats.merges - merges
    );
    assert_eq!(stats.job_errors.len(), 1, "{:?}", stats.job_errors);
    // Each takes a generation, so that there is room only after merges.
    for round in 0..8_u8 {
        let (key, value) = (b"z9".to_vec(), vec![round; 200]);
        let entry: crate::Result<_> = Ok((key.clone(), Some(value.clone())));
        db.ingest_sorted([entry], None).unwrap();
        model.insert(key, value);
    }

    machine.disk.clear_faults();
    let_pass(&runtime, 70);
    db.wait_until_idle().unwrap();
    same(&db, &model);
    db.close().unwrap();
    machine.check();
}

/// Three generations wait there for a merge that fails for ever. They take much of what all may
/// hold together, and no generation of the others is frozen, whose merge would make room.
#[test]
fn generations_whose_merge_fails_leave_the_others_their_room() {
    let (machine, db, runtime, mut model) = some_partitions(5);
    let mut failing = BTreeSet::new();
    for _ in 0..3 {
        let before = record_files(&machine.disk);
        put_range(&db, &mut model, "a", 0..10, 500);
        let all = (1..1000).map(|n| PathBuf::from(format!("/db/{n:06}.rec")));
        let refused = all.filter(|path| !before.contains(path) || failing.contains(path));
        refuse_reads(&machine.disk, refused.collect());
        db.flush().unwrap();
        runtime.run_until_idle();
        failing.extend(&record_files(&machine.disk) - &before);
    }
    refuse_reads(&machine.disk, failing);
    let generations = |db: &Db| -> Vec<usize> {
        let version = db.0.engine.read.view.load().version.clone();
        let partitions = version.partitions().iter();
        partitions.map(|p| p.generations.len()).collect()
    };
    assert!(generations(&db).contains(&3), "{:?}", generations(&db));

    // No generation of the others is frozen before it is full.
    for round in 0..20 {
        put_range(&db, &mut model, "z", 90 + round % 5..94 + round % 5, 500);
        db.flush().unwrap();
        runtime.run_until_idle();
    }
    assert!(db.stats().job_errors.len() == 1 && generations(&db).contains(&3));
    machine.disk.clear_faults();
    let_pass(&runtime, 70);
    db.wait_until_idle().unwrap();
    same(&db, &model);
    db.close().unwrap();
    machine.check();
}

#[test]
fn a_failure_of_a_job_that_is_no_longer_due_is_forgotten() {
    let machine = Machine::new(3);
    let (db, _runtime) = machine.open(small());
    db.put("a", "1").unwrap();
    let engine = &db.0.engine;
    let health = &engine.core.health;
    let failing = || Error::corruption(std::path::Path::new("000001.rec"), 7, "damaged");
    for job in [COLLECT, "split", MERGE] {
        for partition in [PartitionId(0), PartitionId(77)] {
            health.job_failed(job, Some(partition), failing(), engine.core.now());
        }
    }
    db.wait_until_idle().unwrap();
    assert!(db.stats().job_errors.is_empty());
    health.job_failed(COLLECT, Some(PartitionId(0)), failing(), engine.core.now());
    db.flush().unwrap();
    db.close().unwrap();
}

#[test]
fn a_failed_garbage_collection_stops_being_reported_when_it_is_made_up_for() {
    let machine = Machine::new(4);
    let options = small().inline_value_bytes(0).max_space_amp(1.2);
    let (db, runtime) = machine.open(options);
    let mut model = Model::new();
    put_range(&db, &mut model, "a", 0..100, 300);
    db.compact().unwrap();
    db.wait_until_idle().unwrap();
    let logs = record_files(&machine.disk);
    refuse_reads(&machine.disk, logs);
    for n in (0..100).step_by(2) {
        let key = format!("a{n:05}");
        db.delete(&key).unwrap();
        model.remove(key.as_bytes());
    }
    let _fails_or_not = db.compact();
    let_pass(&runtime, 30);
    let errors = db.stats().job_errors;
    assert!(
        errors.iter().any(|e| e.job == "garbage collection"),
        "{errors:?}"
    );
    assert_eq!(db.wait_until_idle().unwrap_err().kind(), ErrorKind::Io);
    machine.disk.clear_faults();
    let_pass(&runtime, 70);
    db.wait_until_idle().unwrap();
    assert!(db.stats().gcs > 0);
    assert!(db.stats().job_errors.is_empty());
    same(&db, &model);
    db.close().unwrap();
    machine.check();
}
