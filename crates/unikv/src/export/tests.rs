use super::format::{BLOCK_HEADER_LEN, ENTRIES_BYTES, LARGE_BYTES};
use super::*;
use crate::base::file_header::HEADER_LEN;
use crate::engine::tests::{Machine, Model, churn, same, small};
use crate::testing::golden;
use crate::vfs::sim::{Fault, Keep, SimRuntime, SimVfs};
use crate::vfs::{Runtime, Vfs};
use crate::{ErrorKind, Expiry, Options, Ttl};
use rand::rngs::SmallRng;
use rand::{Rng, SeedableRng};
use std::collections::BTreeMap;
use std::io::ErrorKind as IoKind;
use std::ops::Bound;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

/// A value and how many seconds after the beginning it expires.
type Full = BTreeMap<Vec<u8>, (Vec<u8>, Option<u64>)>;

const PATH: &str = "/exports/fruit";

fn env(disk: &SimVfs) -> Env {
    Env {
        vfs: Arc::new(disk.clone()),
        runtime: SimRuntime::new(5),
    }
}

fn export_file(disk: &SimVfs) -> crate::Result<ExportFile> {
    env(disk).open_export(PATH)
}

fn machine(seed: u64) -> Machine {
    let machine = Machine::new(seed);
    machine.disk.create_dir_all(Path::new("/exports")).unwrap();
    machine
}

fn value(rng: &mut SmallRng) -> Vec<u8> {
    let most = match rng.random_range(0..60) {
        0 => 3 << 20,
        1..4 => 2 * LARGE_BYTES,
        4..8 => ENTRIES_BYTES,
        8..40 => 500,
        _ => 4,
    };
    let len = match rng.random_range(0..8) {
        0 => most,
        1 => most - 1,
        _ => rng.random_range(0..most),
    };
    let fill: u8 = rng.random();
    (0..len)
        .map(|i: usize| fill ^ (i * i % 251) as u8)
        .collect()
}

fn key(rng: &mut SmallRng) -> Vec<u8> {
    let len = match rng.random_range(0..40) {
        0 => 65_536,
        1 => 0,
        2..4 => 3000,
        _ => 5,
    };
    (0..len).map(|_| rng.random_range(97..103)).collect()
}

/// Changes a keyspace at random, as the model says.
fn change(space: &Keyspace, full: &mut Full, rng: &mut SmallRng, now_s: u64) {
    let key = match rng.random_range(0..3) {
        0 => full.keys().next_back().cloned().unwrap_or_default(),
        _ => key(rng),
    };
    match rng.random_range(0..6) {
        0 => {
            space.delete(&key).unwrap();
            full.remove(&key);
        }
        1 if !full.is_empty() => {
            let end = [&key[..key.len().min(4)], b"z"].concat();
            space.delete_range(&key[..]..&end[..]).unwrap();
            full.retain(|k, _| *k < key || *k >= end);
        }
        expires => {
            let value = value(rng);
            let ttl = (expires == 2 || expires == 1).then(|| rng.random_range(1..100));
            let lives = ttl.map_or(Duration::MAX, Duration::from_secs);
            let options = crate::WriteOptions::default().ttl(lives);
            space.put_with(&key, &value, options).unwrap();
            full.insert(key, (value, ttl.map(|ttl| now_s + ttl)));
        }
    }
}

fn assert_holds(space: &Keyspace, full: &Full, now_s: u64) {
    let snapshot = space.snapshot();
    let mut found = snapshot.iter();
    let lives = |(_, (_, until)): &(&Vec<u8>, &(_, Option<u64>))| until.is_none_or(|s| s > now_s);
    for (key, (value, until)) in full.iter().filter(lives) {
        let (k, v) = found.next().unwrap().unwrap();
        assert!(
            k == key && v == value,
            "{} bytes of {}",
            v.len(),
            value.len()
        );
        match (until, snapshot.ttl(key).unwrap().unwrap()) {
            (None, left) => assert_eq!(left, Ttl::Never),
            // Calls take some milliseconds of the machine's time.
            (Some(until), Ttl::Remaining(left)) => {
                let seconds = left.as_secs_f64();
                assert!((seconds - (until - now_s) as f64).abs() < 1.0, "{seconds}");
            }
            (Some(_), Ttl::Never) => panic!("it never expires"),
        }
    }
    assert!(found.next().is_none());
}

fn within(full: &Full, range: &(Bound<Vec<u8>>, Bound<Vec<u8>>)) -> Full {
    let within = full.range(range.clone());
    within.map(|(k, v)| (k.clone(), v.clone())).collect()
}

#[test]
fn what_is_exported_is_imported_as_it_was() {
    const SECOND: Duration = Duration::from_secs(1);
    let (mut records, mut large) = (0, 0);
    for seed in 0..8 {
        let machine = machine(seed);
        let mut rng = SmallRng::seed_from_u64(seed);
        let (db, runtime) = machine.open(small().memory_budget(8 << 20));
        let space = db.keyspace("from", KeyspaceOptions::default()).unwrap();
        let mut full = Full::new();
        let mut now_s = 0;
        for _ in 0..60 {
            change(&space, &mut full, &mut rng, now_s);
            // A writer that is slowed takes time of the machine's.
            db.wait_until_idle().unwrap();
            if rng.random_range(0..10) == 0 {
                runtime.delay(SECOND);
                now_s += 1;
            }
        }
        let range = match seed % 3 {
            0 => (Bound::Unbounded, Bound::Unbounded),
            1 => (
                Bound::Excluded(b"b".to_vec()),
                Bound::Included(b"e".to_vec()),
            ),
            _ => (
                Bound::Included(b"bc".to_vec()),
                Bound::Excluded(b"f".to_vec()),
            ),
        };
        let snapshot = space.snapshot();
        let expected = within(&full, &range);
        let living = expected
            .values()
            .filter(|(_, until)| until.is_none_or(|s| s > now_s));
        let living = living.count() as u64;
        // What comes later is not in it.
        for _ in 0..5 {
            change(&space, &mut full, &mut rng, now_s);
        }
        let made = snapshot.export(range, PATH).unwrap();
        assert_eq!(made.records, living);
        let export = export_file(&machine.disk).unwrap();
        assert_eq!(export.verify().unwrap(), made);
        assert_eq!((export.keyspace(), export.seq()), ("from", made.seq));
        records += made.records;
        large += expected
            .values()
            .filter(|(v, _)| v.len() >= LARGE_BYTES)
            .count();
        // In the same database and in another one, whose usual time to live is none of the export.
        let hour = KeyspaceOptions::default().default_ttl(3600 * SECOND);
        let other = Machine::new(seed + 100);
        let (elsewhere, other_runtime) = other.open(small().memory_budget(8 << 20));
        other_runtime.delay(Duration::from_secs(now_s));
        for db in [&db, &elsewhere] {
            let to = db.keyspace("to", hour.clone()).unwrap();
            to.put("zz", "stays").unwrap();
            let mut held = expected.clone();
            held.retain(|_, (_, until)| until.is_none_or(|s| s > now_s));
            if let Some((key, _)) = held.first_key_value() {
                to.put(key, "before").unwrap();
            }
            let stays = (b"stays".to_vec(), Some(now_s + 3600));
            held.insert(b"zz".to_vec(), stays);
            assert_eq!(to.import(&export).unwrap(), made);
            assert_holds(&to, &held, now_s);
        }
        elsewhere.close().unwrap();
        let disk = other.disk.power_cut(Keep::Nothing);
        let (elsewhere, _runtime) = Machine { disk, seed: 1 }.open(small());
        let to = elsewhere.find_keyspace("to").unwrap();
        assert_eq!(to.iter().count() as u64, living + 1);
    }
    assert!(records > 60 && large > 2, "{records} {large}");
}

/// A database with something to export, and what that is.
fn story(seed: u64) -> (Machine, Db, Arc<SimRuntime>, Model) {
    let machine = machine(seed);
    let (db, runtime) = machine.open(small());
    let (mut model, mut rng) = (Model::new(), SmallRng::seed_from_u64(seed));
    churn(&db, &mut model, &mut rng, 200);
    let large = vec![7; LARGE_BYTES + 1];
    db.put("large", &large).unwrap();
    model.insert(b"large".to_vec(), large);
    (machine, db, runtime, model)
}

/// A new database that has imported, or not.
fn import(disk: &SimVfs) -> (Db, crate::Result<Export>) {
    let (db, _runtime) = Machine {
        disk: SimVfs::new(),
        seed: 3,
    }
    .open(small());
    let imported = export_file(disk).and_then(|export| db.import(&export));
    (db, imported)
}

/// The n-th call from now on meets the fault. True once it has.
fn arm(disk: &SimVfs, nth: u64, fault: Fault) -> Arc<AtomicBool> {
    let met = Arc::new(AtomicBool::new(false));
    let (seen, at) = (Arc::clone(&met), disk.calls() + nth);
    disk.set_fault(Box::new(move |call| {
        if call.index != at {
            return Fault::None;
        }
        seen.store(true, Ordering::Relaxed);
        fault
    }));
    met
}

fn keeps(nth: u64) -> [Keep; 6] {
    let (prefix, sectors) = (Keep::Prefix(nth), Keep::Sectors(nth));
    let (torn, first) = (Keep::Torn(nth), Keep::First(nth % 7));
    [Keep::Nothing, Keep::All, prefix, sectors, torn, first]
}

#[test]
fn an_export_that_is_interrupted_is_not_there_or_whole() {
    let faults = [IoKind::Other, IoKind::StorageFull].map(Fault::Fail);
    for fault in [Fault::PowerCut].into_iter().chain(faults) {
        let mut met_at = 0;
        for nth in 0.. {
            let (machine, db, _runtime, model) = story(1);
            db.flush().unwrap();
            let met = arm(&machine.disk, nth, fault);
            let made = db.export(.., PATH);
            machine.disk.clear_faults();
            let met = met.load(Ordering::Relaxed);
            let is_made = made.is_ok();
            assert!(is_made || met, "{made:?}");
            if let Err(error) = made {
                assert!(error.file().is_some(), "{error}");
            }
            for keep in keeps(nth) {
                let disk = machine.disk.power_cut(keep);
                let (found, imported) = import(&disk);
                match imported {
                    Ok(_) => same(&found, &model),
                    Err(error) => {
                        assert!(!is_made, "{nth}: {error}");
                        assert_eq!(
                            error.kind(),
                            ErrorKind::Io,
                            "{nth}: it is not there: {error}"
                        );
                        same(&found, &Model::new());
                    }
                }
                // The next one works, and leaves nothing else.
                let (db, _runtime) = Machine {
                    disk: disk.clone(),
                    seed: 2,
                }
                .open(small());
                if export_file(&disk).is_err() {
                    db.export(.., PATH).unwrap();
                    assert_eq!(disk.list(Path::new("/exports")).unwrap(), ["fruit"]);
                }
            }
            if !met {
                break;
            }
            met_at += 1;
        }
        assert!(met_at >= 5, "{met_at}");
    }
}

#[test]
fn an_import_that_is_interrupted_has_stored_nothing_or_all() {
    let (from, db, _runtime, model) = story(2);
    db.export(.., PATH).unwrap();
    let bytes = from.disk.read_file(Path::new(PATH)).unwrap();
    let faults = [IoKind::Other, IoKind::StorageFull].map(Fault::Fail);
    for fault in [Fault::PowerCut].into_iter().chain(faults) {
        let (mut none, mut all) = (0, 0);
        for nth in 0.. {
            let machine = machine(4);
            machine.disk.write_file(Path::new(PATH), &bytes);
            let (db, runtime) = machine.open(small());
            db.put("before", "1").unwrap();
            db.sync().unwrap();
            let before = Model::from([(b"before".to_vec(), b"1".to_vec())]);
            let mut after = model.clone();
            after.extend(before.clone());
            let export = export_file(&machine.disk).unwrap();
            let met = arm(&machine.disk, nth, fault);
            let imported = db.import(&export);
            machine.disk.clear_faults();
            let met = met.load(Ordering::Relaxed);
            for keep in keeps(nth) {
                let disk = machine.disk.power_cut(keep);
                let (db, _runtime) = Machine { disk, seed: 2 }.open(small());
                let is_all = db.get("large").unwrap().is_some();
                assert!(is_all || imported.is_err());
                same(&db, if is_all { &after } else { &before });
                *(if is_all { &mut all } else { &mut none }) += 1;
            }
            drop((db, runtime));
            if !met {
                break;
            }
        }
        assert!(none > 5 && all > 5, "{none} {all}");
    }
}

#[test]
fn every_damaged_byte_and_every_cut_is_found() {
    let machine = machine(5);
    let (db, _runtime) = machine.open(small());
    let space = db.keyspace("space", KeyspaceOptions::default()).unwrap();
    let mut ingest = space.ingest().unwrap();
    ingest.put("apple", "red").unwrap();
    let at = std::time::UNIX_EPOCH + Duration::from_secs(1 << 33);
    ingest
        .put_expiring("banana", "yellow", Expiry::At(at))
        .unwrap();
    ingest.put("large", vec![3; LARGE_BYTES + 700]).unwrap();
    ingest.put("quince", "").unwrap();
    ingest.commit().unwrap();
    let made = space.export(.., PATH).unwrap();
    let good = machine.disk.read_file(Path::new(PATH)).unwrap();
    assert_eq!(good.len() as u64, made.file_bytes);
    let target = db.keyspace("target", KeyspaceOptions::default()).unwrap();
    // It is refused for what stands from `from` on.
    let refuse = |bytes: &[u8], from: usize, what: &dyn std::fmt::Display| {
        machine.disk.write_file(Path::new(PATH), bytes);
        let imported = export_file(&machine.disk).and_then(|export| target.import(&export));
        let error = imported.expect_err("it is damaged");
        assert_eq!(error.kind(), ErrorKind::Corruption, "{what}: {error}");
        let place = (error.file(), error.offset());
        let expected = (Some(Path::new(PATH)), Some(from as u64));
        assert_eq!(place, expected, "{what}: {error}");
        let text = error.to_string();
        let is_said = text.contains(PATH) && text.contains(&format!("offset {from}"));
        assert!(is_said, "{what}: {text}");
    };
    let (head, rest) = blocks(&good);
    // Where the blocks begin, and the last of them ends.
    let mut begins = vec![head.len()];
    for block in &rest {
        begins.push(begins[begins.len() - 1] + block.len());
    }
    let begin_of = |at: usize| begins.iter().copied().rfind(|begin| *begin <= at);
    // All of what is not the middle of the large value.
    let is_edge = |at: usize| at < 2000 || at + 2000 > good.len() || at.is_multiple_of(9973);
    for at in (0..good.len()).filter(|at| is_edge(*at)) {
        let from = begin_of(at).unwrap_or(0);
        for change in [1, 0x80, 0xff] {
            let mut bytes = good.clone();
            bytes[at] ^= change;
            refuse(&bytes, from, &format!("{change:#x} at {at}"));
        }
        refuse(&good[..at], from, &format!("cut at {at}"));
    }
    for more in [&b"\0"[..], &good] {
        refuse(&[&good, more].concat(), good.len(), &"it goes on");
    }
    // A block that is left out, and two in another order.
    for leave_out in 0..rest.len() {
        let mut left = rest.clone();
        left.remove(leave_out);
        let left = [head.to_vec(), left.concat()].concat();
        refuse(&left, begins[leave_out], &leave_out);
        let mut turned = rest.clone();
        turned.rotate_left(leave_out);
        if leave_out > 0 {
            let turned = [head.to_vec(), turned.concat()].concat();
            refuse(&turned, begins[0], &leave_out);
        }
    }
    assert_eq!(target.iter().count(), 0, "nothing was imported");
    machine.disk.write_file(Path::new(PATH), &good);
    target.import(&export_file(&machine.disk).unwrap()).unwrap();
    assert_eq!(target.iter().count(), 4);
}

/// The header, and the blocks.
fn blocks(export: &[u8]) -> (&[u8], Vec<&[u8]>) {
    let (header, mut rest) = export.split_at(HEADER_LEN);
    let mut blocks = Vec::new();
    while !rest.is_empty() {
        let len = u32::from_le_bytes(rest[4..8].try_into().unwrap()) as usize;
        let (block, after) = rest.split_at(BLOCK_HEADER_LEN + len);
        blocks.push(block);
        rest = after;
    }
    (header, blocks)
}

#[test]
fn what_cannot_be_is_refused() {
    let (machine, db, _runtime, model) = story(6);
    let kind = |result: crate::Result<Export>| result.unwrap_err().kind();
    assert_eq!(
        kind(db.export(.., "/db/export")),
        ErrorKind::InvalidArgument
    );
    assert_eq!(kind(db.export(.., "/")), ErrorKind::InvalidArgument);
    assert_eq!(kind(db.export(.., "/nowhere/export")), ErrorKind::Io);
    db.export(.., PATH).unwrap();
    assert_eq!(
        kind(db.export(.., PATH)),
        ErrorKind::InvalidArgument,
        "it is there"
    );
    let export = export_file(&machine.disk).unwrap();
    machine.disk.remove(Path::new(PATH)).unwrap();
    db.delete("large").unwrap();
    db.export(.., PATH).unwrap();
    assert_eq!(
        kind(db.import(&export)),
        ErrorKind::InvalidArgument,
        "another one"
    );
    for foreign in [&b"key\tvalue\n"[..], b"", b"UniKV"] {
        machine.disk.write_file(Path::new(PATH), foreign);
        let error = export_file(&machine.disk).unwrap_err();
        assert!(error.file().is_some(), "{error}");
    }
    let manifest = machine.disk.file_names().into_iter();
    let manifest = manifest.filter(|name| name.to_string_lossy().contains("MANIFEST"));
    for file in manifest {
        let opened = env(&machine.disk).open_export(file);
        assert_eq!(opened.unwrap_err().kind(), ErrorKind::Corruption);
    }
    // What a crash has left goes; what only looks like it stays.
    machine.disk.remove(Path::new(PATH)).unwrap();
    let left = "/exports/fruit.0123456789abcdef.unfinished";
    for name in [
        left,
        "/exports/fruit.unfinished",
        "/exports/fruits.0123456789abcdef.unfinished",
    ] {
        machine.disk.write_file(Path::new(name), b"left");
    }
    db.export(.., PATH).unwrap();
    let mut names = machine.disk.list(Path::new("/exports")).unwrap();
    names.sort();
    let others = [
        "fruit",
        "fruit.unfinished",
        "fruits.0123456789abcdef.unfinished",
    ];
    assert_eq!(names, others);
    let gone = db.keyspace("gone", KeyspaceOptions::default()).unwrap();
    let snapshot = gone.snapshot();
    gone.clone().drop_keyspace().unwrap();
    assert_eq!(
        kind(snapshot.export(.., "/exports/gone")),
        ErrorKind::NoSuchKeyspace
    );
    drop(model);
}

#[test]
fn an_ingest_in_steps_is_stored_whole_or_not_at_all() {
    let machine = machine(7);
    let (db, _runtime) = machine.open(small());
    let files = || machine.disk.file_names().len();
    let before = files();
    let mut dropped = db.ingest().unwrap();
    dropped.put("a", vec![1; 5000]).unwrap();
    dropped
        .put_reader("b", &mut &vec![2; 1 << 20][..], None)
        .unwrap();
    assert!(files() > before);
    drop(dropped);
    assert_eq!(files(), before, "it leaves nothing");
    // After an error nothing can be committed.
    let mut failed = db.ingest().unwrap();
    failed.put("b", "1").unwrap();
    let error = failed.put("a", "2").unwrap_err();
    assert_eq!(error.kind(), ErrorKind::InvalidArgument);
    assert!(failed.put("c", "3").is_err());
    assert_eq!(
        failed.commit().unwrap_err().kind(),
        ErrorKind::InvalidArgument
    );
    let mut short = db.ingest().unwrap();
    let ends_early = short.put_reader("a", &mut &b"short"[..], Some(6));
    assert_eq!(ends_early.unwrap_err().kind(), ErrorKind::Io);
    assert!(short.commit().is_err());
    assert_eq!((files(), db.iter().count()), (before, 0));
    // Short values, long ones, and removals; with a commit tag.
    db.put("gone", "1").unwrap();
    let mut ingest = db.ingest().unwrap();
    let long: Vec<u8> = (0..2 * LARGE_BYTES).map(|i| (i % 249) as u8).collect();
    ingest.delete("gone").unwrap();
    ingest.put_reader("long", &mut &long[..], None).unwrap();
    let len = Some(long.len() as u64 - 3);
    ingest.put_reader("long2", &mut &long[..], len).unwrap();
    ingest.put("short", "s").unwrap();
    ingest.put_reader("shorter", &mut &b""[..], None).unwrap();
    ingest.set_commit_tag("done").unwrap();
    assert_eq!(db.get("gone").unwrap().as_deref(), Some(&b"1"[..]));
    assert_eq!(ingest.commit().unwrap(), 5);
    assert_eq!(db.commit_tag().as_deref(), Some(&b"done"[..]));
    let model = Model::from([
        (b"long".to_vec(), long.clone()),
        (b"long2".to_vec(), long[..long.len() - 3].to_vec()),
        (b"short".to_vec(), b"s".to_vec()),
        (b"shorter".to_vec(), Vec::new()),
    ]);
    same(&db, &model);
    db.compact().unwrap();
    same(&db, &model);
    db.close().unwrap();
    machine.check();
}

#[test]
fn the_bytes_of_an_export() {
    let machine = machine(9);
    let (db, runtime) = machine.open(Options::default());
    runtime.set_wall_clock_ms(1_000_000);
    let options = KeyspaceOptions::default().inline_value_bytes(300);
    let fruit = db.keyspace("fruit", options).unwrap();
    fruit.put("apple", "red").unwrap();
    let ten = crate::WriteOptions::default().ttl(Duration::from_secs(10));
    fruit.put_with("banana", "yellow", ten).unwrap();
    fruit.put("", "").unwrap();
    fruit.export(.., PATH).unwrap();
    let bytes = machine.disk.read_file(Path::new(PATH)).unwrap();
    golden::check("export", &bytes);
    let golden = golden::load("export");
    machine.disk.write_file(Path::new(PATH), &golden);
    let export = export_file(&machine.disk).unwrap();
    assert_eq!(export.keyspace_options().inline_value_bytes, Some(300));
    assert_eq!(export.verify().unwrap().records, 3);
}

/// Opens the databases of a machine at a wall clock.
fn at(machine: &Machine, dir: &str, wall_ms: u64) -> Db {
    let runtime = SimRuntime::new(3);
    runtime.set_wall_clock_ms(wall_ms);
    let env = Env {
        vfs: Arc::new(machine.disk.clone()),
        runtime,
    };
    Db::open(dir, Options::default().env(env)).unwrap()
}

#[test]
fn an_export_under_a_clock_that_is_ahead_keeps_what_lives_under_a_right_one() {
    const HOUR: u64 = 3_600_000;
    let now_ms = 1_790_000_000_000;
    let far_ms = now_ms + 87_600 * HOUR;
    let hour = || crate::WriteOptions::default().ttl(Duration::from_millis(HOUR));
    let machine = machine(10);
    let right = at(&machine, "/db", now_ms);
    right.put_with("right", "value", hour()).unwrap();
    right.close().unwrap();
    let ahead = at(&machine, "/db", far_ms);
    assert_eq!(ahead.get("right").unwrap(), None);
    ahead.put_with("ahead", "value", hour()).unwrap();
    ahead.compact().unwrap();
    assert_eq!(ahead.export(.., PATH).unwrap().records, 2);
    ahead.close().unwrap();

    let import = |dir, wall_ms| {
        let db = at(&machine, dir, wall_ms);
        db.import(&export_file(&machine.disk).unwrap()).unwrap();
        db
    };
    let left_ms = |db: &Db, key: &str| match db.ttl(key).unwrap() {
        Some(Ttl::Remaining(left)) => left.as_millis() as u64,
        other => panic!("{key}: {other:?}"),
    };
    let at_once = import("/at once", now_ms + 1000);
    assert_eq!(left_ms(&at_once, "right"), HOUR - 1000);
    assert!(left_ms(&at_once, "ahead").abs_diff(HOUR) < 60_000);
    let later = import("/a month later", now_ms + 720 * HOUR);
    assert_eq!(later.get("right").unwrap(), None);
    // Under the same clock nothing changes.
    let same = import("/same clock", far_ms);
    assert_eq!(same.get("right").unwrap(), None);
    assert!(left_ms(&same, "ahead").abs_diff(HOUR) < 60_000);
}
