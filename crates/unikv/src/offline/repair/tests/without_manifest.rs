//! What the files alone say, and what they cannot say.

use super::*;
use crate::Tuning;
use crate::engine::tests::common::listed_by_manifest;
use crate::{Clustering, Expiry};
use std::time::{Duration, SystemTime};

#[test]
fn a_record_file_that_cannot_be_read_puts_in_doubt_what_it_may_have_overwritten() {
    let machine = Machine::new(31);
    let mut model = Model::new();
    let (db, _) = machine.open(small());
    (0..60).for_each(|i| put(&db, &mut model, i, 1));
    db.compact().unwrap();
    let before = files(&machine, ".rec");
    (20..30).for_each(|i| put(&db, &mut model, i, 2));
    db.close().unwrap();
    let (db, _) = machine.open(small());
    db.flush().unwrap();
    db.close().unwrap();
    let mut flushed = files(&machine, ".rec");
    flushed.retain(|path| !before.contains(path));
    assert_eq!(flushed.len(), 1, "{flushed:?}");
    lose_manifest(&machine);
    let mut bytes = machine.disk.read_file(&flushed[0]).unwrap();
    let sector = bytes.len().min(4096);
    bytes[..sector].fill(0);
    machine.disk.write_file(&flushed[0], &bytes);
    let report = repaired(&machine).unwrap();
    assert!(!report.is_complete(), "{report:#?}");
    assert!(report.in_doubt >= 10, "{report:#?}");
    let of_file = |range: &crate::LostRange| range.file == flushed[0];
    assert!(report.lost_ranges.iter().any(of_file), "{report:#?}");
}

/// Nothing says whether an ingested table is newer than what else there is of its keys.
#[test]
fn what_an_ingested_table_removes_is_in_doubt() {
    let mut machine = Machine::new(32);
    let mut model = Model::new();
    let (db, runtime) = machine.open(small());
    (0..60).for_each(|i| put(&db, &mut model, i, 1));
    db.compact().unwrap();
    let soon = Duration::from_millis(runtime.wall_clock_ms()) + Duration::from_secs(10);
    let soon = Expiry::At(SystemTime::UNIX_EPOCH + soon);
    let entries = [(key(5), None, Expiry::Never), (key(6), Some("gone"), soon)];
    db.ingest_sorted(entries.map(Result::Ok), None).unwrap();
    // Before it is merged.
    let disk = machine.disk.process_kill();
    drop(db);
    machine.disk = disk;
    lose_manifest(&machine);
    let env = machine.env();
    env.runtime.delay(Duration::from_secs(50));
    let report = Db::repair("/db", "/new", &RepairOptions::default().env(env.clone())).unwrap();
    let is_there = |i: u32| salvaged(&machine).get(key(i)).unwrap().is_some();
    let came_back = [5, 6].into_iter().filter(|i| is_there(*i)).count() as u64;
    assert!(report.in_doubt >= came_back, "{came_back}: {report:#?}");
    assert!(!report.is_complete());
}

/// Merges copy values into files without keys, into which several key tables point.
#[test]
fn values_whose_key_table_is_missing_are_uncertain_although_others_point_into_their_file() {
    let machine = Machine::new(33);
    let mut model = Model::new();
    let options = small().tuning(Tuning::default().key_table_bytes(1 << 10));
    let (db, _) = machine.open(options.clustering(Clustering::Automatic));
    for stamp in 1..5 {
        (0..300).for_each(|i| put(&db, &mut model, i, stamp));
        db.compact().unwrap();
        (0..300)
            .step_by(3)
            .for_each(|i| put(&db, &mut model, i, stamp + 100));
        db.compact().unwrap();
        db.collect_garbage().unwrap();
    }
    db.close().unwrap();
    let (_, listed) = listed_by_manifest(&machine);
    let logs = listed.record_files.iter().filter(|file| !file.key_section);
    let pointing = |file: FileNumber| {
        let tables = listed.key_tables.iter().map(|(_, table)| table);
        let tables = tables.filter(|table| table.refs.iter().any(|refs| refs.file == file));
        tables.map(|table| table.number).collect::<Vec<_>>()
    };
    let tables = logs
        .map(|log| pointing(log.number))
        .find(|tables| tables.len() > 2);
    let lost = tables.expect("a file into which several key tables point")[1];
    lose_manifest(&machine);
    let lost = PathBuf::from("/db").join(file_names::key_table(lost));
    machine.disk.remove(&lost).unwrap();

    let report = repaired(&machine).unwrap();
    let db = salvaged(&machine);
    let missing = model.keys().filter(|key| db.get(key).unwrap().is_none());
    let missing: Vec<&Vec<u8>> = missing.collect();
    assert!(missing.len() > 10, "{report:#?}");
    for key in missing {
        let mut uncertain = report.uncertain_keys.iter();
        assert!(
            uncertain.any(|it| it.key == key[..]),
            "{key:?}: {report:#?}"
        );
    }
    drop(db);
    let env = machine.env();
    let all = RepairOptions::default().include_uncertain(true);
    Db::repair("/db", "/all", &all.clone().env(env.clone())).unwrap();
    same(
        &Db::open("/all", Options::default().env(env)).unwrap(),
        &model,
    );
}
