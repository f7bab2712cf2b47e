//! A secondary in one process, and its writer in another, which is killed and started again.

#![allow(
    clippy::unwrap_used,
    clippy::panic,
    reason = "a test that cannot set its stage must fail"
)]

mod limit;

use limit::limit;
use std::io::{BufRead, BufReader, Write};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};
use unikv::{Batch, Db, Durability, Options, Readable, Secondary, SecondaryOptions, Tuning};

const DIR: &str = "UNIKV_FOLLOWED_DIR";
/// Keys that are written together.
const TOGETHER: u64 = 8;
/// The newest of the numbers written that have a key of their own.
const WINDOW: u64 = 500;
const LIVES: usize = 4;

fn options() -> Options {
    Options::default()
        .tuning(
            Tuning::default()
                .memtable_bytes(64 << 10)
                .unsorted_bytes(256 << 10)
                .partition_bytes(1 << 20)
                .key_table_bytes(64 << 10),
        )
        .memory_budget(8 << 20)
}

fn number(value: &[u8]) -> u64 {
    u64::from_be_bytes(value[..8].try_into().unwrap())
}

/// What the writer does, if this process is to be one.
#[test]
fn writer() {
    let Some(dir) = std::env::var_os(DIR) else {
        return;
    };
    let db = Db::open(dir, options()).unwrap();
    let last = db.get("key0").unwrap().map_or(0, |value| number(&value));
    let mut out = std::io::stdout().lock();
    writeln!(out, "\nopen").unwrap();
    for n in last + 1.. {
        let mut batch = Batch::new();
        for i in 0..TOGETHER {
            batch.put(format!("key{i}"), n.to_be_bytes().repeat(20));
        }
        batch.put(format!("log{n:012}"), n.to_be_bytes().repeat(60));
        if n > WINDOW {
            batch.delete(format!("log{:012}", n - WINDOW));
        }
        match n % 97 {
            0 => db.write_with(&batch, Durability::Sync).unwrap(),
            _ => db.write(&batch).unwrap(),
        }
        writeln!(out, "wrote {n}").unwrap();
    }
}

/// A state is that after one batch: returns its number.
fn check(state: &impl Readable) -> u64 {
    let n = state
        .get(b"key0")
        .unwrap()
        .map_or(0, |value| number(&value));
    for i in 0..TOGETHER {
        let value = state.get(format!("key{i}").as_bytes()).unwrap();
        assert_eq!(value.map_or(0, |value| number(&value)), n, "key{i}");
    }
    let mut next = n.saturating_sub(WINDOW) + 1;
    for entry in state.prefix(b"log") {
        let (key, value) = entry.unwrap();
        assert_eq!(key, format!("log{next:012}"));
        assert_eq!(number(&value), next);
        next += 1;
    }
    assert_eq!(next, n + 1);
    n
}

struct Life {
    child: Child,
    acknowledged: Arc<AtomicU64>,
    reader: std::thread::JoinHandle<()>,
}

fn begin(dir: &Path) -> Life {
    let mut child = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "writer", "--nocapture"])
        .env(DIR, dir)
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let acknowledged = Arc::new(AtomicU64::new(0));
    let (lines, noted) = (
        BufReader::new(child.stdout.take().unwrap()),
        acknowledged.clone(),
    );
    let reader = std::thread::spawn(move || {
        for line in lines.lines().map_while(Result::ok) {
            if let Some(n) = line.strip_prefix("wrote ").and_then(|n| n.parse().ok()) {
                noted.store(n, Ordering::SeqCst);
            }
        }
    });
    Life {
        child,
        acknowledged,
        reader,
    }
}

fn follow_lives(dir: &Path, secondary: &Secondary, refresh: impl Fn()) {
    let mut last = check(secondary);
    for life in 0..LIVES {
        let mut writer = begin(dir);
        let begun = Instant::now();
        let mut held = None;
        let mut states = 0;
        while begun.elapsed() < Duration::from_millis(1500) || states < 20 {
            let acknowledged = writer.acknowledged.load(Ordering::SeqCst);
            refresh();
            let snapshot = secondary.snapshot();
            let n = check(&snapshot);
            assert!(
                n >= last && n >= acknowledged,
                "{life}: {n} of {last}, {acknowledged}"
            );
            states += u64::from(n > last);
            last = n;
            if states % 10 == 3 {
                held = Some((snapshot, n));
            }
            assert!(
                begun.elapsed() < Duration::from_secs(120),
                "{states} states"
            );
        }
        if life == LIVES - 1 {
            refresh();
            assert!(secondary.stats().has_writer);
        }
        writer.child.kill().unwrap();
        writer.child.wait().unwrap();
        writer.reader.join().unwrap();
        let acknowledged = writer.acknowledged.load(Ordering::SeqCst);
        refresh();
        let n = check(secondary);
        assert!(
            n >= acknowledged && n >= last,
            "{life}: {n} of {acknowledged}, {last}"
        );
        last = n;
        if let Some((snapshot, then)) = held {
            assert_eq!(check(&snapshot), then);
        }
    }
    assert!(!secondary.stats().has_writer);
    let recovered = Db::open(dir, options()).unwrap();
    assert_eq!(check(&recovered), last);
}

#[test]
fn a_secondary_survives_the_kills_of_its_writer() {
    let _limit = limit("the secondary of a writer that is killed");
    let dir = tempfile::tempdir().unwrap();
    Db::open(dir.path(), options()).unwrap().close().unwrap();
    let secondary = Db::open_secondary(dir.path(), SecondaryOptions::default()).unwrap();
    follow_lives(dir.path(), &secondary, || secondary.refresh().unwrap());
}

#[test]
fn a_thread_of_its_own_refreshes_a_secondary() {
    let _limit = limit("the thread of a secondary");
    let dir = tempfile::tempdir().unwrap();
    let db = Db::open(dir.path(), options()).unwrap();
    let every = SecondaryOptions::default().refresh_every(Duration::from_millis(2));
    let secondary = Db::open_secondary(dir.path(), every).unwrap();
    for n in 1..=200_u64 {
        db.put("key", n.to_be_bytes()).unwrap();
        while secondary.seq() < n {
            std::thread::sleep(Duration::from_micros(200));
        }
        assert_eq!(number(&secondary.get("key").unwrap().unwrap()), n);
    }
    let snapshot = secondary.snapshot();
    drop(secondary);
    assert_eq!(number(&snapshot.get("key").unwrap().unwrap()), 200);
    db.close().unwrap();
    assert_eq!(number(&snapshot.get("key").unwrap().unwrap()), 200);
}
