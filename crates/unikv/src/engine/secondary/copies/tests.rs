//! Copies that a secondary makes while another database handle writes, on one simulated disk.

use crate::base::sync::atomic::{AtomicBool, Ordering};
use crate::engine::tests::{Machine, Model, churn, same, small};
use crate::vfs::sim::{Call, Fault, Keep, Op, SimRuntime, SimVfs};
use crate::vfs::{Env, Vfs};
use crate::{Batch, Db, ErrorKind, Options, Secondary, SecondaryOptions};
use rand::SeedableRng;
use rand::rngs::SmallRng;
use std::io::ErrorKind as IoKind;
use std::path::Path;
use std::sync::Arc;

const COPY: &str = "/copy";

fn env(disk: &SimVfs) -> Env {
    Env {
        vfs: Arc::new(disk.clone()),
        runtime: SimRuntime::new(7),
    }
}

fn follow(machine: &Machine) -> Secondary {
    Db::open_secondary("/db", SecondaryOptions::default().env(machine.env())).unwrap()
}

/// Opens a copy on `disk`, after a check.
fn open(disk: &SimVfs, dir: impl AsRef<Path>) -> Db {
    let report = env(disk).check(dir.as_ref()).unwrap();
    assert!(report.is_clean(), "{:#?}", report.problems);
    let db = Db::open(dir, Options::default().env(env(disk))).unwrap();
    assert_eq!(db.recovery().wal_cut, None);
    db
}

fn put_large(db: &Db, model: &mut Model, i: u32) {
    let (key, value) = (format!("large{i}").into_bytes(), vec![i as u8; 2000]);
    db.put(&key, &value).unwrap();
    model.insert(key, value);
}

fn delete_range(db: &Db, model: &mut Model, i: u32) {
    let (start, end) = (format!("key{i:04}"), format!("key{:04}", i + 9));
    db.delete_range(&start..&end).unwrap();
    model.retain(|key, _| !(start.as_bytes()..end.as_bytes()).contains(&&key[..]));
}

#[test]
fn a_checkpoint_of_a_secondary_is_what_it_shows_and_lives_by_itself() {
    let machine = Machine::new(21);
    let (db, runtime) = machine.open(small());
    let (mut model, mut rng) = (Model::new(), SmallRng::seed_from_u64(21));
    let secondary = follow(&machine);
    let (mut taken, mut copied) = (Vec::new(), 0);
    for round in 0..24_u32 {
        churn(&db, &mut model, &mut rng, 70);
        put_large(&db, &mut model, round % 5);
        delete_range(&db, &mut model, round * 11 % 290);
        let mut marked = Batch::new();
        if round % 3 == 0 {
            marked.put("key0000", "marked");
            model.insert(b"key0000".to_vec(), b"marked".to_vec());
        }
        db.write(marked.set_commit_tag(round.to_string())).unwrap();
        secondary.refresh().unwrap();
        let shown = model.clone();
        // What is written then is not shown, and what is removed is still open.
        churn(&db, &mut model, &mut rng, 70);
        if round % 4 == 3 {
            db.compact().unwrap();
            db.collect_garbage().unwrap();
        }
        let made = secondary.checkpoint(format!("{COPY}{round}")).unwrap();
        assert_eq!(made.seq, secondary.seq());
        assert_eq!(
            made.commit_tag.as_deref(),
            Some(round.to_string().as_bytes())
        );
        copied += u32::from(made.copied_because.is_some());
        taken.push((made, shown));
        runtime.run_one();
    }
    assert!((1..20).contains(&copied), "{copied} of 24 were copied");
    drop(secondary);
    for (made, mut model) in taken {
        // It was durable when the call returned.
        let disk = machine.disk.power_cut(Keep::Nothing);
        let own = open(&disk, &made.dir);
        same(&own, &model);
        assert_eq!(own.commit_tag(), made.commit_tag);
        churn(&own, &mut model, &mut rng, 300);
        own.compact().unwrap();
        same(&own, &model);
        own.close().unwrap();
        drop(open(&disk, &made.dir));
    }
    same(&db, &model);
    db.close().unwrap();
    machine.check();
}

#[test]
fn a_state_that_was_shown_before_is_copied_without_what_came_since() {
    let machine = Machine::new(22);
    let (db, _runtime) = machine.open(small());
    db.put("apple", "red").unwrap();
    let secondary = follow(&machine);
    let shown = secondary.follow().shown();
    db.put("apple", "green").unwrap();
    db.put("pear", "yellow").unwrap();
    // The states share a memtable.
    secondary.refresh().unwrap();
    let made = secondary.follow().checkpoint(&shown, Path::new(COPY));
    assert_eq!(made.unwrap().seq, shown.seq.0);
    let own = open(&machine.disk, COPY);
    assert_eq!(own.get("apple").unwrap().as_deref(), Some(&b"red"[..]));
    assert_eq!(own.get("pear").unwrap(), None);
}

#[test]
fn large_values_that_only_the_log_names_are_held() {
    let machine = Machine::new(23);
    let (db, _runtime) = machine.open(small());
    let mut model = Model::new();
    (0..4).for_each(|i| put_large(&db, &mut model, i));
    let secondary = follow(&machine);
    db.flush().unwrap();
    for i in 0..4 {
        db.put(format!("large{i}"), "small").unwrap();
    }
    db.compact().unwrap();
    db.collect_garbage().unwrap();
    db.wait_until_idle().unwrap();
    let records = machine.disk.file_names();
    let is_record = |path: &&std::path::PathBuf| path.extension().is_some_and(|e| e == "rec");
    assert!(records.iter().filter(is_record).count() < 4, "{records:?}");
    for (key, value) in &model {
        assert_eq!(secondary.get(key).unwrap().as_deref(), Some(&value[..]));
    }
    let made = secondary.checkpoint(COPY).unwrap();
    assert!(made.copied_because.is_some(), "{made:?}");
    same(&open(&machine.disk, COPY), &model);
}

#[test]
fn a_secondary_without_a_writer_makes_copies_too() {
    let mut machine = Machine::new(24);
    let (db, runtime) = machine.open(small());
    let (mut model, mut rng) = (Model::new(), SmallRng::seed_from_u64(24));
    churn(&db, &mut model, &mut rng, 500);
    put_large(&db, &mut model, 1);
    std::mem::forget((db, runtime));
    machine.disk = machine.disk.process_kill();
    let secondary = follow(&machine);
    secondary.checkpoint(COPY).unwrap();
    same(&open(&machine.disk.power_cut(Keep::Nothing), COPY), &model);
    // Nor does an empty database need anything in the log.
    let none = Machine::new(25);
    let (db, _runtime) = none.open(small());
    db.write(Batch::new().set_commit_tag("only a mark"))
        .unwrap();
    follow(&none).checkpoint(COPY).unwrap();
    let own = open(&none.disk, COPY);
    assert_eq!(own.commit_tag().as_deref(), Some(&b"only a mark"[..]));
    assert_eq!(own.iter().count(), 0);
}

#[test]
fn a_copy_of_a_secondary_has_no_changes_from_before_it() {
    let machine = Machine::new(29);
    let options = || Options::default().change_window_bytes(1 << 20);
    let (db, _runtime) = machine.open(options());
    let tokens: Vec<_> = (0..3_u32)
        .map(|i| {
            db.put(i.to_be_bytes(), "value").unwrap();
            if i < 2 {
                db.flush().unwrap();
            }
            db.change_token().unwrap()
        })
        .collect();
    follow(&machine).checkpoint(COPY).unwrap();
    let copy = open(&machine.disk, COPY);
    copy.put("later", "value").unwrap();
    copy.flush().unwrap();
    for token in &tokens[..2] {
        let gone = copy.changes_since(*token).map(drop).unwrap_err();
        assert_eq!(gone.kind(), ErrorKind::HistoryGone);
    }
    let mut changes = copy.changes_since(tokens[2]).unwrap();
    let what = changes.try_next().unwrap().unwrap().kind;
    assert!(format!("{what:?}").contains("later"), "{what:?}");
    assert!(changes.try_next().unwrap().is_none());
}

#[test]
fn backups_of_a_secondary_share_files_with_those_of_the_database() {
    let machine = Machine::new(26);
    let (db, _runtime) = machine.open(small());
    let (mut model, mut rng) = (Model::new(), SmallRng::seed_from_u64(26));
    let repository = env(&machine.disk).repository("/backups");
    churn(&db, &mut model, &mut rng, 600);
    db.flush().unwrap();
    let first = repository.back_up(&db).unwrap();
    let mut points = vec![(first.point.number, model.clone())];
    let secondary = follow(&machine);
    for round in 0..4 {
        churn(&db, &mut model, &mut rng, 60);
        secondary.refresh().unwrap();
        let shown = model.clone();
        if round == 2 {
            db.put("after", "it").unwrap();
            db.compact().unwrap();
            db.delete("after").unwrap();
        }
        let made = repository.back_up_secondary(&secondary).unwrap();
        assert!(made.shared_bytes > 0);
        points.push((made.point.number, shown));
    }
    for (number, model) in points {
        assert!(repository.verify(number).unwrap().is_sound());
        let disk = machine.disk.power_cut(Keep::Nothing);
        env(&disk)
            .repository("/backups")
            .restore(number, "/restored")
            .unwrap();
        same(&open(&disk, "/restored"), &model);
    }
    let inside = env(&machine.disk).repository("/db/backups");
    let error = inside.back_up_secondary(&secondary).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::InvalidArgument);
}

/// Makes a copy whose `nth` call has `fault`, on a disk where files may be gone: the machine, what
/// the copy must hold, whether it was made, and whether the fault was met.
fn play_with(nth: u64, fault: Fault) -> (Machine, Model, bool, bool) {
    let machine = Machine::new(27);
    let (db, runtime) = machine.open(small());
    let (mut model, mut rng) = (Model::new(), SmallRng::seed_from_u64(27));
    churn(&db, &mut model, &mut rng, 400);
    put_large(&db, &mut model, 1);
    let secondary = follow(&machine);
    let shown = model.clone();
    churn(&db, &mut model, &mut rng, 100);
    db.compact().unwrap();
    let met = Arc::new(AtomicBool::new(false));
    let (seen, at) = (Arc::clone(&met), machine.disk.calls() + nth);
    machine.disk.set_fault(Box::new(move |call| {
        if call.index != at {
            return Fault::None;
        }
        seen.store(true, Ordering::Relaxed);
        fault
    }));
    let made = secondary.checkpoint(COPY).is_ok();
    drop((secondary, db, runtime));
    (machine, shown, made, met.load(Ordering::Relaxed))
}

#[test]
fn a_power_cut_or_a_failure_at_any_call_leaves_no_copy_or_a_whole_one() {
    let (mut cuts, mut whole) = (0, 0);
    for nth in 0.. {
        let (machine, model, made, met) = play_with(nth, Fault::PowerCut);
        for keep in [
            Keep::Nothing,
            Keep::All,
            Keep::Sectors(nth),
            Keep::Torn(nth),
        ] {
            let disk = machine.disk.power_cut(keep);
            let is_there = disk.list(Path::new(COPY)).is_ok();
            assert!(is_there || !made, "it was acknowledged: {keep:?}");
            if is_there {
                whole += 1;
                same(&open(&disk, COPY), &model);
            }
        }
        let (machine, model, made, _) = play_with(nth, Fault::Fail(IoKind::Other));
        let is_there = machine.disk.list(Path::new(COPY)).is_ok();
        assert!(is_there || !made);
        machine.disk.clear_faults();
        if is_there {
            same(&open(&machine.disk, COPY), &model);
        }
        cuts += 1;
        if !met {
            break;
        }
    }
    assert!(cuts > 15 && whole > 4, "{cuts} {whole}");
}

#[test]
fn another_file_under_the_name_is_not_linked() {
    let machine = Machine::new(28);
    let (db, _runtime) = machine.open(small());
    let (mut model, mut rng) = (Model::new(), SmallRng::seed_from_u64(28));
    churn(&db, &mut model, &mut rng, 400);
    db.compact().unwrap();
    let secondary = follow(&machine);
    let names = machine.disk.file_names();
    let is_record = |path: &&std::path::PathBuf| path.extension().is_some_and(|e| e == "rec");
    let records: Vec<_> = names.iter().filter(is_record).collect();
    let [first, second, ..] = &records[..] else {
        panic!("{names:?}");
    };
    machine.disk.remove(first).unwrap();
    machine.disk.link(second, first).unwrap();
    let made = secondary.checkpoint(COPY).unwrap();
    let because = made.copied_because.unwrap();
    assert!(because.contains("another file"), "{because}");
    same(&open(&machine.disk, COPY), &model);
    // Of another file system everything is copied, and compared.
    let across = |call: &Call<'_>| match call.op {
        Op::Link => Fault::Fail(IoKind::CrossesDevices),
        _ => Fault::None,
    };
    machine.disk.set_fault(Box::new(across));
    let made = secondary.checkpoint("/across").unwrap();
    assert_eq!(made.linked_bytes(), 0);
    same(&open(&machine.disk, "/across"), &model);
}
