//! What an open database does about damaged files: the answers that damage does not touch stay, and
//! what is derived is made again.

use super::common::{key, rewrite_manifest, version};
use super::*;
use crate::Bytes;
use crate::inspect::Part;
use crate::vfs::Runtime;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// The parts of a file, by what they are.
fn parts(machine: &Machine, path: &Path) -> Vec<Part> {
    let mut found = Vec::new();
    machine
        .env()
        .inspect(path, &mut |part| found.push(part.clone()))
        .unwrap();
    found
}

fn files(machine: &Machine, ext: &str) -> Vec<PathBuf> {
    let mut files = machine.disk.file_names();
    files.retain(|path| path.extension().is_some_and(|e| e == ext));
    files
}

fn put_all(db: &Db, model: &mut Model, keys: impl Iterator<Item = u32>, len: usize) {
    for n in keys {
        let value = vec![n as u8; len];
        db.put(key(n), &value).unwrap();
        model.insert(key(n), value);
    }
}

/// Key sections are derived from the records before them: whatever byte of one is damaged,
/// every read and every merge gives what it gave before.
#[test]
fn a_damaged_key_section_is_made_up_for_by_the_records() {
    let options = || small().tuning(Tuning::default().block_bytes(256).partition_bytes(1 << 40));
    let machine = Machine::new(3);
    let (db, _) = machine.open(options());
    let mut model = Model::new();
    put_all(&db, &mut model, 0..60, 20);
    db.flush().unwrap();
    put_all(&db, &mut model, (0..60).step_by(3), 30);
    db.delete(key(7)).unwrap();
    model.remove(&key(7));
    let ingested: Vec<u32> = (100..140).collect();
    db.flush().unwrap();
    db.ingest_sorted(
        ingested
            .iter()
            .map(|n| crate::Result::Ok((key(*n), Some(b"in")))),
        None,
    )
    .unwrap();
    model.extend(ingested.iter().map(|n| (key(*n), b"in".to_vec())));
    db.close().unwrap();
    let pristine = machine.disk.process_kill();
    let mut seen = 0;
    for path in files(&machine, "rec") {
        let parts = parts(&machine, &path);
        let len = machine.disk.read_file(&path).unwrap().len() as u64;
        let section = parts.iter().find(|part| part.what == "block").unwrap();
        let header = 0..96;
        for offset in header.chain(section.offset..len).step_by(5) {
            let machine = Machine {
                disk: pristine.process_kill(),
                seed: 5,
            };
            assert!(machine.disk.flip_bit(&path, offset * 8 + offset % 8));
            let (db, _) = machine.open(options());
            same(&db, &model);
            db.compact().unwrap();
            same(&db, &model);
            assert_eq!(db.stats().unsorted_bytes, 0);
            db.close().unwrap();
            seen += 1;
        }
    }
    assert!(seen > 300, "{seen}");
}

/// Where neither the section of a table nor its records say what keys it has, those that can be in
/// it are an error, unless newer tables answer; the others are there.
#[test]
fn keys_of_a_table_that_cannot_be_indexed_are_an_error_and_no_others() {
    let options = || {
        small().tuning(
            Tuning::default()
                .memtable_bytes(16 << 10)
                .block_bytes(256)
                .partition_bytes(1 << 40),
        )
    };
    let machine = Machine::new(4);
    let (db, _) = machine.open(options());
    let mut model = Model::new();
    put_all(&db, &mut model, 0..10, 20);
    db.flush().unwrap();
    put_all(&db, &mut model, 20..60, 20);
    db.flush().unwrap();
    put_all(&db, &mut model, [30, 59].into_iter(), 25);
    db.flush().unwrap();
    db.close().unwrap();
    let middle = &files(&machine, "rec")[1];
    let parts = parts(&machine, middle);
    let part = |what: &str, n: usize| {
        let mut of = parts.iter().filter(|part| part.what == what);
        of.nth(n).unwrap().offset
    };
    // The first block of the keys from 20 on, and the last record.
    assert!(machine.disk.flip_bit(middle, part("block", 0) * 8));
    assert!(machine.disk.flip_bit(middle, part("record", 39) * 8));
    let (db, _) = machine.open(options());
    let mut damaged = Vec::new();
    for (key, value) in &model {
        match db.get(key) {
            Ok(found) => assert_eq!(found.as_deref(), Some(&value[..]), "{key:?}"),
            Err(error) => {
                assert_eq!(error.kind(), ErrorKind::Corruption);
                assert_eq!(error.file(), Some(middle.as_path()));
                damaged.push(key.clone());
            }
        }
    }
    assert_eq!(db.get(key(15)).unwrap(), None);
    assert!(db.get(key(19)).unwrap().is_none() && db.get(key(60)).unwrap().is_none());
    let blind = |n: u32| damaged.contains(&key(n));
    assert!(blind(20) && blind(21), "{damaged:?}");
    assert!(
        !blind(5) && !blind(30) && !blind(58) && !blind(59),
        "{damaged:?}"
    );
    // Beside the keys that are there, those that might be: nobody knows.
    assert!(db.get(b"key0020a").is_err());
    assert!(db.compact().is_err());
    // Nothing is lost: with the bytes as they were, everything is there, without another opening.
    assert!(machine.disk.flip_bit(middle, part("block", 0) * 8));
    assert!(machine.disk.flip_bit(middle, part("record", 39) * 8));
    same(&db, &model);
    assert_eq!(db.get(b"key0020a").unwrap(), None);
    drop(db);
    let (db, _) = machine.open(options());
    db.compact().unwrap();
    same(&db, &model);
    db.close().unwrap();
    machine.check();
}

/// A scan hands out everything before a damaged record, from either end, and goes on after it
/// when it is asked to.
#[test]
fn a_scan_stops_at_the_damage_and_not_before() {
    let options = || {
        small()
            .inline_value_bytes(0)
            .tuning(Tuning::default().partition_bytes(1 << 40))
    };
    for compacted in [false, true] {
        let machine = Machine::new(5);
        let (db, _) = machine.open(options());
        let mut model = Model::new();
        put_all(&db, &mut model, 0..30, 20);
        db.flush().unwrap();
        if compacted {
            db.compact().unwrap();
        }
        db.close().unwrap();
        let path = &files(&machine, "rec")[0];
        let parts = parts(&machine, path);
        let records = parts.iter().filter(|part| part.what == "record");
        let damaged = records.clone().nth(17).unwrap();
        assert!(
            machine
                .disk
                .flip_bit(path, (damaged.offset + damaged.len - 6) * 8)
        );
        let (db, _) = machine.open(options());
        let pair = |n: u32| Some((Bytes::from(key(n)), Bytes::from(vec![n as u8; 20])));
        let mut iter = db.iter();
        for n in 0..17 {
            assert_eq!(iter.next().transpose().unwrap(), pair(n));
        }
        let error = iter.next().unwrap().unwrap_err();
        assert_eq!(error.offset(), Some(damaged.offset));
        assert!(iter.next().is_none());
        iter.seek(key(18));
        for n in 18..30 {
            assert_eq!(iter.next().transpose().unwrap(), pair(n));
        }
        assert!(iter.next().is_none());
        let mut back = db.iter();
        for n in (18..30).rev() {
            assert_eq!(back.next_back().transpose().unwrap(), pair(n));
        }
        assert!(back.next_back().unwrap().is_err());
    }
}

/// Such a manifest contradicts itself. To take its word would remove the file, and what it holds.
#[test]
fn a_manifest_that_drops_the_file_of_a_table_is_refused_and_nothing_is_removed() {
    let machine = Machine::new(8);
    let (db, _) = machine.open(small());
    put_all(&db, &mut Model::new(), 0..10, 20);
    db.flush().unwrap();
    let tables = version(&db).tables();
    db.close().unwrap();
    let mut manifest = rewrite_manifest(&machine, |_| {});
    let edit = VersionEdit {
        dropped_record_files: tables.into_iter().collect(),
        ..VersionEdit::default()
    };
    assert_eq!(edit.dropped_record_files.len(), 1);
    manifest.append(&edit).unwrap();
    let before = machine.disk.file_names();
    let error = Db::open("/db", small().env(machine.env())).err().unwrap();
    assert_eq!(error.kind(), ErrorKind::Corruption, "{error}");
    assert_eq!(error.file(), Some(manifest.path()));
    assert!(error.to_string().contains("is a table and gone"), "{error}");
    assert_eq!(machine.disk.file_names(), before);
}

/// A record that no pass can move keeps its file, and no other garbage: neither do collections try
/// it again and again, nor do others make up for it.
#[test]
fn a_damaged_record_keeps_the_garbage_of_its_own_file_and_no_other() {
    const KEYS: u32 = 1000;
    let options = small()
        .inline_value_bytes(0)
        .tuning(Tuning::default().partition_bytes(1 << 40))
        .max_space_amp(1.2);
    let machine = Machine::new(9);
    let (db, runtime) = machine.open(options);
    let mut model = Model::new();
    put_all(&db, &mut model, 0..KEYS, 300);
    db.compact().unwrap();
    db.wait_until_idle().unwrap();
    let damaged = files(&machine, "rec").swap_remove(0);
    let parts = parts(&machine, &damaged);
    let record = parts.iter().find(|part| part.what == "record").unwrap();
    assert!(machine.disk.flip_bit(&damaged, (record.offset + 200) * 8));
    let damaged_len = machine.disk.read_file(&damaged).unwrap().len() as u64;
    let lost: Vec<u32> = (0..KEYS).filter(|n| db.get(key(*n)).is_err()).collect();
    assert_eq!(lost.len(), 1);

    let mut rng = SmallRng::seed_from_u64(9);
    for _ in 0..50 {
        let chosen: Vec<u32> = (0..KEYS).filter(|n| *n != lost[0]).collect();
        let chosen = chosen.into_iter().filter(|_| rng.random_range(0..8) == 0);
        put_all(&db, &mut model, chosen, 300);
        runtime.delay(Duration::from_secs(2));
        runtime.run_until_idle();
    }
    for _ in 0..90 {
        runtime.delay(Duration::from_secs(1));
        runtime.run_until_idle();
    }
    let garbage = db.garbage();
    assert!(
        garbage.dead_bytes <= garbage.allowed_bytes + damaged_len,
        "{} dead, {} allowed, {damaged_len} damaged: {:#?}",
        garbage.dead_bytes,
        garbage.allowed_bytes,
        db.stats()
    );
    let lost = key(lost[0]);
    assert_eq!(db.get(&lost).unwrap_err().kind(), ErrorKind::Corruption);
    for (key, value) in model.iter().filter(|(key, _)| **key != lost) {
        assert_eq!(db.get(key).unwrap().as_deref(), Some(&value[..]));
    }
    // What is written again needs its record no more.
    db.put(&lost, [1; 300]).unwrap();
    model.insert(lost, vec![1; 300]);
    db.compact().unwrap();
    db.wait_until_idle().unwrap();
    db.collect_garbage().unwrap();
    assert!(machine.disk.read_file(&damaged).is_none());
    same(&db, &model);
    db.close().unwrap();
    machine.check();
}

/// A key table that is damaged, and of which much has expired, stays; what is garbage in other
/// keyspaces does not.
#[test]
fn a_damaged_key_table_that_has_expired_keeps_no_garbage_of_other_keyspaces() {
    let options = || {
        small()
            .tuning(
                Tuning::default()
                    .memtable_bytes(64 << 10)
                    .unsorted_bytes(512 << 10),
            )
            .max_space_amp(1.3)
    };
    let machine = Machine::new(10);
    let (db, _) = machine.open(options());
    let expiring = db.keyspace("expiring", Default::default()).unwrap();
    let ttl = crate::WriteOptions::default().ttl(Duration::from_secs(60));
    for n in 0..600 {
        match n % 3 {
            0 => expiring.put(key(n), [1; 60]).unwrap(),
            _ => expiring.put_with(key(n), [1; 60], ttl).unwrap(),
        }
    }
    db.compact().unwrap();
    db.close().unwrap();
    let damaged = files(&machine, "key").swap_remove(1);
    let parts = parts(&machine, &damaged);
    let block = parts.iter().find(|part| part.what == "block").unwrap();
    assert!(machine.disk.flip_bit(&damaged, (block.offset + 100) * 8));
    let (db, runtime) = machine.open(options());
    let let_pass = |seconds| {
        for _ in 0..seconds {
            runtime.delay(Duration::from_secs(1));
            runtime.run_until_idle();
        }
    };
    let_pass(120);
    let cold = db.keyspace("cold", Default::default()).unwrap();
    for (round, step) in [(1, 1), (2, 2)] {
        for n in (0..600).step_by(step) {
            cold.put(key(n), [round; 300]).unwrap();
        }
    }
    let _refused = db.compact();
    let dead = |garbage: &crate::GarbageStats| -> u64 {
        garbage.files.iter().map(|file| file.dead_bytes()).sum()
    };
    let_pass(600);
    let after = db.garbage();
    assert!(
        dead(&after) < after.alone_from_bytes,
        "{} dead: {after:#?} {:#?}",
        dead(&after),
        db.stats().job_errors
    );
    assert!(machine.disk.read_file(&damaged).is_some());
    let expiring = db.find_keyspace("expiring").unwrap();
    assert!(expiring.get(key(3)).unwrap().is_some());
    for n in 0..600 {
        let round = if n % 2 == 0 { 2 } else { 1 };
        let value = cold.get(key(n)).unwrap();
        assert_eq!(value.as_deref(), Some(&[round; 300][..]));
    }
}
