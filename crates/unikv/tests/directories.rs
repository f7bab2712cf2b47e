//! Directories that move, on the real file system, and working directories that change: one test,
//! as a working directory is the whole process's.

#![allow(
    clippy::unwrap_used,
    reason = "a test that cannot set its stage must fail"
)]

use std::collections::BTreeMap;
use std::path::Path;
use std::{env, fs};
use unikv::{Db, ErrorKind, Options, Tuning};

type Model = BTreeMap<String, String>;

fn open(path: &str) -> Db {
    let options = Options::default()
        .tuning(
            Tuning::default()
                .memtable_bytes(32 << 10)
                .unsorted_bytes(256 << 10),
        )
        .memory_budget(8 << 20);
    Db::open(path, options).unwrap()
}

/// Enough for flushes and a merge.
fn write(db: &Db, model: &mut Model, owner: &str, round: u32) {
    for n in 0..400 {
        let (key, value) = (
            format!("key{n:04}"),
            format!("{owner}.{round}.{n}.").repeat(20),
        );
        db.put(&key, &value).unwrap();
        model.insert(key, value);
    }
    db.compact().unwrap();
}

fn verify(db: &Db, model: &Model) {
    let found = db.iter().map(|entry| {
        let (key, value) = entry.unwrap();
        let text = |bytes: &[u8]| String::from_utf8(bytes.to_vec()).unwrap();
        (text(&key), text(&value))
    });
    assert!(found.eq(model.clone()));
    for (key, value) in model {
        assert_eq!(db.get(key).unwrap().as_deref(), Some(value.as_bytes()));
    }
}

fn reopen(path: &Path, model: &Model) {
    let report = Db::check(path).unwrap();
    assert!(report.is_clean(), "{path:?}: {:?}", report.problems);
    verify(&open(path.to_str().unwrap()), model);
}

#[test]
fn a_database_stays_in_the_directory_that_it_has_locked() {
    let root = tempfile::tempdir().unwrap();
    let root = root.path();
    // Two databases under one relative name.
    let (mut first_model, mut second_model) = (Model::new(), Model::new());
    for dir in ["a", "b"] {
        fs::create_dir(root.join(dir)).unwrap();
    }
    env::set_current_dir(root.join("a")).unwrap();
    let first = open("db");
    env::set_current_dir(root.join("b")).unwrap();
    let second = open("db");
    for round in 0..3 {
        write(&first, &mut first_model, "first", round);
        write(&second, &mut second_model, "second", round);
    }
    env::set_current_dir(root).unwrap();
    verify(&first, &first_model);
    verify(&second, &second_model);

    // One moves while it is open; a backup is put in its place and opened.
    fs::rename("a/db", "moved").unwrap();
    write(&first, &mut first_model, "moved", 0);
    fs::create_dir("a/db").unwrap();
    let mut restored_model = Model::new();
    let restored = open("a/db");
    for round in 1..4 {
        write(&first, &mut first_model, "moved", round);
        write(&restored, &mut restored_model, "restored", round);
    }
    verify(&first, &first_model);
    verify(&restored, &restored_model);
    let refused = Db::open("moved", Options::default()).unwrap_err();
    assert_eq!(refused.kind(), ErrorKind::Locked);
    for db in [first, second, restored] {
        db.close().unwrap();
    }
    reopen(&root.join("moved"), &first_model);
    reopen(&root.join("b/db"), &second_model);
    reopen(&root.join("a/db"), &restored_model);
}
