//! Range deletes in the tables, in the log, merged, damaged and missing. Every byte of a database
//! with some is damaged in `unikv-sim/tests/damage.rs`.

use crate::base::keys::{FileNumber, FileUid, SeqNo};
use crate::engine::tests::common::{key, put, rewrite_manifest};
use crate::engine::tests::{Machine, Model, small};
use crate::record::walk::FrameWalk;
use crate::vfs::file_store::FileStore;
use crate::vfs::{Access, Vfs};
use crate::{Batch, Db, KeyspaceOptions, Options, RepairOptions, RepairReport, RepairTrust};
use std::path::{Path, PathBuf};

fn delete(db: &Db, model: &mut Model, start: u32, end: u32) {
    db.delete_range(key(start)..key(end)).unwrap();
    model.retain(|k, _| !(key(start) <= *k && *k < key(end)));
}

/// A closed database with range deletes that are merged, in tables, in tables of nothing else, and
/// in the log.
fn database(seed: u64) -> (Machine, Model) {
    let machine = Machine::new(seed);
    let mut model = Model::new();
    let (db, _) = machine.open(small());
    (0..60).for_each(|i| put(&db, &mut model, i, 1));
    delete(&db, &mut model, 3, 6);
    db.compact().unwrap();
    put(&db, &mut model, 12, 2);
    delete(&db, &mut model, 10, 20);
    put(&db, &mut model, 15, 2);
    db.flush().unwrap();
    delete(&db, &mut model, 22, 25);
    delete(&db, &mut model, 23, 28);
    db.flush().unwrap();
    put(&db, &mut model, 16, 3);
    put(&db, &mut model, 24, 3);
    delete(&db, &mut model, 30, 40);
    put(&db, &mut model, 35, 3);
    db.close().unwrap();
    (machine, model)
}

fn repaired(machine: &Machine, options: &RepairOptions) -> (RepairReport, Model) {
    let report = Db::repair("/db", "/new", &options.clone().env(machine.env())).unwrap();
    let db = Db::open("/new", Options::default().env(machine.env())).unwrap();
    let pairs = db.iter().map(|pair| {
        let (key, value) = pair.unwrap();
        (key.to_vec(), value.to_vec())
    });
    let pairs = pairs.collect();
    db.close().unwrap();
    (report, pairs)
}

fn files(machine: &Machine, ending: &str) -> Vec<PathBuf> {
    let names = machine.disk.file_names().into_iter();
    let is = |path: &PathBuf| path.starts_with("/db") && path.to_string_lossy().ends_with(ending);
    names.filter(is).collect()
}

fn lose_manifest(machine: &Machine) {
    for path in machine.disk.file_names() {
        let name = path.file_name().unwrap().to_string_lossy().into_owned();
        if name == "CURRENT" || name.starts_with("MANIFEST") {
            machine.disk.remove(&path).unwrap();
        }
    }
}

/// The range tombstones of a record file: where each begins, and its number.
fn tombstones_in(machine: &Machine, path: &Path) -> Vec<(u64, SeqNo)> {
    let bytes = machine.disk.read_file(path).unwrap();
    let uid = FileUid(u64::from_le_bytes(bytes[48..56].try_into().unwrap()));
    let number = FileNumber(u64::from_le_bytes(bytes[56..64].try_into().unwrap()));
    let database = crate::base::keys::DatabaseId(bytes[32..48].try_into().unwrap());
    let store = FileStore::new(machine.env(), "/db".into(), database, 4);
    let file = store.data_file(path.to_owned(), number, uid, Access::Sequential);
    let mut frames = FrameWalk::new(&file, bytes.len() as u64);
    let mut found = Vec::new();
    while let Some(walked) = frames.next().unwrap() {
        if let Some(range) = walked.frame.and_then(|frame| frame.range) {
            found.push((walked.offset, range.seq));
        }
    }
    found
}

#[test]
fn range_deletes_hold_in_the_salvaged_database() {
    let (machine, model) = database(1);
    let (report, pairs) = repaired(&machine, &RepairOptions::default());
    assert_eq!(report.trust, RepairTrust::Manifest);
    assert!(report.is_complete(), "{report:#?}");
    assert_eq!(pairs, model);
}

#[test]
fn they_hold_without_a_manifest() {
    for include in [false, true] {
        let (machine, model) = database(2);
        lose_manifest(&machine);
        let options = RepairOptions::default().include_uncertain(include);
        let (report, pairs) = repaired(&machine, &options);
        assert_eq!(report.trust, RepairTrust::Files);
        assert_eq!(pairs, model, "{report:#?}");
        assert_eq!(report.lost_range_count, 0, "{report:#?}");
    }
}

#[test]
fn without_the_log_those_of_the_tables_hold() {
    let (machine, mut model) = database(3);
    for path in files(&machine, ".wal") {
        machine.disk.remove(&path).unwrap();
    }
    let (report, pairs) = repaired(&machine, &RepairOptions::default());
    assert!(!report.log.gaps.is_empty());
    model.remove(&key(24));
    model.insert(key(16), Vec::new());
    let expected = model.keys().filter(|k| **k != key(16));
    let saved = pairs.keys().filter(|k| !(key(30) <= **k && **k < key(40)));
    assert!(saved.eq(expected.filter(|k| **k != key(35))), "{report:#?}");
}

/// Each tombstone of each table is damaged in turn.
#[test]
fn what_a_damaged_tombstone_may_have_deleted_is_in_doubt() {
    let (machine, model) = database(4);
    let mut damaged = 0;
    for path in files(&machine, ".rec") {
        for (offset, _) in tombstones_in(&machine, &path) {
            damaged += 1;
            for at in [5, 36] {
                for manifest in [true, false] {
                    let (machine, _) = database(4);
                    machine.disk.flip_bit(&path, (offset + at) * 8);
                    if !manifest {
                        lose_manifest(&machine);
                    }
                    let (report, pairs) = repaired(&machine, &RepairOptions::default());
                    let fault = report
                        .files
                        .iter()
                        .find(|file| file.name.ends_with(".rec") && file.fault_count > 0);
                    let fault = fault.expect("a fault");
                    assert_eq!(Path::new("/db").join(&fault.name), path);
                    // With a manifest it is known that the first table is merged.
                    let merged = manifest && damaged == 1;
                    for (k, value) in &model {
                        assert_eq!(pairs.get(k), Some(value), "{report:#?}");
                    }
                    let stale = pairs.keys().filter(|k| !model.contains_key(*k)).count() as u64;
                    assert!(report.in_doubt >= stale, "{report:#?}");
                    let is_listed = |k: &Vec<u8>| {
                        report.lost_ranges.iter().any(|range| {
                            range.from[..] <= k[..] && range.to.as_ref().unwrap()[..] > k[..]
                        })
                    };
                    let mut resurrected = pairs.keys().filter(|k| !model.contains_key(*k));
                    assert!(resurrected.all(is_listed), "{report:#?}");
                    assert_eq!(report.lost_range_count == 0, merged, "{report:#?}");
                }
            }
        }
    }
    assert!(damaged >= 3, "{damaged}");
}

/// A table with tombstones is missing as a whole; one has nothing else.
#[test]
fn a_missing_table_leaves_its_span_in_doubt() {
    let (machine, _) = database(5);
    let with_ranges: Vec<PathBuf> = files(&machine, ".rec")
        .into_iter()
        .filter(|path| !tombstones_in(&machine, path).is_empty())
        .collect();
    assert!(with_ranges.len() >= 2);
    for path in with_ranges.iter().rev().take(2) {
        let (machine, model) = database(5);
        machine.disk.remove(path).unwrap();
        let (report, pairs) = repaired(&machine, &RepairOptions::default());
        let resurrected = pairs.keys().filter(|k| !model.contains_key(*k)).count() as u64;
        assert!(
            resurrected > 0 && report.in_doubt >= resurrected,
            "{report:#?}"
        );
        assert!(report.lost_range_count > 0 && !report.is_complete());
    }
}

/// A batch with a large value that is lost is left out, its range delete with it.
#[test]
fn a_batch_that_is_left_out_leaves_what_it_deleted_in_doubt() {
    for partial in [false, true] {
        let machine = Machine::new(6);
        let mut model = Model::new();
        let (db, _) = machine.open(small());
        (0..20).for_each(|i| put(&db, &mut model, i, 1));
        db.compact().unwrap();
        let before = files(&machine, ".rec");
        let mut batch = Batch::new();
        let large = vec![7; 3000];
        batch.put("large", &large).delete_range(key(5)..key(9));
        db.write(&batch).unwrap();
        db.close().unwrap();
        let large = files(&machine, ".rec")
            .into_iter()
            .find(|path| !before.contains(path));
        machine
            .disk
            .remove(&large.expect("a file of the large value"))
            .unwrap();
        let options = RepairOptions::default().partial_batches(partial);
        let (report, pairs) = repaired(&machine, &options);
        assert_eq!(report.log.batches_dropped, 1);
        let left = (5..9).filter(|i| pairs.contains_key(&key(*i))).count() as u64;
        let expected = if partial { 0 } else { 4 };
        assert_eq!((left, report.in_doubt), (expected, expected), "{report:#?}");
        assert_eq!(report.lost_range_count, u64::from(!partial), "{report:#?}");
        assert_eq!(report.lost, 1);
    }
}

/// A crash has left a table that its flush did not list; then its log was lost.
#[test]
fn what_stands_only_in_a_table_that_nothing_lists_is_in_doubt() {
    let machine = Machine::new(7);
    let mut model = Model::new();
    let (db, _) = machine.open(small());
    (0..20).for_each(|i| put(&db, &mut model, i, 1));
    db.compact().unwrap();
    let before = machine.disk.process_kill();
    delete(&db, &mut model, 5, 9);
    db.flush().unwrap();
    let listed: Vec<PathBuf> = files(&machine, ".rec");
    drop(db);
    let tables: Vec<_> = listed
        .iter()
        .filter(|path| before.read_file(path).is_none())
        .map(|path| (path.clone(), machine.disk.read_file(path).unwrap()))
        .collect();
    assert_eq!(tables.len(), 1);
    let mut machine = Machine::new(7);
    machine.disk = before;
    tables
        .iter()
        .for_each(|(path, bytes)| machine.disk.write_file(path, bytes));
    let (report, pairs) = repaired(&machine, &RepairOptions::default());
    assert_eq!(pairs.len(), 20, "nothing says that it was written");
    assert_eq!(
        (report.in_doubt, report.lost_range_count),
        (4, 1),
        "{report:#?}"
    );
}

#[test]
fn keys_of_another_keyspace_are_not_concerned() {
    for manifest in [true, false] {
        let machine = Machine::new(8);
        let (db, _) = machine.open(small());
        let other = db.keyspace("other", KeyspaceOptions::default()).unwrap();
        for i in 0..10 {
            db.put(key(i), "of default").unwrap();
            other.put(key(i), "of other").unwrap();
        }
        db.delete_range(..).unwrap();
        db.flush().unwrap();
        other.delete_prefix("key0003").unwrap();
        db.put("last", "of default").unwrap();
        db.close().unwrap();
        if !manifest {
            lose_manifest(&machine);
        }
        let to = (&machine.env(), "/db", "/new");
        let report = Db::repair(to.1, to.2, &RepairOptions::default().env(to.0.clone())).unwrap();
        assert_eq!(report.saved, 10, "{report:#?}");
        let db = Db::open("/new", Options::default().env(machine.env())).unwrap();
        assert_eq!(db.iter().count(), 1);
        let names = db.keyspaces();
        let name = names.iter().find(|name| *name != "default").unwrap();
        let other = db.keyspace(name, KeyspaceOptions::default()).unwrap();
        assert_eq!(other.iter().count(), 9);
        assert_eq!(other.get(key(3)).unwrap(), None);
    }
}

/// The newest value is lost, and a range delete stands between it and an older one.
#[test]
fn a_value_from_before_a_range_delete_does_not_stand_in_for_a_lost_one() {
    let machine = Machine::new(9);
    let mut model = Model::new();
    let (db, _) = machine.open(small());
    put(&db, &mut model, 1, 1);
    db.flush().unwrap();
    delete(&db, &mut model, 0, 5);
    put(&db, &mut model, 1, 2);
    db.flush().unwrap();
    db.close().unwrap();
    let newest = files(&machine, ".rec").pop().unwrap();
    machine.disk.flip_bit(&newest, (96 + 60) * 8);
    let options = RepairOptions::default().include_uncertain(true);
    let (report, pairs) = repaired(&machine, &options);
    assert_eq!(
        (report.lost, report.uncertain, pairs.len()),
        (1, 0, 0),
        "{report:#?}"
    );
}

/// The manifest says nothing of tombstones that are there, or of others.
#[test]
fn a_list_that_is_not_what_stands_in_the_file_leaves_doubt() {
    let (machine, model) = database(10);
    drop(rewrite_manifest(&machine, |edit| {
        for ranges in edit
            .record_files
            .iter_mut()
            .filter_map(|meta| meta.ranges.as_mut())
        {
            ranges.count += 1;
        }
    }));
    let (report, pairs) = repaired(&machine, &RepairOptions::default());
    assert_eq!(pairs, model, "those that are there hold");
    assert!(report.lost_range_count > 0, "{report:#?}");
}
