use crate::base::sync::atomic::{AtomicBool, Ordering};
use crate::engine::tests::{Machine, Model, churn, same, small};
use crate::vfs::Vfs;
use crate::vfs::sim::{Call, Fault, Keep, Op, SimRuntime, SimVfs};
use crate::{Batch, Checkpoint, Db, ErrorKind, KeyspaceOptions, Options, Ttl};
use rand::SeedableRng;
use rand::rngs::SmallRng;
use std::io::ErrorKind as IoKind;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

const DIR: &str = "/checkpoint";

/// Opens a checkpoint on `disk`, after a check.
fn open(disk: &SimVfs, dir: impl AsRef<Path>) -> Db {
    let env = || crate::vfs::Env {
        vfs: Arc::new(disk.clone()),
        runtime: SimRuntime::new(7),
    };
    let report = env().check(dir.as_ref()).unwrap();
    assert!(report.is_clean(), "{:#?}", report.problems);
    Db::open(dir, Options::default().env(env())).unwrap()
}

/// What a checkpoint says of its files is so.
fn examine(disk: &SimVfs, checkpoint: &Checkpoint) {
    for file in &checkpoint.files {
        let bytes = disk.read_file(&checkpoint.dir.join(&file.name)).unwrap();
        let checksum = crc32c::crc32c(&bytes);
        assert_eq!((bytes.len() as u64, checksum), (file.bytes, file.checksum));
    }
    let listed = disk.list(&checkpoint.dir).unwrap().len();
    assert_eq!(listed, checkpoint.files.len() + 1, "and the lock");
}

/// A key and a value that is too large for the log.
fn put_large(db: &Db, model: &mut Model, i: u32) {
    let (key, value) = (format!("large{i}").into_bytes(), vec![i as u8; 2000]);
    db.put(&key, &value).unwrap();
    model.insert(key, value);
}

#[test]
fn a_checkpoint_is_the_database_at_its_number_and_lives_by_itself() {
    let machine = Machine::new(1);
    let (db, runtime) = machine.open(small());
    let (mut model, mut rng) = (Model::new(), SmallRng::seed_from_u64(1));
    let mut taken = Vec::new();
    for round in 0..12_u32 {
        churn(&db, &mut model, &mut rng, 150);
        put_large(&db, &mut model, round % 5);
        db.write(Batch::new().set_commit_tag(round.to_string()))
            .unwrap();
        let made = db.checkpoint(format!("{DIR}{round}")).unwrap();
        assert_eq!(
            made.commit_tag.as_deref(),
            Some(round.to_string().as_bytes())
        );
        assert_eq!(made.copied_because, None);
        examine(&machine.disk, &made);
        taken.push((made, model.clone()));
        runtime.run_one();
    }
    assert!(taken[11].0.linked_bytes() > taken[11].0.copied_bytes());
    db.compact().unwrap();
    assert!(db.stats().merges > 0);
    for (made, mut model) in taken {
        let own = open(&machine.disk, &made.dir);
        same(&own, &model);
        assert_eq!(own.commit_tag(), made.commit_tag);
        assert_eq!(own.recovery().wal_cut, None);
        assert_eq!(own.options().unsorted_bytes, 16 << 10);
        churn(&own, &mut model, &mut rng, 300);
        own.compact().unwrap();
        same(&own, &model);
        own.close().unwrap();
        drop(open(&machine.disk, &made.dir));
    }
    same(&db, &model);
    db.close().unwrap();
    machine.check();
}

#[test]
fn keyspaces_expiry_and_range_deletes_are_in_it() {
    let machine = Machine::new(2);
    let (db, runtime) = machine.open(small());
    let options = KeyspaceOptions::default().default_ttl(Duration::from_secs(60));
    let space = db.keyspace("aside", options).unwrap();
    for i in 0..60_u32 {
        db.put(format!("key{i:02}"), vec![1; 100]).unwrap();
        space.put(format!("key{i:02}"), vec![2; 100]).unwrap();
    }
    db.flush().unwrap();
    db.delete_range("key10".."key50").unwrap();
    let gone = db.keyspace("gone", KeyspaceOptions::default()).unwrap();
    gone.put("key", vec![3; 2000]).unwrap();
    gone.drop_keyspace().unwrap();
    db.checkpoint(DIR).unwrap();
    space.put("key00", "later").unwrap();
    let own = open(&machine.disk, DIR);
    assert_eq!(own.iter().count(), 20);
    let its = own.keyspace("aside", KeyspaceOptions::default()).unwrap();
    assert_eq!(its.iter().count(), 60);
    assert_eq!(its.get("key00").unwrap().as_deref(), Some(&[2; 100][..]));
    assert_eq!(own.keyspaces(), db.keyspaces());
    let ttl = its.ttl("key00").unwrap();
    assert!(matches!(ttl, Some(Ttl::Remaining(_))), "{ttl:?}");
    drop((own, its));
    drop((db, runtime));
}

/// Writes, then makes a checkpoint, whose n-th call meets the fault. True: there was one.
fn play_with(
    nth: u64,
    fault: Fault,
    seed: u64,
) -> (Machine, Model, crate::Result<Checkpoint>, bool) {
    let machine = Machine::new(seed);
    let (mut model, mut rng) = (Model::new(), SmallRng::seed_from_u64(3));
    let (db, runtime) = machine.open(small());
    churn(&db, &mut model, &mut rng, 120);
    put_large(&db, &mut model, 1);
    let met = Arc::new(AtomicBool::new(false));
    let (seen, at) = (Arc::clone(&met), machine.disk.calls() + nth);
    machine.disk.set_fault(Box::new(move |call| {
        if call.index != at {
            return Fault::None;
        }
        seen.store(true, Ordering::Relaxed);
        fault
    }));
    let made = db.checkpoint(DIR);
    drop((db, runtime));
    let met = met.load(Ordering::Relaxed);
    (machine, model, made, met)
}

#[test]
fn a_power_cut_at_any_call_leaves_no_checkpoint_or_a_whole_one() {
    let (mut cuts, mut whole) = (0, 0);
    for nth in 0.. {
        let (machine, model, made, met) = play_with(nth, Fault::PowerCut, 4);
        let keeps = [
            Keep::Nothing,
            Keep::All,
            Keep::Prefix(nth),
            Keep::Sectors(nth),
        ];
        for keep in keeps.into_iter().chain([Keep::Torn(nth), Keep::First(3)]) {
            let disk = machine.disk.power_cut(keep);
            let is_there = disk.list(Path::new(DIR)).is_ok();
            assert!(is_there || !met || made.is_err(), "{keep:?} at {nth}");
            assert!(is_there || met, "it was acknowledged: {keep:?}");
            if is_there {
                whole += 1;
                same(&open(&disk, DIR), &model);
            }
            // What is left is in nobody's way.
            let machine = Machine { disk, seed: 5 };
            let (db, _runtime) = machine.open(small());
            if !is_there {
                db.checkpoint(DIR).unwrap();
                let unfinished = format!("{DIR}.unfinished");
                assert!(machine.disk.list(Path::new(&unfinished)).is_err());
            }
        }
        cuts += 1;
        if !met {
            break;
        }
    }
    assert!(cuts > 15 && whole > 6, "{cuts} {whole}");
}

#[test]
fn a_failure_of_any_call_leaves_the_database_as_it_was_and_no_checkpoint() {
    for kind in [IoKind::Other, IoKind::StorageFull] {
        for nth in 0.. {
            let (machine, model, made, met) = play_with(nth, Fault::Fail(kind), 6);
            if !met {
                made.unwrap();
                break;
            }
            let is_there = machine.disk.list(Path::new(DIR)).is_ok();
            match made {
                Ok(made) => {
                    assert!(made.copied_because.is_some() || is_there);
                    same(&open(&machine.disk.power_cut(Keep::Nothing), DIR), &model);
                }
                // Its name is there after a failed sync of the directory that has it.
                Err(_) if is_there => same(&open(&machine.disk, DIR), &model),
                Err(error) => assert!(error.file().is_some(), "{error}"),
            }
            machine.disk.clear_faults();
            let (db, _runtime) = machine.open(small());
            same(&db, &model);
        }
    }
}

#[test]
fn where_files_cannot_be_linked_they_are_copied_and_compared() {
    let machine = Machine::new(8);
    let (db, _runtime) = machine.open(small());
    let (mut model, mut rng) = (Model::new(), SmallRng::seed_from_u64(8));
    churn(&db, &mut model, &mut rng, 400);
    db.compact().unwrap();
    let across = |call: &Call<'_>| match call.op {
        Op::Link => Fault::Fail(IoKind::CrossesDevices),
        _ => Fault::None,
    };
    machine.disk.set_fault(Box::new(across));
    let made = db.checkpoint(DIR).unwrap();
    assert!(made.copied_because.is_some());
    assert_eq!(made.linked_bytes(), 0);
    examine(&machine.disk, &made);
    same(&open(&machine.disk.power_cut(Keep::Nothing), DIR), &model);
    // A damaged file is never copied as a sound one.
    let name = made.files.iter().find(|file| file.name.ends_with(".rec"));
    let path = Path::new("/db").join(&name.unwrap().name);
    assert!(machine.disk.flip_bit(&path, 8000));
    let error = db.checkpoint("/another").unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Corruption, "{error}");
    assert_eq!(error.file(), Some(&*path));
    assert!(machine.disk.list(Path::new("/another")).is_err());
    assert!(machine.disk.list(Path::new("/another.unfinished")).is_err());
}

#[test]
fn a_place_that_is_taken_is_refused() {
    let machine = Machine::new(9);
    let (db, _runtime) = machine.open(small());
    db.put("key", "value").unwrap();
    for taken in ["/db/inside", "/db", "/"] {
        let error = db.checkpoint(taken).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::InvalidArgument, "{error}");
    }
    db.checkpoint(DIR).unwrap();
    let error = db.checkpoint(DIR).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::InvalidArgument, "{error}");
    machine
        .disk
        .write_file(Path::new("/other.unfinished/notes.txt"), b"mine");
    let error = db.checkpoint("/other").unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Incompatible, "{error}");
    let notes = Path::new("/other.unfinished/notes.txt");
    assert!(machine.disk.read_file(notes).is_some());
    Db::close(db.clone()).unwrap();
    assert_eq!(
        db.checkpoint("/late").unwrap_err().kind(),
        ErrorKind::Closed
    );
}

#[test]
fn a_poisoned_log_is_begun_again_first() {
    let machine = Machine::new(10);
    let (db, runtime) = machine.open(small());
    db.put("key", "value").unwrap();
    let fails = |call: &Call<'_>| {
        let is_log = call.path.extension().is_some_and(|e| e == "wal");
        if is_log && call.op == Op::Append {
            Fault::Fail(IoKind::Other)
        } else {
            Fault::None
        }
    };
    machine.disk.set_fault(Box::new(fails));
    db.put("lost", "value").unwrap_err();
    machine.disk.clear_faults();
    let made = db.checkpoint(DIR).unwrap();
    let own = open(&machine.disk, &made.dir);
    assert_eq!(own.get("key").unwrap().as_deref(), Some(&b"value"[..]));
    assert_eq!(own.get("lost").unwrap(), None);
    drop((own, runtime));
}
