//! A database of many files, and processes that may open 64 at a time. `UNIKV_FILES` says how many:
//! 5,000 take a minute.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

mod common;

use assert_cmd::Command;
use common::{Writer, text, within};
use std::fs;
use unikv::{Db, KeyspaceOptions, Options};

const DESCRIPTORS: u32 = 64;

/// The command, in a process that may open few files.
fn limited(arguments: &[&str]) -> Command {
    let mut command = Command::new("sh");
    let run = format!("ulimit -n {DESCRIPTORS}; exec \"$0\" \"$@\"");
    command.args(["-c", &run]);
    command.arg(assert_cmd::cargo::cargo_bin("unikv"));
    command.args(arguments).env("NO_COLOR", "1");
    command
}

fn limited_text(arguments: &[&str]) -> String {
    let done = limited(arguments).assert().success();
    String::from_utf8(done.get_output().stdout.clone()).unwrap()
}

/// Keyspaces with a key table each. The default one has a record for each of them.
fn make(db: &str, keyspaces: usize) {
    let db = Db::open(db, Options::default()).unwrap();
    for n in 0..keyspaces {
        let name = format!("keyspace {n:04}");
        let keyspace = db.keyspace(&name, KeyspaceOptions::default()).unwrap();
        keyspace.put("key", n.to_string()).unwrap();
        db.put(format!("key{n:04}"), format!("value {n}")).unwrap();
    }
    db.compact().unwrap();
    db.close().unwrap();
}

fn files(db: &str) -> usize {
    fs::read_dir(db).unwrap().count()
}

#[test]
fn all_commands_work_with_few_descriptors() {
    let dir = tempfile::tempdir().unwrap();
    let db = within(dir.path(), "db");
    let keyspaces = std::env::var("UNIKV_FILES").map_or(1200, |files| files.parse().unwrap());
    make(&db, keyspaces);
    assert!(files(&db) > keyspaces);
    assert_eq!(limited_text(&["get", &db, "key0007"]), "value 7\n");
    let scanned = limited_text(&["scan", &db]);
    assert_eq!(scanned.lines().count(), keyspaces);
    limited(&["check", &db]).assert().success();
    limited(&["stats", &db]).assert().success();
    let dumped = limited_text(&["dump", &db, "--format", "jsonl"]);
    assert!(dumped == text(&["dump", &db, "--format", "jsonl"]));
    limited(&["put", &db, "key", "value"]).assert().success();
    limited(&["compact", &db]).assert().success();
    assert_eq!(limited_text(&["get", &db, "key"]), "value\n");
    limited(&["gc", &db]).assert().success();

    // A reader beside a writer, too, while what it reads is there.
    let mut writer = Writer::of(&db);
    writer.say("put key other");
    assert_eq!(writer.ask("get key"), "other");
    assert_eq!(limited_text(&["get", &db, "key"]), "other\n");
    assert!(limited_text(&["scan", &db]).ends_with(&scanned));
    writer.end();

    let made = |name| within(dir.path(), name);
    let (export, copy) = (made("export"), made("copy"));
    let (imported, mended) = (made("imported"), made("mended"));
    limited(&["export", &db, &export]).assert().success();
    limited(&["import", &imported, &export]).assert().success();
    limited(&["checkpoint", &db, &copy]).assert().success();
    limited(&["check", &copy]).assert().success();
    limited(&["repair", &db, "--to", &mended])
        .assert()
        .success();
    let scanned = text(&["scan", &db]);
    for other in [&imported, &copy, &mended] {
        assert!(text(&["scan", other]) == scanned, "{other}");
    }
}
