//! Processes that fork while they have a database open, as Python's multiprocessing does.

#![allow(unsafe_code, reason = "forks, and waits for children")]
#![allow(
    clippy::unwrap_used,
    clippy::panic,
    reason = "a test that cannot set its stage must fail"
)]

mod limit;

use limit::limit;
use std::collections::BTreeMap;
use std::fs;
use std::io::{self, Read};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::Path;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};
use unikv::{
    Batch, Bytes, Db, Durability, ErrorKind, Iter, KeyspaceOptions, Options, Result, Tuning,
};

/// Tests that fork take turns: each sees no other's threads.
static TURN: Mutex<()> = Mutex::new(());

/// After this a child that stands still is ended, and the test fails.
const MOST_SECONDS: u32 = 120;

type Model = BTreeMap<Vec<u8>, Vec<u8>>;

#[derive(Clone, Copy, Debug)]
enum How {
    /// By the C library, which says who has asked it to.
    Fork,
    /// By the system call alone.
    Clone,
}

/// Waits until every other thread sleeps. The system call alone sets back no lock of the C library:
/// one that a thread has at that moment, as for an allocation, the child waits for in vain.
fn wait_for_others() {
    // SAFETY: a call of the system without arguments.
    let own = unsafe { libc::gettid() };
    let is_asleep = |task: fs::DirEntry| {
        let is_own = task.file_name() == *own.to_string();
        let stat = fs::read_to_string(task.path().join("stat"));
        // A thread that has ended meanwhile has no lock either.
        let state = |stat: &String| stat.rsplit(')').next().map(|rest| rest.starts_with(" S"));
        is_own || stat.map_or(true, |stat| state(&stat).unwrap_or(false))
    };
    let tasks = || fs::read_dir("/proc/self/task").unwrap();
    while !tasks().all(|task| is_asleep(task.unwrap())) {
        std::thread::yield_now();
    }
}

/// Runs `child` in a child process; it must return.
fn in_child(how: How, what: &str, child: impl FnOnce()) {
    if matches!(how, How::Clone) {
        wait_for_others();
    }
    // SAFETY: the child runs `child` and ends without returning from here.
    let pid = unsafe {
        match how {
            How::Fork => libc::fork(),
            How::Clone => {
                let none = 0 as libc::c_long;
                let flags = libc::c_long::from(libc::SIGCHLD);
                libc::syscall(libc::SYS_clone, flags, none, none, none, none) as libc::pid_t
            }
        }
    };
    assert!(pid >= 0, "{how:?} of {what}");
    if pid == 0 {
        // SAFETY: calls of the system that take numbers.
        unsafe {
            libc::alarm(MOST_SECONDS);
            let outcome = catch_unwind(AssertUnwindSafe(child));
            libc::_exit(if outcome.is_ok() { 0 } else { 1 });
        }
    }
    let mut status = 0;
    // SAFETY: the status is written to memory that is there.
    let waited = unsafe { libc::waitpid(pid, &raw mut status, 0) };
    assert_eq!(waited, pid);
    let signal = libc::WIFSIGNALED(status).then(|| libc::WTERMSIG(status));
    assert!(
        libc::WIFEXITED(status) && libc::WEXITSTATUS(status) == 0,
        "{what}: the child failed, or was ended by a signal ({signal:?}; {} says that it stood still)",
        libc::SIGALRM
    );
}

fn options() -> Options {
    Options::default()
        .tuning(
            Tuning::default()
                .memtable_bytes(64 << 10)
                .unsorted_bytes(512 << 10),
        )
        .memory_budget(8 << 20)
}

fn put(db: &Db, model: &mut Model, round: u32) {
    for n in 0..1000u32 {
        let (key, value) = (format!("key{n:05}"), format!("{round}.{n}.").repeat(20));
        db.put(&key, &value).unwrap();
        model.insert(key.into_bytes(), value.into_bytes());
    }
}

fn verify(db: &Db, model: &Model) {
    let found = db.iter().map(|entry| entry.unwrap());
    assert!(
        found
            .map(|(k, v)| (k.to_vec(), v.to_vec()))
            .eq(model.clone())
    );
}

fn reopen(dir: &Path, model: &Model) {
    let report = Db::check(dir).unwrap();
    assert!(report.is_clean(), "{:?}", report.problems);
    verify(&Db::open(dir, options()).unwrap(), model);
}

fn forked<T>(what: &str, outcome: Result<T>) {
    match outcome {
        Ok(_) => panic!("{what} works in a child"),
        Err(error) => assert_eq!(error.kind(), ErrorKind::Forked, "{what}: {error}"),
    }
}

fn first(mut iter: Iter) -> Result<()> {
    iter.next().unwrap().map(drop)
}

/// Every call in a child says so, or does nothing.
fn call_all(db: &Db) {
    let mut batch = Batch::new();
    batch.put("key", "of a child");
    let mut large = Batch::new();
    large.put("large", vec![7; 1 << 20]);
    forked("put", db.put("key", "of a child"));
    forked("put of a large value", db.put("large", vec![7; 1 << 20]));
    forked("delete", db.delete("key"));
    forked("write", db.write(&batch));
    forked("write of a large value", db.write(&large));
    forked("synced write", db.write_with(&batch, Durability::Sync));
    let entries = [("a", Some("1")), ("b", None)];
    forked(
        "ingest",
        db.ingest_sorted(entries.map(Result::Ok), Some(b"mark")),
    );
    forked("get", db.get("key00001"));
    forked("multi_get", db.multi_get(["key00001", "none"]));
    forked("contains_key", db.contains_key("key00001"));
    forked("iter", first(db.iter()));
    forked("iter from the back", db.iter().next_back().unwrap());
    forked("range", first(db.range("key".."l")));
    forked("prefix", first(db.prefix("key")));
    let snapshot = db.snapshot();
    forked("get of a snapshot", snapshot.get("key00001"));
    forked("scan of a snapshot", first(snapshot.iter()));
    forked("keyspace", db.keyspace("new", KeyspaceOptions::default()));
    for space in db.keyspaces() {
        let space = db.find_keyspace(&space).unwrap();
        forked("put to a keyspace", space.put("key", "of a child"));
        forked("get of a keyspace", space.get("key"));
        forked("scan of a keyspace", first(space.iter()));
        let dropped = space.drop_keyspace();
        forked("drop of a keyspace", dropped);
    }
    let mut transaction = db.begin();
    forked("get of a transaction", transaction.get("key00001"));
    forked("put of a transaction", transaction.put("key", "of a child"));
    forked("scan of a transaction", first(transaction.iter()));
    forked("commit", transaction.commit());
    forked(
        "transact",
        db.transact(|transaction| transaction.delete("key")),
    );
    forked("increment", db.increment("number", 1));
    forked("pop_first", db.pop_first());
    forked("sync", db.sync());
    forked("flush", db.flush());
    forked("compact", db.compact());
    forked("compact_range", db.compact_range("a".."b"));
    forked("wait_until_idle", db.wait_until_idle());
    forked("approximate_size", db.approximate_size(..));
    forked("split_key", db.split_key(..));
    forked("collect_garbage", db.collect_garbage());
    assert_eq!(db.commit_tag(), None::<Bytes>);
    assert_eq!(db.stats().puts, 0);
    assert_eq!(db.garbage().live_bytes, 0);
    assert!(db.options().memory_budget > 0 && db.recovery().created);
    db.release_views();
    assert!(format!("{db:?} {snapshot:?} {:?}", db.iter()).contains("Db"));
    forked("close", db.clone().close());
}

fn a_child_is_refused_and_the_parent_goes_on(how: How) {
    let _turn = TURN.lock();
    let dir = tempfile::tempdir().unwrap();
    let mut model = Model::new();
    let db = Db::open(dir.path(), options()).unwrap();
    put(&db, &mut model, 0);
    db.wait_until_idle().unwrap();
    let value = db.get("key00001").unwrap();
    let snapshot = db.snapshot();
    db.keyspace("space", KeyspaceOptions::default()).unwrap();
    let mut transaction = db.begin();
    transaction.put("own", "write").unwrap();
    let (mut begun, mut old) = (db.iter(), snapshot.iter());
    begun.next().unwrap().unwrap();
    // Files that only the iterators keep: a child must not remove them.
    put(&db, &mut model, 1);
    db.compact().unwrap();

    // Owned by the child alone, to be dropped there: the last handle of all that it knows.
    let mut of_parent = Some((db, snapshot, begun, value, transaction));
    in_child(how, "all calls", || {
        let (db, snapshot, mut begun, value, transaction) = of_parent.take().unwrap();
        call_all(&db);
        forked("an older snapshot", snapshot.get("key00001"));
        forked("an older iterator", old.next().unwrap());
        // What it has gathered it may hand out.
        let failed = begun.by_ref().find_map(Result::err);
        assert_eq!(failed.map(|error| error.kind()), Some(ErrorKind::Forked));
        begun.seek("key00002");
        forked("an iterator that was moved", begun.next().unwrap());
        begun.release();
        forked("an older transaction", transaction.get("own"));
        forked("the commit of an older one", transaction.commit());
        drop((value, begun, old, snapshot, db));
    });
    let (db, snapshot, begun, value, transaction) = of_parent.unwrap();
    transaction.commit().unwrap();
    model.insert(b"own".to_vec(), b"write".to_vec());
    assert!(value.is_some() && snapshot.get("key00001").unwrap() == value);
    assert_eq!(begun.count(), 999);
    drop(snapshot);
    put(&db, &mut model, 2);
    in_child(How::Fork, "another opener", || {
        let refused = Db::open(dir.path(), options()).unwrap_err();
        assert_eq!(refused.kind(), ErrorKind::Locked, "{refused}");
    });
    put(&db, &mut model, 3);
    db.compact().unwrap();
    verify(&db, &model);
    let mut last = Some(db.snapshot());
    drop(db);
    // The snapshot alone keeps it open, and a child that drops its copy closes nothing.
    in_child(how, "the last snapshot", || drop(last.take()));
    let refused = Db::open(dir.path(), options()).unwrap_err();
    assert_eq!(refused.kind(), ErrorKind::Locked, "{refused}");
    let last = last.unwrap();
    assert!(last.get("key00001").unwrap().is_some());
    drop(last);
    // Now it may be opened, by a child, too.
    in_child(How::Fork, "an opener after the end", || {
        reopen(dir.path(), &model)
    });
    reopen(dir.path(), &model);
}

#[test]
fn a_forked_child_is_refused_and_the_parent_goes_on() {
    a_child_is_refused_and_the_parent_goes_on(How::Fork);
}

#[test]
fn so_is_a_child_made_by_the_system_call_alone() {
    a_child_is_refused_and_the_parent_goes_on(How::Clone);
}

#[test]
fn a_child_made_while_a_thread_takes_entries_away_is_refused() {
    let _turn = TURN.lock().unwrap();
    let dir = tempfile::tempdir().unwrap();
    let db = Db::open(dir.path(), options().durability(Durability::Sync)).unwrap();
    let stop = AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            while !stop.load(Ordering::Relaxed) {
                db.put("entry", "").unwrap();
                db.pop_first().unwrap().unwrap();
            }
        });
        let _stop = Stop(&stop);
        for _ in 0..20 {
            in_child(How::Fork, "a pop", || forked("pop_first", db.pop_first()));
        }
    });
}

/// Stops a thread, also where the test fails.
struct Stop<'a>(&'a AtomicBool);

impl Drop for Stop<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

/// A value of which a part has been read when the process forks.
struct Forks {
    left: usize,
    /// Of the child, once there is one; 0 in the child.
    child: Option<libc::pid_t>,
}

impl Read for Forks {
    fn read(&mut self, out: &mut [u8]) -> io::Result<usize> {
        if self.left < LARGE / 2 && self.child.is_none() {
            // SAFETY: the child goes on here, and ends in the test.
            self.child = Some(unsafe { libc::fork() });
        }
        let len = out.len().min(self.left);
        out[..len].fill(b'v');
        self.left -= len;
        Ok(len)
    }
}

/// Bytes of a value that has a file of its own.
const LARGE: usize = 4 << 20;

#[test]
fn a_child_made_while_a_large_value_is_read_leaves_the_parents_file_alone() {
    let _turn = TURN.lock().unwrap();
    let dir = tempfile::tempdir().unwrap();
    let db = Db::open(dir.path(), options()).unwrap();
    let mut source = Forks {
        left: LARGE,
        child: None,
    };
    let put = db.put_reader("key", &mut source, None);
    let child = source.child.unwrap();
    if child == 0 {
        let is_refused = put.is_err_and(|error| error.kind() == ErrorKind::Forked);
        // SAFETY: ends the child.
        unsafe { libc::_exit(i32::from(!is_refused)) }
    }
    let mut status = 0;
    // SAFETY: the status is written to memory that is there.
    assert_eq!(unsafe { libc::waitpid(child, &raw mut status, 0) }, child);
    assert_eq!(status, 0, "the child was not refused");
    put.unwrap();
    let value = db.get("key").unwrap().unwrap();
    assert!(value.len() == LARGE && value.iter().all(|byte| *byte == b'v'));
    db.close().unwrap();
    assert_eq!(Db::check(dir.path()).unwrap().problems, []);
    let db = Db::open(dir.path(), options()).unwrap();
    assert_eq!(db.get("key").unwrap().unwrap().len(), LARGE);
}

#[test]
fn a_child_of_a_busy_parent_waits_for_no_lock() {
    let _turn = TURN.lock();
    let dir = tempfile::tempdir().unwrap();
    let mut model = Model::new();
    let db = Db::open(dir.path(), options()).unwrap();
    put(&db, &mut model, 0);
    let over = AtomicBool::new(false);
    let _limit = limit("writers beside forks");
    std::thread::scope(|scope| {
        let writers = [0, 1].map(|writer| {
            let (db, over) = (&db, &over);
            scope.spawn(move || {
                let (mut own, mut n) = (Model::new(), 0u32);
                while !over.load(Ordering::Relaxed) {
                    let key = format!("writer{writer}.{:04}", n % 500).into_bytes();
                    let value = n.to_string().repeat(50).into_bytes();
                    db.put(&key, &value).unwrap();
                    own.insert(key, value);
                    n += 1;
                    if n.is_multiple_of(100) {
                        assert!(db.iter().take(50).all(|entry| entry.is_ok()));
                        db.stats();
                    }
                }
                own
            })
        });
        for _ in 0..40 {
            let mut iter = db.iter();
            iter.next().unwrap().unwrap();
            let mut of_child = Some((db.clone(), iter));
            in_child(How::Fork, "a child of a busy parent", || {
                let (db, iter) = of_child.take().unwrap();
                call_all(&db);
                drop((iter, db));
            });
        }
        over.store(true, Ordering::Relaxed);
        for writer in writers {
            model.extend(writer.join().unwrap());
        }
    });
    verify(&db, &model);
    db.close().unwrap();
    reopen(dir.path(), &model);
}

/// What threads of the parent wait for, and those that wait, are nothing to the locks of a child.
#[test]
fn a_child_opens_its_own_database_whatever_threads_of_the_parent_wait_for() {
    let _turn = TURN.lock();
    let dir = tempfile::tempdir().unwrap();
    let parents: Vec<Db> = (0..4)
        .map(|n| Db::open(dir.path().join(format!("parent{n}")), options()).unwrap())
        .collect();
    let own = dir.path().join("own");
    for _ in 0..100 {
        for db in &parents {
            put(db, &mut Model::new(), 0);
        }
        in_child(How::Fork, "an opener of its own", || {
            let db = Db::open(&own, options()).unwrap();
            let mut models = [Model::new(), Model::new()];
            std::thread::scope(|scope| {
                for model in &mut models {
                    scope.spawn(|| put(&db, model, 1));
                }
            });
            verify(&db, &models[0]);
            db.close().unwrap();
        });
    }
    for db in parents {
        db.close().unwrap();
    }
}
