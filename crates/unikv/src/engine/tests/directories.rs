//! Directories that move, that are replaced, and working directories that change.

use super::{Model, same, small};
use crate::vfs::sim::{Fault, Op, SimRuntime, SimVfs};
use crate::vfs::{Env, Runtime as _, Vfs as _, WriteMode};
use crate::{Db, Error, ErrorKind};
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// A process on `disk`, and the runtime of its threads.
fn open(disk: &SimVfs, seed: u64, dir: &str) -> (Db, Arc<SimRuntime>) {
    let runtime = SimRuntime::new(seed);
    let env = Env {
        vfs: Arc::new(disk.clone()),
        runtime: Arc::<SimRuntime>::clone(&runtime),
    };
    (Db::open(dir, small().env(env)).unwrap(), runtime)
}

/// Puts values that only `owner` has: enough for flushes, merges and new manifests.
fn write(db: &Db, model: &mut Model, owner: &str, round: u32) {
    for n in 0..200u32 {
        let (key, value) = (
            format!("key{n:04}"),
            format!("{owner}.{round}.{n}").repeat(12),
        );
        db.put(&key, &value).unwrap();
        model.insert(key.into_bytes(), value.into_bytes());
    }
    db.compact().unwrap();
}

fn check_and_reopen(disk: &SimVfs, dir: &str, model: &Model) {
    let env = Env {
        vfs: Arc::new(disk.clone()),
        runtime: SimRuntime::new(99),
    };
    let report = env.check(dir).unwrap();
    assert!(report.is_clean(), "{dir}: {:?}", report.problems);
    same(&open(disk, 98, dir).0, model);
}

#[test]
fn two_databases_of_one_relative_path_stay_apart_when_the_working_directory_changes() {
    let disk = SimVfs::new();
    disk.create_dir_all(Path::new("/a")).unwrap();
    disk.create_dir_all(Path::new("/b")).unwrap();
    let (mut first_model, mut second_model) = (Model::new(), Model::new());
    disk.set_working_dir(Path::new("/a"));
    let (first, _runtime) = open(&disk, 1, "db");
    disk.set_working_dir(Path::new("/b"));
    let (second, _runtime2) = open(&disk, 2, "db");
    for round in 0..6 {
        write(&first, &mut first_model, "first", round);
        write(&second, &mut second_model, "second", round);
        disk.set_working_dir(Path::new(["/", "/a", "/b"][round as usize % 3]));
    }
    same(&first, &first_model);
    same(&second, &second_model);
    first.close().unwrap();
    second.close().unwrap();
    disk.set_working_dir(Path::new("/"));
    check_and_reopen(&disk, "/a/db", &first_model);
    check_and_reopen(&disk, "/b/db", &second_model);
}

#[test]
fn a_checkpoint_has_the_files_of_its_own_database() {
    let disk = SimVfs::new();
    let begin = |dir: &str, seed, value: &str| {
        disk.create_dir_all(Path::new(dir)).unwrap();
        disk.set_working_dir(Path::new(dir));
        let (db, _runtime) = open(&disk, seed, "db");
        db.put("key", value).unwrap();
        db.flush().unwrap();
        db
    };
    let (first, second) = (begin("/a", 1, "first"), begin("/b", 2, "other"));
    first.checkpoint("/copy").unwrap();
    let model = Model::from([(b"key".to_vec(), b"first".to_vec())]);
    check_and_reopen(&disk, "/copy", &model);
    assert_eq!(second.get("key").unwrap().unwrap(), "other");
}

#[test]
fn a_moved_directory_goes_on_as_the_same_database_and_leaves_the_one_in_its_place_alone() {
    let disk = SimVfs::new();
    let (mut model, mut other_model) = (Model::new(), Model::new());
    let (db, _runtime) = open(&disk, 1, "/db");
    write(&db, &mut model, "old", 0);
    disk.move_dir(Path::new("/db"), Path::new("/moved"))
        .unwrap();
    write(&db, &mut model, "old", 1);
    assert!(!disk.file_names().iter().any(|path| path.starts_with("/db")));
    // A restored backup, say.
    let (other, _runtime2) = open(&disk, 2, "/db");
    for round in 2..6 {
        write(&db, &mut model, "old", round);
        write(&other, &mut other_model, "new", round);
    }
    same(&db, &model);
    same(&other, &other_model);
    // Its lock has moved with it.
    let env = Env {
        vfs: Arc::new(disk.clone()),
        runtime: SimRuntime::new(3),
    };
    let refused = Db::open("/moved", small().env(env.clone())).unwrap_err();
    assert_eq!(refused.kind(), ErrorKind::Locked);
    db.close().unwrap();
    assert_eq!(
        Db::open("/db", small().env(env)).unwrap_err().kind(),
        ErrorKind::Locked,
        "closing the first gives nothing of the second back"
    );
    other.close().unwrap();
    check_and_reopen(&disk, "/moved", &model);
    check_and_reopen(&disk, "/db", &other_model);
}

#[test]
fn a_directory_that_takes_the_place_of_one_that_is_being_destroyed_stays() {
    let disk = SimVfs::new();
    let (db, runtime) = open(&disk, 1, "/db");
    db.put("key", "1").unwrap();
    db.close().unwrap();
    let (view, mut done) = (disk.clone(), false);
    disk.set_fault(Box::new(move |call| {
        if call.op == Op::Remove && !std::mem::replace(&mut done, true) {
            view.move_dir(Path::new("/db"), Path::new("/moved"))
                .unwrap();
            view.create_dir_all(Path::new("/db")).unwrap();
        }
        Fault::None
    }));
    let env = Env {
        vfs: Arc::new(disk.clone()),
        runtime,
    };
    let refused = env.destroy("/db").unwrap_err();
    assert_eq!(refused.kind(), ErrorKind::Io, "{refused}");
    assert_eq!(disk.file_names(), Vec::<PathBuf>::new());
    assert!(
        disk.list(Path::new("/db")).is_ok(),
        "the empty one is another's"
    );
}

/// The errors of a database in whose way somebody else's files are, of the next numbers.
fn with_files_in_the_way(suffix: &str, prefix: &str) {
    let disk = SimVfs::new();
    let (db, runtime) = open(&disk, 1, "/db");
    let mut model = Model::new();
    write(&db, &mut model, "mine", 0);
    let next = disk.file_names().into_iter().filter_map(|path| {
        let name = path.file_name()?.to_str()?.to_owned();
        let digits: String = name.chars().filter(char::is_ascii_digit).collect();
        digits.parse::<u64>().ok()
    });
    let next = next.max().unwrap() + 1;
    let foreign: Vec<PathBuf> = (next..next + 40)
        .map(|number| PathBuf::from(format!("/db/{prefix}{number:06}{suffix}")))
        .collect();
    for path in &foreign {
        disk.write_file(path, b"somebody else's");
    }
    let mut errors: Vec<Error> = Vec::new();
    for n in 0..400u32 {
        let (key, value) = (format!("key{:04}", n % 100), format!("more{n}").repeat(20));
        match db.put(&key, &value) {
            Ok(()) => drop(model.insert(key.into_bytes(), value.into_bytes())),
            Err(error) => errors.push(error),
        }
        if n % 50 == 0 {
            errors.extend(db.flush().err());
            errors.extend(db.compact().err());
        }
    }
    let never = runtime.event();
    never.wait_past(never.epoch(), Some(std::time::Duration::from_secs(300)));
    same(&db, &model);
    for path in &foreign {
        let bytes = disk.read_file(path);
        assert_eq!(bytes.as_deref(), Some(&b"somebody else's"[..]), "{path:?}");
    }
    for error in errors {
        let kinds = [ErrorKind::Io, ErrorKind::WritesSuspended];
        assert!(kinds.contains(&error.kind()), "{error}");
    }
    // Once they are out of the way all goes on.
    for path in &foreign {
        disk.remove(path).unwrap();
    }
    drop(db);
    check_and_reopen(&disk, "/db", &model);
}

#[test]
fn what_is_in_the_way_of_a_new_file_is_left_alone() {
    with_files_in_the_way(".rec", "");
    with_files_in_the_way(".key", "");
    with_files_in_the_way(".wal", "");
    with_files_in_the_way("", "MANIFEST-");
}

#[test]
fn opening_sweeps_what_is_its_own_or_torn_and_no_other_databases_files() {
    let disk = SimVfs::new();
    let (other, _runtime) = open(&disk, 1, "/other");
    let mut model = Model::new();
    write(&other, &mut model, "other", 0);
    other.close().unwrap();
    let (db, _runtime) = open(&disk, 2, "/db");
    db.put("key", "mine").unwrap();
    db.close().unwrap();
    let of = |name: &str| {
        let files = disk.file_names().into_iter();
        let mut files = files.filter(|path| path.starts_with("/other"));
        let found = files.find(|path| path.to_string_lossy().ends_with(name));
        disk.read_file(&found.unwrap()).unwrap()
    };
    let foreign = [
        ("/db/000900.rec", of(".rec")),
        ("/db/000901.key", of(".key")),
    ];
    for (path, bytes) in &foreign {
        disk.write_file(Path::new(path), bytes);
    }
    let torn = ["/db/000902.rec", "/db/000903.key", "/db/CURRENT.tmp"];
    for path in torn {
        disk.write_file(Path::new(path), &foreign[0].1[..50]);
    }
    let mut log = disk
        .create(Path::new("/db/000904.rec"), WriteMode::Log, 0)
        .unwrap();
    log.append(&[0; 200]).unwrap();
    let (db, _runtime) = open(&disk, 3, "/db");
    assert_eq!(db.get("key").unwrap().as_deref(), Some(&b"mine"[..]));
    for (path, bytes) in foreign {
        assert_eq!(disk.read_file(Path::new(path)), Some(bytes), "{path}");
    }
    for path in torn.into_iter().chain(["/db/000904.rec"]) {
        assert_eq!(disk.read_file(Path::new(path)), None, "{path}");
    }
}
