//! Keyspaces through the public handle, on the simulated machine.

use crate::base::keys::KeyspaceId;
use crate::engine::tests::common::version;
use crate::engine::tests::{Machine, small};
use crate::vfs::Runtime as _;
use crate::vfs::sim::{Fault, Keep, Op};
use crate::{
    Batch, Db, Durability, ErrorKind, Keyspace, KeyspaceOptions, Options, Readable, Tuning,
};
use std::path::Path;
use std::time::Duration;

fn make(db: &Db, name: &str) -> Keyspace {
    db.keyspace(name, KeyspaceOptions::default()).unwrap()
}

/// Splits, merges and joins again and again.
fn tiny() -> Options {
    let options = small().tuning(Tuning::default().key_table_bytes(1 << 10));
    options
        .tuning(Tuning::default().partition_bytes(12 << 10))
        .inline_value_bytes(16)
}

/// Writes this many keys of 200 bytes, whose values begin with `stamp`.
fn fill(keyspace: &Keyspace, keys: u32, stamp: u8) {
    for i in 0..keys {
        keyspace.put(format!("key{i:05}"), [stamp; 200]).unwrap();
    }
}

/// Asserts that the keys are those of [`fill`].
fn assert_filled(from: &impl Readable, keys: u32, stamp: u8) {
    let all: Vec<_> = from.iter().map(Result::unwrap).collect();
    assert_eq!(all.len(), keys as usize);
    for (i, (key, value)) in all.iter().enumerate() {
        assert_eq!(key, format!("key{i:05}").as_bytes());
        assert_eq!(value[..], [stamp; 200]);
    }
    assert_eq!(from.iter().rev().count(), keys as usize);
}

fn is_gone<T: std::fmt::Debug>(result: crate::Result<T>) -> bool {
    result.unwrap_err().kind() == ErrorKind::NoSuchKeyspace
}

fn are_borders_kept(db: &Db) -> bool {
    let version = version(db);
    let partitions = version.partitions().iter();
    let mut counts = partitions.map(|p| version.keyspaces.count_in(p.range()));
    counts.all(|keyspaces| keyspaces <= 1)
}

#[test]
fn each_keyspace_is_an_ordered_space_of_its_own() {
    let machine = Machine::new(1);
    let (db, _) = machine.open(tiny());
    let (a, b) = (make(&db, "a"), make(&db, "b"));
    assert_eq!(db.keyspaces(), ["default", "a", "b"]);
    for (n, keys) in [(&a, 300), (&b, 500)] {
        fill(n, keys, 7);
    }
    let mut batch = Batch::new();
    batch
        .put_in(&a, "", "of a")
        .put_in(&b, "", "of b")
        .put("", "its own");
    batch.delete_in(&a, "key00000");
    db.write(&batch).unwrap();
    let check = |db: &Db| {
        let (a, b) = (make(db, "a"), make(db, "b"));
        assert_eq!(a.get("").unwrap().as_deref(), Some(&b"of a"[..]));
        assert_eq!(db.get("").unwrap().as_deref(), Some(&b"its own"[..]));
        assert_eq!(
            (db.iter().count(), a.iter().count(), b.iter().count()),
            (1, 300, 501)
        );
        assert_eq!(b.iter().rev().count(), 501);
        assert_eq!(b.prefix("key0001").count(), 10);
        assert_eq!(a.range("key00298"..).count(), 2);
        assert_eq!(a.multi_get(["key00000", "key00001"]).unwrap()[0], None);
        let mut cursor = a.cursor();
        assert!(cursor.last().unwrap() && !cursor.next().unwrap());
        assert!(cursor.prev().unwrap() && cursor.value().unwrap().is_some());
        assert!(!a.contains_key("key00300").unwrap());
        assert_eq!(b.value_len("key00300").unwrap(), Some(200));
        assert!(are_borders_kept(db));
    };
    check(&db);
    db.compact().unwrap();
    db.wait_until_idle().unwrap();
    check(&db);
    assert!(db.stats().partitions.len() > 4, "they are split");
    db.close().unwrap();
    machine.check();
    let (db, _) = machine.open(tiny());
    check(&db);
    let default = db.find_keyspace("default").unwrap();
    assert_eq!(default.get("").unwrap(), db.get("").unwrap());
    assert!(db.find_keyspace("c").is_none());
}

#[test]
fn what_is_taken_of_a_dropped_keyspace_fails_and_never_looks_empty() {
    let machine = Machine::new(2);
    let (db, _) = machine.open(tiny());
    let (a, b) = (make(&db, "a"), make(&db, "b"));
    fill(&a, 400, 1);
    db.flush().unwrap();
    fill(&b, 400, 2);
    fill(&a, 100, 1);
    let (mut iter, mut untouched, mut cursor) = (a.iter(), a.iter(), a.cursor());
    assert!(iter.next().unwrap().is_ok() && cursor.first().unwrap());
    let (snapshot, whole) = (a.snapshot(), db.snapshot());
    let mut batch = Batch::new();
    batch.put("beside", "it").put_in(&a, "key", "value");
    a.drop_keyspace().unwrap();
    for round in 0..2 {
        assert!(is_gone(a.get("key00001")) && is_gone(a.put("key00001", "new")));
        assert!(is_gone(a.put("large", vec![1; 1 << 20])) && is_gone(a.delete("key00001")));
        assert!(is_gone(a.multi_get(["key00001"])) && is_gone(a.contains_key("key00001")));
        assert!(is_gone(iter.next().unwrap()) && is_gone(untouched.next_back().unwrap()));
        assert!(is_gone(a.iter().next().unwrap()) && is_gone(a.keys(..).next().unwrap()));
        assert!(is_gone(cursor.next()) && is_gone(cursor.seek("key")));
        assert!(is_gone(snapshot.get("key00001")) && is_gone(snapshot.iter().next().unwrap()));
        assert!(is_gone(whole.keyspace(&a).get("key00001")));
        assert!(is_gone(a.name()) && is_gone(a.truncate()) && is_gone(a.rename("c")));
        assert!(is_gone(a.drop_keyspace()) && is_gone(a.approximate_size(..)));
        let entries = [crate::Result::Ok(("key", Some("value")))];
        assert!(is_gone(a.ingest_sorted(entries, None)));
        assert!(is_gone(db.write(&batch)), "a batch from before");
        assert_eq!(db.get("beside").unwrap(), None, "it is whole or not at all");
        // The iterators are ended; others take their places.
        (iter, untouched) = (a.iter(), a.iter());
        if round == 0 {
            db.wait_until_idle().unwrap();
        }
    }
    assert_filled(&b, 400, 2);
    assert_filled(&whole.keyspace(&b), 400, 2);
    // A new one of that name is another one.
    let again = make(&db, "a");
    assert_eq!(again.iter().count(), 0);
    assert!(is_gone(a.get("key00001")));
    again.put("key00001", "other").unwrap();
    db.compact().unwrap();
    assert_eq!(again.iter().count(), 1);
}

#[test]
fn an_iterator_of_a_dropped_keyspace_keeps_no_files() {
    let machine = Machine::new(31);
    let (db, _) = machine.open(tiny());
    let a = make(&db, "a");
    fill(&a, 400, 1);
    db.compact().unwrap();
    let mut iter = a.iter();
    iter.next().unwrap().unwrap();
    a.drop_keyspace().unwrap();
    db.wait_until_idle().unwrap();
    let pins = db.stats().pins;
    assert!(pins.views == 1 && pins.files > 0, "{pins:?}");
    assert!(is_gone(iter.next().unwrap()) && iter.next().is_none());
    let pins = db.stats().pins;
    assert_eq!((pins.views, pins.files), (0, 0));
}

#[test]
fn the_files_of_a_dropped_keyspace_go_at_once_and_its_partitions_are_joined() {
    let machine = Machine::new(3);
    let (db, _) = machine.open(tiny());
    let (a, b) = (make(&db, "a"), make(&db, "b"));
    fill(&a, 2000, 1);
    db.compact().unwrap();
    fill(&b, 50, 2);
    db.compact().unwrap();
    let before = db.stats();
    // Some of it is in memory.
    fill(&a, 20, 3);
    a.drop_keyspace().unwrap();
    db.wait_until_idle().unwrap();
    db.flush().unwrap();
    db.wait_until_idle().unwrap();
    let after = db.stats();
    assert!(
        before.partitions.len() > 5 && after.partitions.len() <= 3,
        "{after:#?}"
    );
    let (was, is) = (before.record_file_bytes, after.record_file_bytes);
    assert!(was > 400_000 && is < 30_000, "{was} and then {is} bytes");
    assert!(are_borders_kept(&db));
    assert_filled(&b, 50, 2);
    db.close().unwrap();
    machine.check();
}

#[test]
fn an_emptied_keyspace_is_empty_and_older_moments_of_it_fail() {
    let machine = Machine::new(4);
    let (db, _) = machine.open(tiny());
    let a = make(&db, "a");
    fill(&a, 300, 1);
    let (snapshot, mut iter) = (a.snapshot(), a.iter());
    let mut batch = Batch::new();
    batch.put_in(&a, "late", "write");
    let number = a.number().unwrap();
    a.truncate().unwrap();
    assert_ne!(a.number().unwrap(), number);
    assert!(is_gone(snapshot.get("key00001")) && is_gone(iter.next().unwrap()));
    assert!(is_gone(db.write(&batch)));
    assert_eq!((a.get("key00001").unwrap(), a.iter().count()), (None, 0));
    let empty = a.snapshot();
    fill(&a, 30, 2);
    assert_eq!(empty.iter().count(), 0);
    db.compact().unwrap();
    db.wait_until_idle().unwrap();
    assert_filled(&a, 30, 2);
    assert!(is_gone(snapshot.iter().next().unwrap()));
    drop((snapshot, empty, iter));
    db.close().unwrap();
    machine.check();
    let (db, _) = machine.open(tiny());
    assert_filled(&make(&db, "a"), 30, 2);
}

#[test]
fn a_change_is_durable_and_so_is_what_was_written_before() {
    let machine = Machine::new(5);
    let (db, _) = machine.open(small().durability(Durability::Buffered));
    let (a, b) = (make(&db, "a"), make(&db, "b"));
    a.put("key", "value").unwrap();
    b.put("key", "value").unwrap();
    db.put("before", "the drop").unwrap();
    a.drop_keyspace().unwrap();
    b.rename("c").unwrap();
    db.put("after", "it").unwrap();
    let disk = machine.disk.power_cut(Keep::Nothing);
    let machine = Machine { disk, seed: 6 };
    let (db, _) = machine.open(small());
    assert_eq!(db.keyspaces(), ["default", "c"]);
    assert!(db.get("before").unwrap().is_some());
    assert_eq!(
        make(&db, "c").get("key").unwrap().as_deref(),
        Some(&b"value"[..])
    );
    let a = make(&db, "a");
    assert_eq!(a.iter().count(), 0, "the log has what it held");
    assert!(a.number().unwrap() > 2, "numbers are used once");
    db.compact().unwrap();
    assert_eq!((a.iter().count(), make(&db, "a").iter().count()), (0, 0));
}

/// Names of many keyspaces.
fn many(count: usize) -> Vec<String> {
    (0..count).map(|n| format!("space {n:04}")).collect()
}

#[test]
fn many_keyspaces_are_made_and_dropped_by_one_edit_each() {
    let machine = Machine::new(18);
    let (db, _) = machine.open(small());
    let there = make(&db, "space 0007");
    there.put("key", "there").unwrap();
    let edits = || db.0.engine.catalog.manifest_edits();
    let (before, calls) = (edits(), machine.disk.calls());
    let mut names = many(400);
    names.extend(["default".to_owned(), "space 0003".to_owned()]);
    let spaces = db
        .create_keyspaces(&names, KeyspaceOptions::default())
        .unwrap();
    assert_eq!(edits(), before + 1);
    assert!(machine.disk.calls() < calls + 10, "it takes few calls");
    for (name, space) in names.iter().zip(&spaces) {
        assert_eq!(space.name().unwrap(), *name);
    }
    assert_eq!(db.keyspaces().len(), 401);
    assert!(are_borders_kept(&db));
    assert_eq!(
        spaces[7].get("key").unwrap().as_deref(),
        Some(&b"there"[..])
    );
    spaces[3].put("key", "of three").unwrap();
    assert_eq!(
        spaces[401].get("key").unwrap().as_deref(),
        Some(&b"of three"[..])
    );
    assert_eq!(spaces[4].get("key").unwrap(), None);
    // Nothing changes where all are there.
    db.create_keyspaces(&names, KeyspaceOptions::default())
        .unwrap();
    assert_eq!(edits(), before + 1);
    // A name that is none, or one that cannot go, changes nothing.
    let bad = ["fine", ""];
    let error = db.create_keyspaces(bad, KeyspaceOptions::default());
    assert_eq!(error.unwrap_err().kind(), ErrorKind::InvalidArgument);
    let error = db.drop_keyspaces(&spaces);
    assert_eq!(error.unwrap_err().kind(), ErrorKind::InvalidArgument);
    assert_eq!((db.keyspaces().len(), edits()), (401, before + 1));
    db.drop_keyspaces(&spaces[..400]).unwrap();
    assert_eq!(edits(), before + 2);
    assert_eq!(db.keyspaces(), ["default"]);
    assert!(is_gone(spaces[3].get("key")) && is_gone(db.drop_keyspaces(&spaces[3..4])));
    db.wait_until_idle().unwrap();
    db.flush().unwrap();
    db.wait_until_idle().unwrap();
    assert_eq!(db.stats().partitions.len(), 1);
    db.close().unwrap();
    machine.check();
}

#[test]
fn a_power_cut_at_each_call_leaves_all_of_many_keyspaces_or_none() {
    let names = many(30);
    for calls in 0.. {
        let machine = Machine::new(19);
        let (db, _) = machine.open(small());
        db.put("key", "value").unwrap();
        machine.cut_power_after(calls);
        let made = db.create_keyspaces(&names, KeyspaceOptions::default());
        let written = made.and_then(|spaces| {
            spaces[5].put("key", "value")?;
            db.sync()?;
            Ok(spaces)
        });
        let dropped = written.as_ref().map(|spaces| db.drop_keyspaces(spaces));
        let is_over = matches!(dropped, Ok(Ok(())));
        let was_written = written.is_ok();
        drop((written, db));
        machine.disk.clear_faults();
        let disk = machine.disk.power_cut(Keep::Prefix(calls));
        let machine = Machine { disk, seed: 20 };
        let (db, _) = machine.open(small());
        let count = db.keyspaces().len();
        assert!(count == 1 || count == 31, "{count} at call {calls}");
        assert!(!is_over || count == 1, "dropped, and there at call {calls}");
        if let Some(space) = db.find_keyspace("space 0005").filter(|_| was_written) {
            assert_eq!(space.get("key").unwrap().as_deref(), Some(&b"value"[..]));
        }
        assert!(are_borders_kept(&db));
        drop(db);
        machine.check();
        if is_over {
            assert!(calls > 5);
            return;
        }
    }
}

#[test]
fn a_power_cut_at_each_call_leaves_a_keyspace_whole_or_gone() {
    for calls in 0.. {
        let machine = Machine::new(6);
        let (db, _) = machine.open(small());
        let (a, b) = (make(&db, "a"), make(&db, "b"));
        fill(&a, 40, 1);
        fill(&b, 40, 2);
        machine.cut_power_after(calls);
        let dropped = a.drop_keyspace();
        let emptied = b.truncate();
        let settled = db.wait_until_idle();
        drop((a, b));
        drop(db);
        machine.disk.clear_faults();
        let disk = machine.disk.power_cut(Keep::Prefix(calls));
        let machine = Machine { disk, seed: 7 };
        let (db, _) = machine.open(small());
        let names = db.keyspaces();
        assert!(dropped.is_err() || names == ["default", "b"], "{names:?}");
        if let Some(a) = db.find_keyspace("a") {
            // What was only in the log may be lost, from the end.
            let keys = a.iter().count() as u32;
            assert_filled(&a, keys, 1);
        }
        let b = make(&db, "b");
        let keys = b.iter().count() as u32;
        assert!(emptied.is_err() || keys == 0);
        assert_filled(&b, keys, 2);
        drop((b, db));
        machine.check();
        if settled.is_ok() {
            assert!(calls > 5);
            return;
        }
    }
}

#[test]
fn a_keyspace_that_is_dropped_makes_room_on_a_full_disk() {
    let machine = Machine::new(8);
    let (db, runtime) = machine.open(small());
    let (a, b) = (make(&db, "a"), make(&db, "b"));
    fill(&b, 10, 2);
    machine.disk.set_free_space(Some(4 << 20));
    let mut written = 0;
    let error = loop {
        match a.put(format!("key{written:06}"), [1; 400]) {
            Ok(()) => written += 1,
            Err(error) => break error,
        }
    };
    assert_eq!(error.kind(), ErrorKind::DiskFull, "{error}");
    assert!(written > 1000);
    a.drop_keyspace().unwrap();
    let mut tries = 0;
    while let Err(error) = b.put("key", "value") {
        assert_eq!(error.kind(), ErrorKind::DiskFull, "{error}");
        tries += 1;
        assert!(tries < 60, "{:#?}", db.stats());
        let never = runtime.event();
        never.wait_past(never.epoch(), Some(Duration::from_secs(10)));
    }
    assert_eq!(b.iter().count(), 11);
}

#[test]
fn wrong_calls_change_nothing() {
    let machine = Machine::new(9);
    let (db, _) = machine.open(small());
    let (a, b) = (make(&db, "a"), make(&db, "b"));
    let default = make(&db, "default");
    let wrong = |result: crate::Result<()>| {
        assert_eq!(result.unwrap_err().kind(), ErrorKind::InvalidArgument);
    };
    let options = KeyspaceOptions::default();
    for name in ["", &"x".repeat(256)] {
        wrong(db.keyspace(name, options.clone()).map(drop));
        wrong(a.rename(name));
    }
    wrong(a.rename("b"));
    wrong(a.rename("default"));
    wrong(default.rename("other"));
    wrong(default.truncate());
    wrong(default.drop_keyspace());
    let large = options.clone().inline_value_bytes(1 << 20);
    wrong(db.keyspace("c", large).map(drop));
    wrong(
        db.keyspace("default", options.inline_value_bytes(1))
            .map(drop),
    );
    wrong(b.put(vec![0; (64 << 10) + 1], "value"));
    assert_eq!(db.keyspaces(), ["default", "a", "b"]);
    let longest = "é".repeat(127);
    a.rename(&longest).unwrap();
    a.rename(&longest).unwrap();
    assert_eq!(a.name().unwrap(), longest);
}

#[test]
fn a_keyspace_has_the_options_that_were_last_set_for_it() {
    let machine = Machine::new(10);
    let inline = |bytes| KeyspaceOptions::default().inline_value_bytes(bytes);
    let records_after = |bytes: Option<u32>| {
        let (db, _) = machine.open(small().inline_value_bytes(16));
        let options = bytes.map_or_else(KeyspaceOptions::default, inline);
        let a = db.keyspace("a", options).unwrap();
        for i in 0..100 {
            a.put(format!("{i:03}"), [i; 100]).unwrap();
            db.put(format!("{i:03}"), [i; 100]).unwrap();
        }
        db.compact().unwrap();
        let version = version(&db);
        let data = KeyspaceId(a.number().unwrap());
        let tables = version.key_tables().map(|t| t.meta());
        let of_a = tables.filter(|t| KeyspaceId::of(&t.min_key) == data);
        let beside_keys: u64 = of_a.map(|t| t.inline_bytes).sum();
        let set = a.options().unwrap().inline_value_bytes;
        db.close().unwrap();
        (set, beside_keys > 0)
    };
    assert_eq!(records_after(None), (None, false));
    assert_eq!(records_after(Some(200)), (Some(200), true));
    assert_eq!(records_after(None), (Some(200), true), "it stays");
    assert_eq!(records_after(Some(0)), (Some(0), false));
}

#[test]
fn a_repair_saves_keyspaces_and_brings_none_back() {
    let machine = Machine::new(11);
    let (db, _) = machine.open(tiny());
    let (a, b, empty) = (make(&db, "a"), make(&db, "b"), make(&db, "empty"));
    fill(&a, 100, 1);
    fill(&b, 100, 2);
    empty.put("key", "of before").unwrap();
    db.put("own", "value").unwrap();
    empty.truncate().unwrap();
    a.drop_keyspace().unwrap();
    drop((a, b, empty));
    // As it is after a kill: what was dropped is in the log.
    let disk = machine.disk.process_kill();
    drop(db);
    let machine = Machine { disk, seed: 12 };
    let options = crate::RepairOptions::default();
    let report = Db::repair("/db", "/saved", &options.clone().env(machine.env())).unwrap();
    assert!(report.is_complete(), "{report:#?}");
    assert_eq!(
        (report.saved, &report.keyspaces[..]),
        (101, &["b".to_owned(), "empty".to_owned()][..])
    );
    let saved = Db::open("/saved", tiny().env(machine.env())).unwrap();
    assert_eq!(saved.keyspaces(), ["default", "b", "empty"]);
    assert_filled(&make(&saved, "b"), 100, 2);
    assert_eq!(
        (saved.iter().count(), make(&saved, "empty").iter().count()),
        (1, 0)
    );
    saved.close().unwrap();
    // Without a manifest, names are lost, and nobody knows what was dropped.
    let names = machine.disk.file_names();
    for name in names.iter().filter(|name| name.starts_with("/db")) {
        let is_manifest = name.to_string_lossy().contains("MANIFEST");
        if is_manifest || name.ends_with("CURRENT") {
            machine.disk.write_file(name, b"");
        }
    }
    let report = Db::repair("/db", "/found", &options.clone().env(machine.env())).unwrap();
    assert!(!report.is_complete());
    let found = Db::open("/found", tiny().env(machine.env())).unwrap();
    assert_filled(&make(&found, "recovered-2"), 100, 2);
    assert_eq!(found.get("own").unwrap().as_deref(), Some(&b"value"[..]));
}

/// Each beginning of the manifest is refused, or holds all that was synced.
#[test]
fn a_manifest_that_lost_a_keyspace_is_found_out() {
    let machine = Machine::new(14);
    let (db, _) = machine.open(small());
    let a = make(&db, "a");
    let b = make(&db, "b");
    fill(&a, 3, 1);
    db.sync().unwrap();
    b.put_with("key", "value", Durability::Sync).unwrap();
    let (opened, refused) = machine.cut_file("MANIFEST", |db, len| {
        assert_filled(&make(db, "a"), 3, 1);
        assert_eq!(make(db, "b").iter().count(), 1, "{len} bytes");
    });
    assert!(opened >= 1 && refused > 300, "{opened} and {refused}");
}

/// The drop is durable, and so is a write after it: each beginning of the manifest is refused, or
/// knows of both.
#[test]
fn a_manifest_that_lost_a_drop_is_found_out() {
    let machine = Machine::new(15);
    let (db, _) = machine.open(small());
    let a = make(&db, "a");
    fill(&a, 3, 1);
    db.put("before", "value").unwrap();
    a.drop_keyspace().unwrap();
    db.put_with("after", "value", Durability::Sync).unwrap();
    let (opened, refused) = machine.cut_file("MANIFEST", |db, len| {
        assert!(db.get("after").unwrap().is_some());
        assert!(db.find_keyspace("a").is_none(), "{len} bytes");
    });
    assert!(opened >= 1 && refused > 300, "{opened} and {refused}");
}

/// The writes before a change are durable. A log that has lost them is refused, also where it ends
/// between two records, or has been emptied and looks as if it were just begun.
#[test]
fn a_log_that_lost_writes_before_a_drop_is_found_out() {
    let machine = Machine::new(16);
    let (db, _runtime) = machine.open(small());
    let a = make(&db, "a");
    db.put("before", "value").unwrap();
    a.drop_keyspace().unwrap();
    let (opened, refused) = machine.cut_file(".wal", |db, len| {
        assert!(db.get("before").unwrap().is_some(), "{len} bytes");
    });
    assert!(opened >= 1 && refused > 100, "{opened} and {refused}");
}

#[test]
fn changes_of_keyspaces_begin_no_segments() {
    let machine = Machine::new(36);
    let (db, _runtime) = machine.open(small());
    let logs = || {
        let names = machine.disk.file_names();
        let is_log = |path: &&std::path::PathBuf| path.extension().is_some_and(|it| it == "wal");
        names.iter().filter(is_log).count()
    };
    let before = logs();
    db.put("stays", "in the memtable").unwrap();
    for i in 0..20 {
        let keyspace = make(&db, &i.to_string());
        keyspace.put("key", "value").unwrap();
        keyspace.drop_keyspace().unwrap();
    }
    make(&db, "last").put("key", "value").unwrap();
    assert!(logs() <= before + 1, "{} and {before}", logs());
    db.sync().unwrap();
    let cut = Machine {
        disk: machine.disk.power_cut(Keep::Nothing),
        seed: 37,
    };
    let (again, _runtime) = cut.open(small());
    assert!(again.get("stays").unwrap().is_some());
    assert_eq!(again.keyspaces(), ["default", "last"]);
    assert_eq!(make(&again, "last").iter().count(), 1);
}

#[test]
fn a_partition_that_is_gone_stays_while_a_memtable_holds_its_keys() {
    let machine = Machine::new(39);
    let (db, runtime) = machine.open(small());
    let before = make(&db, "before");
    before.put("key", "value").unwrap();
    db.flush().unwrap();
    for (name, partitions) in [("one", 3), ("another", 4)] {
        let keyspace = make(&db, name);
        keyspace.put("key", "value").unwrap();
        keyspace.drop_keyspace().unwrap();
        runtime.run_until_idle();
        assert_eq!(version(&db).partitions().len(), partitions);
    }
    db.flush().unwrap();
    runtime.run_until_idle();
    assert_eq!(version(&db).partitions().len(), 2);
    assert_eq!(before.iter().count(), 1);
    assert_eq!(db.iter().count(), 0);
    db.close().unwrap();
    machine.check();
}

/// One write stays in the memtable all the while.
#[test]
fn partitions_of_dropped_keyspaces_go_by_few_edits_once_nobody_writes() {
    let machine = Machine::new(38);
    let (db, runtime) = machine.open(small());
    db.put("stays", "in the memtable").unwrap();
    let mut most = 0;
    for i in 0..200 {
        let keyspace = make(&db, &i.to_string());
        keyspace.put("key", "value").unwrap();
        keyspace.drop_keyspace().unwrap();
        most = most.max(db.stats().partitions.len());
        // The background keeps up; the clock stands still.
        if i % 10 == 0 {
            runtime.run_until_idle();
        }
    }
    assert!(most < 100, "{most} partitions");
    let left = version(&db).partitions().len();
    assert!(left > 10, "{left} partitions");
    let edits = || db.0.engine.catalog.manifest_edits();
    let before = edits();
    for _ in 0..10 {
        runtime.delay(Duration::from_secs(1));
        runtime.run_until_idle();
    }
    assert_eq!(db.stats().partitions.len(), 1, "{:#?}", db.stats());
    assert!(edits() - before < 12, "{}", edits() - before);
    assert_eq!(
        db.get("stays").unwrap().as_deref(),
        Some(&b"in the memtable"[..])
    );
    db.close().unwrap();
    machine.check();
}

#[test]
fn a_partition_that_is_gone_is_not_joined_before_it_is_empty() {
    let machine = Machine::new(16);
    let (db, _) = machine.open(small());
    let a = make(&db, "a");
    fill(&a, 100, 1);
    db.compact().unwrap();
    db.wait_until_idle().unwrap();
    a.drop_keyspace().unwrap();
    let engine = &db.0.engine;
    let catalog = engine.catalog.lock();
    assert_eq!(catalog.partitions().joins().count(), 0);
    assert_eq!(catalog.joins_of_gone(engine.space.partition_limits()), []);
    drop(catalog);
    db.wait_until_idle().unwrap();
    let stats = db.stats();
    assert_eq!(
        (stats.partitions.len(), stats.key_tables),
        (1, 0),
        "{stats:#?}"
    );
}

#[test]
fn large_values_of_a_dropped_keyspace_go_though_their_table_is_shared() {
    let machine = Machine::new(17);
    let (db, _) = machine.open(small());
    let a = make(&db, "a");
    for i in 0..5 {
        a.put(format!("large{i}"), vec![i; 100_000]).unwrap();
        db.put(format!("small{i}"), [i]).unwrap();
    }
    db.flush().unwrap();
    assert!(db.stats().record_file_bytes > 500_000);
    a.drop_keyspace().unwrap();
    db.wait_until_idle().unwrap();
    assert!(db.stats().record_file_bytes < 50_000, "{:#?}", db.stats());
    assert_eq!(db.iter().count(), 5);
    // Nothing has to be written before an empty partition is joined.
    let b = make(&db, "b");
    db.put("one", "more").unwrap();
    make(&db, "c");
    b.drop_keyspace().unwrap();
    db.flush().unwrap();
    db.wait_until_idle().unwrap();
    assert_eq!(db.stats().partitions.len(), 2);
}

#[test]
fn keyspaces_of_another_database_are_refused() {
    let (one, two) = (Machine::new(18), Machine::new(19));
    let ((db, _), (other, _)) = (one.open(small()), two.open(small()));
    let (a, foreign) = (make(&db, "a"), make(&other, "a"));
    a.put("key", "value").unwrap();
    foreign.put("key", "other").unwrap();
    let mut batch = Batch::new();
    batch.put_in(&foreign, "key", "new");
    let kind = |result: crate::Result<()>| result.unwrap_err().kind();
    assert_eq!(kind(db.write(&batch)), ErrorKind::InvalidArgument);
    let mut both = Batch::new();
    both.put_in(&a, "key", "new").append(&batch);
    assert_eq!(kind(db.write(&both)), ErrorKind::InvalidArgument);
    assert!(is_gone(db.snapshot().keyspace(&foreign).get("key")));
    let mut transaction = db.begin();
    assert!(is_gone(transaction.keyspace(&foreign).get("key")));
    assert!(is_gone(transaction.put_in(&foreign, "key", "new")));
    assert_eq!(a.get("key").unwrap().as_deref(), Some(&b"value"[..]));
}

#[test]
fn a_failed_manifest_leaves_the_keyspaces_as_they_were_known() {
    let machine = Machine::new(13);
    let (db, _) = machine.open(small());
    let a = make(&db, "a");
    fill(&a, 20, 1);
    machine.disk.set_fault(Box::new(|call| {
        let is_manifest = call.path.to_string_lossy().contains("MANIFEST");
        if is_manifest {
            Fault::Fail(std::io::ErrorKind::Other)
        } else {
            Fault::None
        }
    }));
    assert!(a.drop_keyspace().is_err() && db.keyspace("b", KeyspaceOptions::default()).is_err());
    assert_filled(&a, 20, 1);
    machine.disk.clear_faults();
    drop((a, db));
    let (db, _) = machine.open(small());
    // Whether the edit came to the disk is unknown: it is there whole or not.
    if let Some(a) = db.find_keyspace("a") {
        assert_filled(&a, 20, 1);
    }
    assert!(machine.disk.read_file(Path::new("/db/CURRENT")).is_some());
}

#[test]
fn small_merges_go_together_and_one_that_fails_holds_up_no_other() {
    for fails in [false, true] {
        let machine = Machine::new(20);
        let (db, runtime) = machine.open(small().tuning(Tuning::default().unsorted_bytes(1 << 20)));
        let all: Vec<Keyspace> = (0..5).map(|n| make(&db, &format!("k{n}"))).collect();
        all.iter().for_each(|keyspace| fill(keyspace, 20, 3));
        db.flush().unwrap();
        let engine = &db.0.engine;
        let (edits, merges) = (engine.catalog.manifest_edits(), db.stats().merges);
        if fails {
            let mut tables = 0;
            machine.disk.set_fault(Box::new(move |call| {
                let is_table = call.path.extension().is_some_and(|e| e == "key");
                tables += u32::from(is_table && call.op == Op::Create);
                if is_table && call.op == Op::Create && tables == 3 {
                    Fault::Fail(std::io::ErrorKind::Other)
                } else {
                    Fault::None
                }
            }));
        }
        // With the error of the third, if it fails; that is tried again.
        assert_eq!(db.compact().is_err(), fails);
        let never = runtime.event();
        never.wait_past(never.epoch(), Some(Duration::from_secs(60)));
        db.compact().unwrap();
        let (edits, merges) = (
            engine.catalog.manifest_edits() - edits,
            db.stats().merges - merges,
        );
        assert_eq!(merges, 5);
        assert!(edits <= 1 + 2 * u64::from(fails), "{edits} edits");
        all.iter()
            .for_each(|keyspace| assert_filled(keyspace, 20, 3));
        drop(all);
        db.close().unwrap();
        machine.check();
    }
}

#[test]
fn a_batch_of_another_databases_keyspaces_is_refused_whatever_its_values() {
    let [one, other] = [41, 42].map(Machine::new);
    let (one, other) = (one.open(small()).0, other.open(small()).0);
    let options = KeyspaceOptions::default;
    let users = one.keyspace("users", options()).unwrap();
    let mails = other.keyspace("mails", options()).unwrap();
    // In the log, in a file of its own, and in a batch that is larger than a memtable.
    for (values, len) in [(1, 10), (1, 8 << 10), (30, 400)] {
        let mut batch = Batch::new();
        for n in 0..values {
            batch.put_in(&users, format!("key{n}"), vec![b'v'; len]);
        }
        let error = other.write(&batch).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::InvalidArgument, "{len}");
        assert!(mails.iter().next().is_none(), "{len}");
        one.write(&batch).unwrap();
    }
    // What was taken back belongs to nobody.
    let mut batch = Batch::new();
    batch.set_savepoint();
    batch.put_in(&users, "key", "value");
    batch.rollback_to_savepoint();
    other.write(batch.put_in(&mails, "key", "value")).unwrap();
}
