//! The commands as a script sees them: output, exit status, files.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

mod common;

use common::unikv;
use serde_json::Value;
use std::fs;
use std::io::{Read, Write};
use std::path::{Path, PathBuf};
use std::process::Stdio;
use tempfile::TempDir;

fn stdout(arguments: &[&str]) -> Vec<u8> {
    unikv(arguments)
        .assert()
        .success()
        .get_output()
        .stdout
        .clone()
}

fn json(arguments: &[&str]) -> Value {
    serde_json::from_slice(&stdout(arguments)).unwrap()
}

struct Place {
    _dir: TempDir,
    root: PathBuf,
}

impl Place {
    fn new() -> Place {
        let dir = tempfile::tempdir().unwrap();
        Place {
            root: dir.path().to_owned(),
            _dir: dir,
        }
    }

    fn path(&self, name: &str) -> String {
        self.root.join(name).to_str().unwrap().to_owned()
    }

    fn file(&self, name: &str, content: &[u8]) -> String {
        fs::write(self.root.join(name), content).unwrap();
        self.path(name)
    }
}

#[test]
fn a_file_is_put_and_parts_of_it_are_printed() {
    let place = Place::new();
    let db = &place.path("db");
    let content: Vec<u8> = (0..300_000_u32).flat_map(u32::to_le_bytes).collect();
    let file = place.file("film", &content);
    unikv(&["put", db, "film", "--file", &file])
        .assert()
        .success();
    assert_eq!(stdout(&["get", db, "film"]), [&content[..], b"\n"].concat());
    let part = stdout(&["get", db, "film", "--offset", "700000", "--len", "9"]);
    assert_eq!(part, [&content[700_000..700_009], b"\n"].concat());
    let hex_key = "66696c6d";
    let end = stdout(&["get", db, hex_key, "--offset", "1199997", "--hex"]);
    assert_eq!(end, b"930400\n");
    assert_eq!(stdout(&["get", db, "film", "--len", "0"]), b"\n");
    unikv(&["get", db, "none", "--len", "3"]).assert().code(1);
    let missing = place.path("missing");
    unikv(&["put", db, "film", "--file", &missing])
        .assert()
        .code(5);
    unikv(&["put", db, "film"]).assert().code(2);
    unikv(&["put", db, "film", "x", "--file", &file])
        .assert()
        .code(2);
    assert_eq!(stdout(&["get", db, "film", "--len", "4"]), b"\0\0\0\0\n");
    unikv(&["check", db]).assert().success();
}

#[test]
fn a_record_goes_in_and_out() {
    let place = Place::new();
    let db = &place.path("db");
    unikv(&["put", db, "näme", "väl\tue"]).assert().success();
    assert_eq!(stdout(&["get", db, "näme"]), "väl\tue\n".as_bytes());
    unikv(&["put", db, "--hex", "00FF", "c0de"])
        .assert()
        .success();
    assert_eq!(stdout(&["get", db, "--hex", "00ff"]), b"c0de\n");
    unikv(&["put", db, "from stdin", "-"])
        .write_stdin(vec![0, 10, 255])
        .assert()
        .success();
    assert_eq!(stdout(&["get", db, "from stdin"]), [0, 10, 255, 10]);
    assert_eq!(json(&["get", db, "näme", "--json"])["value"], "väl\tue");
    unikv(&["del", db, "näme"]).assert().success();
    unikv(&["del", db, "näme"]).assert().success();
    unikv(&["get", db, "näme"]).assert().code(1).stdout("");
}

#[test]
fn a_record_lives_as_long_as_is_said() {
    let place = Place::new();
    let db = &place.path("db");
    stdout(&["put", db, "session", "Ada", "--ttl", "1h"]);
    let left = json(&["ttl", db, "session", "--json"])["ttl_ms"].as_u64();
    assert!(
        left.is_some_and(|ms| (3_500_000..=3_600_000).contains(&ms)),
        "{left:?}"
    );
    stdout(&["clear-ttl", db, "session"]);
    assert_eq!(stdout(&["ttl", db, "session"]), b"never\n");
    assert_eq!(
        json(&["ttl", db, "session", "--json"])["ttl_ms"],
        Value::Null
    );
    stdout(&["expire", db, "session", "2h"]);
    stdout(&["put", db, "stays", "here"]);
    for (form, name) in [("tsv", "dump.tsv"), ("jsonl", "dump.jsonl")] {
        let dump = place.file(name, &stdout(&["dump", db, "--format", form]));
        let copy = &place.path(&format!("copy of {form}"));
        stdout(&["load", copy, &dump]);
        let left = json(&["ttl", copy, "session", "--json"])["ttl_ms"].as_u64();
        assert!(
            left.is_some_and(|ms| (7_000_000..=7_200_000).contains(&ms)),
            "{left:?}"
        );
        assert_eq!(stdout(&["ttl", copy, "stays"]), b"never\n");
    }
    stdout(&["expire", db, "session", "1ms"]);
    std::thread::sleep(std::time::Duration::from_millis(5));
    for command in [
        &["get", db, "session"][..],
        &["ttl", db, "session"],
        &["clear-ttl", db, "session"],
    ] {
        unikv(command).assert().code(1).stdout("");
    }
    unikv(&["expire", db, "session", "1h"]).assert().code(1);
    unikv(&["put", db, "session", "Ada", "--ttl", "0s"])
        .assert()
        .code(3);
    // A dump of another time: what has expired since is not there.
    let old = place.file("old.tsv", b"\\expires\t1000\tstays\tgone\n");
    stdout(&["load", db, &old]);
    unikv(&["get", db, "stays"]).assert().code(1);
}

#[test]
fn reading_creates_nothing() {
    let place = Place::new();
    for command in ["get", "del"] {
        unikv(&[command, &place.path("none"), "key"])
            .assert()
            .code(8);
    }
    for command in ["scan", "dump", "stats", "check"] {
        unikv(&[command, &place.path("none")]).assert().code(8);
    }
    assert!(!Path::new(&place.path("none")).exists());
}

#[test]
fn wrong_usage_and_wrong_input_differ() {
    let place = Place::new();
    let db = &place.path("db");
    unikv(&["put", db]).assert().code(2);
    unikv(&["frobnicate"]).assert().code(2);
    unikv(&["load", db, "-", "--memtable-bytes", "lots"])
        .assert()
        .code(2);
    unikv(&["put", db, "--hex", "xyz", "00"]).assert().code(3);
    unikv(&["ycsb", db, "--workload", "z"]).assert().code(3);
    unikv(&["ycsb", db, "--value-size", "8"]).assert().code(3);
    unikv(&["load", db, &place.path("no such file")])
        .assert()
        .code(5);
    let bad = place.file("bad.tsv", b"fine\t1\nno tab here\n");
    let output = unikv(&["load", db, &bad])
        .assert()
        .code(3)
        .get_output()
        .stderr
        .clone();
    assert!(String::from_utf8(output).unwrap().contains("line 2"));
}

#[test]
fn help_lists_every_status() {
    let help = String::from_utf8(stdout(&["--help"])).unwrap();
    for status in 0..=14 {
        assert!(
            help.contains(&format!("\n  {status:2}  ")),
            "status {status}"
        );
    }
}

#[test]
fn dumps_load_back() {
    let place = Place::new();
    let mut lines = String::new();
    for byte in 0..=255_u8 {
        lines.push_str(&format!(
            "{{\"key\":\"{byte:02x}6b\",\"value\":\"{byte:02x}0a0d09\","
        ));
        lines.push_str("\"encoding\":\"hex\"}\n");
    }
    lines.push_str("{\"key\":\"plain\",\"value\":\"\"}\n");
    let source = place.file("source.jsonl", lines.as_bytes());
    let first = &place.path("first");
    assert_eq!(json(&["load", first, &source, "--json"])["records"], 257);

    let tsv = stdout(&["dump", first]);
    let jsonl = stdout(&["dump", first, "--json"]);
    assert_eq!(tsv.iter().filter(|&&byte| byte == b'\n').count(), 257);
    let copies = [
        (place.path("from tsv"), place.file("copy.tsv", &tsv)),
        (place.path("from jsonl"), place.file("copy.jsonl", &jsonl)),
    ];
    for (copy, file) in &copies {
        unikv(&["load", copy, file]).assert().success();
        assert_eq!(stdout(&["dump", copy]), tsv);
        assert_eq!(stdout(&["dump", copy, "--format", "jsonl"]), jsonl);
    }
    let piped = &place.path("piped");
    unikv(&["load", piped, "-"])
        .write_stdin(tsv.clone())
        .assert()
        .success();
    assert_eq!(stdout(&["dump", piped]), tsv);
}

#[test]
fn scans_select() {
    let place = Place::new();
    let db = &place.path("db");
    let lines = b"a\t1\nab\t2\nb\t3\nba\t4\nc\t5\n";
    unikv(&["load", db, "-"])
        .write_stdin(lines.as_slice())
        .assert()
        .success();
    let keys = |arguments: &[&str]| {
        let mut all = vec!["scan", db, "--keys-only"];
        all.extend(arguments);
        String::from_utf8(stdout(&all)).unwrap().replace('\n', " ")
    };
    assert_eq!(keys(&[]), "a ab b ba c ");
    assert_eq!(keys(&["--prefix", "b"]), "b ba ");
    assert_eq!(keys(&["--from", "ab", "--to", "c"]), "ab b ba ");
    assert_eq!(keys(&["--reverse", "--limit", "2"]), "c ba ");
    assert_eq!(keys(&["--prefix", "b", "--reverse", "--from", "ba"]), "ba ");
    assert_eq!(keys(&["--prefix", "b", "--from", "c"]), "");
    assert_eq!(keys(&["--hex", "--prefix", "62"]), "62 6261 ");
    assert_eq!(stdout(&["scan", db, "--limit", "1"]), b"a\t1\n");
    assert_eq!(json(&["scan", db, "--limit", "1", "--json"])["key"], "a");
}

#[test]
fn a_range_of_keys_is_deleted() {
    let place = Place::new();
    let db = &place.path("db");
    for key in ["a1", "a2", "b1", "b2", "c1"] {
        unikv(&["put", db, key, "value"]).assert().success();
    }
    let error = stderr(&["delete-range", db], 3);
    assert!(error.contains("--all"), "{error}");
    // As a script does whose variable is empty.
    for empty in ["--prefix", "--from"] {
        let error = stderr(&["delete-range", db, empty, ""], 3);
        assert!(error.contains("--all"), "{error}");
    }
    let dry = stdout(&["delete-range", db, "--prefix", "a", "--dry-run"]);
    let dry = String::from_utf8(dry).unwrap();
    assert!(dry.starts_with("would delete 2 keys"), "{dry}");
    let dry = json(&["delete-range", db, "--prefix", "a", "--dry-run", "--json"]);
    assert_eq!(dry["keys"], 2);
    let keys = || String::from_utf8(stdout(&["scan", db, "--keys-only"])).unwrap();
    assert_eq!(keys(), "a1\na2\nb1\nb2\nc1\n");
    unikv(&["delete-range", db, "--prefix", "a"])
        .assert()
        .success();
    assert_eq!(keys(), "b1\nb2\nc1\n");
    let of_bs = ["delete-range", db, "--from", "b2", "--to", "c1"];
    unikv(&of_bs).assert().success();
    assert_eq!(keys(), "b1\nc1\n");
    unikv(&["delete-range", db, "--all"]).assert().success();
    assert_eq!(keys(), "");
    unikv(&["check", db]).assert().success();
    let none = place.path("none");
    stderr(&["delete-range", &none, "--all"], 8);
}

#[test]
fn a_reader_may_leave_early() {
    let place = Place::new();
    let db = &place.path("db");
    let lines: String = (0..20_000)
        .map(|n| format!("key{n:08}\t{:0100}\n", n))
        .collect();
    unikv(&["load", db, "-"])
        .write_stdin(lines)
        .assert()
        .success();
    let mut child = std::process::Command::new(assert_cmd::cargo::cargo_bin!("unikv"))
        .args(["dump", db])
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let mut start = [0; 11];
    child.stdout.take().unwrap().read_exact(&mut start).unwrap();
    assert_eq!(&start, b"key00000000");
    let output = child.wait_with_output().unwrap();
    assert_eq!(output.status.code(), Some(0));
    assert!(output.stderr.is_empty());
}

/// Runs the command with a standard output that nobody reads; its status.
fn unread(args: &[&str], input: &str) -> Option<i32> {
    let mut child = std::process::Command::new(assert_cmd::cargo::cargo_bin!("unikv"))
        .args(args)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    drop(child.stdout.take());
    let _ended_already = child.stdin.take().unwrap().write_all(input.as_bytes());
    child.wait().unwrap().code()
}

#[test]
fn what_was_found_is_the_status_although_nobody_reads_it() {
    let place = Place::new();
    let db = &place.path("db");
    unikv(&["put", db, "key", "value"]).assert().success();
    unikv(&["compact", db]).assert().success();
    assert_eq!(unread(&["check", db], ""), Some(0));
    for args in [
        &["get", "--json", db, "none"][..],
        &["ttl", "--json", db, "none"],
        &["expire", "--json", db, "none", "1h"],
        &["clear-ttl", "--json", db, "none"],
    ] {
        assert_eq!(unread(args, ""), Some(1), "{args:?}");
    }
    let script = "get key\nput later 1\n";
    assert_eq!(
        unread(&["shell", db], script),
        Some(5),
        "what follows was not done"
    );
    for file in fs::read_dir(db).unwrap() {
        let path = file.unwrap().path();
        if path
            .extension()
            .is_some_and(|ending| ending == "rec" || ending == "key")
        {
            let mut bytes = fs::read(&path).unwrap();
            let middle = bytes.len() / 2;
            bytes[middle] ^= 1;
            fs::write(&path, bytes).unwrap();
        }
    }
    assert_eq!(unread(&["check", db], ""), Some(4));
}

#[test]
fn a_database_that_is_repaired_from_within_is_not_repaired_into_itself() {
    let place = Place::new();
    let db = &place.path("db");
    unikv(&["put", db, "key", "value"]).assert().success();
    unikv(&["repair", "."]).current_dir(db).assert().success();
    let repaired = &place.path("db.repaired");
    assert_eq!(stdout(&["get", repaired, "key"]), b"value\n");
}

#[test]
fn stats_and_check_describe_the_database() {
    let place = Place::new();
    let db = &place.path("db");
    unikv(&["put", db, "key", "value"]).assert().success();
    let stats = json(&["stats", db, "--json"]);
    assert!(stats["stats"]["write_amplification"].is_number());
    assert!(stats["options"]["max_space_amp"].is_number());
    assert!(
        String::from_utf8(stdout(&["stats", db]))
            .unwrap()
            .contains("hash index")
    );
    let check = json(&["check", db, "--json"]);
    assert_eq!(check["clean"], true);
    assert_eq!(check["problems"], Value::Array(Vec::new()));
}

#[test]
fn check_finds_a_flipped_byte() {
    let place = Place::new();
    let db = &place.path("db");
    let run = [
        "ycsb",
        db,
        "--records",
        "2000",
        "--workload",
        "load,flush,settle",
    ];
    unikv(&run).assert().success();
    unikv(&["check", db]).assert().success();
    let largest = fs::read_dir(db)
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .filter(|path| path.extension().is_some_and(|extension| extension == "rec"))
        .max_by_key(|path| fs::metadata(path).unwrap().len())
        .unwrap();
    let mut bytes = fs::read(&largest).unwrap();
    let middle = bytes.len() / 2;
    bytes[middle] ^= 0x10;
    fs::write(&largest, bytes).unwrap();
    let output = unikv(&["check", db, "--json"])
        .assert()
        .code(4)
        .get_output()
        .stdout
        .clone();
    let report: Value = serde_json::from_slice(&output).unwrap();
    assert_eq!(report["clean"], false);
    let file = report["problems"][0]["file"].as_str().unwrap();
    assert!(
        file.ends_with(largest.file_name().unwrap().to_str().unwrap()),
        "{file}"
    );
}

#[test]
fn stats_show_the_partitions_with_their_ranges() {
    let place = Place::new();
    let lines: String = (0..3000)
        .map(|i| format!("key{i:05}\t{}\n", "v".repeat(40)))
        .collect();
    let (db, input) = (place.path("db"), place.file("in", lines.as_bytes()));
    stdout(&["load", &db, &input, "--partition-bytes", "32KiB"]);
    // Quiet, so that what was due has been split.
    let options = unikv::Options::default().tuning(
        unikv::Tuning::default()
            .partition_bytes(32 << 10)
            .key_table_bytes(4 << 10),
    );
    let open = unikv::Db::open(&db, options).unwrap();
    open.compact().unwrap();
    open.wait_until_idle().unwrap();
    open.close().unwrap();
    let report = json(&["stats", &db, "--json"]);
    let partitions = report["stats"]["partitions"].as_array().unwrap().clone();
    assert!(partitions.len() > 1, "{report}");
    for pair in partitions.windows(2) {
        assert_eq!(pair[0]["end"], pair[1]["start"]);
    }
    let text = String::from_utf8(stdout(&["stats", &db])).unwrap();
    assert!(text.contains("from the first key to before key"), "{text}");
    // Fill: of `partition_bytes`, and of `unsorted_bytes`, of which nothing is left to be merged.
    let rows = text.lines().filter(|line| line.contains("from "));
    let fills: Vec<_> = rows.filter(|row| row.contains(" 0 %")).collect();
    assert!(fills.len() >= partitions.len(), "{text}");
}

#[test]
fn stats_count_from_the_creation_on() {
    let place = Place::new();
    let db = &place.path("db");
    for round in 0..4 {
        let lines: String = (0..2000)
            .map(|i| format!("key{i:05}\tround {round} {}\n", "v".repeat(100)))
            .collect();
        let input = place.file("in", lines.as_bytes());
        stdout(&["load", db, &input, "--memtable-bytes", "64KiB"]);
    }
    stdout(&["compact", db]);
    let report = json(&["stats", db, "--json"]);
    let lifetime = &report["stats"]["lifetime"];
    let number = |name: &str| lifetime[name].as_u64().unwrap();
    assert!(number("flushes") > 0 && number("merges") > 0, "{lifetime}");
    let user = number("user_bytes_written");
    assert!(user >= 4 * 2000 * 100, "{lifetime}");
    assert!(number("wal_bytes") >= user, "{lifetime}");
    assert!(number("flush_bytes") > 0 && number("merge_bytes") > 0);
    let amplification = lifetime["write_amplification"].as_f64().unwrap();
    assert!(amplification >= 1.0, "{lifetime}");
    // The process that reports it has written nothing, and looking changes nothing.
    assert_eq!(report["stats"]["user_bytes_written"], 0);
    assert_eq!(report["stats"]["write_amplification"], 0.0);
    let again = json(&["stats", db, "--json"]);
    assert_eq!(again["stats"]["lifetime"]["flushes"], lifetime["flushes"]);

    let text = String::from_utf8(stdout(&["stats", db])).unwrap();
    let flushes = format!("{} flushes, ", number("flushes"));
    let factor = format!("{amplification:.1}");
    let line = |name: &str| {
        let mut lines = text.lines();
        lines.find(|line| line.starts_with(name)).unwrap()
    };
    assert!(line("jobs").contains(&flushes), "{text}");
    assert!(line("jobs").contains("since the creation"), "{text}");
    assert!(line("amplification").contains(&factor), "{text}");
    assert!(line("writers").contains("since the creation"), "{text}");
}

#[test]
fn garbage_is_explained_and_collected() {
    let place = Place::new();
    let db = &place.path("db");
    let records = |value: &str| -> String {
        (0..500)
            .map(|i| format!("key{i:05}\t{}\n", value.repeat(300)))
            .collect()
    };
    for value in ["a", "b"] {
        let input = place.file("in", records(value).as_bytes());
        stdout(&["load", db, &input, "--max-space-amp", "50"]);
        unikv(&["compact", db]).assert().success();
    }
    let text = String::from_utf8(stdout(&["gc", db, "--explain"])).unwrap();
    for words in [
        "max_space_amp",
        "thresholds",
        "value log",
        "victim",
        "nothing is due",
    ] {
        assert!(text.contains(words), "{words}: {text}");
    }
    let explained = json(&["gc", db, "--explain", "--json"]);
    assert!(
        explained["files"]
            .as_array()
            .is_some_and(|files| !files.is_empty())
    );
    assert_eq!(explained.get("collections"), None, "nothing was done");
    let text = String::from_utf8(stdout(&["gc", db])).unwrap();
    assert!(text.contains("garbage "), "{text}");
    let text = String::from_utf8(stdout(&["stats", db, "--files"])).unwrap();
    for words in [
        "amplification",
        "garbage",
        "value log",
        "memory_budget ",
        "sorted keys",
    ] {
        assert!(text.contains(words), "{words}: {text}");
    }
}

#[test]
fn files_are_inspected() {
    let place = Place::new();
    let db = &place.path("db");
    let records = &place.file("records.tsv", b"a\t1\nb\t2\nc\t3\n");
    stdout(&["load", db, records]);
    let names = fs::read_dir(db).unwrap().map(|entry| entry.unwrap());
    let names: Vec<_> = names
        .map(|entry| entry.file_name().into_string().unwrap())
        .collect();
    for name in names
        .iter()
        .filter(|name| *name != "LOCK" && *name != "BALLAST")
    {
        let text = String::from_utf8(stdout(&["inspect", &format!("{db}/{name}")])).unwrap();
        assert!(text.contains("file header: kind "), "{text}");
        assert!(text.contains("every checksum right"), "{text}");
    }
    let wal = names
        .iter()
        .filter(|name| name.ends_with(".wal"))
        .max()
        .unwrap();
    let wal = format!("{db}/{wal}");
    let lines = String::from_utf8(stdout(&["inspect", &wal, "--json"])).unwrap();
    let parts: Vec<serde_json::Value> = lines
        .lines()
        .map(|line| serde_json::from_str(line).unwrap())
        .collect();
    let (file, parts) = parts.split_last().unwrap();
    assert_eq!(file["parts"], parts.len());
    assert_eq!(file["faults"], 0);
    let text = String::from_utf8(stdout(&["inspect", &wal, "--limit", "1"])).unwrap();
    assert!(text.contains(" parts more"), "{text}");
    let manifest = names
        .iter()
        .find(|name| name.starts_with("MANIFEST"))
        .unwrap();
    let manifest = format!("{db}/{manifest}");
    let mut bytes = std::fs::read(&manifest).unwrap();
    bytes[150] ^= 1;
    std::fs::write(&manifest, bytes).unwrap();
    let damaged = unikv(&["inspect", &manifest]).assert().code(4);
    let text = String::from_utf8(damaged.get_output().stdout.clone()).unwrap();
    assert!(text.contains("DAMAGED: "), "{text}");
    unikv(&["inspect", records]).assert().code(8);
}

#[test]
fn compact_merges_a_range() {
    let place = Place::new();
    let db = &place.path("db");
    let records = &place.file("records.tsv", b"a\t1\nb\t2\nc\t3\n");
    stdout(&["load", db, records]);
    let range = ["compact", db, "--from", "b", "--to", "c"];
    unikv(&range).assert().success().stdout("");
    let stats = json(&["stats", db, "--json"]);
    assert_eq!(
        stats["stats"]["partitions"][0]["unsorted_bytes"], 0,
        "{stats}"
    );
    unikv(&["compact", db]).assert().success();
    assert_eq!(stdout(&["get", db, "b"]), b"2\n");
    let nowhere = place.path("nowhere");
    unikv(&["compact", &nowhere]).assert().failure();
}

#[test]
fn a_damaged_database_is_repaired_into_a_new_one() {
    let place = Place::new();
    let db = &place.path("db");
    let lines: String = (0..300)
        .map(|i| format!("key{i:04}\t{}\n", "v".repeat(300)))
        .collect();
    stdout(&["load", db, &place.file("in", lines.as_bytes())]);
    unikv(&["compact", db]).assert().success();
    let intact = json(&["repair", db, "--dry-run", "--json"]);
    assert_eq!(
        (&intact["complete"], &intact["saved"]),
        (&true.into(), &300.into())
    );
    assert_eq!(intact["written"], Value::Null);
    assert!(!Path::new(&place.path("db.repaired")).exists());

    let names = fs::read_dir(db).unwrap().map(|entry| entry.unwrap().path());
    let records = names.filter(|path| path.extension().is_some_and(|e| e == "rec"));
    let largest = records
        .max_by_key(|path| fs::metadata(path).unwrap().len())
        .unwrap();
    let mut bytes = fs::read(&largest).unwrap();
    let middle = bytes.len() / 2;
    bytes[middle] ^= 1;
    fs::write(&largest, &bytes).unwrap();
    fs::remove_file(Path::new(db).join("CURRENT")).unwrap();
    unikv(&["get", db, "key0001"]).assert().code(4);

    let to = &place.path("saved");
    let repaired = unikv(&["repair", db, "--to", to, "--json"])
        .assert()
        .code(12);
    let report: Value = serde_json::from_slice(&repaired.get_output().stdout).unwrap();
    assert_eq!(
        (&report["lost"], &report["saved"]),
        (&1.into(), &299.into()),
        "{report}"
    );
    let lost = report["lost_keys"][0]["key"].as_str().unwrap();
    unikv(&["check", to]).assert().success();
    unikv(&["get", to, lost]).assert().code(1);
    assert_eq!(stdout(&["scan", to]).split(|b| *b == b'\n').count(), 300);
    assert_eq!(fs::read(&largest).unwrap(), bytes);
    // The target is a database now; the damaged one is as it was.
    unikv(&["repair", db, "--to", to]).assert().code(3);
    let again = unikv(&["repair", &format!("{db}/"), "--dry-run"])
        .assert()
        .code(12);
    let text = String::from_utf8(again.get_output().stdout.clone()).unwrap();
    for words in [lost, "CURRENT", "1 lost", "299 records", "by the manifest"] {
        assert!(text.contains(words), "{words}: {text}");
    }
    unikv(&["repair", &place.path("nowhere")]).assert().code(8);
}

/// What a failing command says.
fn stderr(arguments: &[&str], code: i32) -> String {
    let failed = unikv(arguments).assert().code(code).stdout("");
    String::from_utf8(failed.get_output().stderr.clone()).unwrap()
}

/// The keyspaces, each with a figure of it.
fn keyspaces(db: &str, figure: &str) -> Vec<(String, Value)> {
    let list = json(&["keyspace", "list", db, "--json"]);
    let rows = list["keyspaces"].as_array().unwrap().iter();
    rows.map(|row| {
        (
            row["name"].as_str().unwrap().to_owned(),
            row[figure].clone(),
        )
    })
    .collect()
}

fn names_of_keyspaces(db: &str) -> Vec<String> {
    let all = keyspaces(db, "number").into_iter();
    all.map(|(name, _)| name).collect()
}

/// A database whose default keyspace has the key `a`, and `users` the keys `7` and `8`.
fn with_users(place: &Place, name: &str) -> String {
    let db = place.path(name);
    unikv(&["put", &db, "a", "1"]).assert().success();
    let create = ["keyspace", "create", &db, "users"];
    unikv(&create).assert().success().stdout("");
    for (key, value) in [("7", "Ada"), ("8", "Bob")] {
        let put = ["put", &db, key, value, "--keyspace", "users"];
        unikv(&put).assert().success();
    }
    db
}

#[test]
fn keyspaces_are_made_listed_and_renamed() {
    let place = Place::new();
    let db = &with_users(&place, "db");
    let inline = ["--inline-value-bytes", "1KiB"];
    unikv(&[&["keyspace", "create", db, "näme\t"][..], &inline].concat())
        .assert()
        .success();
    assert_eq!(names_of_keyspaces(db), ["default", "users", "näme\t"]);
    let options = keyspaces(db, "options");
    assert_eq!(options[1].1["inline_value_bytes"], Value::Null);
    assert_eq!(options[2].1["inline_value_bytes"], 1024);
    for (name, partitions) in keyspaces(db, "partitions") {
        assert_eq!(partitions, 1, "{name}");
    }
    stdout(&["compact", db]);
    let bytes = keyspaces(db, "bytes");
    assert!(bytes[1].1.as_u64().unwrap() > 0, "{bytes:?}");
    assert_eq!(bytes[2].1, 0);
    let text = String::from_utf8(stdout(&["keyspace", "list", db])).unwrap();
    assert!(
        text.contains("1024           -            -  näme\\t\n"),
        "{text}"
    );

    unikv(&["keyspace", "rename", db, "users", "people"])
        .assert()
        .success();
    assert_eq!(names_of_keyspaces(db), ["default", "people", "näme\t"]);
    assert_eq!(stdout(&["get", db, "7", "--keyspace", "people"]), b"Ada\n");

    let taken = stderr(&["keyspace", "create", db, "people"], 3);
    assert!(taken.contains("\"people\" already"), "{taken}");
    let large = ["--inline-value-bytes", "1MiB"];
    stderr(&[&["keyspace", "create", db, "x"][..], &large].concat(), 3);
    stderr(&["keyspace", "create", db, ""], 3);
    stderr(&["keyspace", "create", db, "default"], 3);
    stderr(&["keyspace", "rename", db, "people", "default"], 3);
    stderr(&["keyspace", "rename", db, "people", "näme\t"], 3);
    stderr(&["keyspace", "rename", db, "default", "x"], 3);
    stderr(&["keyspace", "rename", db, "users", "x"], 14);
    unikv(&["keyspace", "grow", db]).assert().code(2);
    assert_eq!(names_of_keyspaces(db), ["default", "people", "näme\t"]);
}

#[test]
fn keyspaces_are_emptied_and_dropped() {
    let place = Place::new();
    let db = &with_users(&place, "db");
    let lines: String = (0..3000)
        .map(|i| format!("key{i:05}\t{}\n", "v".repeat(300)))
        .collect();
    let input = &place.file("in", lines.as_bytes());
    stdout(&["load", db, input, "--keyspace", "users"]);
    stdout(&["compact", db]);
    let on_disk = || -> u64 {
        let files = fs::read_dir(db).unwrap().map(|entry| entry.unwrap().path());
        let data = files.filter(|path| path.extension().is_some_and(|e| e == "rec" || e == "key"));
        data.map(|path| fs::metadata(path).unwrap().len()).sum()
    };
    for (verb, left) in [("empty", 2), ("drop", 1)] {
        let dry = stdout(&["keyspace", verb, db, "users", "--dry-run"]);
        let dry = String::from_utf8(dry).unwrap();
        let words = format!("would {verb} the keyspace \"users\": about ");
        assert!(
            dry.starts_with(&words) && dry.contains("iB on disk"),
            "{dry}"
        );
        assert_eq!(stdout(&["get", db, "7", "--keyspace", "users"]), b"Ada\n");

        assert!(on_disk() > 900_000, "{}", on_disk());
        unikv(&["keyspace", verb, db, "users"])
            .assert()
            .success()
            .stdout("");
        assert!(on_disk() < 10_000, "{}", on_disk());
        assert_eq!(names_of_keyspaces(db).len(), left);
        if verb == "empty" {
            assert_eq!(stdout(&["scan", db, "--keyspace", "users"]), b"");
            let dry = stdout(&["keyspace", "drop", db, "users", "--dry-run"]);
            assert!(String::from_utf8(dry).unwrap().contains("has no keys"));
            stdout(&["put", db, "7", "Ada", "--keyspace", "users"]);
            stdout(&["load", db, input, "--keyspace", "users"]);
        }
    }
    assert_eq!(stdout(&["get", db, "a"]), b"1\n");
    for verb in ["empty", "drop"] {
        for dry in [&["--dry-run"][..], &[]] {
            let of = |name| [&["keyspace", verb, db, name][..], dry].concat();
            stderr(&of("users"), 14);
            let default = stderr(&of("default"), 3);
            assert!(default.contains("delete its keys"), "{default}");
        }
    }
    assert_eq!(stdout(&["get", db, "a"]), b"1\n");
    unikv(&["check", db]).assert().success();
}

#[test]
fn keyspace_commands_create_no_database() {
    let place = Place::new();
    let none = &place.path("none");
    for arguments in [
        &["keyspace", "list", none][..],
        &["keyspace", "create", none, "users"],
        &["keyspace", "rename", none, "users", "people"],
        &["keyspace", "empty", none, "users"],
        &["keyspace", "drop", none, "users", "--dry-run"],
        &["put", none, "7", "Ada", "--keyspace", "users"],
        &["load", none, "/dev/null", "--keyspace", "users"],
        &["dump", none, "--keyspace", "default"],
    ] {
        stderr(arguments, 8);
        assert!(!Path::new(none).exists(), "{arguments:?}");
    }
    // Every database has this one.
    stdout(&["put", none, "a", "1", "--keyspace", "default"]);
    assert_eq!(stdout(&["get", none, "a"]), b"1\n");
}

#[test]
fn commands_work_in_the_keyspace_that_is_named() {
    let place = Place::new();
    let db = &with_users(&place, "db");
    fn inside<'a>(arguments: &[&'a str]) -> Vec<&'a str> {
        [arguments, &["--keyspace", "users"]].concat()
    }
    unikv(&["get", db, "7"]).assert().code(1);
    assert_eq!(stdout(&inside(&["get", db, "7"])), b"Ada\n");
    unikv(&inside(&["get", db, "a"])).assert().code(1);
    stdout(&["del", db, "7"]);
    assert_eq!(stdout(&inside(&["get", db, "--hex", "37"])), b"416461\n");
    assert_eq!(stdout(&["scan", db]), b"a\t1\n");
    assert_eq!(stdout(&inside(&["scan", db])), b"7\tAda\n8\tBob\n");
    let last = ["scan", db, "--reverse", "--limit", "1", "--keys-only"];
    assert_eq!(stdout(&inside(&last)), b"8\n");
    let one = ["scan", db, "--prefix", "8", "--from", "7", "--to", "9"];
    let one = [&one[..], &["--json"]].concat();
    assert_eq!(json(&inside(&one))["value"], "Bob");
    stdout(&inside(&["del", db, "8"]));
    assert_eq!(stdout(&inside(&["scan", db])), b"7\tAda\n");

    let input = &place.file("in.tsv", b"9\tCleo\n");
    stdout(&inside(&["load", db, input]));
    assert_eq!(stdout(&inside(&["scan", db])), b"7\tAda\n9\tCleo\n");
    assert_eq!(stdout(&["scan", db]), b"a\t1\n");

    for arguments in [
        &["get", db, "7"][..],
        &["put", db, "7", "x"],
        &["del", db, "7"],
        &["scan", db],
        &["scan", db, "--from", "b", "--to", "a"],
        &["load", db, input],
        &["dump", db],
        &["compact", db],
    ] {
        let arguments = [arguments, &["--keyspace", "nobody"]].concat();
        let what = stderr(&arguments, 14);
        assert!(what.contains("no keyspace \"nobody\""), "{what}");
        assert!(what.contains("unikv keyspace create"), "{what}");
    }
    assert_eq!(names_of_keyspaces(db), ["default", "users"]);
}

#[test]
fn compact_merges_one_keyspace_or_all() {
    let place = Place::new();
    let db = &with_users(&place, "db");
    let unsorted = || {
        let stats = json(&["stats", db, "--json"]);
        let partitions = stats["stats"]["partitions"].as_array().unwrap().clone();
        let rows = partitions.into_iter().map(|row| {
            let bytes = row["unsorted_bytes"].as_u64().unwrap();
            (row["keyspace"].as_str().unwrap().to_owned(), bytes > 0)
        });
        rows.collect::<Vec<_>>()
    };
    let both = |default, users| [("default".to_owned(), default), ("users".to_owned(), users)];
    stdout(&["compact", db, "--from", "a"]);
    assert_eq!(unsorted(), both(false, true));
    stdout(&["put", db, "a", "2"]);
    stdout(&["compact", db, "--keyspace", "users"]);
    assert_eq!(unsorted(), both(true, false));
    stdout(&["put", db, "7", "x", "--keyspace", "users"]);
    stdout(&["compact", db]);
    assert_eq!(unsorted(), both(false, false));
}

#[test]
fn dumps_carry_keyspaces() {
    let place = Place::new();
    let db = &with_users(&place, "db");
    let options = ["--inline-value-bytes", "64", "--compression", "zstd:5"];
    stdout(&[&["keyspace", "create", db, "none\tyet"][..], &options].concat());
    let tsv = "\\keyspace\tdefault\na\t1\n\\keyspace\tusers\n7\tAda\n8\tBob\n\
               \\keyspace\tnone\\tyet\tinline_value_bytes=64\tcompression=zstd:5\n";
    assert_eq!(String::from_utf8(stdout(&["dump", db])).unwrap(), tsv);
    let jsonl = stdout(&["dump", db, "--json"]);
    let last = String::from_utf8(jsonl.clone()).unwrap();
    let last: Value = serde_json::from_str(last.lines().last().unwrap()).unwrap();
    assert_eq!(last["keyspace"], "none\tyet");
    assert_eq!(last["options"]["inline_value_bytes"], 64);
    assert_eq!(last["options"]["compression"], "zstd:5");

    let files = [
        place.file("all.tsv", tsv.as_bytes()),
        place.file("all.jsonl", &jsonl),
    ];
    for file in &files {
        let copy = &format!("{file} copy");
        let loaded = json(&["load", copy, file, "--json"]);
        assert_eq!(loaded["records"], 3);
        let made = serde_json::json!(["users", "none\tyet"]);
        assert_eq!(loaded["keyspaces_made"], made);
        assert_eq!(stdout(&["dump", copy, "--json"]), jsonl);
        // Once more makes nothing, and sets what it sets.
        let text = String::from_utf8(stdout(&["load", copy, file])).unwrap();
        assert!(text.starts_with("loaded 3 records"), "{text}");
        assert_eq!(stdout(&["dump", copy]), tsv.as_bytes());
    }
    // The options of a keyspace that is there are set, too.
    let other = &place.path("other");
    stdout(&["put", other, "b", "2"]);
    stdout(&["keyspace", "create", other, "none\tyet"]);
    let text = String::from_utf8(stdout(&["load", other, &files[0]])).unwrap();
    assert!(text.starts_with("made the keyspace \"users\"\n"), "{text}");
    let options = &keyspaces(other, "options")[1].1;
    assert_eq!(options["inline_value_bytes"], 64);
    assert_eq!(options["compression"], "zstd:5");
    assert_eq!(stdout(&["scan", other]), b"a\t1\nb\t2\n");
}

#[test]
fn one_keyspace_is_dumped_or_loaded() {
    let place = Place::new();
    let db = &with_users(&place, "db");
    let users = b"\\keyspace\tusers\n7\tAda\n8\tBob\n";
    assert_eq!(stdout(&["dump", db, "--keyspace", "users"]), users);
    // As a database without other keyspaces is dumped.
    assert_eq!(stdout(&["dump", db, "--keyspace", "default"]), b"a\t1\n");

    let all = &place.file("all.tsv", &stdout(&["dump", db]));
    let copy = &place.path("copy");
    stdout(&["load", copy, all, "--keyspace", "default"]);
    assert_eq!(stdout(&["dump", copy]), b"a\t1\n");
    let one = ["load", copy, all, "--keyspace", "users"];
    let missing = stderr(&one, 14);
    assert!(missing.contains("keyspace create"), "{missing}");
    stdout(&["keyspace", "create", copy, "users"]);
    stdout(&["del", copy, "a"]);
    assert_eq!(json(&[&one[..], &["--json"]].concat())["records"], 2);
    assert_eq!(stdout(&["dump", copy, "--keyspace", "users"]), users);
    assert_eq!(stdout(&["scan", copy]), b"");

    stdout(&["keyspace", "create", copy, "people"]);
    let absent = stderr(&["load", copy, all, "--keyspace", "people"], 3);
    assert!(absent.contains("rename"), "{absent}");
    // Lines before the first name are of the keyspace that is given.
    let mixed = &place.file("mixed.tsv", b"5\tEve\n\\keyspace\tusers\n6\tFay\n");
    stdout(&["load", copy, mixed, "--keyspace", "people"]);
    let people = stdout(&["scan", copy, "--keyspace", "people"]);
    assert_eq!(people, b"5\tEve\n");
}

#[test]
fn wrong_names_in_a_dump_are_refused_with_their_line() {
    let place = Place::new();
    let db = &place.path("db");
    for (name, line) in [
        ("a.tsv", "\\keyspace\tusers\tcolour=red"),
        ("b.tsv", "\\keyspace\tusers\tinline_value_bytes=1000000"),
        ("c.tsv", "\\keyspace\tdefault\tinline_value_bytes=64"),
        ("d.tsv", "\\keyspace\t"),
        (
            "e.jsonl",
            r#"{"keyspace":"users","options":{"colour":"red"}}"#,
        ),
        ("f.jsonl", r#"{"keyspace":"users","key":"a","value":"1"}"#),
        ("g.jsonl", r#"{"keyspace":""}"#),
    ] {
        let file = &place.file(name, format!("\n{line}\n").as_bytes());
        let what = stderr(&["load", db, file], 3);
        assert!(what.contains("line 2: "), "{line}: {what}");
        assert_eq!(names_of_keyspaces(db), ["default"], "{line}");
    }
}

#[test]
fn reports_name_keyspaces() {
    let place = Place::new();
    let db = &with_users(&place, "db");
    let stats = json(&["stats", db, "--json"]);
    assert_eq!(stats["stats"]["partitions"][1]["keyspace"], "users");
    let text = String::from_utf8(stdout(&["stats", db])).unwrap();
    assert!(text.contains("  users from the first key"), "{text}");

    let to = &place.path("saved");
    let report = json(&["repair", db, "--to", to, "--json"]);
    assert_eq!(report["keyspaces"], serde_json::json!(["users"]));
    assert_eq!(stdout(&["dump", to]), stdout(&["dump", db]));
    let to = &place.path("saved again");
    let text = String::from_utf8(stdout(&["repair", db, "--to", to])).unwrap();
    assert!(text.contains("keyspace: \"users\"\n"), "{text}");

    let names = fs::read_dir(db).unwrap().map(|entry| entry.unwrap().path());
    let manifest = names
        .filter(|path| path.to_string_lossy().contains("MANIFEST"))
        .max();
    let manifest = manifest.unwrap().to_str().unwrap().to_owned();
    let text = String::from_utf8(stdout(&["inspect", &manifest])).unwrap();
    let number = &keyspaces(db, "number")[1].1;
    let words = format!("+ keyspace: id 1, number {number}, name \"users\", options ");
    assert!(text.contains(&words), "{text}");
}

#[test]
fn a_repair_names_the_keyspaces_of_what_is_lost() {
    let place = Place::new();
    let db = &with_users(&place, "db");
    let lines: String = (0..300)
        .map(|i| format!("key{i:04}\t{}\n", "v".repeat(300)))
        .collect();
    let input = &place.file("in", lines.as_bytes());
    stdout(&["load", db, input, "--keyspace", "users"]);
    unikv(&["compact", db]).assert().success();
    let names = fs::read_dir(db).unwrap().map(|entry| entry.unwrap().path());
    let records = names.filter(|path| path.extension().is_some_and(|e| e == "rec"));
    let largest = records.max_by_key(|path| fs::metadata(path).unwrap().len());
    let largest = largest.unwrap();
    let mut bytes = fs::read(&largest).unwrap();
    let middle = bytes.len() / 2;
    bytes[middle] ^= 1;
    fs::write(&largest, &bytes).unwrap();

    let repair = |more: &[&str]| {
        let arguments = [&["repair", db, "--dry-run"], more].concat();
        let done = unikv(&arguments).assert().code(12);
        String::from_utf8(done.get_output().stdout.clone()).unwrap()
    };
    let report: Value = serde_json::from_str(&repair(&["--json"])).unwrap();
    assert_eq!(report["keyspaces"], serde_json::json!(["users"]));
    let lost = &report["lost_keys"][0];
    assert_eq!(lost["keyspace"], "users", "{report}");
    let words = format!("lost: {} of the keyspace \"users\", ", lost["key"]);
    let text = repair(&[]);
    assert!(text.contains(&words), "{words}: {text}");
}
