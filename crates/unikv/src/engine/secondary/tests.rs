//! Secondaries beside a writer of the same process, on one simulated disk.

use crate::base::keys::SeqNo;
use crate::base::sync::Mutex;
use crate::base::sync::atomic::{AtomicBool, Ordering};
use crate::engine::tests::{Machine, Model, churn, small};
use crate::vfs::sim::{Fault, Op, SimRuntime};
use crate::vfs::{Env, Runtime, Vfs};
use crate::{
    Batch, Db, Durability, ErrorKind, KeyspaceOptions, Options, Readable, Secondary,
    SecondaryOptions, Tuning, WriteOptions,
};
use rand::rngs::SmallRng;
use rand::{Rng, SeedableRng};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

fn follow(machine: &Machine) -> Secondary {
    Db::open_secondary("/db", SecondaryOptions::default().env(machine.env())).unwrap()
}

/// With the clock of the writer.
fn follow_by(machine: &Machine, runtime: &Arc<SimRuntime>) -> Secondary {
    let env = Env {
        vfs: Arc::new(machine.disk.clone()),
        runtime: Arc::clone(runtime) as _,
    };
    Db::open_secondary("/db", SecondaryOptions::default().env(env.clone())).unwrap()
}

/// As a process of its own opens it: no two draw the same numbers.
fn open(machine: &mut Machine) -> (Db, Arc<SimRuntime>) {
    machine.seed += 1;
    machine.open(small())
}

fn all(of: &impl Readable) -> Vec<(Vec<u8>, Vec<u8>)> {
    let entries = of.iter().map(|entry| entry.unwrap());
    entries.map(|(k, v)| (k.to_vec(), v.to_vec())).collect()
}

fn pairs(model: &Model) -> Vec<(Vec<u8>, Vec<u8>)> {
    model.iter().map(|(k, v)| (k.clone(), v.clone())).collect()
}

/// Shows what the model holds, by a scan and by look-ups.
fn same(of: &impl Readable, model: &Model) {
    assert!(
        all(of) == pairs(model),
        "{} keys, not {}",
        all(of).len(),
        model.len()
    );
    for i in 0..300 {
        let key = format!("key{i:04}").into_bytes();
        let found = of.get(&key).unwrap();
        assert!(
            found.as_deref() == model.get(&key).map(Vec::as_slice),
            "{key:?}"
        );
    }
}

/// Refreshes, and shows what the database shows, in all keyspaces.
fn same_as(secondary: &Secondary, db: &Db) {
    secondary.refresh().unwrap();
    assert_eq!(secondary.keyspaces(), db.keyspaces());
    assert_eq!(secondary.commit_tag(), db.commit_tag());
    for name in db.keyspaces() {
        let (there, here) = (db.find_keyspace(&name), secondary.find_keyspace(&name));
        assert!(all(&here.unwrap()) == all(&there.unwrap()), "{name}");
    }
}

fn current(machine: &Machine) -> Vec<u8> {
    machine.disk.read_file(Path::new("/db/CURRENT")).unwrap()
}

#[test]
fn a_secondary_shows_each_state_across_every_job() {
    let machine = Machine::new(7);
    let options = small()
        .tuning(Tuning::default().partition_bytes(24 << 10))
        .memory_budget(256 << 10);
    let (db, runtime) = machine.open(options);
    let secondary = follow(&machine);
    let (mut model, mut rng) = (Model::new(), SmallRng::seed_from_u64(7));
    let (mut shown, mut manifests) = (model.clone(), vec![current(&machine)]);
    let mut held = None;
    for round in 0..700 {
        churn(&db, &mut model, &mut rng, 1 + round % 37);
        if round % 3 == 0 {
            runtime.run_one();
        }
        if round % 97 == 0 {
            // Not refreshed, it shows what it did, whatever has become of the files.
            db.compact().unwrap();
            db.collect_garbage().unwrap();
        }
        match round % 5 {
            4 => {}
            3 => same(&secondary, &shown),
            _ => {
                secondary.refresh().unwrap();
                shown.clone_from(&model);
                same(&secondary, &shown);
            }
        }
        if round % 50 == 20 {
            held = Some((secondary.snapshot(), secondary.iter(), shown.clone()));
        }
        if round % 50 == 49
            && let Some((snapshot, iter, then)) = held.take()
        {
            same(&snapshot, &then);
            let found = iter.rev().map(|entry| entry.unwrap());
            let found = found.map(|(k, v)| (k.to_vec(), v.to_vec()));
            let mut found: Vec<_> = found.collect();
            found.reverse();
            assert!(found == pairs(&then));
        }
        manifests.push(current(&machine));
    }
    manifests.dedup();
    assert!(manifests.len() > 2, "no manifest was replaced");
    let stats = db.stats();
    assert!(
        stats.flushes > 20 && stats.merges > 5 && stats.splits > 1,
        "{stats:?}"
    );
    assert!(stats.gcs > 1, "{stats:?}");
    secondary.refresh().unwrap();
    let stats = secondary.stats();
    assert_eq!((stats.lag, stats.reloads, stats.has_writer), (0, 1, true));
    let read = |name: &str| stats.memory.total() > 0 && !name.is_empty();
    assert!(read("memory") && stats.open_files > 0 && stats.error.is_none());
    db.put("more", "").unwrap();
    assert_eq!(secondary.stats().lag, 1);
}

#[test]
fn a_database_whose_last_change_was_one_of_keyspaces_is_followed_after_reopening() {
    let mut machine = Machine::new(13);
    let window = || small().change_window_bytes(64 << 10);
    let (db, _) = machine.open(window());
    db.put("key", "value").unwrap();
    db.keyspace("space", KeyspaceOptions::default()).unwrap();
    db.close().unwrap();
    machine.seed += 1;
    let (db, _) = machine.open(window());
    let secondary = follow(&machine);
    same_as(&secondary, &db);
    db.keyspace("another", KeyspaceOptions::default()).unwrap();
    same_as(&secondary, &db);
    db.put("key", "later").unwrap();
    same_as(&secondary, &db);
}

#[test]
fn an_ingest_is_shown_with_its_mark_or_not_at_all() {
    let machine = Machine::new(14);
    let (db, _) = machine.open(small());
    db.put("before", "").unwrap();
    let secondary = follow(&machine);
    let entries = [("ingested", Some("value"))].map(crate::Result::Ok);
    db.ingest_sorted(entries, Some(b"mark")).unwrap();
    // As it is after its edit, and before its number is published.
    let published = &db.0.engine.core.visible_page;
    let last = SeqNo(db.0.engine.read.visible_seq.load(Ordering::Acquire));
    published.seq(SeqNo(last.0 - 1));
    let refreshed = secondary.refresh();
    let shown = (secondary.commit_tag(), secondary.get("ingested").unwrap());
    assert!(refreshed.is_err() && shown == (None, None), "{shown:?}");
    published.seq(last);
    same_as(&secondary, &db);
    assert_eq!(secondary.commit_tag().as_deref(), Some(&b"mark"[..]));
}

#[test]
fn without_a_writer_a_secondary_follows_the_wall_clock() {
    let machine = Machine::new(15);
    let (db, runtime) = machine.open(small());
    let expires = WriteOptions::default().ttl(Duration::from_secs(600));
    db.put_with("key", "value", expires).unwrap();
    db.close().unwrap();
    let secondary = follow_by(&machine, &runtime);
    assert!(secondary.get("key").unwrap().is_some());
    // The machine has slept, and the monotonic clock with it.
    runtime.set_wall_clock_ms(runtime.wall_clock_ms() + 30 * 60 * 1000);
    secondary.refresh().unwrap();
    assert_eq!(secondary.get("key").unwrap(), None);
}

#[test]
fn a_snapshot_sees_what_has_expired_for_a_later_state() {
    const SECOND: Duration = Duration::from_secs(1);
    let machine = Machine::new(12);
    let (db, runtime) = machine.open(small());
    let expires = WriteOptions::default().ttl(SECOND);
    db.put_with("key20x", "expires", expires).unwrap();
    db.put("z", "").unwrap();
    db.flush().unwrap();
    (0..40).for_each(|i| db.delete(format!("key{i:02}")).unwrap());
    let secondary = follow_by(&machine, &runtime);
    let snapshot = secondary.snapshot();
    let before = all(&snapshot);
    assert_eq!(before.len(), 2);

    runtime.delay(2 * SECOND);
    let bounds = (b"".to_vec(), vec![0xFF; 8]);
    db.0.engine.background.merge_tables(&bounds).unwrap();
    secondary.refresh().unwrap();
    // An iterator that meets deletes alone, and leaves a gap in what both states have in memory.
    assert_eq!(all(&secondary).len(), 1);
    assert_eq!(all(&snapshot), before);
    assert_eq!(snapshot.get("key20x").unwrap().unwrap(), "expires");
}

#[test]
fn keyspaces_ranges_marks_large_values_ingests_and_what_expires_are_followed() {
    let machine = Machine::new(8);
    let (db, runtime) = machine.open(small());
    let secondary = follow_by(&machine, &runtime);
    let mut rng = SmallRng::seed_from_u64(8);
    let options = KeyspaceOptions::default;
    for round in 0..260_u32 {
        let key = |rng: &mut SmallRng| format!("key{:03}", rng.random_range(0..200));
        match rng.random_range(0..13) {
            0 => drop(
                db.keyspace(&format!("space {}", round % 5), options())
                    .unwrap(),
            ),
            1 => {
                if let Some(space) = db.find_keyspace(&format!("space {}", round % 5)) {
                    match rng.random_range(0..3) {
                        0 => space.drop_keyspace().unwrap(),
                        1 => space.truncate().unwrap(),
                        _ => space.rename(&format!("named {round}")).unwrap(),
                    }
                }
            }
            2 => {
                let (a, b) = (key(&mut rng), key(&mut rng));
                db.delete_range(a.clone().min(b.clone())..a.max(b)).unwrap();
            }
            3 => db.put(key(&mut rng), vec![round as u8; 3000]).unwrap(),
            4 => {
                let mut batch = Batch::new();
                batch.put(key(&mut rng), "marked");
                db.write(batch.set_commit_tag(format!("mark {round}")))
                    .unwrap();
            }
            5 => {
                let entries =
                    (0..40).map(|i| (format!("key{:03}", i * 5), Some(vec![round as u8; 60])));
                let commit_tag = format!("ingested {round}");
                db.ingest_sorted(entries.map(crate::Result::Ok), Some(commit_tag.as_bytes()))
                    .unwrap();
            }
            6 => db.flush().unwrap(),
            7 => db.compact().unwrap(),
            8 => {
                let options =
                    WriteOptions::default().ttl(Duration::from_secs(1 + u64::from(round % 9)));
                db.put_with(key(&mut rng), "expires", options).unwrap();
            }
            9 => {
                runtime.run_one();
                runtime.delay(Duration::from_millis(700));
            }
            10 => {
                for name in db.keyspaces() {
                    let space = db.find_keyspace(&name).unwrap();
                    space.put(key(&mut rng), format!("{name} {round}")).unwrap();
                }
            }
            _ => db.put(key(&mut rng), vec![round as u8; 100]).unwrap(),
        }
        same_as(&secondary, &db);
    }
    assert_eq!(secondary.stats().reloads, 1);
    assert_eq!(secondary.stats().retries, 0);
}

#[test]
fn what_is_in_the_log_and_not_published_is_not_shown() {
    let mut machine = Machine::new(9);
    let (db, _) = open(&mut machine);
    let (mut model, mut rng) = (Model::new(), SmallRng::seed_from_u64(9));
    churn(&db, &mut model, &mut rng, 100);
    let secondary = follow(&machine);
    let fail_sync = || {
        machine.disk.set_fault(Box::new(|call| match call.op {
            Op::Sync if call.path.extension().is_some_and(|e| e == "wal") => {
                Fault::Fail(std::io::ErrorKind::Other)
            }
            _ => Fault::None,
        }));
    };
    fail_sync();
    db.put_with("never", "acknowledged", Durability::Sync)
        .unwrap_err();
    machine.disk.clear_faults();
    for _ in 0..3 {
        secondary.refresh().unwrap();
        same(&secondary, &model);
        assert_eq!(secondary.get("never").unwrap(), None);
        // The log is begun again, and the numbers go on behind that write.
        db.flush().unwrap();
        churn(&db, &mut model, &mut rng, 20);
    }
    secondary.refresh().unwrap();
    same(&secondary, &model);
    // A secondary that comes now.
    same(&follow(&machine), &model);

    // Whoever recovers takes it for written, and so does a secondary from then on.
    fail_sync();
    db.put_with("perhaps", "written", Durability::Sync)
        .unwrap_err();
    machine.disk.clear_faults();
    secondary.refresh().unwrap();
    assert_eq!(secondary.get("perhaps").unwrap(), None);
    drop(db);
    secondary.refresh().unwrap();
    assert!(!secondary.stats().has_writer);
    let alone = all(&secondary);
    assert_eq!(
        secondary.get("perhaps").unwrap().as_deref(),
        Some(&b"written"[..])
    );
    let (db, _) = open(&mut machine);
    assert!(alone == all(&db));
    same_as(&secondary, &db);
}

#[test]
fn an_edit_whose_sync_fails_is_not_in_force() {
    let mut machine = Machine::new(10);
    let (db, _) = open(&mut machine);
    let space = db.keyspace("space", KeyspaceOptions::default()).unwrap();
    space.put("key", "value").unwrap();
    let secondary = follow(&machine);
    machine.disk.set_fault(Box::new(|call| match call.op {
        Op::Sync if call.path.to_string_lossy().contains("MANIFEST") => {
            Fault::Fail(std::io::ErrorKind::Other)
        }
        _ => Fault::None,
    }));
    space.drop_keyspace().unwrap_err();
    machine.disk.clear_faults();
    for secondary in [&secondary, &follow(&machine)] {
        secondary.refresh().unwrap();
        assert_eq!(secondary.keyspaces(), ["default", "space"]);
        let shown = secondary.find_keyspace("space").unwrap();
        assert_eq!(shown.get("key").unwrap().as_deref(), Some(&b"value"[..]));
    }
    drop((space, db));
    secondary.refresh().unwrap();
    let (db, _) = open(&mut machine);
    same_as(&secondary, &db);
}

#[test]
fn a_secondary_outlives_its_writers() {
    let mut machine = Machine::new(11);
    let (mut model, mut rng) = (Model::new(), SmallRng::seed_from_u64(11));
    let (db, _) = open(&mut machine);
    let secondary = follow(&machine);
    db.close().unwrap();
    for round in 0..8 {
        let (db, runtime) = open(&mut machine);
        for _ in 0..5 {
            churn(&db, &mut model, &mut rng, 60);
            runtime.run_one();
            secondary.refresh().unwrap();
            same(&secondary, &model);
            assert!(secondary.stats().has_writer);
        }
        churn(&db, &mut model, &mut rng, 60);
        match round % 2 {
            0 => drop(db.close().unwrap()),
            _ => drop(db),
        }
        if round % 3 > 0 {
            // The second time there is nothing to do.
            for reads in [true, false] {
                let before = machine.disk.looks();
                secondary.refresh().unwrap();
                assert_eq!(machine.disk.looks() - before > 20, reads);
                same(&secondary, &model);
            }
            assert!(!secondary.stats().has_writer);
        }
    }
    // One writer after the other, unseen: of the last one there is a state.
    for _ in 0..2 {
        let (db, _) = open(&mut machine);
        churn(&db, &mut model, &mut rng, 300);
        db.flush().unwrap();
        db.close().unwrap();
    }
    secondary.refresh().unwrap();
    same(&secondary, &model);
}

#[test]
fn a_secondary_changes_nothing_and_needs_no_writer() {
    let machine = Machine::new(12);
    let (mut model, mut rng) = (Model::new(), SmallRng::seed_from_u64(12));
    let (db, _) = machine.open(small());
    churn(&db, &mut model, &mut rng, 700);
    let calls = || {
        let disk = machine.disk.clone();
        machine
            .disk
            .set_fault(Box::new(|call| panic!("{:?} of {:?}", call.op, call.path)));
        let secondary = follow(&machine);
        secondary.refresh().unwrap();
        same(&secondary, &model);
        same(&secondary.snapshot(), &model);
        drop(secondary);
        disk.clear_faults();
    };
    calls();
    // Killed, with a log that ends in the middle of a record.
    std::mem::forget(db);
    let machine = Machine {
        disk: machine.disk.process_kill(),
        seed: 13,
    };
    let wals = machine.disk.file_names();
    let newest = wals
        .iter()
        .filter(|path| path.extension().is_some_and(|e| e == "wal"))
        .max();
    let bytes = machine.disk.read_file(newest.unwrap()).unwrap();
    machine
        .disk
        .write_file(newest.unwrap(), &bytes[..bytes.len() - 3]);
    let before: Vec<_> = machine.disk.file_names();
    machine
        .disk
        .set_fault(Box::new(|call| panic!("{:?} of {:?}", call.op, call.path)));
    let secondary = follow(&machine);
    let shown = all(&secondary);
    machine.disk.clear_faults();
    assert_eq!(machine.disk.file_names(), before);
    let (db, _) = machine.open(small());
    assert!(all(&db) == shown);
    same_as(&secondary, &db);
}

#[test]
fn where_there_is_no_database_there_is_nothing_to_follow() {
    let mut machine = Machine::new(14);
    for _ in 0..2 {
        let none =
            Db::open_secondary("/db", SecondaryOptions::default().env(machine.env())).unwrap_err();
        assert_eq!(none.kind(), ErrorKind::NotFound);
        machine.disk.create_dir_all(Path::new("/db")).unwrap();
    }
    let (db, _) = open(&mut machine);
    let secondary = follow(&machine);
    db.close().unwrap();
    machine.env().destroy("/db").unwrap();
    assert_eq!(secondary.refresh().unwrap_err().kind(), ErrorKind::NotFound);
    assert!(secondary.stats().error.is_some());
    // Another database in its place is no state of this one.
    let (db, _) = open(&mut machine);
    db.put("another", "one").unwrap();
    let error = secondary.refresh().unwrap_err();
    assert!(
        matches!(error.kind(), ErrorKind::Incompatible | ErrorKind::NotFound),
        "{error}"
    );
    assert_eq!(secondary.iter().count(), 0);
}

/// As on a mount point whose snapshot was rolled back.
#[test]
fn an_older_state_in_the_place_of_what_is_followed_is_refused() {
    // At the end, what was followed still has the files with the numbers that are given again, or
    // has them no more, or only a memtable had them.
    for seen in ["listed", "gone", "large"] {
        let mut machine = Machine::new(16);
        let (db, _) = open(&mut machine);
        db.put("key0000", "value").unwrap();
        db.checkpoint("/copy").unwrap();
        let write = |db: &Db, value: &str| match seen {
            "large" => db.put("large", vec![value.as_bytes()[0]; 4 << 20]).unwrap(),
            _ => {
                (0..50).for_each(|i| db.put(format!("key{i:04}"), value).unwrap());
                db.flush().unwrap();
            }
        };
        let secondary = follow(&machine);
        for _ in 0..8 {
            write(&db, "first");
            secondary.refresh().unwrap();
        }
        let value = |of: &Secondary| of.get("key0007").unwrap().map(|value| value.to_vec());
        assert_eq!(value(&secondary).is_some(), seen != "large");
        if seen == "gone" {
            db.compact().unwrap();
            secondary.refresh().unwrap();
        }
        let (followed, snapshot) = (all(&secondary), secondary.snapshot());
        db.close().unwrap();

        let files = machine.disk.file_names().into_iter();
        let (copy, db): (Vec<_>, Vec<_>) = files.partition(|path| path.starts_with("/copy"));
        db.iter()
            .for_each(|path| machine.disk.remove(path).unwrap());
        for path in copy {
            let bytes = machine.disk.read_file(&path).unwrap();
            let name = path.file_name().unwrap();
            machine
                .disk
                .write_file(&Path::new("/db").join(name), &bytes);
        }
        let (db, _) = open(&mut machine);
        (0..8).for_each(|_| write(&db, "other"));
        for _ in 0..2 {
            let error = secondary.refresh().unwrap_err();
            assert_eq!(error.kind(), ErrorKind::Incompatible, "{seen}: {error}");
            assert!(
                all(&secondary) == followed && all(&snapshot) == followed,
                "{seen}"
            );
        }
        let other = follow(&machine);
        assert!(all(&other) == all(&db));
    }
}

#[test]
fn damage_is_an_error_and_what_was_shown_stays() {
    let machine = Machine::new(15);
    let (db, _) = machine.open(small());
    let (mut model, mut rng) = (Model::new(), SmallRng::seed_from_u64(15));
    churn(&db, &mut model, &mut rng, 30);
    let secondary = follow(&machine);
    let shown = model.clone();
    let end = |path: &PathBuf| machine.disk.read_file(path).unwrap().len() as u64;
    let is_wal = |path: &PathBuf| path.extension().is_some_and(|e| e == "wal");
    let wal = machine
        .disk
        .file_names()
        .into_iter()
        .filter(is_wal)
        .max()
        .unwrap();
    let at = end(&wal);
    db.put("one", "more").unwrap();
    assert!(end(&wal) > at);
    assert!(machine.disk.flip_bit(&wal, 8 * (at + 30)));
    let error = secondary.refresh().unwrap_err();
    assert_eq!(
        (error.kind(), error.file()),
        (ErrorKind::Corruption, Some(&*wal))
    );
    same(&secondary, &shown);
    let late =
        Db::open_secondary("/db", SecondaryOptions::default().env(machine.env())).unwrap_err();
    assert_eq!(late.kind(), ErrorKind::Corruption);
    // Whole again, it is read.
    assert!(machine.disk.flip_bit(&wal, 8 * (at + 30)));
    secondary.refresh().unwrap();
    assert_eq!(secondary.get("one").unwrap().as_deref(), Some(&b"more"[..]));
}

#[test]
fn the_budget_of_a_secondary_is_its_own() {
    let machine = Machine::new(16);
    let (db, _) = machine.open(
        Options::default()
            .memory_budget(64 << 20)
            .tuning(Tuning::default().memtable_bytes(1 << 20)),
    );
    for i in 0..3000_u32 {
        db.put(i.to_be_bytes(), [7; 200]).unwrap();
    }
    let options = SecondaryOptions::default().memory_budget(2 << 20);
    let secondary = Db::open_secondary("/db", options.env(machine.env())).unwrap();
    assert_eq!(secondary.iter().count(), 3000);
    assert_eq!(secondary.stats().memory.budget, 2 << 20);
    for bad in [
        SecondaryOptions::default().memory_budget(1),
        SecondaryOptions::default().refresh_every(Duration::ZERO),
    ] {
        let error = Db::open_secondary("/db", bad.env(machine.env())).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::InvalidArgument);
    }
}

#[test]
fn a_secondary_that_may_keep_few_files_open_reads_what_is_there() {
    let mut machine = Machine::new(31);
    let (db, _runtime) = open(&mut machine);
    let (mut model, mut rng) = (Model::new(), SmallRng::seed_from_u64(31));
    churn(&db, &mut model, &mut rng, 2000);
    db.compact().unwrap();
    db.wait_until_idle().unwrap();
    machine.disk.set_max_open_files(1);
    same(&follow(&machine), &model);
    let secondary = follow(&machine);
    let before = model.clone();
    churn(&db, &mut model, &mut rng, 2000);
    db.compact().unwrap();
    db.wait_until_idle().unwrap();
    let mut refused = 0;
    for (key, value) in &before {
        match secondary.get(key) {
            Ok(found) => assert_eq!(found.as_deref(), Some(&value[..])),
            Err(error) => {
                assert_eq!(error.kind(), ErrorKind::Io, "{error}");
                assert!(error.to_string().contains("has removed this file"));
                refused += 1;
            }
        }
    }
    assert!(refused > 0);
    secondary.refresh().unwrap();
    same(&secondary, &model);
}

/// Secondaries of a writer with a larger budget, beside it and after a kill: with little memory
/// they are refused, and the figure that the error names is enough.
#[test]
fn a_secondary_keeps_its_budget_or_names_what_it_needs() {
    for (len, count) in [(1, 40_000_u32), (900, 4_000), (100_000, 40)] {
        let machine = Machine::new(17);
        let options = Options::default()
            .memory_budget(256 << 20)
            .tuning(Tuning::default().memtable_bytes(64 << 20));
        let (db, _) = machine.open(options);
        let batch = |db: &Db, range: std::ops::Range<u32>| {
            for i in range {
                db.put(i.to_be_bytes(), vec![7; len]).unwrap();
            }
        };
        batch(&db, 0..count / 2);
        let small = SecondaryOptions::default().memory_budget(1 << 20);
        let refused = |env: &Env| {
            let error = Db::open_secondary("/db", small.clone().env(env.clone())).unwrap_err();
            assert_eq!(error.kind(), ErrorKind::InvalidArgument);
            figure_in(&error)
        };
        let needed = refused(&machine.env());
        let enough = SecondaryOptions::default().memory_budget(needed);
        let secondary = Db::open_secondary("/db", enough.env(machine.env())).unwrap();
        let holds = |secondary: &Secondary, budget: u64| {
            let memory = secondary.stats().memory;
            assert!(memory.total() <= budget, "{len}: {budget} {memory:?}");
        };
        assert_eq!(secondary.iter().count() as u32, count / 2);
        holds(&secondary, needed);
        // A refresh that would need more leaves what is shown.
        batch(&db, count / 2..count);
        let error = secondary.refresh().unwrap_err();
        assert!(figure_in(&error) > needed);
        assert_eq!(secondary.iter().count() as u32, count / 2);
        let all_of_it =
            Db::open_secondary("/db", SecondaryOptions::default().env(machine.env())).unwrap();
        assert_eq!(all_of_it.iter().count() as u32, count);
        db.flush().unwrap();
        secondary.refresh().unwrap();
        assert_eq!(secondary.iter().count() as u32, count);
        holds(&secondary, needed);
        // What a kill has left in the log.
        batch(&db, 0..count);
        db.sync().unwrap();
        let killed = Machine {
            disk: machine.disk.process_kill(),
            seed: 18,
        };
        let needed = refused(&killed.env());
        let enough = SecondaryOptions::default().memory_budget(needed);
        let secondary = Db::open_secondary("/db", enough.env(killed.env())).unwrap();
        assert_eq!(secondary.iter().count() as u32, count);
        holds(&secondary, needed);
    }
}

/// The budget that an error asks for.
fn figure_in(error: &crate::Error) -> u64 {
    let after = error.remedy().split("`memory_budget` to ").nth(1).unwrap();
    let figure = after.split(' ').next().unwrap();
    figure.parse().unwrap()
}

/// What is in each keyspace.
type Contents = Vec<(String, Vec<(Vec<u8>, Vec<u8>)>)>;

fn contents(names: Vec<String>, of: impl Fn(&str) -> Vec<(Vec<u8>, Vec<u8>)>) -> Contents {
    let each = names.into_iter().map(|name| (name.clone(), of(&name)));
    each.collect()
}

fn contents_of(db: &Db) -> Contents {
    contents(db.keyspaces(), |name| all(&db.find_keyspace(name).unwrap()))
}

fn shown_by(secondary: &Secondary) -> Contents {
    let shown = secondary.keyspaces();
    contents(shown, |name| all(&secondary.find_keyspace(name).unwrap()))
}

/// The number of the last write that is visible, and what is there then.
fn moment_of(db: &Db) -> (u64, Contents) {
    let seq = db.0.engine.read.visible_seq.load(Ordering::Acquire);
    (seq, contents_of(db))
}

fn moment_shown_by(secondary: &Secondary) -> (u64, Contents) {
    (secondary.stats().seq, shown_by(secondary))
}

/// What a writer does in the middle of a refresh. It calls the other function after each change.
type Act = fn(&Db, &mut dyn FnMut());

const ACTS: [(&str, Act); 8] = [
    ("puts", |db, note| {
        for i in 0..3 {
            db.put(format!("key{i}"), "put meanwhile").unwrap();
            note();
        }
    }),
    ("flushes", |db, note| {
        for i in 0..6 {
            db.put(format!("key{i}"), [i; 900]).unwrap();
            note();
            db.flush().unwrap();
        }
        db.put("key", "after the flushes").unwrap();
        note();
    }),
    ("merges", |db, note| {
        for i in 0..20 {
            db.delete(format!("key{i}")).unwrap();
            note();
        }
        db.compact().unwrap();
        db.collect_garbage().unwrap();
        db.put("key", "after the merge").unwrap();
        note();
    }),
    ("changes of keyspaces", |db, note| {
        let space = db.find_keyspace("space").unwrap();
        space.truncate().unwrap();
        note();
        space.put("first", "after the truncation").unwrap();
        note();
        let other = db.keyspace("other", KeyspaceOptions::default()).unwrap();
        note();
        other.put("first", "of another one").unwrap();
        note();
        space.drop_keyspace().unwrap();
        note();
    }),
    ("an ingest", |db, note| {
        db.put("key1", "before the ingest").unwrap();
        note();
        let entries = (0..9).map(|i| (format!("key{i}"), Some("ingested")));
        db.ingest_sorted(entries.map(crate::Result::Ok), None)
            .unwrap();
        note();
        db.put("key2", "after the ingest").unwrap();
        note();
    }),
    ("an ingest and nothing after it", |db, note| {
        let entries = (0..9).map(|i| (format!("key{i}"), Some("ingested")));
        db.ingest_sorted(entries.map(crate::Result::Ok), None)
            .unwrap();
        note();
    }),
    ("an ingest into a keyspace, and a flush", |db, note| {
        let space = db.find_keyspace("space").unwrap();
        let entries = [("first", Some("ingested")), ("key", None)];
        space
            .ingest_sorted(entries.into_iter().map(crate::Result::Ok), None)
            .unwrap();
        note();
        db.flush().unwrap();
    }),
    ("much", |db, note| {
        for i in 0..60_u32 {
            db.put(format!("key{}", i % 30), [i as u8; 600]).unwrap();
            note();
        }
        db.compact().unwrap();
        db.collect_garbage().unwrap();
    }),
];

#[test]
fn whatever_is_written_during_a_refresh_it_shows_a_state_that_the_writer_showed() {
    // Where all is flushed nothing of the log is needed, whose segments say of themselves which
    // edits come before them.
    for (name, act) in ACTS {
        for all_flushed in [false, true] {
            let mut at = 0;
            while writes_during_a_refresh((name, act), all_flushed, at) {
                at += 1;
            }
            assert!(at > 10, "{name}: {at}");
        }
    }
}

/// Does `act` before the look with this number of a refresh. Whether there is such a look.
fn writes_during_a_refresh((name, act): (&str, Act), all_flushed: bool, at: u64) -> bool {
    let machine = Machine::new(100 + at);
    let (db, _) = machine.open(small());
    let space = db.keyspace("space", KeyspaceOptions::default()).unwrap();
    space.put("key", "of the space").unwrap();
    for i in 0..40_u8 {
        db.put(format!("key{i}"), [i; 200]).unwrap();
    }
    db.put("large", [7; 3000]).unwrap();
    db.flush().unwrap();
    let secondary = follow(&machine);
    db.put("key1", "not flushed").unwrap();
    db.flush().unwrap();
    if !all_flushed {
        db.put("key2", "not flushed").unwrap();
    }

    let first = [moment_shown_by(&secondary), moment_of(&db)];
    let states = Arc::new(Mutex::new(Vec::from(first)));
    let (writer, noted) = (db.clone(), Arc::clone(&states));
    let (mut looks, acted) = (0, Arc::new(AtomicBool::new(false)));
    let acts = Arc::clone(&acted);
    machine.disk.set_look_fault(Box::new(move |_| {
        looks += 1;
        if looks == at + 1 {
            acts.store(true, Ordering::Relaxed);
            act(&writer, &mut || noted.lock().push(moment_of(&writer)));
        }
        Fault::None
    }));
    let refreshed = secondary.refresh();
    machine.disk.clear_faults();
    refreshed.unwrap_or_else(|error| panic!("{name} at {at}: {error}"));
    let states = states.lock();
    assert!(
        states.contains(&moment_shown_by(&secondary)),
        "{name} at {at}"
    );
    secondary.refresh().unwrap();
    assert!(
        moment_shown_by(&secondary) == moment_of(&db),
        "{name} at {at}, afterwards"
    );
    acted.load(Ordering::Relaxed)
}
