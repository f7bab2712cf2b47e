//! What each command says of paths at which there is no database.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

mod common;

use common::{text, unikv, within};
use std::fs;

/// Every command that opens a database or a repository, on this path.
fn commands<'a>(at: &'a str, made: &'a str, lines: &'a str, export: &'a str) -> Vec<Vec<&'a str>> {
    vec![
        vec!["put", at, "k", "v"],
        vec!["load", at, lines],
        vec!["ingest", at, lines],
        vec!["import", at, export],
        vec!["ycsb", at, "--records", "10", "--operations", "10"],
        // Those above make a database where there is none.
        vec!["get", at, "k"],
        vec!["del", at, "k"],
        vec!["delete-range", at, "--all"],
        vec!["ttl", at, "k"],
        vec!["expire", at, "k", "1h"],
        vec!["clear-ttl", at, "k"],
        vec!["scan", at],
        vec!["dump", at],
        vec!["export", at, made],
        vec!["changes", at],
        vec!["stats", at],
        vec!["shell", at],
        vec!["keyspace", "list", at],
        vec!["keyspace", "create", at, "users"],
        vec!["keyspace", "rename", at, "users", "people"],
        vec!["keyspace", "empty", at, "users"],
        vec!["keyspace", "drop", at, "users"],
        vec!["compact", at],
        vec!["gc", at],
        vec!["check", at],
        vec!["repair", at, "--to", made],
        vec!["checkpoint", at, made],
        vec!["backup", "create", at, made],
        vec!["top", at, "--once"],
        vec!["top", at, "--json"],
        vec!["backup", "list", at],
        vec!["backup", "verify", at],
        vec!["backup", "prune", at, "--keep", "1"],
        vec!["backup", "restore", at, made],
    ]
}

const CREATING: usize = 5;

#[test]
fn what_is_no_database_is_refused_with_what_to_do_and_nothing_is_made() {
    let dir = tempfile::tempdir().unwrap();
    let name = |name| within(dir.path(), name);
    let (db, lines, export, made) = (name("db"), name("lines.tsv"), name("export"), name("made"));
    fs::write(&lines, "a\t1\n").unwrap();
    text(&["load", &db, &lines]);
    text(&["export", &db, &export]);
    let (file, missing) = (name("file"), name("missing"));
    fs::write(&file, "hello").unwrap();
    let refused = |command: &[&str], status: i32, remedies: &[&str]| {
        let output = unikv(command).write_stdin("").output().unwrap();
        let error = String::from_utf8(output.stderr).unwrap();
        assert_eq!(output.status.code(), Some(status), "{command:?}: {error}");
        let has_remedy = remedies.iter().any(|remedy| error.contains(remedy));
        assert!(has_remedy, "{command:?}: {error}");
        assert!(output.stdout.is_empty(), "{command:?}");
        assert!(!error.contains("create_if_missing"), "{command:?}: {error}");
        assert!(!fs::exists(&made).unwrap(), "{command:?}");
    };
    for command in commands(&file, &made, &lines, &export) {
        refused(&command, 5, &["is a file: check the path"]);
    }
    assert_eq!(fs::read_to_string(&file).unwrap(), "hello");
    for command in &commands(&missing, &made, &lines, &export)[CREATING..] {
        let remedies = [
            "check the path, or make one with `unikv put`",
            "check the path, or make a backup first",
            "see `unikv stats`",
        ];
        refused(command, 8, &remedies);
        assert!(!fs::exists(&missing).unwrap(), "{command:?}");
    }
    // A path below a file, and a directory in the place of a file.
    refused(
        &["get", &within(file.as_ref(), "db"), "k"],
        5,
        &["is a file: check the path"],
    );
    refused(&["inspect", &db], 5, &["name a file"]);
}

#[test]
fn a_reader_that_has_gone_is_no_failure() {
    let dir = tempfile::tempdir().unwrap();
    let db = within(dir.path(), "db");
    text(&["put", &db, "key", "value"]);
    let current = within(db.as_ref(), "CURRENT");
    for command in [
        vec!["get", &db, "key"],
        vec!["scan", &db],
        vec!["dump", &db],
        vec!["ttl", &db, "key"],
        vec!["stats", &db],
        vec!["keyspace", "list", &db],
        vec!["check", &db],
        vec!["gc", &db, "--explain"],
        vec!["inspect", &current],
    ] {
        let (reader, writer) = std::io::pipe().unwrap();
        drop(reader);
        let mut child = std::process::Command::new(assert_cmd::cargo::cargo_bin("unikv"));
        let status = child.args(&command).stdout(writer).status().unwrap();
        assert_eq!(status.code(), Some(0), "{command:?}");
    }
}

#[test]
fn a_directory_to_load_from_is_refused_before_a_database_is_made() {
    let dir = tempfile::tempdir().unwrap();
    let db = within(dir.path(), "db");
    for command in ["load", "ingest"] {
        let mut started = unikv(&[command, &db, dir.path().to_str().unwrap()]);
        let output = started.write_stdin("").output().unwrap();
        let error = String::from_utf8(output.stderr).unwrap();
        assert_eq!(output.status.code(), Some(3), "{error}");
        assert!(error.contains("is a directory; name a file"), "{error}");
        assert!(!fs::exists(&db).unwrap());
    }
}
