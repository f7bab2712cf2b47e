//! Range deletes through the public handle, on the simulated machine, beside a model.

use crate::Tuning;
use crate::engine::tests::{Machine, Model, same, small};
use crate::vfs::Runtime;
use crate::{Batch, Db, ErrorKind, Isolation, KeyspaceOptions, Readable, Snapshot};
use rand::rngs::SmallRng;
use rand::{Rng, SeedableRng};
use std::ops::Bound;
use std::time::Duration;

const KEYS: u32 = 300;

fn key(n: u32) -> Vec<u8> {
    format!("key{n:04}").into_bytes()
}

/// What is read from `from` is the model, in all ways of reading.
fn reads_as(from: &impl Readable, model: &Model, rng: &mut SmallRng) {
    let expected: Vec<_> = model.iter().map(|(k, v)| (k.clone(), v.clone())).collect();
    let pairs = |entry: crate::Result<(crate::Bytes, crate::Bytes)>| {
        let (key, value) = entry.unwrap();
        (key.to_vec(), value.to_vec())
    };
    let forward: Vec<_> = from.range(&..).map(pairs).collect();
    assert_eq!(forward, expected);
    let mut backward: Vec<_> = from.range(&..).rev().map(pairs).collect();
    backward.reverse();
    assert_eq!(backward, expected);
    let asked: Vec<Vec<u8>> = (0..20).map(|_| key(rng.random_range(0..KEYS))).collect();
    let slices: Vec<_> = asked.iter().map(Vec::as_slice).collect();
    let many = from.multi_get(&slices).unwrap();
    for (key, value) in asked.iter().zip(many) {
        let expected = model.get(key).map(Vec::as_slice);
        assert_eq!(value.as_deref(), expected);
        assert_eq!(from.get(key).unwrap().as_deref(), expected);
        assert_eq!(from.contains_key(key).unwrap(), expected.is_some());
        assert_eq!(from.value_len(key).unwrap(), expected.map(<[u8]>::len));
    }
    let mut cursor = from.cursor();
    let at = key(rng.random_range(0..KEYS));
    let found = cursor.seek(&at).unwrap();
    let expected = model.range(at.clone()..).next().map(|(key, _)| key);
    assert_eq!(
        found.then(|| cursor.key().unwrap().to_vec()),
        expected.cloned()
    );
    let found = cursor.seek_for_prev(&at).unwrap();
    let expected = model.range(..=at).next_back().map(|(key, _)| key);
    assert_eq!(
        found.then(|| cursor.key().unwrap().to_vec()),
        expected.cloned()
    );
}

fn delete(model: &mut Model, start: u32, end: u32) {
    model.retain(|k, _| !(key(start) <= *k && *k < key(end)));
}

fn write_something(db: &Db, model: &mut Model, rng: &mut SmallRng) {
    let (n, len) = (rng.random_range(0..KEYS), rng.random_range(0..400));
    match rng.random_range(0..12) {
        0..7 => {
            // Now and then a large one.
            let len = if len == 7 { 3000 } else { len };
            let value = vec![rng.random(); len];
            db.put(key(n), &value).unwrap();
            model.insert(key(n), value);
        }
        7..9 => {
            db.delete(key(n)).unwrap();
            model.remove(&key(n));
        }
        9..11 => {
            let longest = [200, 12][usize::from(rng.random_range(0..8) > 0)];
            let end = n + rng.random_range(0..longest);
            db.delete_range(key(n)..key(end)).unwrap();
            delete(model, n, end);
        }
        _ => {
            // In a batch each operation sees those before it.
            let mut batch = Batch::new();
            batch.put(key(n), "before").delete_range(key(n)..key(n + 5));
            batch.put(key(n + 1), "after");
            db.write(&batch).unwrap();
            delete(model, n, n + 5);
            model.insert(key(n + 1), b"after".to_vec());
        }
    }
}

#[test]
fn every_history_reads_as_its_model() {
    for seed in 0..25 {
        let machine = Machine::new(seed);
        let mut rng = SmallRng::seed_from_u64(seed);
        let options = || {
            small()
                .tuning(Tuning::default().partition_bytes(48 << 10))
                .inline_value_bytes(64)
        };
        let mut db = machine.open(options()).0;
        let mut model = Model::new();
        let mut snapshots: Vec<(Snapshot, Model)> = Vec::new();
        for step in 0..1500 {
            write_something(&db, &mut model, &mut rng);
            match rng.random_range(0..400) {
                0..4 => db.flush().unwrap(),
                4..6 => db.compact().unwrap(),
                6 => db.wait_until_idle().unwrap(),
                7..12 => snapshots.push((db.snapshot(), model.clone())),
                12..18 if !snapshots.is_empty() => {
                    let at = rng.random_range(0..snapshots.len());
                    let (snapshot, seen) = snapshots.swap_remove(at);
                    reads_as(&snapshot, &seen, &mut rng);
                }
                18..20 => db.collect_garbage().unwrap(),
                20 => {
                    snapshots.clear();
                    if rng.random() {
                        db.close().unwrap();
                    } else {
                        drop(db);
                    }
                    db = machine.open(options()).0;
                }
                21..30 => reads_as(&db, &model, &mut rng),
                _ => {}
            }
            assert!(step < 1500);
        }
        reads_as(&db, &model, &mut rng);
        for (snapshot, seen) in &snapshots {
            reads_as(snapshot, seen, &mut rng);
        }
        drop(snapshots);
        db.compact().unwrap();
        same(&db, &model);
        db.close().unwrap();
        machine.check();
    }
}

#[test]
fn empty_ranges_do_nothing_and_odd_bounds_are_taken() {
    let machine = Machine::new(1);
    let (db, _) = machine.open(small());
    let longest = vec![b'x'; 64 << 10];
    for key in ["", "a", "b", "c"] {
        db.put(key, "value").unwrap();
    }
    db.put(&longest, "value").unwrap();
    let written = db.stats().deletes;
    db.delete_range("b".."b").unwrap();
    db.delete_range("c".."a").unwrap();
    assert_eq!(db.stats().deletes, written);
    let keys = || {
        db.range(..)
            .map(|e| e.unwrap().0[..].to_vec())
            .collect::<Vec<_>>()
    };
    assert_eq!(keys().len(), 5);
    let bounds = (Bound::Excluded("a"), Bound::Included("c"));
    db.delete_range(bounds).unwrap();
    assert_eq!(keys(), [b"".to_vec(), b"a".to_vec(), longest.clone()]);
    db.delete_range((Bound::Excluded(&longest), Bound::Unbounded))
        .unwrap();
    assert_eq!(keys().len(), 3);
    db.flush().unwrap();
    db.delete_range((Bound::Excluded(&b"a"[..]), Bound::Included(&longest[..])))
        .unwrap();
    db.flush().unwrap();
    assert_eq!(keys(), [b"".to_vec(), b"a".to_vec()]);
    db.delete_range(..).unwrap();
    assert!(keys().is_empty());
    let too_long = vec![b'x'; (64 << 10) + 1];
    let error = db.delete_range(..&too_long).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::InvalidArgument);
    db.close().unwrap();
    machine.check();
    let (db, _) = machine.open(small());
    assert_eq!(db.range(..).count(), 0);
}

#[test]
fn between_the_longest_keys_there_may_be_none() {
    let machine = Machine::new(1);
    let (db, _) = machine.open(small());
    let longest = |last: u8| {
        let mut key = vec![last.min(b'x'); 64 << 10];
        key.pop();
        key.push(last);
        key
    };
    let last = vec![0xff; 64 << 10];
    let all = [longest(b'x'), longest(b'y'), last.clone()];
    all.iter().for_each(|key| db.put(key, "value").unwrap());
    let between = (Bound::Excluded(&all[0]), Bound::Excluded(&all[1]));
    let after = (Bound::Excluded(&last), Bound::Unbounded);
    let mut transaction = db.begin();
    for nothing in [between, after] {
        db.delete_range(nothing).unwrap();
        transaction.delete_range(nothing).unwrap();
    }
    transaction.commit().unwrap();
    assert_eq!(db.range(..).count(), 3);
    let upto = (Bound::Excluded(&all[0]), Bound::Included(&all[1]));
    db.delete_range(upto).unwrap();
    db.put("key", "value").unwrap();
    let (again, _) = Machine {
        disk: machine.disk.process_kill(),
        seed: 2,
    }
    .open(small());
    let keys = again.range(..).map(|e| e.unwrap().0.to_vec());
    let left = [b"key".to_vec(), all[0].clone(), last];
    assert_eq!(keys.collect::<Vec<_>>(), left);
}

#[test]
fn a_prefix_is_deleted_and_its_neighbours_stay() {
    let machine = Machine::new(2);
    let (db, _) = machine.open(small());
    let neighbours: [&[u8]; 5] = [b"ab", b"ac", b"ac\xff\xff", b"ad", b"b"];
    neighbours.iter().for_each(|key| db.put(key, "v").unwrap());
    let other = db.keyspace("other", KeyspaceOptions::default()).unwrap();
    other.put("ac", "v").unwrap();
    db.delete_prefix("ac").unwrap();
    assert_eq!(db.range(..).count(), 3);
    db.delete_prefix("").unwrap();
    assert_eq!((db.range(..).count(), other.range(..).count()), (0, 1));
    let mut batch = Batch::new();
    batch.put_in(&other, "b", "v").delete_prefix_in(&other, "a");
    batch.put("mine", "v").delete_range_in(&other, "c"..);
    db.write(&batch).unwrap();
    assert_eq!((db.range(..).count(), other.range(..).count()), (1, 1));
    other.delete_range(..).unwrap();
    db.flush().unwrap();
    assert_eq!((db.range(..).count(), other.range(..).count()), (1, 0));
    other.truncate().unwrap();
    other.delete_prefix("x").unwrap();
}

#[test]
fn a_batch_says_which_ranges_it_deletes() {
    let mut batch = Batch::new();
    batch
        .delete_range("a".."c")
        .delete_range("x"..)
        .put("k", "v");
    let said: Vec<String> = batch.iter().map(|op| format!("{op:?}")).collect();
    let expected = [
        "DeleteRange { keyspace: 0, start: [97], end: Some([99]) }",
        "DeleteRange { keyspace: 0, start: [120], end: None }",
        "Put { keyspace: 0, key: [107], value: [118], ttl: None }",
    ];
    assert_eq!(said, expected);
}

#[test]
fn transactions_see_their_own_range_deletes_and_conflict_with_those_of_others() {
    let machine = Machine::new(3);
    let (db, _) = machine.open(small());
    (0..50).for_each(|n| db.put(key(n), "old").unwrap());
    let mut own = db.begin();
    own.put(key(12), "lost").unwrap();
    own.set_savepoint();
    own.delete_range(key(10)..key(20)).unwrap();
    own.put(key(15), "new").unwrap();
    let shown = |own: &crate::Transaction| {
        let keys: Vec<_> = own
            .range(key(8)..key(22))
            .map(|e| e.unwrap().0.to_vec())
            .collect();
        let mut back: Vec<_> = own
            .range(key(8)..key(22))
            .rev()
            .map(|e| e.unwrap().0.to_vec())
            .collect();
        back.reverse();
        assert_eq!(keys, back);
        keys
    };
    assert_eq!(shown(&own), [8, 9, 15, 20, 21].map(key));
    assert_eq!(own.get(key(12)).unwrap(), None);
    assert_eq!(own.get(key(15)).unwrap().as_deref(), Some(&b"new"[..]));
    own.set_savepoint();
    own.delete_range(key(14)..key(30)).unwrap();
    assert_eq!(shown(&own), [8, 9].map(key));
    own.rollback_to_savepoint();
    assert_eq!(shown(&own), [8, 9, 15, 20, 21].map(key));
    own.commit().unwrap();
    assert_eq!(db.range(key(8)..key(22)).count(), 5);
    for isolation in [Isolation::Serializable, Isolation::Snapshot] {
        for deletes_first in [false, true] {
            // One reads for update what the other one deletes; one deletes what the other writes.
            let mut reader = db.begin_with(isolation);
            reader.get_for_update(key(40)).unwrap();
            reader.put("elsewhere", "v").unwrap();
            let mut deleter = db.begin_with(isolation);
            deleter.delete_range(key(35)..key(45)).unwrap();
            if isolation == Isolation::Serializable {
                assert_eq!(deleter.range(key(35)..key(45)).count(), 0);
            }
            if deletes_first {
                deleter.commit().unwrap();
                let error = reader.commit().unwrap_err();
                assert_eq!(error.kind(), ErrorKind::Conflict);
            } else {
                db.put(key(40), "again").unwrap();
                let outcome = deleter.commit();
                let is_conflict = outcome.is_err_and(|e| e.kind() == ErrorKind::Conflict);
                assert!(is_conflict, "{isolation:?}");
                assert!(reader.commit().is_err());
            }
        }
    }
    let walker = |db: &Db| {
        let mut walker = db.begin();
        assert!(walker.range(key(0)..key(5)).count() > 0);
        walker.put("elsewhere", "v").unwrap();
        walker
    };
    let one = walker(&db);
    db.delete_range(key(6)..key(8)).unwrap();
    one.commit().unwrap();
    let one = walker(&db);
    db.delete_range(key(4)..key(8)).unwrap();
    assert_eq!(one.commit().unwrap_err().kind(), ErrorKind::Conflict);
}

#[test]
fn a_transaction_deletes_ranges_of_neighbouring_keyspaces() {
    let machine = Machine::new(7);
    let (db, _) = machine.open(small());
    let names = ["one", "two", "three"];
    let all = || names.map(|name| db.keyspace(name, KeyspaceOptions::default()).unwrap());
    let keyspaces = all();
    let fill = || {
        db.put("key", "value").unwrap();
        keyspaces
            .iter()
            .for_each(|k| k.put("key", "value").unwrap());
    };
    let left = || {
        let of_others = keyspaces.iter().map(|k| k.range(..).count());
        [db.range(..).count()]
            .into_iter()
            .chain(of_others)
            .collect::<Vec<_>>()
    };
    fill();
    let mut transaction = db.begin();
    transaction.delete_range(..).unwrap();
    transaction.delete_range_in(&keyspaces[0], ..).unwrap();
    transaction
        .delete_range_in(&keyspaces[1], "a".."z")
        .unwrap();
    let within = |k: &crate::Keyspace| transaction.keyspace(k).range(..).count();
    assert_eq!((within(&keyspaces[1]), within(&keyspaces[2])), (0, 1));
    transaction.commit().unwrap();
    assert_eq!(left(), [0, 0, 0, 1]);
    // What was logged is read back, and says the same.
    let (again, _) = Machine {
        disk: machine.disk.process_kill(),
        seed: 8,
    }
    .open(small());
    assert_eq!(again.range(..).count(), 0);
    let count = |name| again.find_keyspace(name).unwrap().range(..).count();
    assert_eq!(names.map(count), [0, 0, 1]);
}

#[test]
fn a_damaged_list_of_ranges_is_an_error_for_what_it_may_cover() {
    let machine = Machine::new(4);
    let (db, _) = machine.open(small());
    (0..100).for_each(|n| db.put(key(n), [7; 100]).unwrap());
    db.compact().unwrap();
    let mut batch = Batch::new();
    batch.delete_range(key(20)..key(30));
    batch.delete_range(key(50)..key(60)).put(key(200), "later");
    db.write(&batch).unwrap();
    db.flush().unwrap();
    let view = db.0.engine.read.view.load();
    let files = view.version.record_files().to_vec();
    let mut files = files.iter();
    let table = files.find(|file| file.meta().ranges.is_some()).unwrap();
    let offset = table.meta().ranges.as_ref().unwrap().offset as usize;
    let path = table.path().to_owned();
    drop(view);
    drop(db);
    let mut bytes = machine.disk.read_file(&path).unwrap();
    bytes[offset + 40] ^= 1;
    machine.disk.write_file(&path, &bytes);
    let (db, _) = machine.open(small());
    for n in [0, 10, 19, 60, 99, 200] {
        assert!(db.get(key(n)).unwrap().is_some(), "{n}");
    }
    for n in [20, 25, 40, 59] {
        let error = db.get(key(n)).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Corruption);
        assert_eq!(error.file(), Some(path.as_path()));
        assert!(db.contains_key(key(n)).is_err());
    }
    let seen: Vec<_> = db.range(..).take_while(Result::is_ok).collect();
    assert_eq!(seen.len(), 20);
    let error = db.range(..).find_map(Result::err).unwrap();
    assert_eq!(error.kind(), ErrorKind::Corruption);
    // What is newer is not in doubt.
    db.put(key(25), "new").unwrap();
    assert_eq!(db.get(key(25)).unwrap().as_deref(), Some(&b"new"[..]));
}

#[test]
fn whole_key_tables_are_dropped_unread() {
    let machine = Machine::new(5);
    let (db, _) = machine.open(small().inline_value_bytes(200));
    (0..3000).for_each(|n| db.put(key(n), [7; 100]).unwrap());
    db.compact().unwrap();
    let files = |db: &Db| db.0.engine.read.view.load().version.key_tables().count();
    let before = files(&db);
    assert!(before > 50, "{before}");
    db.delete_range(key(100)..key(2900)).unwrap();
    db.flush().unwrap();
    let covered = {
        let view = db.0.engine.read.view.load();
        let covered = view
            .version
            .key_tables()
            .map(|table| table.path().to_owned());
        covered
            .skip(before / 3)
            .take(before / 3)
            .collect::<Vec<_>>()
    };
    for path in &covered {
        let mut bytes = machine.disk.read_file(path).unwrap();
        bytes[100..].fill(0);
        machine.disk.write_file(path, &bytes);
    }
    db.compact().unwrap();
    assert!(files(&db) < before / 10, "{}", files(&db));
    assert_eq!(db.range(..).count(), 200);
}

#[test]
fn a_queue_does_not_gather_range_tombstones_for_ever() {
    let machine = Machine::new(12);
    let options = crate::Options::default().memory_budget(8 << 20);
    let (db, runtime) = machine.open(options);
    let tombstones = || {
        let version = std::sync::Arc::clone(&db.0.engine.read.view.load().version);
        let partitions = version.partitions().iter();
        let generations = partitions.flat_map(|partition| &partition.generations);
        let tables = generations.flat_map(|generation| generation.tables());
        let ranges = tables.filter_map(|(_, table)| table.meta().ranges.as_ref());
        ranges.map(|ranges| ranges.count).sum::<u64>()
    };
    let mut most = 0;
    for n in 0..60_000_u32 {
        db.put(n.to_be_bytes(), "job").unwrap();
        db.delete_range(..=n.to_be_bytes()).unwrap();
        if n % 1000 == 0 {
            runtime.run_until_idle();
            most = most.max(tombstones());
        }
    }
    assert!((1..20_000).contains(&most), "{most}");
    assert_eq!(db.iter().count(), 0);
}

#[test]
fn deleted_ranges_give_their_space_back_when_nobody_writes() {
    let machine = Machine::new(6);
    let (db, runtime) = machine.open(small().inline_value_bytes(16).max_space_amp(1.2));
    (0..3000).for_each(|n| db.put(key(n), [7; 4000]).unwrap());
    db.compact().unwrap();
    db.wait_until_idle().unwrap();
    let bytes = || {
        let files = machine.disk.file_names().into_iter();
        let len = |path: std::path::PathBuf| machine.disk.read_file(&path).map_or(0, |b| b.len());
        files.map(len).sum::<usize>()
    };
    let before = bytes();
    assert!(before > 12_000_000, "{before}");
    db.delete_range(key(0)..key(2990)).unwrap();
    // Nobody flushes, merges or reads.
    for _ in 0..60 {
        runtime.run_until_idle();
        runtime.delay(Duration::from_secs(1));
    }
    let after = bytes();
    assert!(after < before / 2, "{after} of {before} bytes are left");
    assert_eq!(db.range(..).count(), 10);
}

#[test]
fn a_cursor_goes_back_within_a_block_to_where_it_is_deleted() {
    let machine = Machine::new(1);
    let (db, _) = machine.open(
        small().tuning(
            Tuning::default()
                .block_bytes(4096)
                .key_table_bytes(32 << 10),
        ),
    );
    for n in 0..KEYS {
        db.put(key(n), [b'v'; 40]).unwrap();
    }
    db.compact().unwrap();
    db.delete_range(key(3)..key(6)).unwrap();
    let seen: Vec<_> = db.iter().take(4).map(|entry| entry.unwrap().0).collect();
    assert_eq!(seen, [key(0), key(1), key(2), key(6)]);
    let mut cursor = db.cursor();
    // Several entries after the range, in the same block.
    assert!(cursor.seek(key(7)).unwrap());
    for n in 7..10 {
        assert_eq!(cursor.key(), Some(key(n).as_slice()));
        assert!(cursor.next().unwrap());
    }
    assert!(cursor.seek(key(4)).unwrap());
    assert_eq!(cursor.key(), Some(key(6).as_slice()));
    // And back over it.
    assert!(cursor.prev().unwrap());
    assert_eq!(cursor.key(), Some(key(2).as_slice()));
    assert!(cursor.next().unwrap());
    assert_eq!(cursor.key(), Some(key(6).as_slice()));
}

#[test]
fn tables_of_range_tombstones_alone_are_no_sources_of_a_scan() {
    let machine = Machine::new(9);
    let (db, _) = machine.open(small());
    db.put("b", "value").unwrap();
    db.flush().unwrap();
    for i in 0..3 {
        db.delete_range(format!("x{i}")..format!("y{i}")).unwrap();
        db.flush().unwrap();
    }
    let engine = &db.0.engine;
    let view = engine.read.view.load();
    let generations = view
        .version
        .partitions()
        .iter()
        .flat_map(|p| &p.generations);
    let tables = generations.flat_map(|generation| generation.tables());
    let has_keys: Vec<bool> = tables.map(|(_, table)| table.meta().has_keys()).collect();
    assert_eq!(has_keys.iter().filter(|has| **has).count(), 1);
    assert_eq!(has_keys.len(), 4);
    db.put("x1", "new").unwrap();
    let keys = db.keys(..).map(Result::unwrap).collect::<Vec<_>>();
    assert_eq!(keys, ["b", "x1"]);
    let back = db.keys(..).rev().map(Result::unwrap).collect::<Vec<_>>();
    assert_eq!(back, ["x1", "b"]);
}

#[test]
fn tables_of_range_tombstones_alone_are_no_sources_of_scans() {
    let machine = Machine::new(41);
    let (db, _runtime) = machine.open(small());
    for n in 0..20 {
        db.put(key(n), "value").unwrap();
    }
    db.compact().unwrap();
    for n in 0..3 {
        db.delete_range(key(100 + n)..key(101 + n)).unwrap();
        db.flush().unwrap();
    }
    let sources = || -> (usize, usize) {
        let partitions = db.stats().partitions;
        let sum = |of: fn(&crate::PartitionStats) -> usize| partitions.iter().map(of).sum();
        (sum(|p| p.tables), sum(|p| p.scan_sources))
    };
    assert_eq!(sources(), (3, 0));
    db.put(key(7), "new").unwrap();
    db.flush().unwrap();
    assert_eq!(sources(), (4, 1));
    assert_eq!(db.iter().count(), 20);
}

/// However many tables there are: no read builds or reads the tombstones of one, and each asks few
/// sets.
#[test]
fn range_tombstones_of_tables_are_in_memory_before_a_read() {
    let machine = Machine::new(23);
    let (db, _runtime) = machine.open(small());
    let known = |db: &Db| {
        let view = db.0.engine.read.view.load();
        let ranges = view.version.partitions().iter();
        let ranges = ranges.map(|p| p.ranges.as_ref().unwrap().unread_and_sets());
        ranges.collect::<Vec<_>>()
    };
    let mut model = Model::new();
    let mut rng = SmallRng::seed_from_u64(23);
    for n in 0..KEYS {
        db.put(key(n), b"value").unwrap();
        model.insert(key(n), b"value".to_vec());
    }
    db.compact().unwrap();
    let mut before = None;
    for _ in 0..40 {
        let n = rng.random_range(0..KEYS);
        db.delete_range(key(n)..key(n + 2)).unwrap();
        delete(&mut model, n, n + 2);
        db.flush().unwrap();
        for (unread, sets) in known(&db) {
            assert_eq!(unread, 0);
            assert!((1..=6).contains(&sets), "{sets}");
        }
        before.get_or_insert_with(|| db.snapshot());
    }
    reads_as(&db, &model, &mut rng);
    assert_eq!(before.unwrap().range(..).count() + 2, KEYS as usize);
    drop(db);
    let (db, _runtime) = machine.open(small());
    assert!(
        known(&db)
            .iter()
            .all(|(unread, sets)| *unread == 0 && *sets <= 6)
    );
    reads_as(&db, &model, &mut rng);
}
