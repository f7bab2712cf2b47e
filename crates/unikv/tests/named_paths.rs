//! Paths with links, `.` and `..`: what is refused is refused before anything is made or removed.

#![cfg(unix)]
#![allow(
    clippy::unwrap_used,
    reason = "a test that cannot set its stage must fail"
)]

use std::fs;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use unikv::{Db, ErrorKind, Options, RepairOptions, Result};

/// A directory with a closed database, and its path.
fn stage() -> (tempfile::TempDir, PathBuf) {
    let root = tempfile::tempdir().unwrap();
    let dir = root.path().join("db");
    let db = Db::open(&dir, Options::default()).unwrap();
    db.put("key", "value").unwrap();
    db.close().unwrap();
    (root, dir)
}

fn holds(dir: &Path) {
    let db = Db::open_existing(dir, Options::default()).unwrap();
    assert_eq!(db.get("key").unwrap().as_deref(), Some(&b"value"[..]));
    db.close().unwrap();
}

fn names(dir: &Path) -> Vec<String> {
    let entries = fs::read_dir(dir).unwrap();
    let mut names: Vec<String> = entries
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .collect();
    names.sort();
    names
}

fn refused<T: std::fmt::Debug>(result: Result<T>, says: &str) {
    let error = result.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::InvalidArgument, "{error}");
    assert!(error.to_string().contains(says), "{error}");
}

#[test]
fn destroying_through_a_link_removes_nothing() {
    let (root, dir) = stage();
    let link = root.path().join("link");
    symlink(&dir, &link).unwrap();
    for path in [link.clone(), link.join("."), link.join("")] {
        refused(Db::destroy(&path), "symbolic link");
    }
    holds(&link);
    Db::destroy(dir.join(".")).unwrap();
    assert_eq!(names(root.path()), ["link"]);
}

#[test]
fn a_repair_into_a_path_without_a_name_makes_nothing() {
    let (root, dir) = stage();
    let repair = |to: &Path| Db::repair(&dir, to, &RepairOptions::default());
    refused(repair(&root.path().join("q/..")), "no name");
    refused(repair(Path::new("")), "empty");
    symlink("nowhere", root.path().join("link")).unwrap();
    refused(repair(&root.path().join("link")), "nowhere");
    assert_eq!(names(root.path()), ["db", "link"]);
    repair(&root.path().join("repaired/.")).unwrap();
    holds(&root.path().join("repaired"));
}

#[test]
fn a_checkpoint_gets_its_name_or_makes_nothing() {
    let (root, dir) = stage();
    let root = root.path();
    let db = Db::open(&dir, Options::default()).unwrap();
    symlink("nowhere", root.join("link")).unwrap();
    refused(db.checkpoint(root.join("q/..")), "no name");
    refused(db.checkpoint(root.join("link")), "there already");
    refused(db.checkpoint(""), "empty");
    assert_eq!(names(root), ["db", "link"]);
    db.checkpoint(root.join("copy/.")).unwrap();
    assert_eq!(names(root), ["copy", "db", "link"]);
    db.close().unwrap();
    holds(&root.join("copy"));
}

#[test]
fn an_export_gets_its_name_or_makes_nothing() {
    let (root, dir) = stage();
    let root = root.path();
    let db = Db::open(&dir, Options::default()).unwrap();
    symlink("nowhere", root.join("link")).unwrap();
    for (name, says) in [
        ("file/", "no name"),
        ("q/..", "no name"),
        ("file/.", "no name"),
        ("link", "already"),
    ] {
        refused(db.export(.., root.join(name)), says);
    }
    assert_eq!(names(root), ["db", "link"]);
    db.export(.., root.join("file")).unwrap();
    assert_eq!(names(root), ["db", "file", "link"]);
}

#[test]
fn opening_says_what_a_path_is() {
    let (root, dir) = stage();
    refused(Db::open("", Options::default()), "empty");
    let link = root.path().join("link");
    symlink("nowhere", &link).unwrap();
    refused(Db::open(&link, Options::default()), "nowhere");
    assert_eq!(names(root.path()), ["db", "link"]);
    // A link to a database is one.
    fs::remove_file(&link).unwrap();
    symlink(&dir, &link).unwrap();
    holds(&link);
}
