//! Exports, imports and ingests as a script sees them.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

mod common;

use common::{json, text, unikv, within};
use std::fs;
use std::path::Path;

#[test]
fn a_range_goes_to_a_file_and_into_another_database() {
    let dir = tempfile::tempdir().unwrap();
    let path = |name: &str| within(dir.path(), name);
    let (db, other, file) = (&path("db"), &path("other"), &path("fruit.export"));
    text(&["put", db, "other", "1"]);
    text(&[
        "keyspace",
        "create",
        db,
        "fruit",
        "--inline-value-bytes",
        "99",
    ]);
    for (key, value) in [
        ("apple", "red"),
        ("banana", "yellow"),
        ("cherry", "dark red"),
    ] {
        text(&["put", db, key, value, "--keyspace", "fruit"]);
    }
    text(&["expire", db, "apple", "1h", "--keyspace", "fruit"]);
    let made = json(&["export", db, file, "--keyspace", "fruit", "--to", "cherry"]);
    assert_eq!((&made["records"], &made["bytes"]), (&2.into(), &20.into()));
    assert_eq!(json(&["import", other, file, "--verify"]), made);
    assert!(!Path::new(other).exists(), "only looked at");
    // It is made as it was.
    assert_eq!(json(&["import", other, file])["keyspace"], "fruit");
    assert_eq!(
        text(&["scan", other, "--keyspace", "fruit"]),
        "apple\tred\nbanana\tyellow\n"
    );
    assert!(text(&["keyspace", "list", other]).contains("99"));
    assert_ne!(
        text(&["ttl", other, "apple", "--keyspace", "fruit"]),
        "never\n"
    );
    // Into another one, and into one that is not there.
    text(&["import", other, file, "--keyspace", "default"]);
    assert_eq!(text(&["get", other, "banana"]), "yellow\n");
    unikv(&["import", other, file, "--keyspace", "none"])
        .assert()
        .code(14);
    // A file that is there, one that is damaged, and one that is no export.
    unikv(&["export", db, file]).assert().code(3);
    let mut bytes = fs::read(file).unwrap();
    bytes[120] ^= 1;
    let damaged = &path("damaged");
    fs::write(damaged, &bytes).unwrap();
    let new = &path("new");
    let refused = unikv(&["import", new, damaged]).assert().code(4);
    let message = String::from_utf8_lossy(&refused.get_output().stderr).into_owned();
    assert!(
        message.contains("damaged") && message.contains("offset"),
        "{message}"
    );
    fs::write(damaged, "key\tvalue\n").unwrap();
    unikv(&["import", db, damaged]).assert().code(8);
    // A range without keys.
    let empty = json(&["export", db, &path("empty"), "--from", "b", "--to", "a"]);
    assert_eq!(empty["records"], 0);
}

#[test]
fn sorted_lines_are_ingested_all_or_not_at_all() {
    let dir = tempfile::tempdir().unwrap();
    let path = |name: &str| within(dir.path(), name);
    let (db, lines) = (&path("db"), &path("lines.tsv"));
    fs::write(
        lines,
        "apple\tred\n\\expires\t99999999999999\tbanana\tyellow\n",
    )
    .unwrap();
    assert_eq!(json(&["ingest", db, lines])["records"], 2);
    assert_eq!(text(&["scan", db]), "apple\tred\nbanana\tyellow\n");
    assert_eq!(text(&["ttl", db, "apple"]), "never\n");
    assert_ne!(text(&["ttl", db, "banana"]), "never\n");
    fs::write(lines, "c\t1\nd\t2\na\t3\n").unwrap();
    let refused = unikv(&["ingest", db, lines]).assert().code(3);
    let message = String::from_utf8_lossy(&refused.get_output().stderr).into_owned();
    assert!(message.contains("line 3"), "{message}");
    fs::write(lines, "c\t1\n\\keyspace\tother\n").unwrap();
    unikv(&["ingest", db, lines]).assert().code(3);
    assert_eq!(text(&["scan", db]), "apple\tred\nbanana\tyellow\n");
    text(&["check", db]);
}
