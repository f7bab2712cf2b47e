//! Databases as earlier versions wrote them: each must open, be right in every byte, and live on.
//!
//! `testdata/databases/VERSION/` holds the files of one small database and `CONTENTS`, a line for
//! each key with the length and the checksum of its value. They are never rewritten once a release
//! has written them; that of the version under way is, with `UNIKV_REWRITE_GOLDEN=1`, by
//! [`write`] below. Lock and ballast are left out: their bytes mean nothing.

#![allow(
    clippy::unwrap_used,
    reason = "a test that cannot set its stage must fail"
)]

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use unikv::vfs::Env;
use unikv::vfs::sim::{SimRuntime, SimVfs};
use unikv::{Batch, Db, Durability, Options, Tuning};

/// The version whose database [`write`] makes.
const UNDER_WAY: &str = "0.1";
const CONTENTS: &str = "CONTENTS";
const MARK: &[u8] = b"written up to here";

type Pairs = BTreeMap<Vec<u8>, Vec<u8>>;

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("testdata/databases")
}

/// One line: the key, the length of its value, the value's checksum.
fn line(key: &[u8], value: &[u8]) -> String {
    let key = String::from_utf8(key.to_vec()).unwrap();
    format!("{key} {} {:08x}", value.len(), crc32c::crc32c(value))
}

fn lines(db: &Db) -> Vec<String> {
    let pairs = db.iter().map(unikv::Result::unwrap);
    pairs.map(|(key, value)| line(&key, &value)).collect()
}

/// Writes a database with files of every kind and puts it under `testdata`.
fn write(target: &Path) {
    let vfs = SimVfs::new();
    let runtime = SimRuntime::new(1);
    let env = Env {
        vfs: Arc::new(vfs.clone()),
        runtime: runtime.clone(),
    };
    let options = Options::default()
        .memory_budget(4 << 20)
        .tuning(
            Tuning::default()
                .memtable_bytes(8 << 10)
                .unsorted_bytes(16 << 10)
                .scan_merge_limit(1)
                .partition_bytes(24 << 10)
                .key_table_bytes(1 << 10)
                .block_bytes(256),
        )
        .inline_value_bytes(24)
        .durability(Durability::Buffered);
    let db = Db::open("/db", options.env(env)).unwrap();
    let mut pairs = Pairs::new();
    let put = |pairs: &mut Pairs, n: u32, len: usize| {
        let (key, byte) = (format!("key{n:04}").into_bytes(), (n % 251) as u8);
        let value = vec![byte; len];
        db.put(&key, &value).unwrap();
        pairs.insert(key, value);
    };
    (0..400).for_each(|n| put(&mut pairs, n * 7 % 400, (n * 13 % 150) as usize));
    db.compact().unwrap();
    // Overwritten and deleted in part, so that there is garbage; some values are large.
    (0..200).for_each(|n| put(&mut pairs, n * 2, (n * 11 % 170) as usize));
    for n in (0..400).step_by(9) {
        let key = format!("key{n:04}").into_bytes();
        db.delete(&key).unwrap();
        pairs.remove(&key);
    }
    put(&mut pairs, 77, 5_000);
    db.flush().unwrap();
    db.wait_until_idle().unwrap();
    let ascending = (100..130).map(|n| (format!("key{n:04}+"), Some(vec![b'i'; n as usize])));
    db.ingest_sorted(ascending.clone().map(unikv::Result::Ok), Some(MARK))
        .unwrap();
    pairs.extend(ascending.map(|(key, value)| (key.into_bytes(), value.unwrap())));
    for round in 0..3 {
        (0..10).for_each(|n| put(&mut pairs, n * 30 + round, 60));
        db.flush().unwrap();
        for _ in 0..20 {
            assert!(db.iter().all(|pair| pair.is_ok()));
            db.wait_until_idle().unwrap();
        }
    }
    // What is left in the log: a batch, single writes, and a value in a file of its own.
    let mut batch = Batch::new();
    for n in 500..510 {
        let (key, value) = (format!("key{n:04}").into_bytes(), vec![b'b'; n / 10]);
        batch.put(&key, &value);
        pairs.insert(key, value);
    }
    db.write_with(&batch, Durability::Sync).unwrap();
    put(&mut pairs, 600, 3_000);
    (601..605).for_each(|n| put(&mut pairs, n, 40));
    let stats = db.stats();
    assert!(stats.partitions.len() > 2 && stats.large_values >= 2 && stats.ingests == 1);
    assert!(stats.scan_merges > 0, "{stats:#?}");

    let disk = vfs.process_kill();
    drop(fs::remove_dir_all(target));
    fs::create_dir_all(target).unwrap();
    for path in disk.file_names() {
        let name = path.file_name().unwrap();
        if name != "LOCK" && name != "BALLAST" {
            fs::write(target.join(name), disk.read_file(&path).unwrap()).unwrap();
        }
    }
    let mut contents = String::new();
    for (key, value) in &pairs {
        writeln!(contents, "{}", line(key, value)).unwrap();
    }
    fs::write(target.join(CONTENTS), contents).unwrap();
}

/// A copy in which the database may be changed, and what it must contain.
fn copy(stored: &Path) -> (tempfile::TempDir, Vec<String>) {
    let dir = tempfile::tempdir().unwrap();
    for entry in fs::read_dir(stored).unwrap() {
        let entry = entry.unwrap();
        if entry.file_name() != CONTENTS {
            fs::copy(entry.path(), dir.path().join(entry.file_name())).unwrap();
        }
    }
    let contents = fs::read_to_string(stored.join(CONTENTS)).unwrap();
    (dir, contents.lines().map(str::to_owned).collect())
}

fn assert_no_problems(dir: &Path) {
    let report = Db::check(dir).unwrap();
    assert!(report.problems.is_empty(), "{:#?}", report.problems);
}

#[test]
fn stored_databases_open_and_live_on() {
    if std::env::var_os("UNIKV_REWRITE_GOLDEN").is_some() {
        write(&root().join(UNDER_WAY));
    }
    let mut versions = 0;
    for version in fs::read_dir(root()).unwrap() {
        let (dir, contents) = copy(&version.unwrap().path());
        assert_no_problems(dir.path());
        let db = Db::open(dir.path(), Options::default()).unwrap();
        assert_eq!(lines(&db), contents);
        assert_eq!(db.commit_tag().as_deref(), Some(MARK));
        for line in &contents {
            let key = line.split(' ').next().unwrap();
            assert!(db.contains_key(key).unwrap(), "{key}");
        }
        // Recovery, merges and collections of this version take over what the old one left.
        db.put("one more", "value").unwrap();
        db.compact().unwrap();
        db.delete("one more").unwrap();
        db.collect_garbage().unwrap();
        assert_eq!(lines(&db), contents);
        db.close().unwrap();
        assert_no_problems(dir.path());
        let db = Db::open(dir.path(), Options::default()).unwrap();
        assert_eq!(lines(&db), contents);
        versions += 1;
    }
    assert!(versions > 0, "no stored databases");
}
