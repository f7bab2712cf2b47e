use crate::db::Db;
use crate::engine::background::Ended;
use crate::engine::tests::common::version;
use crate::engine::tests::{Machine, Model, churn, same, small};
use crate::vfs::sim::{Fault, Keep};
use crate::{ErrorKind, Options, Tuning};
use rand::SeedableRng;
use rand::rngs::SmallRng;
use std::path::PathBuf;
use std::sync::Arc;

/// Generations of many tables, whose keys are merged as soon as that is worth its cost. What is
/// split stays so.
fn eager() -> Options {
    small().tuning(
        Tuning::default()
            .unsorted_bytes(1 << 30)
            .key_table_bytes(1 << 10)
            .partition_bytes(128 << 10)
            .scan_merge_limit(1),
    )
}

/// The files of all scan runs.
fn run_files(db: &Db) -> Vec<PathBuf> {
    let version = version(db);
    let tables = version.scan_runs().flat_map(|run| run.tables());
    tables.map(|table| table.path().to_owned()).collect()
}

/// A database with a SortedStore and a generation of some tables, and no scan run.
fn filled(machine: &Machine, seed: u64) -> (Db, Model) {
    let (db, _) = machine.open(eager());
    let mut model = Model::new();
    let mut rng = SmallRng::seed_from_u64(seed);
    churn(&db, &mut model, &mut rng, 600);
    db.compact().unwrap();
    churn(&db, &mut model, &mut rng, 200);
    db.flush().unwrap();
    assert!(db.stats().partitions[0].tables > 4);
    assert_eq!(db.stats().scan_merges, 0);
    (db, model)
}

/// Scans until a run has been made.
fn scan_until_merged(db: &Db) {
    let before = db.stats().scan_merges;
    for _ in 0..200 {
        assert!(db.iter().all(|entry| entry.is_ok()));
        db.wait_until_idle().unwrap();
        if db.stats().scan_merges > before {
            return;
        }
    }
    panic!(
        "a merge is not worth its cost after 200 scans: {:#?}",
        db.stats()
    );
}

/// Makes a run at once.
fn merge_now(db: &Db) -> crate::Result<()> {
    let engine = &db.0.engine;
    let partition = Arc::clone(&version(db).partitions()[0]);
    engine
        .background
        .scan_merge(&partition, &partition.generations[0])
}

#[test]
fn scans_cause_a_merge_and_then_read_one_source() {
    let machine = Machine::new(41);
    let (db, mut model) = filled(&machine, 41);
    // Reads of single keys, and a few scans, lose less than a merge costs.
    for key in model.keys() {
        db.get(key).unwrap();
    }
    assert_eq!(db.iter().take(3).count(), 3);
    db.wait_until_idle().unwrap();
    assert_eq!(db.stats().scan_merges, 0);

    let tables = db.stats().partitions[0].tables;
    assert_eq!(db.stats().partitions[0].scan_sources, tables);
    scan_until_merged(&db);
    let stats = db.stats();
    assert_eq!(stats.partitions[0].scan_sources, 1);
    assert_eq!(stats.partitions[0].tables, tables);
    assert!(stats.scan_run_bytes > 0 && stats.scan_run_bytes == stats.scan_merge_bytes);
    assert!(run_files(&db).len() > 1, "several key tables");
    same(&db, &model);
    // Now that there is nothing to be saved, scans lose no more.
    for _ in 0..20 {
        assert_eq!(db.iter().count(), model.len());
    }
    db.wait_until_idle().unwrap();
    assert_eq!(db.stats().scan_merges, 1);

    // New tables come beside the run, until a larger one is worth its cost.
    let mut rng = SmallRng::seed_from_u64(42);
    let first = run_files(&db);
    churn(&db, &mut model, &mut rng, 100);
    db.flush().unwrap();
    assert!(db.stats().partitions[0].scan_sources > 2);
    same(&db, &model);
    scan_until_merged(&db);
    assert_eq!(db.stats().partitions[0].scan_sources, 1);
    same(&db, &model);
    assert!(run_files(&db).iter().all(|file| !first.contains(file)));

    // The run outlives the process and goes with its generation.
    let second = run_files(&db);
    db.close().unwrap();
    machine.check();
    for file in &first {
        assert!(machine.disk.read_file(file).is_none(), "{file:?}");
    }
    let (db, _) = machine.open(eager());
    assert_eq!(run_files(&db), second);
    assert_eq!(db.stats().partitions[0].scan_sources, 1);
    same(&db, &model);
    db.compact().unwrap();
    assert!(run_files(&db).is_empty());
    same(&db, &model);
    db.close().unwrap();
    for file in &second {
        assert!(machine.disk.read_file(file).is_none(), "{file:?}");
    }
    machine.check();
}

#[test]
fn a_small_number_of_tables_is_left_alone() {
    let machine = Machine::new(43);
    let (db, model) = filled(&machine, 43);
    let tables = db.stats().partitions[0].tables as u32;
    db.close().unwrap();
    let (db, _) = machine.open(eager().tuning(Tuning::default().scan_merge_limit(tables)));
    for _ in 0..50 {
        assert_eq!(db.iter().count(), model.len());
    }
    db.wait_until_idle().unwrap();
    assert_eq!(db.stats().scan_merges, 0);
}

#[test]
fn snapshots_see_their_moment_through_a_run_and_after_its_merge() {
    let machine = Machine::new(44);
    let (db, mut model) = filled(&machine, 44);
    let mut rng = SmallRng::seed_from_u64(45);
    let mut moments = Vec::new();
    for round in 0..6 {
        moments.push((db.snapshot(), model.clone()));
        churn(&db, &mut model, &mut rng, 60);
        db.flush().unwrap();
        if round % 2 == 0 {
            merge_now(&db).unwrap();
        }
        // The last round merges the generation itself, by way of the run.
        if round == 5 {
            db.compact().unwrap();
        }
        for (snapshot, then) in &moments {
            let pairs = snapshot.iter().map(|e| e.unwrap());
            assert!(
                pairs
                    .map(|(k, v)| (k.to_vec(), v.to_vec()))
                    .eq(then.clone())
            );
            let back = snapshot.iter().rev().map(|e| e.unwrap().0.to_vec());
            assert!(back.eq(then.keys().rev().cloned()));
        }
        same(&db, &model);
    }
}

#[test]
fn what_was_begun_before_a_run_goes_on_and_a_split_drops_the_run() {
    let machine = Machine::new(46);
    let (db, mut model) = filled(&machine, 46);
    let mut before = db.iter();
    let then = model.clone();
    assert!(before.next().is_some());
    merge_now(&db).unwrap();
    let mut with_run = db.iter();
    assert!(with_run.next().is_some());
    let files = run_files(&db);
    let engine = &db.0.engine;
    let partition = Arc::clone(&version(&db).partitions()[0]);
    assert_eq!(
        engine.background.split_leased(&partition).unwrap(),
        Ended::Done
    );
    assert_eq!(version(&db).partitions().len(), 2);
    assert!(run_files(&db).is_empty());
    same(&db, &model);
    churn(&db, &mut model, &mut SmallRng::seed_from_u64(47), 50);
    db.compact().unwrap();
    for iter in [&mut before, &mut with_run] {
        let rest = iter
            .map(|e| e.unwrap())
            .map(|(k, v)| (k.to_vec(), v.to_vec()));
        assert!(rest.eq(then.clone().into_iter().skip(1)));
    }
    drop((before, with_run, partition));
    same(&db, &model);
    db.close().unwrap();
    for file in &files {
        assert!(machine.disk.read_file(file).is_none(), "{file:?}");
    }
    machine.check();
}

#[test]
fn each_side_of_a_split_merges_the_keys_of_its_own_range() {
    let machine = Machine::new(48);
    let (db, mut model) = filled(&machine, 48);
    let engine = &db.0.engine;
    let partition = Arc::clone(&version(&db).partitions()[0]);
    assert_eq!(
        engine.background.split_leased(&partition).unwrap(),
        Ended::Done
    );
    let mut rng = SmallRng::seed_from_u64(49);
    // Flushes write one file for both sides.
    for _ in 0..4 {
        churn(&db, &mut model, &mut rng, 30);
        db.flush().unwrap();
    }
    for partition in version(&db).partitions().iter() {
        engine
            .background
            .scan_merge(partition, &partition.generations[0])
            .unwrap();
    }
    assert_eq!(version(&db).scan_runs().count(), 2);
    same(&db, &model);
    db.close().unwrap();
    machine.check();
    let (db, _) = machine.open(eager());
    assert_eq!(version(&db).scan_runs().count(), 2);
    same(&db, &model);
    db.compact().unwrap();
    same(&db, &model);
}

/// A database as `filled`, with what a scan merge does to be disturbed.
fn disturbed(call: u64, fault: Fault) -> (Machine, Db, Model, crate::Result<()>) {
    let machine = Machine::new(50);
    let (db, model) = filled(&machine, 50);
    merge_now(&db).unwrap();
    db.sync().unwrap();
    let at = machine.disk.calls() + call;
    machine.disk.set_fault(Box::new(move |c| match fault {
        Fault::PowerCut if c.index >= at => fault,
        _ if c.index == at => fault,
        _ => Fault::None,
    }));
    let merged = merge_now(&db);
    machine.disk.clear_faults();
    (machine, db, model, merged)
}

fn calls_of_a_scan_merge() -> u64 {
    let (machine, db, ..) = disturbed(u64::MAX >> 1, Fault::None);
    let begin = machine.disk.calls();
    merge_now(&db).unwrap();
    let calls = machine.disk.calls() - begin;
    assert!(calls > 6, "files, their syncs, the edit: {calls}");
    calls
}

#[test]
fn a_power_cut_at_any_call_of_a_scan_merge_changes_nothing_that_is_read() {
    for call in 0..calls_of_a_scan_merge() {
        for keep in [
            Keep::Nothing,
            Keep::All,
            Keep::Prefix(call),
            Keep::Torn(call),
        ] {
            let (machine, db, model, _) = disturbed(call, Fault::PowerCut);
            drop(db);
            let after = Machine {
                disk: machine.disk.power_cut(keep),
                seed: 50,
            };
            after.check();
            let (db, _) = after.open(eager());
            // The former run or the new one, whole.
            assert_eq!(db.stats().partitions[0].scan_sources, 1);
            same(&db, &model);
            db.close().unwrap();
            after.check();
        }
    }
}

#[test]
fn a_failed_scan_merge_leaves_nothing_and_stops_nothing() {
    let mut merged_later = 0;
    for call in 0..calls_of_a_scan_merge() {
        let (machine, db, mut model, merged) =
            disturbed(call, Fault::Fail(std::io::ErrorKind::Other));
        same(&db, &model);
        if let Err(error) = merged {
            assert!(
                matches!(error.kind(), ErrorKind::Io | ErrorKind::WritesSuspended),
                "{error}"
            );
        }
        // A failed commit has suspended writing.
        if db.put("key0001", "after").is_ok() {
            model.insert("key0001".into(), "after".into());
            if db.flush().is_ok() {
                scan_until_merged(&db);
                merged_later += 1;
            }
        }
        same(&db, &model);
        let _may_be_suspended = db.close();
        machine.check();
        let (db, _) = machine.open(eager());
        same(&db, &model);
    }
    assert!(merged_later > 3, "{merged_later}");
}

/// A failure shows in the counters only: nobody's work is held up by it.
#[test]
fn the_background_goes_on_after_a_failed_scan_merge() {
    let machine = Machine::new(51);
    let (db, mut model) = filled(&machine, 51);
    machine.disk.set_fault(Box::new(|call| {
        let name = call.path.to_string_lossy();
        if name.ends_with(".key") {
            Fault::Fail(std::io::ErrorKind::Other)
        } else {
            Fault::None
        }
    }));
    let mut scans = 0;
    while db.stats().failed_scan_merges < 2 {
        assert_eq!(db.iter().take(3).count(), 3);
        db.wait_until_idle().unwrap();
        scans += 1;
        assert!(scans < 1000);
    }
    assert!(scans > 3, "each has to be worth its cost again");
    assert_eq!(db.stats().scan_merges, 0);
    machine.disk.clear_faults();
    churn(&db, &mut model, &mut SmallRng::seed_from_u64(52), 50);
    db.flush().unwrap();
    scan_until_merged(&db);
    same(&db, &model);
    db.close().unwrap();
    machine.check();
}

#[test]
fn damage_in_a_run_costs_at_most_one_scan_and_no_data() {
    let machine = Machine::new(53);
    let (db, model) = filled(&machine, 53);
    merge_now(&db).unwrap();
    let files = run_files(&db);
    db.close().unwrap();
    let flips = |len: u64| (0..len * 8).step_by(997);
    for file in [&files[0], &files[files.len() - 1]] {
        let len = machine.disk.read_file(file).unwrap().len() as u64;
        for bit in flips(len) {
            let damaged = Machine {
                disk: machine.disk.process_kill(),
                seed: bit,
            };
            assert!(damaged.disk.flip_bit(file, bit));
            let env = crate::vfs::Env {
                vfs: Arc::new(damaged.disk.clone()),
                runtime: crate::vfs::sim::SimRuntime::new(1),
            };
            assert!(!env.check("/db").unwrap().is_clean(), "bit {bit}");
            let (db, _) = damaged.open(eager());
            let mut seen = Vec::new();
            for entry in db.iter() {
                match entry {
                    Ok((k, v)) => seen.push((k.to_vec(), v.to_vec())),
                    Err(error) => assert_eq!(error.kind(), ErrorKind::Corruption),
                }
            }
            let expected = model.clone().into_iter().take(seen.len());
            assert!(seen.into_iter().eq(expected), "bit {bit}");
            // It has been met, if scans meet it at all; the sections serve from now on.
            same(&db, &model);
            let compacted = db.compact().or_else(|_| db.compact());
            compacted.unwrap();
            same(&db, &model);
            db.close().unwrap();
            damaged.check();
        }
    }
}

#[test]
fn a_lost_run_is_forgotten_at_opening() {
    for cut in [None, Some(100)] {
        let machine = Machine::new(54);
        let (db, model) = filled(&machine, 54);
        merge_now(&db).unwrap();
        let files = run_files(&db);
        db.close().unwrap();
        let bytes = machine.disk.read_file(&files[0]).unwrap();
        match cut {
            Some(len) => machine.disk.write_file(&files[0], &bytes[..len]),
            None => crate::vfs::Vfs::remove(&machine.disk, &files[0]).unwrap(),
        }
        let (db, _) = machine.open(eager());
        assert!(run_files(&db).is_empty());
        same(&db, &model);
        scan_until_merged(&db);
        same(&db, &model);
        db.close().unwrap();
        // What was left of the lost run has been swept.
        assert!(files.iter().all(|f| machine.disk.read_file(f).is_none()));
        machine.check();
    }
}
