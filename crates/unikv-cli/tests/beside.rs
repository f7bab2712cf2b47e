//! Reading, copying and being refused beside a process that has the database open. `UNIKV_OPENINGS`
//! says how often a service is opened beside reading commands.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

mod common;

use common::{Writer, json, text, unikv, within};
use std::fs;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, SystemTime};
use unikv::{Db, Options, PublishedStats};

#[test]
fn reading_commands_show_what_is_visible_beside_a_writer() {
    let dir = tempfile::tempdir().unwrap();
    let db = within(dir.path(), "db");
    let options = Options::default().change_window_bytes(1 << 20);
    Db::open(&db, options).unwrap().close().unwrap();
    let mut writer = Writer::of(&db);
    writer.say("put apple red");
    writer.say("put banana yellow");
    writer.say("flush");
    writer.say("put cherry dark");
    writer.say("delete banana");
    writer.say("use others create");
    writer.say("put here 1");
    assert_eq!(writer.ask("count"), "1");

    assert_eq!(text(&["get", &db, "apple"]), "red\n");
    assert_eq!(text(&["get", &db, "cherry", "--offset", "1"]), "ark\n");
    unikv(&["get", &db, "banana"]).assert().code(1);
    assert_eq!(text(&["get", &db, "here", "--keyspace", "others"]), "1\n");
    unikv(&["get", &db, "here", "--keyspace", "none"])
        .assert()
        .code(14);
    assert_eq!(text(&["scan", &db]), "apple\tred\ncherry\tdark\n");
    let keys = text(&["scan", &db, "--keys-only", "--reverse"]);
    assert_eq!(keys, "cherry\napple\n");
    assert_eq!(text(&["ttl", &db, "apple"]), "never\n");
    let changes = text(&["changes", &db]);
    assert!(changes.ends_with("\tput\tothers\there\t1\n"), "{changes}");
    let dumped = text(&["dump", &db, "--format", "jsonl"]);
    assert!(dumped.contains("\"others\"") && dumped.contains("\"here\""));
    let listed = json(&["keyspace", "list", &db]);
    assert_eq!(listed["keyspaces"][1]["name"], "others");
    assert_eq!(listed["keyspaces"][1]["number"], 1);
    assert!(listed["keyspaces"][0]["bytes"].as_u64() > Some(0));
    let export = within(dir.path(), "export");
    text(&["export", &db, &export]);
    assert!(text(&["import", &db, &export, "--verify"]).contains("2 records"));

    // Each command begins with what is visible then.
    writer.say("use default");
    writer.say("put apple green");
    assert_eq!(writer.ask("get apple"), "green");
    assert_eq!(text(&["get", &db, "apple"]), "green\n");
    writer.end();
    let now = text(&["dump", &db, "--format", "jsonl"]);
    assert_eq!(now, dumped.replace("red", "green"));
}

#[test]
fn what_needs_the_database_for_itself_names_the_holder() {
    let dir = tempfile::tempdir().unwrap();
    let db = within(dir.path(), "db");
    let lines = within(dir.path(), "lines.tsv");
    fs::write(&lines, "a\t1\n").unwrap();
    let mut writer = Writer::of(&db);
    writer.say("put apple red");
    assert_eq!(writer.ask("count"), "1");
    let export = within(dir.path(), "export");
    text(&["export", &db, &export]);
    let said = format!("process {}", writer.child.id());
    for command in [
        &["put", &db, "apple", "green"][..],
        &["del", &db, "apple"],
        &["delete-range", &db, "--all"],
        &["expire", &db, "apple", "1h"],
        &["clear-ttl", &db, "apple"],
        &["load", &db, &lines],
        &["ingest", &db, &lines],
        &["import", &db, &export],
        &["keyspace", "create", &db, "more"],
        &["keyspace", "drop", &db, "more"],
        &["compact", &db],
        &["gc", &db],
        &["shell", &db],
        &["repair", &db],
        &["ycsb", &db, "--records", "10", "--operations", "10"],
    ] {
        let output = unikv(command).write_stdin("").output().unwrap();
        let error = String::from_utf8(output.stderr).unwrap();
        assert_eq!(output.status.code(), Some(7), "{command:?}: {error}");
        assert!(error.contains(&said), "{command:?}: {error}");
    }
    assert_eq!(writer.ask("get apple"), "red");
}

#[test]
fn what_is_due_is_explained_by_the_files_and_beside_a_writer_by_what_it_publishes() {
    let dir = tempfile::tempdir().unwrap();
    let db = within(dir.path(), "db");
    let options = Options::default().publish_stats(Duration::from_millis(50));
    let writer = Db::open(&db, options).unwrap();
    writer.put("a", "1").unwrap();
    while PublishedStats::read(&db).unwrap().is_none() {
        thread::yield_now();
    }
    let shown = text(&["explain", &db]);
    assert!(shown.contains("nothing is due"), "{shown}");
    let as_json = json(&["explain", &db]);
    assert_eq!(as_json["published"]["pid"], std::process::id());
    let is_none = |of: &str| as_json[of].as_array().unwrap().is_empty();
    assert!(is_none("due") && is_none("running"), "{as_json}");
    writer.close().unwrap();
    let shown = text(&["explain", &db]);
    assert!(shown.starts_with("nobody has the database open"), "{shown}");
    assert!(shown.contains("what its files do not say:"), "{shown}");
    assert!(json(&["explain", &db])["published"].is_null());
}

#[test]
fn stats_beside_a_writer_that_publishes_none_are_those_of_a_secondary() {
    let dir = tempfile::tempdir().unwrap();
    let db = within(dir.path(), "db");
    let writer = unikv::Db::open(&db, unikv::Options::default()).unwrap();
    for n in 0..100_u8 {
        writer.put([b'k', n], "value").unwrap();
    }
    writer.flush().unwrap();
    writer.put("later", "1").unwrap();
    let shown = text(&["stats", &db]);
    assert!(shown.starts_with("as a secondary sees it: "), "{shown}");
    assert!(shown.contains("up to number 101; 0 more since"), "{shown}");
    assert!(shown.contains("100 records"), "{shown}");
    assert!(
        shown.contains("default from the first key to the last"),
        "{shown}"
    );
    let shown = json(&["stats", &db]);
    let followed = &shown["followed"];
    assert_eq!(
        (&followed["seq"], &followed["lag"]),
        (&101.into(), &0.into())
    );
    assert_eq!(followed["partitions"][0]["unsorted_records"], 100);
    assert_eq!(followed["has_writer"], true);
    assert!(followed["age_us"].is_u64(), "{shown}");
    let files = text(&["stats", &db, "--files"]);
    assert!(files.contains("table"), "{files}");
    let checked = json(&["check", &db]);
    assert_eq!(
        (&checked["clean"], &checked["records"]),
        (&true.into(), &100.into())
    );
    assert!(
        checked["notes"]
            .to_string()
            .contains("another process has it open")
    );
    writer.close().unwrap();
    assert!(json(&["stats", &db])["followed"].is_null());
    assert!(text(&["stats", &db, "--files"]).contains("record files"));
    let checked = json(&["check", &db]);
    assert!(
        !checked["notes"]
            .to_string()
            .contains("another process has it open")
    );

    // Damage shows beside a writer, too.
    let record_file = fs::read_dir(&db)
        .unwrap()
        .map(|entry| entry.unwrap().path());
    let mut record_files = record_file.filter(|path| path.extension().is_some_and(|e| e == "rec"));
    let damaged = record_files.next().unwrap();
    let mut bytes = fs::read(&damaged).unwrap();
    let middle = bytes.len() / 2;
    bytes[middle] ^= 1;
    fs::write(&damaged, bytes).unwrap();
    let _writer = unikv::Db::open(&db, unikv::Options::default()).unwrap();
    let said = unikv(&["check", &db]).assert().code(4).get_output().clone();
    let said = String::from_utf8(said.stdout).unwrap();
    let name = damaged.file_name().unwrap().to_str().unwrap();
    assert!(
        said.contains(name) && said.contains("another process"),
        "{said}"
    );
}

/// The greatest number whose key is there; all before it are there, too, and no others.
fn prefix(db: &str) -> usize {
    let keys = text(&["scan", db, "--keys-only"]);
    for (n, key) in keys.lines().enumerate() {
        assert_eq!(key, format!("key{n:06}"));
    }
    keys.lines().count()
}

#[test]
fn copies_beside_a_writer_are_what_it_had_written_and_survive_its_death() {
    let dir = tempfile::tempdir().unwrap();
    let db = within(dir.path(), "db");
    let backups = within(dir.path(), "backups");
    let mut writer = Writer::of(&db);
    let (mut written, mut copies) = (0, Vec::new());
    let value = "v".repeat(300);
    for round in 0..6 {
        for _ in 0..400 {
            writer.say(&format!("put key{written:06} {value}"));
            written += 1;
        }
        match round % 3 {
            1 => writer.say("flush"),
            2 => writer.say("compact"),
            _ => {}
        }
        assert_eq!(writer.ask(&format!("get key{:06}", written - 1)), value);
        let acknowledged = written;
        // These may or may not be in it.
        for _ in 0..200 {
            writer.say(&format!("put key{written:06} {value}"));
            written += 1;
        }
        let copy = within(dir.path(), &format!("copy{round}"));
        let made = json(&["checkpoint", &db, &copy]);
        assert!(made["seq"].as_u64() >= Some(acknowledged as u64), "{made}");
        let point = json(&["backup", "create", &db, &backups]);
        assert!(round < 2 || point["shared_bytes"].as_u64() > Some(0));
        copies.push((copy, acknowledged, written));
    }
    writer.kill();
    for (nth, (copy, least, most)) in copies.iter().enumerate() {
        unikv(&["check", copy]).assert().success();
        let found = prefix(copy);
        assert!((*least..=*most).contains(&found), "{least} {found} {most}");
        let restored = within(dir.path(), &format!("restored{nth}"));
        let number = (nth + 1).to_string();
        text(&["backup", "restore", &backups, &restored, "--point", &number]);
        let found = prefix(&restored);
        assert!((*least..=*most).contains(&found), "{least} {found} {most}");
        text(&["put", copy, "later", "1"]);
        unikv(&["check", copy]).assert().success();
    }
    text(&["backup", "verify", &backups]);
    // The killed writer's own.
    assert!(prefix(&db) >= copies.last().unwrap().1);
    unikv(&["check", &db]).assert().success();
}

/// All files below a directory, with their bytes and when they were changed.
fn files(dir: &str) -> Vec<(PathBuf, Vec<u8>, SystemTime)> {
    let mut found: Vec<_> = fs::read_dir(dir)
        .unwrap()
        .map(|entry| {
            let path = entry.unwrap().path();
            let changed = fs::metadata(&path).unwrap().modified().unwrap();
            (path.clone(), fs::read(&path).unwrap(), changed)
        })
        .collect();
    found.sort();
    found
}

/// The commands that only read, each with what it prints of the key.
fn reading_commands<'a>(db: &'a str, export: &'a str) -> Vec<(Vec<&'a str>, &'a str)> {
    vec![
        (vec!["get", db, "apple"], "red\n"),
        (vec!["scan", db], "apple\tred\n"),
        (vec!["ttl", db, "apple"], "never\n"),
        (vec!["dump", db], "apple\tred\n"),
        (vec!["keyspace", "list", db], "default"),
        (vec!["export", db, export], "exported"),
        (vec!["stats", db, "--files"], "partitions"),
        (vec!["explain", db], "by what its files say"),
        (vec!["check", db], "no problems"),
        (vec!["changes", db], "apple\tred\n"),
    ]
}

#[test]
fn reading_commands_change_nothing_and_take_no_lock() {
    let dir = tempfile::tempdir().unwrap();
    let (db, export) = (within(dir.path(), "db"), within(dir.path(), "export"));
    let options = Options::default().change_window_bytes(1 << 20);
    Db::open(&db, options).unwrap().close().unwrap();
    let mut writer = Writer::of(&db);
    writer.say("put apple red");
    writer.end();
    let before = files(&db);
    for (command, printed) in reading_commands(&db, &export) {
        let shown = text(&command);
        assert!(shown.contains(printed), "{command:?}: {shown}");
        assert_eq!(files(&db), before, "{command:?}");
    }
}

#[test]
fn a_service_opens_beside_any_reading_command() {
    let dir = tempfile::tempdir().unwrap();
    let db = within(dir.path(), "db");
    let options = || {
        let options = Options::default().memory_budget(16 << 20);
        options.change_window_bytes(64 << 20)
    };
    let service = Db::open(&db, options()).unwrap();
    service.put("apple", "red").unwrap();
    service.close().unwrap();
    let ended = AtomicBool::new(false);
    let all = std::env::var("UNIKV_OPENINGS").map_or(300, |count| count.parse().unwrap());
    thread::scope(|scope| {
        let commands = scope.spawn(|| {
            let mut count = 0;
            while !ended.load(Ordering::Relaxed) {
                let export = within(dir.path(), &format!("export{count}"));
                for (command, printed) in reading_commands(&db, &export) {
                    let shown = text(&command);
                    assert!(shown.contains(printed), "{command:?}: {shown}");
                    count += 1;
                }
            }
            count
        });
        let mut openings = 0_u32;
        while openings < all && !commands.is_finished() {
            // Logs, tables and manifests that come and go.
            let service = Db::open(&db, options()).unwrap();
            service.put(openings.to_be_bytes(), vec![7; 5000]).unwrap();
            if openings.is_multiple_of(7) {
                service.compact().unwrap();
            }
            service.delete(openings.to_be_bytes()).unwrap();
            service.close().unwrap();
            openings += 1;
        }
        ended.store(true, Ordering::Relaxed);
        assert!(commands.join().unwrap() >= 12);
        assert_eq!(openings, all);
    });
}
