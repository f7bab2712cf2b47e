//! Following changes as a script sees it.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

mod common;

use common::{Writer, text, unikv, within};
use serde_json::Value;
use std::fs;
use std::io::{BufRead, BufReader};
use std::process::{Child, ChildStdout, Command, Stdio};

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
    assert_eq!(text(&["changes", db, "--since", last]), "");
    text(&["del", db, "apple"]);
    let deleted = text(&["changes", db, "--since", last]);
    assert!(deleted.ends_with("\tdelete\tdefault\tapple\n"), "{deleted}");
    // Of another database, and no token.
    unikv(&["changes", db, "--since", "0000000000000007-1"])
        .assert()
        .code(15);
    unikv(&["changes", db, "--since", "soon"]).assert().code(2);
}

/// `changes --follow` in a process of its own.
struct Follower {
    child: Child,
    output: Option<BufReader<ChildStdout>>,
}

impl Follower {
    fn of(db: &str, more: &[&str]) -> Follower {
        let mut command = Command::new(assert_cmd::cargo::cargo_bin("unikv"));
        command.args(["changes", db, "--follow"]).args(more);
        let mut child = command.stdout(Stdio::piped()).spawn().unwrap();
        let output = child.stdout.take().map(BufReader::new);
        Follower { child, output }
    }

    /// The next line without its token, which may be long in coming.
    fn next(&mut self) -> String {
        let mut line = String::new();
        self.output.as_mut().unwrap().read_line(&mut line).unwrap();
        let (_, what) = line.split_once('\t').unwrap();
        what.trim_end().to_owned()
    }
}

impl Drop for Follower {
    fn drop(&mut self) {
        let _ended = self.child.kill();
        let _ended = self.child.wait();
    }
}

#[test]
fn what_a_writer_puts_is_printed_by_those_who_follow() {
    let dir = tempfile::tempdir().unwrap();
    let db = within(dir.path(), "db");
    let lines = within(dir.path(), "lines.tsv");
    fs::write(&lines, "first\t1\n").unwrap();
    text(&["load", &db, &lines, "--change-window-bytes", "1MiB"]);
    // There is no writer yet.
    let mut follower = Follower::of(&db, &[]);
    assert_eq!(follower.next(), "put\tdefault\tfirst\t1");

    let mut writer = Writer::of(&db);
    writer.say("put apple red");
    assert_eq!(follower.next(), "put\tdefault\tapple\tred");
    writer.say("delete apple");
    assert_eq!(follower.next(), "delete\tdefault\tapple");
    writer.say("flush");
    writer.say("use fruit create");
    assert_eq!(follower.next(), "keyspace\tmade\tfruit");
    writer.say("put cherry dark");
    assert_eq!(follower.next(), "put\tfruit\tcherry\tdark");
    // Beside the writer it ends by itself where it does not follow.
    let all = text(&["changes", &db]);
    let seen: Vec<_> = all.lines().collect();
    assert_eq!(seen.len(), 5, "{all}");
    let token = seen[3].split('\t').next().unwrap();
    assert_eq!(
        text(&["changes", &db, "--since", token]),
        format!("{}\n", seen[4])
    );

    // It goes on with the next writer.
    writer.kill();
    let mut writer = Writer::of(&db);
    for n in 0..100 {
        writer.say(&format!("put key{n:03} {n}"));
        if n % 30 == 29 {
            writer.say("flush");
        }
    }
    for n in 0..100 {
        assert_eq!(follower.next(), format!("put\tdefault\tkey{n:03}\t{n}"));
    }
    writer.end();
    text(&["put", &db, "last", "1"]);
    assert_eq!(follower.next(), "put\tdefault\tlast\t1");
    // Nobody reads what it prints.
    drop(follower.output.take());
    text(&["put", &db, "unseen", "1"]);
    assert!(follower.child.wait().unwrap().success());
}
