//! Commands beside a process that has the database open, and the shell.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

mod common;

use common::{Writer, text, unikv};
use serde_json::Value;
use std::path::Path;
use std::thread;
use std::time::Duration;

#[test]
fn a_living_database_shows_its_figures_to_other_processes() {
    let dir = tempfile::tempdir().unwrap();
    let db = dir.path().join("db").to_str().unwrap().to_owned();
    unikv(&["top", &db, "--once"]).assert().code(8);
    let mut writer = Writer::of(&db);
    for n in 0..500 {
        writer.say(&format!("put key{n:03} value"));
    }
    writer.await_figures(&db);
    let pid = writer.child.id();

    let stats = text(&["stats", &db]);
    assert!(
        stats.starts_with(&format!("as process {pid} published it")),
        "{stats}"
    );
    assert!(
        stats.contains("partitions") && stats.contains("read cache"),
        "{stats}"
    );
    let stats: Value = serde_json::from_str(&text(&["stats", &db, "--json"])).unwrap();
    assert_eq!(stats["published"]["pid"], pid);
    assert_eq!(stats["published"]["is_old"], false);
    assert_eq!(stats["published"]["interval_ms"], 1000);

    let top = text(&["top", &db, "--once"]);
    assert!(top.lines().count() <= 24, "{top}");
    assert!(top.lines().all(|line| line.chars().count() <= 80), "{top}");
    assert!(top.contains(&format!("process {pid}")), "{top}");
    for part in [
        "writes",
        "reads",
        "memory",
        "garbage",
        "jobs",
        "held up",
        "1 partitions",
    ] {
        assert!(top.contains(part), "{part}: {top}");
    }
    writer.end();
    assert!(!Path::new(&db).join("STATS").exists());
    unikv(&["top", &db, "--once"]).assert().code(8);
    let stats: Value = serde_json::from_str(&text(&["stats", &db, "--json"])).unwrap();
    assert!(stats["published"].is_null() && stats["options"].is_object());
    assert_eq!(text(&["get", &db, "key499"]), "value\n");
}

#[test]
fn figures_of_a_process_that_was_killed_are_said_to_be_old() {
    let dir = tempfile::tempdir().unwrap();
    let db = dir.path().join("db").to_str().unwrap().to_owned();
    let mut writer = Writer::of(&db);
    writer.say("put key value");
    writer.await_figures(&db);
    writer.kill();
    // Three intervals and a second.
    thread::sleep(Duration::from_millis(4500));
    let top = text(&["top", &db, "--once"]);
    assert!(top.contains("OLD: "), "{top}");
    // Nobody has it open: the files are looked at, and nothing is changed.
    assert!(!text(&["stats", &db]).contains("OLD"));
    assert!(Path::new(&db).join("STATS").exists());
    unikv(&["check", &db]).assert().success();
}

#[test]
fn a_torn_file_of_figures_is_an_error_and_no_figures() {
    let dir = tempfile::tempdir().unwrap();
    let db = dir.path().to_str().unwrap();
    std::fs::write(dir.path().join("STATS"), "{\"unikv_stats\":1").unwrap();
    unikv(&["top", db, "--once"]).assert().code(4);
    std::fs::write(
        dir.path().join("STATS"),
        "{\"unikv_stats\":9,\"crc32c\":\"\",\"bytes\":0}\n",
    )
    .unwrap();
    unikv(&["top", db, "--once"]).assert().code(8);
    // Tests have no terminal.
    unikv(&["top", db]).assert().code(3);
}

fn shell(db: &str, script: &str) -> (i32, String, String) {
    let output = unikv(&["shell", db, "--create"])
        .write_stdin(script)
        .output()
        .unwrap();
    let text = |bytes: Vec<u8>| String::from_utf8(bytes).unwrap();
    (
        output.status.code().unwrap(),
        text(output.stdout),
        text(output.stderr),
    )
}

#[test]
fn a_script_does_what_it_says_and_ends_at_its_first_mistake() {
    let dir = tempfile::tempdir().unwrap();
    let db = dir.path().join("db").to_str().unwrap().to_owned();
    let script = r#"
        # what is stored
        put apple red
        put "two words" "a \"quoted\" value"
        put bytes \x00\xff
        get apple
        scan
        scan b 1
        count a c
        delete apple
        count
        use others create
        put here 1
        keyspaces
        use default
        stats
    "#;
    let (code, out, err) = shell(&db, script);
    assert_eq!((code, &err[..]), (0, ""));
    let expected = [
        "red",
        "apple\tred",
        "bytes\t\\x00\\xff",
        "two words\ta \"quoted\" value",
        "bytes\t\\x00\\xff",
        "2",
        "2",
        "  default",
        "* others",
    ];
    let lines: Vec<&str> = out.lines().take(expected.len()).collect();
    assert_eq!(lines, expected, "{out}");
    assert!(
        out.contains("UnsortedStore") && out.contains("partitions"),
        "{out}"
    );

    let (code, out, err) = shell(&db, "get none\ncount\n");
    assert_eq!((code, &out[..], &err[..]), (1, "2\n", "(not there)\n"));
    for (script, status, message) in [
        (
            "count\nput apple\nput pear green\n",
            3,
            "line 2: put does not take 1 word",
        ),
        (
            "count\nfrobnicate\nput pear green\n",
            3,
            "line 2: there is no command",
        ),
        (
            "count\nuse none\nput pear green\n",
            14,
            "line 2: there is no keyspace",
        ),
        (
            "count\nput \"pear green\n",
            3,
            "line 2: a quote is not closed",
        ),
    ] {
        let (code, out, err) = shell(&db, script);
        assert_eq!((code, &out[..]), (status, "2\n"), "{script}: {err}");
        assert!(err.contains(message), "{script}: {err}");
    }
    assert_eq!(text(&["scan", &db, "--keys-only"]), "bytes\ntwo words\n");
    let missing = dir.path().join("missing").to_str().unwrap().to_owned();
    unikv(&["shell", &missing]).write_stdin("").assert().code(8);
}

#[test]
fn shells_can_complete_every_command() {
    for shell in ["bash", "zsh", "fish"] {
        let script = text(&["completions", shell]);
        for command in ["checkpoint", "keyspace", "shell", "top", "completions"] {
            assert!(script.contains(command), "{shell}: {command}");
        }
    }
    unikv(&["completions", "none"]).assert().code(2);
}
