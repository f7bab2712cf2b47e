//! The commands as a script sees them: output, exit status, files.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

use assert_cmd::Command;
use serde_json::Value;
use std::fs;
use std::io::Read;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use tempfile::TempDir;

fn unikv(arguments: &[&str]) -> Command {
    let mut command = Command::cargo_bin("unikv").unwrap();
    command.args(arguments);
    command
}

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
    for status in 0..=11 {
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

#[test]
fn stats_and_check_describe_the_database() {
    let place = Place::new();
    let db = &place.path("db");
    unikv(&["put", db, "key", "value"]).assert().success();
    let stats = json(&["stats", db, "--json"]);
    assert!(stats["stats"]["write_amplification"].is_number());
    assert!(stats["recovery"]["elapsed_us"].is_number());
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
    let options = unikv::Options::default()
        .partition_bytes(32 << 10)
        .key_table_bytes(4 << 10);
    let open = unikv::Db::open(&db, options).unwrap();
    open.compact().unwrap();
    open.quiesce().unwrap();
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
    let text = String::from_utf8(stdout(&["gc", db])).unwrap();
    assert!(text.contains("garbage "), "{text}");
    let text = String::from_utf8(stdout(&["stats", db, "--files"])).unwrap();
    for words in [
        "amplification",
        "garbage",
        "value log",
        "options: ",
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
    let names = std::fs::read_dir(db).unwrap().map(|entry| entry.unwrap());
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
