//! Following changes as a script sees it.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

mod common;

use common::{text, unikv};
use serde_json::Value;
use std::fs;

#[test]
fn changes_are_printed_from_a_token_on() {
    let dir = tempfile::tempdir().unwrap();
    let db = dir.path().join("db");
    let db = db.to_str().unwrap();
    let lines = dir.path().join("lines.tsv");
    let lines = lines.to_str().unwrap();
    fs::write(lines, "apple\tred\nbanana\tyellow\n").unwrap();
    unikv(&["changes", db]).assert().code(8);
    text(&["put", db, "before", "1"]);
    unikv(&["changes", db]).assert().code(3);
    text(&["load", db, lines, "--change-window-bytes", "1MiB"]);
    text(&["keyspace", "create", db, "fruit"]);
    text(&["put", db, "cherry", "dark", "--keyspace", "fruit"]);
    let all = text(&["changes", db]);
    let what: Vec<&str> = all
        .lines()
        .map(|line| line.split_once('\t').unwrap().1)
        .collect();
    let expected = [
        "put\tdefault\tapple\tred",
        "put\tdefault\tbanana\tyellow",
        "keyspace\tmade\tfruit",
        "put\tfruit\tcherry\tdark",
    ];
    assert_eq!(what, expected);
    let token = all.lines().nth(2).unwrap().split('\t').next().unwrap();
    let rest = text(&["changes", db, "--since", token, "--json"]);
    let change: Value = serde_json::from_str(&rest).unwrap();
    assert_eq!(change["write"][0]["key"], "cherry");
    let last = change["token"].as_str().unwrap();
    assert_eq!(
        text(&["changes", db, "--since", last, "--wait", "10ms"]),
        ""
    );
    text(&["del", db, "apple"]);
    let deleted = text(&["changes", db, "--since", last]);
    assert!(deleted.ends_with("\tdelete\tdefault\tapple\n"), "{deleted}");
    // Of another database, and no token.
    unikv(&["changes", db, "--since", "0000000000000007-1"])
        .assert()
        .code(15);
    unikv(&["changes", db, "--since", "soon"]).assert().code(2);
}
