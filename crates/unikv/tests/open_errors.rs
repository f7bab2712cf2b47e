//! What opening refuses, on the real file system: each time with the right kind, naming the file,
//! and leaving every byte of the directory as it was.

#![allow(
    clippy::unwrap_used,
    reason = "a test that cannot set its stage must fail"
)]

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use tempfile::TempDir;
use unikv::{Db, Error, ErrorKind, Options, Tuning};

/// Everything below `root` but lock files and ballasts: contents of files, `None` for directories.
fn contents(root: &Path) -> BTreeMap<PathBuf, Option<Vec<u8>>> {
    let mut found = BTreeMap::new();
    let mut pending = vec![root.to_owned()];
    while let Some(dir) = pending.pop() {
        for entry in fs::read_dir(dir).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                pending.push(path.clone());
                found.insert(path, None);
            } else if !path.ends_with("LOCK") && !path.ends_with("BALLAST") {
                let bytes = fs::read(&path).unwrap();
                found.insert(path, Some(bytes));
            }
        }
    }
    found
}

fn small() -> Options {
    Options::default().tuning(
        Tuning::default()
            .memtable_bytes(64 << 10)
            .unsorted_bytes(256 << 10),
    )
}

/// Opens `dir`, which must be refused as said, and leave everything below `root` as it is.
fn refused(root: &Path, dir: &Path, options: Options, kind: ErrorKind, file: &Path) -> Error {
    refused_by(|| Db::open(dir, options), root, kind, file)
}

fn refused_by(
    open: impl FnOnce() -> unikv::Result<Db>,
    root: &Path,
    kind: ErrorKind,
    file: &Path,
) -> Error {
    let before = contents(root);
    let error = open().unwrap_err();
    assert_eq!(error.kind(), kind, "{error}");
    assert_eq!(error.file(), Some(file), "{error}");
    assert!(!error.remedy().is_empty());
    assert!(error.to_string().contains(&*file.to_string_lossy()));
    assert_eq!(
        contents(root),
        before,
        "a refused opening changed something"
    );
    error
}

/// A database with files of every kind: merged, flushed, and still in the log.
fn database() -> TempDir {
    let dir = tempfile::tempdir().unwrap();
    let db = Db::open(dir.path(), small()).unwrap();
    let fill = |round: usize| {
        for i in 0..300 {
            db.put(format!("key{i:04}"), format!("{round}").repeat(300))
                .unwrap();
        }
    };
    fill(1);
    db.compact().unwrap();
    fill(2);
    db.flush().unwrap();
    fill(3);
    db.close().unwrap();
    dir
}

/// The files in `dir` whose names end or begin with `part`.
fn files(dir: &Path, part: &str) -> Vec<PathBuf> {
    let names = fs::read_dir(dir).unwrap().map(|entry| entry.unwrap());
    let named = names.filter(|entry| {
        let name = entry.file_name().into_string().unwrap();
        name.ends_with(part) || name.starts_with(part)
    });
    let mut paths: Vec<PathBuf> = named.map(|entry| entry.path()).collect();
    paths.sort();
    paths
}

#[test]
fn a_second_opener_in_this_process() {
    let dir = tempfile::tempdir().unwrap();
    let db = Db::open(dir.path(), small()).unwrap();
    db.put("key", "value").unwrap();
    let error = refused(
        dir.path(),
        dir.path(),
        small(),
        ErrorKind::Locked,
        dir.path(),
    );
    assert!(error.what().contains("in this process"), "{error}");
    let refused = Db::destroy(dir.path()).unwrap_err();
    assert_eq!(refused.kind(), ErrorKind::Locked);
    assert!(Db::check(dir.path()).unwrap().is_clean());
    // A clone and the snapshots keep nothing open once the handle is closed.
    let (clone, snapshot) = (db.clone(), db.snapshot());
    db.close().unwrap();
    assert_eq!(clone.get("key").unwrap_err().kind(), ErrorKind::Closed);
    assert_eq!(snapshot.get("key").unwrap_err().kind(), ErrorKind::Closed);
    let db = Db::open(dir.path(), small()).unwrap();
    assert_eq!(db.get("key").unwrap().as_deref(), Some(&b"value"[..]));
}

/// Runs itself in a second process, which meets the lock of this one.
#[test]
fn a_second_opener_in_another_process() {
    const HELD_DIR: &str = "UNIKV_TEST_HELD_DIR";
    const HOLDER: &str = "UNIKV_TEST_HOLDER";
    if let Some(dir) = std::env::var_os(HELD_DIR) {
        let error = Db::open(&dir, small()).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Locked);
        let holder = format!("process {}", std::env::var(HOLDER).unwrap());
        assert!(error.to_string().contains(&holder), "{error}");
        return;
    }
    let dir = tempfile::tempdir().unwrap();
    let db = Db::open(dir.path(), small()).unwrap();
    db.put("key", "value").unwrap();
    let before = contents(dir.path());
    let child = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "a_second_opener_in_another_process"])
        .env(HELD_DIR, dir.path())
        .env(HOLDER, std::process::id().to_string())
        .output()
        .unwrap();
    let said = String::from_utf8_lossy(&child.stdout);
    assert!(
        child.status.success() && said.contains("1 passed"),
        "{said}"
    );
    assert_eq!(contents(dir.path()), before);
}

#[test]
fn a_path_that_is_no_directory() {
    let root = tempfile::tempdir().unwrap();
    let file = root.path().join("file");
    fs::write(&file, "letters").unwrap();
    refused(root.path(), &file, small(), ErrorKind::Io, &file);
    let below = file.join("db");
    refused(root.path(), &below, small(), ErrorKind::Io, &below);
    assert_eq!(Db::check(&file).unwrap_err().kind(), ErrorKind::Io);
    assert_eq!(Db::destroy(&file).unwrap_err().kind(), ErrorKind::Io);
    assert_eq!(fs::read(&file).unwrap(), b"letters");
}

#[test]
fn a_directory_without_a_database() {
    let root = tempfile::tempdir().unwrap();
    let absent = root.path().join("absent");
    let kind = ErrorKind::NotFound;
    for dir in [&absent, root.path()] {
        refused_by(|| Db::open_existing(dir, small()), root.path(), kind, dir);
    }
    assert_eq!(Db::check(&absent).unwrap_err().kind(), kind);
    Db::destroy(&absent).unwrap();
    Db::destroy(root.path()).unwrap();
    assert!(root.path().is_dir(), "an empty directory is no database");
}

#[test]
fn options_out_of_range_create_nothing() {
    let root = tempfile::tempdir().unwrap();
    let dir = root.path().join("db");
    for options in [
        small().tuning(Tuning::default().block_bytes(2 << 20)),
        small().tuning(Tuning::default().memtable_bytes(1)),
        small().tuning(Tuning::default().background_threads(1)),
        small().tuning(Tuning::default().background_threads(1_000_000)),
    ] {
        let error = Db::open(&dir, options).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::InvalidArgument, "{error}");
    }
    assert!(!dir.exists());
    let existing = database();
    let before = contents(existing.path());
    let error = Db::create_new(existing.path(), small()).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::InvalidArgument, "{error}");
    assert_eq!(contents(existing.path()), before);
}

#[test]
fn a_directory_of_something_else() {
    let dir = tempfile::tempdir().unwrap();
    let letter = dir.path().join("letter.txt");
    fs::write(&letter, "dear").unwrap();
    fs::write(dir.path().join("LOCK"), "").unwrap();
    let kind = ErrorKind::Incompatible;
    refused(dir.path(), dir.path(), small(), kind, &letter);
    let before = contents(dir.path());
    Db::destroy(dir.path()).unwrap();
    assert_eq!(contents(dir.path()), before, "it was not ours to remove");
    assert!(dir.path().join("LOCK").exists());
}

/// Names are no proof: only a file that begins as ours do shows that the directory is ours.
#[test]
fn files_of_something_else_that_are_named_like_ours() {
    let dir = tempfile::tempdir().unwrap();
    let names = ["letter.txt", "STATS", "000001.key", "000002.sort"];
    for name in names {
        fs::write(dir.path().join(name), "dear").unwrap();
    }
    let before = contents(dir.path());
    Db::destroy(dir.path()).unwrap();
    assert_eq!(contents(dir.path()), before, "it was not ours to remove");
    assert!(!dir.path().join("LOCK").exists(), "not even a lock file");
    // What is left of a database goes, whatever is beside it.
    let database = database();
    fs::remove_file(database.path().join("CURRENT")).unwrap();
    for name in ["letter.txt", "STATS"] {
        fs::write(database.path().join(name), "dear").unwrap();
    }
    Db::destroy(database.path()).unwrap();
    let left: Vec<_> = contents(database.path()).into_keys().collect();
    assert_eq!(left.len(), 1, "{left:?}");
}

/// LevelDB and its kin have a `CURRENT`, a `LOCK` and files that are named like our manifests.
#[test]
fn a_database_of_another_engine() {
    let dir = tempfile::tempdir().unwrap();
    let current = dir.path().join("CURRENT");
    fs::write(&current, "MANIFEST-000004\n").unwrap();
    for name in ["MANIFEST-000004", "000003.log", "000005.ldb"] {
        fs::write(dir.path().join(name), "of another engine").unwrap();
    }
    let kind = ErrorKind::Incompatible;
    refused(dir.path(), dir.path(), small(), kind, &current);
    let before = contents(dir.path());
    assert_eq!(Db::check(dir.path()).unwrap_err().kind(), kind);
    assert_eq!(Db::destroy(dir.path()).unwrap_err().kind(), kind);
    assert_eq!(contents(dir.path()), before);
    assert!(!dir.path().join("LOCK").exists(), "not even a lock file");
}

#[test]
fn a_damaged_current() {
    let dir = database();
    let path = dir.path().join("CURRENT");
    let good = fs::read(&path).unwrap();
    let mut flipped = good.clone();
    flipped[0] ^= 1;
    let mut longer = good.clone();
    longer.push(0);
    for bad in [flipped, longer, good[..40].to_vec(), vec![0; 116], vec![]] {
        fs::write(&path, bad).unwrap();
        let kind = ErrorKind::Corruption;
        refused(dir.path(), dir.path(), small(), kind, &path);
    }
    fs::remove_file(&path).unwrap();
    let kind = ErrorKind::Corruption;
    refused(dir.path(), dir.path(), small(), kind, &path);
    fs::write(&path, good).unwrap();
    Db::open(dir.path(), small()).unwrap();
}

#[test]
fn a_listed_file_that_is_missing_or_cut_short() {
    let dir = database();
    for part in ["MANIFEST-", ".rec", ".key"] {
        let found = files(dir.path(), part);
        assert!(!found.is_empty(), "no {part}");
        for path in found {
            let good = fs::read(&path).unwrap();
            let kind = ErrorKind::Corruption;
            fs::remove_file(&path).unwrap();
            let error = refused(dir.path(), dir.path(), small(), kind, &path);
            assert!(error.to_string().contains("missing"), "{error}");
            // Cut within its first record; data files also at their last byte.
            fs::write(&path, &good[..100]).unwrap();
            refused(dir.path(), dir.path(), small(), kind, &path);
            if part != "MANIFEST-" {
                fs::write(&path, &good[..good.len() - 1]).unwrap();
                refused(dir.path(), dir.path(), small(), kind, &path);
            }
            fs::write(&path, &good).unwrap();
        }
    }
    assert!(Db::check(dir.path()).unwrap().is_clean());
}

/// Whatever the system says of a directory's length and of reading it, it is no file.
#[test]
fn a_directory_in_the_place_of_a_file() {
    let dir = database();
    let mut refusals = 0;
    let mut names: Vec<PathBuf> = files(dir.path(), "");
    // The one in whose place anything may be comes last: opening makes new files.
    names.sort_by_key(|path| path.ends_with("BALLAST"));
    for path in &names {
        let good = fs::read(path).unwrap();
        fs::remove_file(path).unwrap();
        fs::create_dir(path).unwrap();
        let before = contents(dir.path());
        match Db::open(dir.path(), small()) {
            Ok(db) => assert!(path.ends_with("BALLAST"), "{db:?} with {path:?}"),
            Err(error) => {
                assert_eq!(error.file(), Some(path.as_path()), "{error}");
                let kinds = [ErrorKind::Corruption, ErrorKind::Io];
                assert!(kinds.contains(&error.kind()), "{error:?}");
                assert_eq!(contents(dir.path()), before, "{error}");
                refusals += 1;
            }
        }
        fs::remove_dir(path).unwrap();
        fs::write(path, good).unwrap();
    }
    assert!(refusals >= names.len() - 1, "{refusals} of {names:?}");
    let db = Db::open(dir.path(), small()).unwrap();
    let value = "3".repeat(300);
    let mut seen = 0;
    for entry in db.iter() {
        assert_eq!(entry.unwrap().1, value.as_bytes());
        seen += 1;
    }
    assert_eq!(seen, 300);
}

#[test]
fn a_log_damaged_below_what_was_durable() {
    let dir = database();
    let segments = files(dir.path(), ".wal");
    let path = segments.last().unwrap();
    let good = fs::read(path).unwrap();
    // Behind the header and the segment's first record; `close` has synced, and marked that.
    let mut damaged = good.clone();
    damaged[1000] ^= 4;
    fs::write(path, damaged).unwrap();
    let kind = ErrorKind::Corruption;
    let error = refused(dir.path(), dir.path(), small(), kind, path);
    assert!(error.offset().is_some_and(|offset| offset < 1000));
    fs::write(path, good).unwrap();
    let db = Db::open(dir.path(), small()).unwrap();
    assert!(db.recovery().wal_cut.is_none());
    assert_eq!(
        db.get("key0299").unwrap().unwrap(),
        "3".repeat(300).as_bytes()
    );
}

#[test]
fn a_directory_that_may_not_be_written() {
    use std::os::unix::fs::PermissionsExt;
    let dir = database();
    let set_mode = |mode| fs::set_permissions(dir.path(), fs::Permissions::from_mode(mode));
    set_mode(0o555).unwrap();
    // The superuser may write all the same; then there is nothing to test.
    let probe = dir.path().join("probe");
    if fs::write(&probe, "").is_ok() {
        fs::remove_file(&probe).unwrap();
    } else {
        let before = contents(dir.path());
        let error = Db::open(dir.path(), small()).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Io, "{error}");
        assert!(
            error
                .file()
                .is_some_and(|file| file.starts_with(dir.path()))
        );
        assert_eq!(contents(dir.path()), before);
    }
    set_mode(0o755).unwrap();
}

/// What is opened by mistake is named, and what can be done with it.
#[test]
fn databases_of_other_engines_are_named() {
    let named = |files: &[(&str, &[u8])], engine: &str, remedy: &str| {
        let dir = tempfile::tempdir().unwrap();
        for (name, begin) in files {
            let path = dir.path().join(name);
            fs::write(&path, [*begin, &[7; 100]].concat()).unwrap();
        }
        let opened = match files {
            // The engines that keep everything in one file.
            [(name, _)] if *name != "data.mdb" => dir.path().join(name),
            _ => dir.path().to_owned(),
        };
        let before = contents(dir.path());
        let error = Db::open(&opened, small()).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Incompatible, "{error}");
        assert!(error.what().contains(engine), "{engine}: {error}");
        assert!(error.remedy().contains(remedy), "{engine}: {error}");
        assert_eq!(contents(dir.path()), before, "{engine}");
    };
    let current: (&str, &[u8]) = ("CURRENT", b"MANIFEST-000004\n");
    named(
        &[current, ("000005.ldb", b"")],
        "LevelDB",
        "unikv-migrate leveldb",
    );
    named(
        &[current, ("OPTIONS-000007", b"")],
        "RocksDB",
        "unikv-migrate rocksdb",
    );
    named(
        &[("version", b"FJL\x03"), ("0.jnl", b"")],
        "fjall",
        "unikv load",
    );
    named(
        &[("some.redb", b"redb\x1A\x0A\xA9\x0D\x0A")],
        "redb",
        "unikv load",
    );
    let meta_page = [&[0; 16][..], &0xBEEF_C0DE_u32.to_le_bytes()].concat();
    named(&[("data.mdb", &meta_page)], "LMDB", "unikv load");
    named(
        &[("some.sqlite", b"SQLite format 3\0")],
        "SQLite",
        "unikv load",
    );
}

/// Who holds a database is said, and no text stands twice where a chain of errors is printed.
#[test]
fn an_error_says_each_thing_once() {
    let dir = database();
    let db = Db::open(dir.path(), small()).unwrap();
    let error = Db::open(dir.path(), small()).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Locked);
    assert!(error.what().contains("in this process"), "{error}");
    db.close().unwrap();
    let file = dir.path().join("file");
    fs::write(&file, "letters").unwrap();
    let error = Db::open(file.join("below"), small()).unwrap_err();
    let said = error
        .io_error()
        .expect("the system has refused it")
        .to_string();
    assert_eq!(error.to_string().matches(&said).count(), 1, "{error}");
    assert!(std::error::Error::source(&error).is_none());
}
