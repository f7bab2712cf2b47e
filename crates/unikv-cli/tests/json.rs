//! `--json` of every command: what it prints parses, and errors do, too.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

mod common;

use common::{Writer, text, unikv, within};
use serde_json::Value;
use std::collections::BTreeSet;
use std::fs;

/// The commands without `--json`, and why.
const WITHOUT: [(&str, &str); 2] = [
    ("shell", "a conversation; a script has the commands"),
    ("completions", "prints a script for a shell"),
];

/// The commands below `path`, as the help lists them; the path itself if it has none.
fn leaves(path: &[String]) -> Vec<Vec<String>> {
    let mut arguments: Vec<&str> = path.iter().map(String::as_str).collect();
    arguments.push("--help");
    let help = text(&arguments);
    let Some((_, commands)) = help.split_once("\nCommands:\n") else {
        return vec![path.to_vec()];
    };
    let commands = commands.split("\n\n").next().unwrap().lines();
    // A line of a description that is continued is indented further.
    let names = commands.filter(|line| line.starts_with("  ") && !line.starts_with("   "));
    let names = names.map(|line| line.split_whitespace().next().unwrap());
    let below = names.filter(|name| *name != "help").map(|name| {
        let mut path = path.to_vec();
        path.push(name.to_owned());
        path
    });
    below.flat_map(|path| leaves(&path)).collect()
}

/// The objects that a command prints.
fn objects(arguments: &[&str], status: i32) -> Vec<Value> {
    let output = unikv(&[arguments, &["--json"]].concat()).output().unwrap();
    let err = String::from_utf8(output.stderr).unwrap();
    assert_eq!(output.status.code(), Some(status), "{arguments:?}: {err}");
    assert!(err.is_empty(), "{arguments:?}: {err}");
    let out = String::from_utf8(output.stdout).unwrap();
    let objects = out.lines().map(|line| {
        let value: Value = serde_json::from_str(line).unwrap();
        assert!(value.is_object(), "{arguments:?}: {line}");
        value
    });
    objects.collect()
}

#[test]
fn every_command_prints_results_as_json() {
    let dir = tempfile::tempdir().unwrap();
    let name = |name| within(dir.path(), name);
    let (db, lines, copy, backups) = (&name("db"), &name("lines"), &name("copy"), &name("backups"));
    let (file, other, bench, mine) = (&name("file"), &name("other"), &name("bench"), &name("mine"));
    fs::write(lines, "a\t1\nb\t2\n").unwrap();
    let mut tried = BTreeSet::new();
    // How many objects: `None` where that depends.
    let mut run = |line: &[&str], status, count: Option<usize>| {
        let printed = objects(line, status);
        assert_eq!(count.unwrap_or(printed.len()), printed.len(), "{line:?}");
        assert!(!printed.is_empty(), "{line:?}");
        let words = if ["keyspace", "backup"].contains(&line[0]) {
            2
        } else {
            1
        };
        tried.insert(line[..words].join(" "));
        printed[0].clone()
    };
    let one = Some(1);
    let loaded = run(
        &["load", db, lines, "--change-window-bytes", "1MiB"],
        0,
        one,
    );
    assert_eq!(loaded["records"], 2);
    let put = run(&["put", db, "k\u{e9}y", "value", "--ttl", "1h"], 0, one);
    assert_eq!(
        (&put["key"], &put["ttl_ms"]),
        (&"k\u{e9}y".into(), &3_600_000.into())
    );
    let put = run(&["put", db, "6bff", "00", "--hex"], 0, one);
    assert_eq!(
        (&put["key"], &put["encoding"]),
        (&"6bff".into(), &"hex".into())
    );
    assert_eq!(run(&["get", db, "a"], 0, one)["value"], "1");
    assert_eq!(run(&["get", db, "absent"], 1, one)["found"], false);
    assert_eq!(run(&["ttl", db, "a"], 0, one)["ttl_ms"], Value::Null);
    assert_eq!(run(&["ttl", db, "absent"], 1, one)["found"], false);
    assert_eq!(run(&["expire", db, "a", "2h"], 0, one)["ttl_ms"], 7_200_000);
    assert_eq!(run(&["expire", db, "absent", "2h"], 1, one)["found"], false);
    assert_eq!(run(&["clear-ttl", db, "a"], 0, one)["found"], true);
    assert_eq!(run(&["clear-ttl", db, "absent"], 1, one)["found"], false);
    run(&["scan", db], 0, Some(4));
    run(&["dump", db], 0, Some(4));
    run(&["changes", db], 0, None);
    assert_eq!(run(&["del", db, "b"], 0, one)["key"], "b");
    run(
        &["keyspace", "create", db, "users", "--default-ttl", "1d"],
        0,
        one,
    );
    let listed = run(&["keyspace", "list", db], 0, one);
    let ttl = &listed["keyspaces"][1]["options"]["default_ttl_ms"];
    assert_eq!(ttl, 86_400_000, "{listed}");
    run(&["keyspace", "rename", db, "users", "people"], 0, one);
    run(&["keyspace", "empty", db, "people", "--dry-run"], 0, one);
    run(&["keyspace", "empty", db, "people"], 0, one);
    assert_eq!(
        run(&["keyspace", "drop", db, "people"], 0, one)["name"],
        "people"
    );
    let would = run(&["delete-range", db, "--prefix", "a", "--dry-run"], 0, one);
    assert_eq!(
        (&would["keys"], &would["dry_run"]),
        (&1.into(), &true.into())
    );
    assert_eq!(
        run(&["delete-range", db, "--prefix", "zz"], 0, one)["dry_run"],
        false
    );
    run(&["ingest", db, lines], 0, one);
    assert_eq!(run(&["export", db, file], 0, one)["records"], 4);
    run(&["import", db, file, "--verify"], 0, one);
    run(&["import", other, file], 0, one);
    run(&["compact", db], 0, one);
    run(&["gc", db], 0, one);
    run(&["gc", db, "--explain"], 0, one);
    let options = run(&["options", db], 0, one);
    assert_eq!(options["set"], serde_json::json!(["change_window_bytes"]));
    let explained = run(&["explain", db], 0, one);
    assert!(explained["due"].is_array() && explained["unknown"].is_array());
    let stats = run(&["stats", db], 0, one);
    assert_eq!(stats["options"], options);
    run(&["inspect", &within(db.as_ref(), "CURRENT")], 0, None);
    assert_eq!(run(&["check", db], 0, one)["clean"], true);
    run(&["repair", db, "--to", copy, "--dry-run"], 0, one);
    run(&["checkpoint", db, copy], 0, one);
    run(&["backup", "create", db, backups], 0, one);
    run(&["backup", "list", backups], 0, one);
    run(&["backup", "verify", backups], 0, one);
    run(&["backup", "prune", backups, "--keep", "1"], 0, one);
    run(&["backup", "restore", backups, &name("restored")], 0, one);
    run(
        &[
            "ycsb",
            bench,
            "--records",
            "50",
            "--operations",
            "50",
            "--workload",
            "load,a",
        ],
        0,
        one,
    );
    let torture = [
        "torture",
        mine,
        "--minutes",
        "0.001",
        "--keys",
        "64",
        "--no-check-space",
    ];
    assert_eq!(run(&torture, 0, None)["event"], "began");
    let mut writer = Writer::of(db);
    writer.await_figures(db);
    run(&["top", db], 0, one);
    writer.end();

    let all = leaves(&[]).into_iter().map(|path| path.join(" "));
    let all: BTreeSet<String> = all.collect();
    assert!(all.len() > 25, "{all:?}");
    for command in &all {
        let words: Vec<&str> = command.split(' ').collect();
        let help = text(&[&words[..], &["--help"]].concat());
        let is_without = WITHOUT.iter().any(|(without, _)| without == command);
        assert_eq!(help.contains(" --json"), !is_without, "{command}");
        assert_eq!(tried.contains(command), !is_without, "{command}");
    }
}

#[test]
fn errors_are_json_where_results_are() {
    let dir = tempfile::tempdir().unwrap();
    let name = |name| within(dir.path(), name);
    let (db, missing, damaged) = (&name("db"), &name("missing"), &name("damaged"));
    fs::write(name("lines"), "no tab\n").unwrap();
    // Long enough to stay in a record file.
    text(&["put", db, "key", &"value ".repeat(200)]);
    text(&["compact", db]);
    let error_of = |arguments: &[&str]| {
        let output = unikv(&[arguments, &["--json"]].concat()).output().unwrap();
        let err = String::from_utf8(output.stderr).unwrap();
        assert!(output.stdout.is_empty(), "{arguments:?}");
        assert_eq!(err.lines().count(), 1, "{arguments:?}: {err}");
        let error: Value = serde_json::from_str(&err).unwrap();
        let error = error["error"].clone();
        let status = output.status.code().unwrap();
        assert_eq!(error["status"], status, "{arguments:?}: {err}");
        assert!(error["remedy"].is_string(), "{arguments:?}: {err}");
        let fields = error.as_object().unwrap().keys();
        let expected = ["file", "kind", "message", "offset", "remedy", "status"];
        assert!(fields.eq(expected), "{arguments:?}: {err}");
        error
    };
    for command in [
        vec!["get", missing, "k"],
        vec!["del", missing, "k"],
        vec!["stats", missing],
        vec!["check", missing],
        vec!["repair", missing],
        vec!["options", missing],
        vec!["keyspace", "list", missing],
        vec!["backup", "create", missing, "backups"],
    ] {
        let error = error_of(&command);
        assert_eq!(
            (&error["kind"], &error["status"]),
            (&"not_found".into(), &8.into())
        );
        assert_eq!(error["file"], **missing, "{command:?}");
        assert!(
            error["remedy"].as_str().unwrap().contains("unikv put"),
            "{command:?}"
        );
    }
    assert_eq!(error_of(&["get", db])["kind"], "usage");
    assert_eq!(error_of(&["backup", "list", missing])["kind"], "not_found");
    // Of a directory that is something else: whoever lists has the wrong path.
    let error = error_of(&["backup", "list", db]);
    assert_eq!(error["kind"], "incompatible");
    assert!(
        error["remedy"].as_str().unwrap().contains("check the path"),
        "{error}"
    );
    let error = error_of(&["backup", "create", db, db]);
    assert!(
        !error["remedy"].as_str().unwrap().contains("check the path"),
        "{error}"
    );
    let error = error_of(&["get", db, "key", "--keyspace", "users"]);
    assert_eq!(
        (&error["kind"], &error["status"]),
        (&"no_such_keyspace".into(), &14.into())
    );
    // Bytes that are not what was written: file and offset stand by themselves.
    text(&["checkpoint", db, damaged]);
    for entry in fs::read_dir(damaged).unwrap() {
        let path = entry.unwrap().path();
        if path.extension().is_some_and(|extension| extension == "rec") {
            let mut bytes = fs::read(&path).unwrap();
            let middle = bytes
                .windows(5)
                .position(|bytes| bytes == b"value")
                .unwrap();
            bytes[middle] ^= 1;
            fs::remove_file(&path).unwrap();
            fs::write(&path, bytes).unwrap();
        }
    }
    let error = error_of(&["get", damaged, "key"]);
    assert_eq!(
        (&error["kind"], &error["status"]),
        (&"corruption".into(), &4.into())
    );
    assert!(error["offset"].is_u64(), "{error}");
    assert!(
        error["file"].as_str().unwrap().starts_with(&**damaged),
        "{error}"
    );
}

#[test]
fn options_are_set_shown_and_unset() {
    let dir = tempfile::tempdir().unwrap();
    let db = &within(dir.path(), "db");
    unikv(&["options", db]).assert().code(8);
    text(&["put", db, "key", "value"]);
    let line = |name: &str, arguments: &[&str]| {
        let shown = text(&[&["options", db], arguments].concat());
        let mut lines = shown.lines().filter(|line| line.starts_with(name));
        lines.next().unwrap().to_owned()
    };
    assert!(line("block_bytes", &[]).ends_with("4.00 KiB             default"));
    let set = line(
        "block_bytes",
        &["--block-bytes", "8k", "--default-ttl", "1h"],
    );
    assert!(set.ends_with(" set"), "{set}");
    assert!(line("default_ttl", &[]).contains("1h "));
    assert!(text(&["stats", db]).contains("default_ttl          1h "));
    assert!(!text(&["stats", db]).contains("EffectiveOptions"));
    let unset = ["--unset", "block_bytes", "--unset", "default-ttl"];
    assert!(line("block_bytes", &unset).ends_with(" default"));
    assert!(line("default_ttl", &[]).contains("never"));
    let refused = unikv(&["options", db, "--unset", "colour"])
        .assert()
        .code(3);
    let error = String::from_utf8(refused.get_output().stderr.clone()).unwrap();
    assert!(error.contains("choose one of memory_budget, "), "{error}");
}
