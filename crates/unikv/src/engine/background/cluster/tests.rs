use super::*;
use crate::base::file_header::HEADER_LEN;
use crate::db::Db;
use crate::engine::tests::common::{all_the_same, delete, flush_apart, key, put, version};
use crate::engine::tests::{Machine, Model, same, small};
use crate::record::STREAMED_BYTES;
use crate::vfs::sim::{Fault, Keep};
use crate::{ErrorKind, Options};
use std::ops::Range;

const KEYS: u32 = 400;

/// Key tables of some sixty keys, in one partition; garbage is left where it is.
fn by_scans() -> Options {
    small()
        .clustering(Clustering::ByScans)
        .unsorted_bytes(1 << 20)
        .key_table_bytes(1 << 10)
        .partition_bytes(1 << 30)
        .max_space_amp(100.0)
}

/// A database whose neighbours were written at `rounds` different times, all merged.
fn scattered(machine: &Machine, options: Options, rounds: u32) -> (Db, Model) {
    let (db, _) = machine.open(options);
    let mut model = Model::new();
    flush_apart(&db, &mut model, KEYS, rounds, 0);
    db.compact().unwrap();
    (db, model)
}

/// How many key tables there are, and of these, those whose values lie apart.
fn tables(db: &Db) -> (usize, usize) {
    let version = version(db);
    let apart = version
        .key_tables()
        .filter(|table| table.scattered.is_some());
    (version.key_tables().count(), apart.count())
}

/// Lets scans of a part of the keys pay until something was clustered.
fn scan_until_clustered(db: &Db, part: Range<u32>) {
    let before = db.stats().clusterings;
    for _ in 0..2000 {
        let part = key(part.start)..key(part.end);
        assert!(db.range(part).all(|entry| entry.is_ok()));
        db.quiesce().unwrap();
        if db.stats().clusterings > before {
            return;
        }
    }
    panic!("2,000 scans have not paid for it: {:#?}", db.stats());
}

/// As if scans had paid for the clustering of everything.
fn pay_for_all(db: &Db) {
    for table in version(db).key_tables() {
        table.scan_cost.store(u64::MAX / 2, Ordering::Relaxed);
    }
}

/// What clusters as much as may be clustered at once.
fn plan(db: &Db) -> MergePlan {
    let engine = &db.0.engine;
    let version = version(db);
    let partition = Arc::clone(&version.partitions()[0]);
    let inputs = MergeInputs {
        clusters: engine.clusters(&version, &partition),
        ..MergeInputs::default()
    };
    MergePlan { partition, inputs }
}

#[test]
fn scans_pay_for_clustering_where_they_read_and_then_find_neighbours_together() {
    let machine = Machine::new(61);
    let (db, mut model) = scattered(&machine, by_scans(), 8);
    let (all, apart) = tables(&db);
    assert!(all > 5 && apart == all, "{apart} of {all}");
    // Reads of single keys and a few scans pay nothing that it would be worth.
    for key in model.keys() {
        db.get(key).unwrap();
    }
    assert_eq!(db.iter().take(20).count(), 20);
    db.quiesce().unwrap();
    assert_eq!(db.stats().clusterings, 0);

    scan_until_clustered(&db, 100..140);
    let stats = db.stats();
    assert!(stats.merge_copied_bytes > 0 && stats.gcs == 0, "{stats:#?}");
    let (_, still_apart) = tables(&db);
    assert!(still_apart < all, "nothing is together");
    assert!(still_apart > all / 2, "nobody has scanned the others");
    same(&db, &model);
    // When there is nothing to be saved there, scans of them pay no more.
    let scan_on = || {
        for _ in 0..500 {
            assert_eq!(db.range(key(100)..key(140)).count(), 40);
        }
        db.quiesce().unwrap();
        db.stats().clusterings
    };
    let clusterings = scan_on();
    assert_eq!(scan_on(), clusterings);

    // What overwrites some of them lies apart anew, and moves alone when scans have paid.
    for round in 0..3 {
        for i in (100 + round..140).step_by(4) {
            put(&db, &mut model, i, 77);
        }
        delete(&db, &mut model, 123 + round);
        db.flush().unwrap();
    }
    db.compact().unwrap();
    let before = db.stats().merge_copied_bytes;
    scan_until_clustered(&db, 100..140);
    let copied = db.stats().merge_copied_bytes - before;
    assert!(copied < 30 * 300, "{copied} bytes for 30 of 400 values");
    all_the_same(&db, &model, KEYS);
    db.close().unwrap();
    machine.check();
    let (db, _) = machine.open(by_scans());
    all_the_same(&db, &model, KEYS);
    db.close().unwrap();
}

#[test]
fn who_did_not_ask_for_it_gets_none() {
    for clustering in [Clustering::Never, Clustering::EveryMerge] {
        let machine = Machine::new(62);
        let (db, model) = scattered(&machine, by_scans().clustering(Clustering::Never), 8);
        db.close().unwrap();
        let (db, _) = machine.open(by_scans().clustering(clustering));
        for _ in 0..500 {
            assert_eq!(db.range(key(100)..key(140)).count(), 40);
        }
        pay_for_all(&db);
        db.quiesce().unwrap();
        db.compact().unwrap();
        assert_eq!(db.stats().clusterings, 0);
        same(&db, &model);
        db.close().unwrap();
    }
}

#[test]
fn a_merge_that_is_due_takes_it_along_with_what_leaves_the_unsorted_store() {
    let machine = Machine::new(63);
    let (db, mut model) = scattered(&machine, by_scans(), 8);
    for round in 0..3 {
        for i in (round..KEYS).step_by(9) {
            put(&db, &mut model, i, 100 + round as u8);
        }
        db.flush().unwrap();
    }
    pay_for_all(&db);
    db.compact().unwrap();
    let stats = db.stats();
    assert!(
        stats.clusterings > 0 && stats.failed_clusterings == 0,
        "{stats:#?}"
    );
    assert_eq!(tables(&db).1, 0, "all is together");
    all_the_same(&db, &model, KEYS);
    db.close().unwrap();
    machine.check();
}

#[test]
fn snapshots_keep_their_versions_and_large_values_stay_where_they_are() {
    let machine = Machine::new(64);
    let options = by_scans().memtable_bytes(2 << 20).memory_budget(64 << 20);
    let (db, mut model) = scattered(&machine, options, 8);
    let large = vec![9; STREAMED_BYTES as usize];
    for i in [50, 150] {
        db.put(key(i), &large).unwrap();
        model.insert(key(i), large.clone());
    }
    let (before, snapshot) = (model.clone(), db.snapshot());
    for i in (0..KEYS).step_by(5) {
        put(&db, &mut model, i + 1, 55);
        delete(&db, &mut model, i + 2);
    }
    db.compact().unwrap();
    pay_for_all(&db);
    db.0.engine.run_plan(&plan(&db)).unwrap();
    let stats = db.stats();
    assert_eq!(stats.clusterings, 1);
    let of_large = u64::from(STREAMED_BYTES);
    assert!(
        (1..of_large).contains(&stats.merge_copied_bytes),
        "{stats:#?}"
    );
    all_the_same(&db, &model, KEYS);
    for (key, value) in &before {
        assert_eq!(snapshot.get(key).unwrap().as_deref(), Some(&value[..]));
    }
    assert_eq!(snapshot.iter().count(), before.len());
    drop(snapshot);
    db.close().unwrap();
    machine.check();
}

#[test]
fn one_pass_copies_no_more_than_an_unsorted_store_may_hold() {
    let machine = Machine::new(65);
    // In more files than there is memory for to read each of them in long pieces.
    let (db, model) = scattered(&machine, by_scans(), 40);
    db.close().unwrap();
    let most = 16 << 10;
    let (db, _) = machine.open(by_scans().unsorted_bytes(most));
    pay_for_all(&db);
    db.quiesce().unwrap();
    let stats = db.stats();
    let copied = stats.merge_copied_bytes;
    assert!(
        copied <= stats.clusterings * (most + HEADER_LEN as u64),
        "{stats:#?}"
    );
    assert!(copied > 3 * most && stats.clusterings > 3, "{stats:#?}");
    assert_eq!(tables(&db).1, 0, "pass by pass, all is together");
    same(&db, &model);
    db.close().unwrap();
    machine.check();
}

#[test]
fn a_failure_harms_nothing_and_is_paid_for_anew() {
    let machine = Machine::new(66);
    let (db, model) = scattered(&machine, by_scans(), 8);
    machine.disk.set_fault(Box::new(|call| {
        match call.path.to_string_lossy().ends_with(".key") {
            true => Fault::Fail(std::io::ErrorKind::Other),
            false => Fault::None,
        }
    }));
    pay_for_all(&db);
    let files = machine.disk.file_names();
    assert!(db.0.engine.cluster_one().unwrap());
    assert!(!db.0.engine.cluster_one().unwrap(), "nothing is paid for");
    let stats = db.stats();
    assert_eq!((stats.clusterings, stats.failed_clusterings), (0, 1));
    assert_eq!(
        machine.disk.file_names(),
        files,
        "what was begun is removed"
    );
    machine.disk.clear_faults();
    same(&db, &model);
    scan_until_clustered(&db, 0..KEYS);
    same(&db, &model);
    db.close().unwrap();
    machine.check();
}

#[test]
fn a_damaged_value_is_told_to_who_reads_it_and_keeps_its_neighbours_where_they_are() {
    let machine = Machine::new(67);
    let (db, mut model) = scattered(&machine, by_scans(), 8);
    let found = version(&db);
    let file = found.record_files()[3].path().to_owned();
    db.close().unwrap();
    // In the midst of the first record behind the header.
    assert!(machine.disk.flip_bit(&file, (HEADER_LEN as u64 + 100) * 8));
    let (db, _) = machine.open(by_scans());
    let damaged: Vec<_> = model
        .keys()
        .filter(|key| db.get(key).is_err())
        .cloned()
        .collect();
    let [damaged] = &damaged[..] else {
        panic!("{damaged:?}");
    };
    pay_for_all(&db);
    assert!(db.0.engine.cluster_one().unwrap());
    assert_eq!(db.stats().failed_clusterings, 1);
    assert_eq!(db.get(damaged).unwrap_err().kind(), ErrorKind::Corruption);
    model.remove(damaged);
    for (key, value) in &model {
        assert_eq!(db.get(key).unwrap().as_deref(), Some(&value[..]));
    }
    // Nothing is wrong with writing.
    put(&db, &mut model, 7, 7);
    db.flush().unwrap();
    db.close().unwrap();
}

#[test]
fn a_merge_goes_on_without_what_keeps_it_from_clustering() {
    let machine = Machine::new(69);
    let (db, mut model) = scattered(&machine, by_scans(), 8);
    let file = version(&db).record_files()[3].path().to_owned();
    db.close().unwrap();
    assert!(machine.disk.flip_bit(&file, (HEADER_LEN as u64 + 100) * 8));
    let (db, _) = machine.open(by_scans());
    let damaged: Vec<_> = model.keys().filter(|key| db.get(key).is_err()).collect();
    assert_eq!(damaged.len(), 1);
    let damaged = damaged[0].clone();
    model.remove(&damaged);
    for i in (0..KEYS).step_by(9).filter(|i| key(*i) != damaged) {
        put(&db, &mut model, i, 100);
    }
    db.flush().unwrap();
    pay_for_all(&db);
    db.compact().unwrap();
    let stats = db.stats();
    assert!(
        stats.failed_clusterings > 0 && stats.merges > 0,
        "{stats:#?}"
    );
    assert_eq!(stats.unsorted_records, 0);
    for (key, value) in &model {
        assert_eq!(db.get(key).unwrap().as_deref(), Some(&value[..]));
    }
    assert!(db.get(&damaged).is_err());
    db.close().unwrap();
}

#[test]
fn a_power_cut_at_any_call_leaves_all_or_nothing_of_it() {
    let begun = Machine::new(68);
    let (db, model) = scattered(&begun, by_scans(), 8);
    db.close().unwrap();
    let fork = || Machine {
        disk: begun.disk.process_kill(),
        seed: begun.seed,
    };
    let calls = {
        let machine = fork();
        let (db, _) = machine.open(by_scans());
        pay_for_all(&db);
        let plan = plan(&db);
        let begin = machine.disk.calls();
        db.0.engine.run_plan(&plan).unwrap();
        machine.disk.calls() - begin
    };
    assert!(calls > 6, "files, the directory and the manifest: {calls}");
    let mut outcomes = [0, 0];
    for call in 0..calls {
        for keep in [
            Keep::Nothing,
            Keep::All,
            Keep::Prefix(call),
            Keep::Torn(call),
        ] {
            let machine = fork();
            let (db, _) = machine.open(by_scans());
            db.sync().unwrap();
            pay_for_all(&db);
            let plan = plan(&db);
            machine.cut_power_after(call);
            let committed = db.0.engine.run_plan(&plan).is_ok();
            let after = Machine {
                disk: machine.disk.power_cut(keep),
                seed: begun.seed,
            };
            after.check();
            let (db, _) = after.open(by_scans());
            all_the_same(&db, &model, KEYS);
            let (all, apart) = tables(&db);
            assert!(apart == 0 || apart == all, "cut at {call}, {keep:?}");
            assert!(apart == 0 || !committed, "cut at {call}, {keep:?}");
            outcomes[usize::from(apart == 0)] += 1;
            db.close().unwrap();
        }
    }
    assert!(outcomes.iter().all(|n| *n > 0), "{outcomes:?}");
}
