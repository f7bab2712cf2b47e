//! Repairs of databases whose manifest does not know all keyspaces.

use super::KnownKeyspaces;
use crate::base::keys::{FileNumber, SeqNo};
use crate::engine::tests::common::{rewrite_manifest, version};
use crate::engine::tests::{Machine, small};
use crate::offline::inspect::Part;
use crate::offline::repair::files::holes::{Hole, past};
use crate::vfs::Vfs;
use crate::{Batch, Db, KeyspaceOptions, Options, RepairOptions, RepairReport, RepairTrust};
use std::path::{Path, PathBuf};

/// A closed database with these keyspaces, each with the keys `k` and `m`, whose values begin with
/// its name.
fn database(seed: u64, names: &[&str]) -> Machine {
    let machine = Machine::new(seed);
    let (db, _runtime) = machine.open(small());
    for name in names {
        let keyspace = db.keyspace(name, KeyspaceOptions::default()).unwrap();
        for key in ["k", "m"] {
            keyspace.put(key, format!("{name} {key}")).unwrap();
        }
    }
    db.close().unwrap();
    machine
}

/// A repair, of which a dry run reports the same.
fn repaired(machine: &Machine) -> RepairReport {
    let dry = RepairOptions::default().dry_run(true);
    let dry = Db::repair("/db", "/new", &dry.clone().env(machine.env())).unwrap();
    let wet = RepairOptions::default();
    let wet = Db::repair("/db", "/new", &wet.clone().env(machine.env())).unwrap();
    assert_eq!(dry.keyspaces, wet.keyspaces);
    assert_eq!((dry.saved, dry.in_doubt), (wet.saved, wet.in_doubt));
    wet
}

fn salvaged(machine: &Machine) -> Db {
    Db::open("/new", Options::default().env(machine.env())).unwrap()
}

/// All records of all keyspaces, as `keyspace key=value`.
fn contents(db: &Db) -> Vec<String> {
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    let mut all = Vec::new();
    for name in db.keyspaces() {
        let keyspace = db.keyspace(&name, KeyspaceOptions::default()).unwrap();
        for entry in keyspace.iter() {
            let (key, value) = entry.unwrap();
            all.push(format!("{name} {}={}", text(&key), text(&value)));
        }
    }
    all
}

fn files(machine: &Machine, what: &str) -> Vec<PathBuf> {
    let all = machine.disk.file_names().into_iter();
    let is = |path: &PathBuf| path.starts_with("/db") && path.to_string_lossy().contains(what);
    all.filter(is).collect()
}

/// Where the parts of a file are that `is_it` chooses.
fn places(machine: &Machine, path: &Path, is_it: impl Fn(&Part) -> bool) -> Vec<u64> {
    let mut places = Vec::new();
    let mut visit = |part: &Part| places.extend(is_it(part).then_some(part.offset));
    machine.env().inspect(path, &mut visit).unwrap();
    places
}

/// Damages the first of these parts of a file.
fn damage(machine: &Machine, path: &Path, is_it: impl Fn(&Part) -> bool) {
    let at = places(machine, path, is_it)[0];
    assert!(machine.disk.flip_bit(path, (at + 12) * 8));
}

fn forget(machine: &Machine, name: &str) {
    rewrite_manifest(machine, |edit| {
        edit.keyspaces.retain(|meta| meta.name != name)
    });
}

#[test]
fn a_made_up_name_is_that_of_no_other_keyspace() {
    let machine = database(1, &["recovered-2", "b"]);
    let manifest = files(&machine, "MANIFEST").remove(0);
    let shown = ("name", "\"b\"".to_owned());
    let is_it = |part: &Part| part.what == "+ keyspace" && part.fields.contains(&shown);
    damage(&machine, &manifest, is_it);
    let report = repaired(&machine);
    assert_eq!(report.keyspaces, ["recovered-2", "recovered-2-1"]);
    let all = [
        "recovered-2 k=recovered-2 k",
        "recovered-2 m=recovered-2 m",
        "recovered-2-1 k=b k",
        "recovered-2-1 m=b m",
    ];
    assert_eq!(contents(&salvaged(&machine)), all);
    assert!(!report.is_complete(), "{report:#?}");
}

#[test]
fn a_number_that_the_manifest_has_lost_is_in_doubt_however_it_is_trusted() {
    let machine = database(2, &["a", "b"]);
    rewrite_manifest(&machine, |edit| {
        edit.keyspaces.retain(|meta| meta.name != "b");
        edit.last_keyspace = Some(1);
    });
    let report = repaired(&machine);
    assert_eq!(report.trust, RepairTrust::Manifest);
    assert_eq!((report.saved, report.in_doubt), (4, 2), "{report:#?}");
    assert_eq!(report.keyspaces, ["a", "recovered-2"]);
    let all = [
        "a k=a k",
        "a m=a m",
        "recovered-2 k=b k",
        "recovered-2 m=b m",
    ];
    assert_eq!(contents(&salvaged(&machine)), all);
    assert!(!report.is_complete(), "{report:#?}");
    let notes = report.notes.join("\n");
    assert!(notes.contains("keyspace"), "{notes}");
}

#[test]
fn a_number_that_the_manifest_knew_and_does_not_list_is_gone() {
    let machine = database(3, &["a", "b"]);
    forget(&machine, "b");
    let report = repaired(&machine);
    assert_eq!(
        (report.saved, &report.keyspaces[..]),
        (2, &["a".to_owned()][..])
    );
    assert!(
        report.is_complete() && report.notes.is_empty(),
        "{report:#?}"
    );
}

/// Nothing of it is saved, and an edit is lost all the same.
#[test]
fn a_lost_number_of_which_there_are_tombstones_alone_is_reported() {
    let machine = Machine::new(4);
    let (db, _runtime) = machine.open(small());
    db.put("own", "value").unwrap();
    let a = db.keyspace("a", KeyspaceOptions::default()).unwrap();
    a.delete("k").unwrap();
    drop(a);
    // As a process left it that was killed: the tombstone is in the log.
    let machine = Machine {
        disk: machine.disk.process_kill(),
        seed: 4,
    };
    drop(db);
    rewrite_manifest(&machine, |edit| {
        edit.keyspaces.clear();
        edit.last_keyspace = None;
    });
    let report = repaired(&machine);
    assert_eq!((report.saved, report.in_doubt), (1, 0), "{report:#?}");
    assert!(
        !report.is_complete() && !report.notes.is_empty(),
        "{report:#?}"
    );
}

#[test]
fn a_dry_run_lists_the_keyspaces_that_a_repair_makes() {
    let machine = database(5, &["a", "b"]);
    for path in machine.disk.file_names() {
        let name = path.file_name().unwrap().to_string_lossy().into_owned();
        if name == "CURRENT" || name.starts_with("MANIFEST") {
            machine.disk.remove(&path).unwrap();
        }
    }
    let report = repaired(&machine);
    assert_eq!(report.keyspaces, ["recovered-1", "recovered-2"]);
    assert_eq!(report.saved, 4);
}

/// Two versions of a value are apart from their key.
#[test]
fn lost_and_uncertain_keys_are_those_of_a_keyspace_unless_it_is_gone() {
    let machine = Machine::new(6);
    let (db, _runtime) = machine.open(small());
    let a = db.keyspace("a", KeyspaceOptions::default()).unwrap();
    for round in 1..=2 {
        a.put("k", vec![round; 300]).unwrap();
        db.flush().unwrap();
    }
    drop(a);
    db.close().unwrap();
    let newest = files(&machine, ".rec").pop().unwrap();
    damage(&machine, &newest, |part| part.what == "record");
    let report = repaired(&machine);
    let (lost, uncertain) = (&report.lost_keys, &report.uncertain_keys);
    assert_eq!((lost.len(), uncertain.len()), (1, 1), "{report:#?}");
    assert_eq!((&*lost[0].keyspace, &lost[0].key[..]), ("a", &b"k"[..]));
    let uncertain = (&*uncertain[0].keyspace, &uncertain[0].key[..]);
    assert_eq!(uncertain, ("a", &b"k"[..]));

    forget(&machine, "a");
    remove_new(&machine);
    let report = repaired(&machine);
    assert!(report.is_complete(), "{report:#?}");
}

#[test]
fn lost_ranges_are_those_of_a_keyspace_unless_it_is_gone() {
    let machine = Machine::new(7);
    let (db, _runtime) = machine.open(small());
    let inline = KeyspaceOptions::default().inline_value_bytes(1000);
    let a = db.keyspace("a", inline).unwrap();
    db.put("own", "value").unwrap();
    for i in 0..100_u8 {
        a.put(format!("key{i:03}"), [i; 50]).unwrap();
    }
    drop(a);
    db.compact().unwrap();
    db.close().unwrap();
    let tables = files(&machine, ".key").into_iter();
    let table = tables.max_by_key(|path| machine.disk.read_file(path).map(|bytes| bytes.len()));
    let table = table.unwrap();
    damage(&machine, &table, |part| part.what == "block");
    let report = repaired(&machine);
    assert_eq!(report.lost_range_count, 1, "{report:#?}");
    let range = &report.lost_ranges[0];
    assert_eq!(range.keyspace, "a");
    assert!(range.from.starts_with(b"key"), "{range:?}");

    forget(&machine, "a");
    remove_new(&machine);
    let report = repaired(&machine);
    assert!(report.is_complete() && report.saved == 1, "{report:#?}");
}

/// Of a batch in the log the value of a keyspace that was dropped is lost, and nothing else.
#[test]
fn a_lost_large_value_of_a_keyspace_that_is_gone_takes_no_batch_with_it() {
    let machine = Machine::new(9);
    let (db, _runtime) = machine.open(small());
    let a = db.keyspace("a", KeyspaceOptions::default()).unwrap();
    let mut batch = Batch::new();
    batch.put("own", "value");
    batch.put_in(&a, "k", vec![7; 2 << 20]);
    db.write(&batch).unwrap();
    a.drop_keyspace().unwrap();
    let machine = Machine {
        disk: machine.disk.process_kill(),
        seed: 10,
    };
    drop((a, db));
    for path in files(&machine, ".rec") {
        machine.disk.remove(&path).unwrap();
    }
    let report = repaired(&machine);
    assert_eq!(report.saved, 1, "{report:#?}");
    assert_eq!(report.lost + report.log.batches_dropped, 0, "{report:#?}");
}

fn remove_new(machine: &Machine) {
    let names = machine.disk.file_names().into_iter();
    names
        .filter(|path| path.starts_with("/new"))
        .for_each(|path| machine.disk.remove(&path).unwrap());
}

/// The numbers 2 and 4 have been dropped.
#[test]
fn a_lost_range_is_divided_among_the_keyspaces_that_may_be_there() {
    let machine = Machine::new(8);
    let (db, _runtime) = machine.open(small());
    for name in ["a", "gone", "c", "gone too"] {
        drop(db.keyspace(name, KeyspaceOptions::default()).unwrap());
    }
    for name in ["gone", "gone too"] {
        db.find_keyspace(name).unwrap().drop_keyspace().unwrap();
    }
    let mut known = KnownKeyspaces {
        listed: version(&db).keyspaces.clone(),
        last: 4,
        trust: RepairTrust::Manifest,
    };
    let key = |number: u8, key: &[u8]| [&[0, 0, 0, number], key].concat();
    let parts = |known: &KnownKeyspaces, from: &[u8], to: Option<Vec<u8>>, unlisted: &[u32]| {
        let hole = Hole {
            from: from.to_vec(),
            to,
            sorted: true,
            max_seq: SeqNo(1),
            file: FileNumber(1),
            path: PathBuf::new(),
            missing: None,
            of_range_deletes: false,
        };
        let unlisted: Vec<_> = unlisted
            .iter()
            .copied()
            .map(crate::base::keys::KeyspaceId)
            .collect();
        let text = |key: &[u8]| String::from_utf8_lossy(key).into_owned();
        let parts = known.parts_of(&hole, &unlisted).into_iter();
        let texts = parts.map(|part| {
            let to = part.to.map_or("the end".to_owned(), |to| text(&to));
            format!("{}: {} to {to}", part.keyspace, text(&part.from))
        });
        texts.collect::<Vec<_>>()
    };
    let all = ["default:  to the end", "a:  to the end", "c:  to the end"];
    assert_eq!(parts(&known, b"", None, &[]), all);
    let all = [&all[..], &["recovered-6:  to the end"]].concat();
    assert_eq!(parts(&known, b"", None, &[6]), all);
    let some = parts(&known, &key(1, b"k"), Some(key(3, b"m")), &[6]);
    assert_eq!(some, ["a: k to the end", "c:  to m"]);
    let one = parts(&known, &key(0, b"k"), Some(key(0, b"m")), &[]);
    assert_eq!(one, ["default: k to m"]);
    // A border, and the empty key.
    let one = parts(&known, &key(1, b"k"), Some(key(3, b"")), &[]);
    assert_eq!(one, ["a: k to the end"]);
    let two = parts(&known, &key(1, b"k"), Some(past(key(3, b""))), &[]);
    assert_eq!(two, ["a: k to the end", "c:  to \0"]);
    let gone = |known: &KnownKeyspaces| {
        let within = parts(known, &key(2, b"k"), Some(key(2, b"m")), &[]);
        (within, parts(known, &key(4, b"k"), None, &[]))
    };
    assert_eq!(gone(&known), (Vec::new(), Vec::new()));
    known.trust = RepairTrust::ManifestPrefix;
    let next = vec!["recovered-5:  to the end".to_owned()];
    assert_eq!(gone(&known), (Vec::new(), next));
}
