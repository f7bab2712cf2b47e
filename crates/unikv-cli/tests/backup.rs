//! Checkpoints and backups as a script sees them.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

mod common;

use common::{json, text, unikv, within};
use serde_json::Value;
use std::fs;
use unikv::{Db, Options};

fn put(db: &str, key: &str, value: &str) {
    unikv(&["put", db, key, value]).assert().success();
}

fn get(db: &str, key: &str) -> String {
    text(&["get", db, key])
}

#[test]
fn a_checkpoint_is_a_database_of_its_own() {
    let dir = tempfile::tempdir().unwrap();
    let (db, copy) = (&within(dir.path(), "db"), &within(dir.path(), "copy"));
    put(db, "apple", "red");
    unikv(&["compact", db]).assert().success();
    put(db, "banana", "yellow");
    let made = json(&["checkpoint", db, copy]);
    assert!(made["linked_bytes"].as_u64() > Some(0), "{made}");
    assert_eq!(made["copied_because"], Value::Null);
    put(db, "apple", "green");
    assert_eq!(get(copy, "apple"), "red\n");
    put(copy, "banana", "brown");
    assert_eq!(get(db, "banana"), "yellow\n");
    unikv(&["check", copy]).assert().success();
    unikv(&["check", db]).assert().success();
    // A name that is taken, and no database.
    unikv(&["checkpoint", db, copy]).assert().code(3);
    let absent = &within(dir.path(), "absent");
    unikv(&["checkpoint", absent, "x"]).assert().code(8);
    // Of one that is open, too: see `beside.rs`.
    let _open = Db::open(db, Options::default()).unwrap();
    let (other, backups) = (&within(dir.path(), "other"), &within(dir.path(), "backups"));
    json(&["checkpoint", db, other]);
    json(&["backup", "create", db, backups]);
    assert_eq!(get(other, "apple"), "green\n");
}

#[test]
fn backups_are_made_listed_verified_pruned_and_restored() {
    let dir = tempfile::tempdir().unwrap();
    let (db, backups) = (&within(dir.path(), "db"), &within(dir.path(), "backups"));
    unikv(&["backup", "list", backups]).assert().code(8);
    for (nth, value) in ["red", "green", "brown"].iter().enumerate() {
        put(db, "apple", value);
        unikv(&["compact", db]).assert().success();
        let made = json(&["backup", "create", db, backups]);
        assert_eq!(made["point"], nth + 1, "{made}");
        assert!(made["copied_bytes"].as_u64() > Some(0));
    }
    let idle = json(&["backup", "create", db, backups]);
    assert!(idle["shared_bytes"].as_u64() > Some(0), "{idle}");
    let listed = json(&["backup", "list", backups]);
    assert_eq!(listed["points"].as_array().unwrap().len(), 4);
    assert_eq!(json(&["backup", "verify", backups])["sound"], true);

    let first = &within(dir.path(), "first");
    json(&["backup", "restore", backups, first, "--point", "1"]);
    assert_eq!(get(first, "apple"), "red\n");
    unikv(&["backup", "restore", backups, first])
        .assert()
        .code(3);
    unikv(&["backup", "prune", backups, "--keep", "0"])
        .assert()
        .code(3);
    let pruned = json(&["backup", "prune", backups, "--keep", "2"]);
    assert_eq!(pruned["removed"], serde_json::json!([1, 2]));
    let gone = &within(dir.path(), "gone");
    unikv(&["backup", "restore", backups, gone, "--point", "1"])
        .assert()
        .code(8);
    let newest = &within(dir.path(), "newest");
    unikv(&["backup", "restore", backups, newest])
        .assert()
        .success();
    assert_eq!(get(newest, "apple"), "brown\n");
    unikv(&["check", newest]).assert().success();

    // Another database has no place there, and neither has a backup in a foreign directory.
    put(gone, "apple", "blue");
    unikv(&["backup", "create", gone, backups]).assert().code(3);
    unikv(&["backup", "create", db, first]).assert().code(8);
    // A damaged file is found, and named.
    let data = dir.path().join("backups/data");
    for entry in fs::read_dir(&data).unwrap() {
        let path = entry.unwrap().path();
        let mut bytes = fs::read(&path).unwrap();
        bytes[100] ^= 1;
        fs::write(&path, bytes).unwrap();
    }
    let verified = unikv(&["backup", "verify", backups]).assert().code(4);
    let text = String::from_utf8(verified.get_output().stdout.clone()).unwrap();
    assert!(text.contains("backups/data/"), "{text}");
    let broken = &within(dir.path(), "broken");
    unikv(&["backup", "restore", backups, broken])
        .assert()
        .code(4);
    assert!(fs::metadata(broken).is_err());
}
