//! What `unikv-sim/tests/repair.rs`, which damages whole databases, does not reach.

use super::*;
use crate::Db;
use crate::Tuning;
use crate::base::keys::FileNumber;
use crate::base::sync::Mutex;
use crate::engine::tests::common::{delete, key, put, rewrite_manifest};
use crate::engine::tests::{Machine, Model, same, small};
use crate::version::edit::VersionEdit;
use crate::vfs::sim::{Fault, Op, SimVfs};
use crate::vfs::{Runtime, Vfs};
use crate::{ErrorKind, RepairTrust};
use std::path::PathBuf;
use std::sync::Arc;

mod torn_manifest;
mod without_manifest;

/// A closed database with key tables, value logs, tables and a log.
fn database(seed: u64) -> (Machine, Model) {
    let machine = Machine::new(seed);
    let mut model = Model::new();
    let (db, _) = machine.open(small());
    (0..60).for_each(|i| put(&db, &mut model, i, 1));
    db.compact().unwrap();
    (20..30).for_each(|i| put(&db, &mut model, i, 2));
    delete(&db, &mut model, 40);
    db.flush().unwrap();
    (25..35).for_each(|i| put(&db, &mut model, i, 3));
    db.close().unwrap();
    (machine, model)
}

fn repaired(machine: &Machine) -> Result<RepairReport> {
    Db::repair("/db", "/new", &RepairOptions::default().env(machine.env()))
}

fn salvaged(machine: &Machine) -> Db {
    Db::open("/new", Options::default().env(machine.env())).unwrap()
}

/// The files of the damaged database whose names end so, in the order of their numbers.
fn files(machine: &Machine, ending: &str) -> Vec<PathBuf> {
    let names = machine.disk.file_names().into_iter();
    let is = |path: &PathBuf| path.starts_with("/db") && path.to_string_lossy().ends_with(ending);
    names.filter(is).collect()
}

fn lose_manifest(machine: &Machine) {
    for path in files(machine, "") {
        let name = path.file_name().unwrap().to_string_lossy().into_owned();
        if name == "CURRENT" || name.starts_with("MANIFEST") {
            machine.disk.remove(&path).unwrap();
        }
    }
}

fn left_in_target(disk: &SimVfs) -> usize {
    let files = disk.file_names();
    files.iter().filter(|path| path.starts_with("/new")).count()
}

#[test]
fn options_that_cannot_be_read_are_not_carried_over_and_those_of_a_newer_release_are_refused() {
    let (machine, model) = database(1);
    rewrite_manifest(&machine, |edit| edit.options = Some(vec![1, 2, 3]));
    let refused = Db::open("/db", small().env(machine.env())).unwrap_err();
    assert_eq!(refused.kind(), ErrorKind::Corruption, "{refused}");
    let checked = machine.env().check("/db").unwrap();
    assert!(!checked.is_clean(), "{checked:#?}");
    let report = repaired(&machine).unwrap();
    assert!(
        !report.options_carried && report.is_complete(),
        "{report:#?}"
    );
    same(&salvaged(&machine), &model);

    let (machine, _) = database(2);
    // A field that a reader must know, with a number that none has yet.
    let newer = vec![0xff, 0x80, 1, 0, 0, 0, 9];
    rewrite_manifest(&machine, |edit| edit.options = Some(newer));
    let refused = machine.env().check("/db").unwrap_err();
    assert_eq!(refused.kind(), ErrorKind::Incompatible, "{refused}");
    let refused = repaired(&machine).unwrap_err();
    assert_eq!(refused.kind(), ErrorKind::Incompatible, "{refused}");
    assert_eq!(left_in_target(&machine.disk), 0);
}

#[test]
fn a_file_that_another_user_keeps_to_himself_is_not_taken_for_lost() {
    let (machine, model) = database(4);
    for path in files(&machine, "") {
        let refuses = path.clone();
        machine.disk.set_look_fault(Box::new(move |call| {
            if call.op == Op::Open && call.path == refuses {
                return Fault::Fail(std::io::ErrorKind::PermissionDenied);
            }
            Fault::None
        }));
        match repaired(&machine) {
            Err(refused) => {
                assert_eq!(refused.kind(), ErrorKind::Io, "{refused}");
                assert_eq!(refused.file(), Some(&*path), "{refused}");
            }
            // It was not needed.
            Ok(report) => {
                assert!(report.is_complete(), "{}: {report:#?}", path.display());
                machine.env().destroy("/new").unwrap();
            }
        }
        assert_eq!(left_in_target(&machine.disk), 0, "{}", path.display());
    }
    machine.disk.clear_faults();
    assert!(repaired(&machine).unwrap().is_complete());
    same(&salvaged(&machine), &model);
}

#[test]
fn where_the_lock_file_is_out_of_reach_somebody_may_be_writing() {
    let (machine, model) = database(5);
    let refuse = |kind| {
        machine.disk.set_fault(Box::new(move |call| match call.op {
            Op::Lock if call.path.starts_with("/db") => Fault::Fail(kind),
            _ => Fault::None,
        }));
    };
    refuse(std::io::ErrorKind::PermissionDenied);
    let refused = repaired(&machine).unwrap_err();
    assert_eq!(refused.file(), Some(Path::new("/db/LOCK")), "{refused}");
    machine.disk.remove(Path::new("/db/LOCK")).unwrap();
    assert!(repaired(&machine).unwrap().is_complete());
    machine.env().destroy("/new").unwrap();
    refuse(std::io::ErrorKind::ReadOnlyFilesystem);
    assert!(repaired(&machine).unwrap().is_complete());
    machine.disk.clear_faults();
    same(&salvaged(&machine), &model);
}

#[test]
fn of_edits_that_contradict_each_other_the_first_ones_count() {
    let (machine, model) = database(3);
    let mut manifest = rewrite_manifest(&machine, |_| ());
    let contradicts = VersionEdit {
        dropped_record_files: vec![FileNumber(9999)],
        ..VersionEdit::default()
    };
    manifest.append(&contradicts).unwrap();
    let refused = Db::open("/db", small().env(machine.env())).unwrap_err();
    assert_eq!(refused.kind(), ErrorKind::Corruption, "{refused}");
    let report = repaired(&machine).unwrap();
    assert_eq!(report.trust, RepairTrust::ManifestPrefix);
    assert_eq!(report.lost, 0, "{report:#?}");
    same(&salvaged(&machine), &model);
}

#[test]
fn a_database_on_the_real_disk_is_copied() {
    let dir = tempfile::tempdir().unwrap();
    let (from, to) = (dir.path().join("db"), dir.path().join("new"));
    let db = Db::open(&from, Options::default()).unwrap();
    db.put(key(1), "one").unwrap();
    db.close().unwrap();
    let report = Db::repair(&from, &to, &RepairOptions::default()).unwrap();
    assert!(report.is_complete() && report.saved == 1, "{report:#?}");
    let db = Db::open(&to, Options::default()).unwrap();
    assert_eq!(db.get(key(1)).unwrap().as_deref(), Some(&b"one"[..]));
}

/// A process dies between writing the beginning of a segment over an old one and giving it its
/// name. The manifest, which knows that the old one is not needed, is lost as well.
#[test]
fn a_segment_that_has_not_got_its_name_leaves_no_gap() {
    let machine = Machine::new(7);
    let (db, _runtime) = machine.open(small().tuning(Tuning::default().memtable_bytes(4 << 10)));
    let mut keys = 0;
    let mut fill = || {
        for _ in 0..8 {
            db.put(format!("key{keys:06}"), vec![1; 300]).unwrap();
            keys += 1;
        }
        db.flush().unwrap();
    };
    fill();
    fill();
    let dead = Arc::new(Mutex::new(None));
    let (seen, disk) = (Arc::clone(&dead), machine.disk.clone());
    machine.disk.set_fault(Box::new(move |call| {
        let is_log = call.path.extension().is_some_and(|ending| ending == "wal");
        if call.op == Op::Rename && is_log {
            seen.lock().get_or_insert_with(|| disk.process_kill());
        }
        Fault::None
    }));
    fill();
    let mut machine = Machine::new(7);
    machine.disk = dead
        .lock()
        .take()
        .expect("a segment written over an old one");
    lose_manifest(&machine);
    let report = repaired(&machine).unwrap();
    assert!(report.log.gaps.is_empty(), "{report:#?}");
    assert_eq!(report.saved, keys, "{report:#?}");
    let unnamed = report.files.iter().filter(|file| file.ignored.is_some());
    assert_eq!(unnamed.count(), 1, "{report:#?}");
}

#[test]
fn what_expires_is_saved_with_its_time_and_what_has_expired_does_not_come_back() {
    use crate::{Ttl, WriteOptions};
    use std::time::Duration;
    let at = |seconds| WriteOptions::default().ttl(Duration::from_secs(seconds));
    for with_manifest in [true, false] {
        let machine = Machine::new(21);
        let (db, runtime) = machine.open(small());
        // Small and long values, merged, flushed, and in the log alone; each over an older one.
        let places = ["merged", "flushed", "in the log"];
        let key = |place: &str, len: usize, what: &str| format!("{place} {len} {what}");
        for place in places {
            for len in [10, 300, 3000] {
                for what in ["gone", "short", "long", "stays"] {
                    db.put(key(place, len, what), "before").unwrap();
                }
                db.put_with(key(place, len, "gone"), vec![1; len], at(10))
                    .unwrap();
                db.put_with(key(place, len, "short"), vec![2; len], at(100))
                    .unwrap();
                db.put_with(key(place, len, "long"), vec![3; len], at(10_000))
                    .unwrap();
                db.put(key(place, len, "stays"), vec![4; len]).unwrap();
            }
            match place {
                "merged" => db.compact().unwrap(),
                "flushed" => db.flush().unwrap(),
                _ => {}
            }
        }
        runtime.delay(Duration::from_secs(50));
        db.close().unwrap();
        if !with_manifest {
            lose_manifest(&machine);
        }
        // The machine of the repair begins at its own time: the manifest has the later one.
        let runtime = crate::vfs::sim::SimRuntime::new(21);
        runtime.delay(Duration::from_secs(if with_manifest { 0 } else { 50 }));
        let env = Env {
            vfs: Arc::new(machine.disk.clone()),
            runtime: runtime.clone(),
        };
        let report = Db::repair("/db", "/new", &RepairOptions::default().env(env.clone())).unwrap();
        assert!(report.saved >= 27, "{report:#?}");
        runtime.delay(Duration::from_secs(50));
        let db = Db::open("/new", Options::default().env(env)).unwrap();
        for place in places {
            for len in [10, 300, 3000] {
                let value = |what: &str| db.get(key(place, len, what)).unwrap();
                assert_eq!(value("gone"), None, "{place} {len} {with_manifest}");
                assert_eq!(value("long").as_deref(), Some(&vec![3; len][..]));
                assert_eq!(value("stays").as_deref(), Some(&vec![4; len][..]));
                let ttl = |what: &str| db.ttl(key(place, len, what)).unwrap();
                assert!(
                    matches!(ttl("long"), Some(Ttl::Remaining(_))),
                    "{place} {len}"
                );
                assert_eq!(ttl("stays"), Some(Ttl::Never));
                if value("short").is_some() {
                    assert!(matches!(ttl("short"), Some(Ttl::Remaining(_))));
                }
            }
        }
        runtime.delay(Duration::from_secs(60));
        for place in places {
            assert_eq!(db.get(key(place, 300, "short")).unwrap(), None);
        }
        db.close().unwrap();
        let report = machine.env().check("/new").unwrap();
        assert!(report.is_clean(), "{:#?}", report.problems);
    }
}

#[test]
fn an_unfinished_repair_is_neither_salvaged_nor_clean() {
    let (machine, _) = database(8);
    let commit_tag = std::path::Path::new("/db/REPAIRING");
    machine.disk.write_file(commit_tag, b"unikv repair");
    let refused = repaired(&machine).unwrap_err();
    assert_eq!(refused.kind(), ErrorKind::Incompatible, "{refused}");
    assert_eq!(refused.file(), Some(commit_tag));
    let refused = machine.env().check("/db").unwrap_err();
    assert_eq!(refused.kind(), ErrorKind::Incompatible, "{refused}");
    let options = crate::SecondaryOptions::default();
    let refused = Db::open_secondary("/db", options.env(machine.env())).unwrap_err();
    assert_eq!(refused.kind(), ErrorKind::Incompatible, "{refused}");
    assert_eq!(left_in_target(&machine.disk), 0);
}

#[test]
fn no_mark_is_carried_over_from_after_a_batch_that_is_left_out() {
    for parts in [false, true] {
        let machine = Machine::new(9);
        let (db, _) = machine.open(small());
        let mut lengths = [10, 5000, 20].into_iter();
        let mut of_large = Vec::new();
        for commit_tag in ["first", "second", "third"] {
            let before = files(&machine, ".rec");
            let mut batch = crate::Batch::new();
            batch.put(commit_tag, vec![7; lengths.next().unwrap()]);
            batch
                .put(format!("beside {commit_tag}"), "small")
                .set_commit_tag(commit_tag);
            db.write(&batch).unwrap();
            of_large.extend(
                files(&machine, ".rec")
                    .into_iter()
                    .filter(|path| !before.contains(path)),
            );
        }
        drop(db);
        assert_eq!(of_large.len(), 1, "{of_large:?}");
        machine.disk.remove(&of_large[0]).unwrap();
        let options = RepairOptions::default().partial_batches(parts);
        let report = Db::repair("/db", "/new", &options.clone().env(machine.env())).unwrap();
        assert_eq!(report.log.batches_dropped, 1, "{report:#?}");
        assert_eq!(report.commit_tag.as_deref(), Some(&b"first"[..]));
    }
}
