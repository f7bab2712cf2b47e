//! What the flush worker does beside flushes: how often, and who waits for it.

use super::{Machine, small};
use crate::vfs::Runtime as _;
use crate::vfs::sim::{Fault, Op, SimRuntime};
use crate::{Db, Event, Options, Tuning};
use std::sync::{Arc, Mutex};
use std::time::Duration;

/// The jobs of one name that have begun.
#[derive(Clone, Default)]
struct Begun(Arc<Mutex<Vec<String>>>);

impl Begun {
    fn of(options: Options) -> (Begun, Options) {
        let begun = Begun::default();
        let heard = Arc::clone(&begun.0);
        let options = options.listener(move |event: &Event| {
            if let Event::JobBegan { job, .. } = event {
                heard.lock().unwrap().push((*job).to_owned());
            }
        });
        (begun, options)
    }

    fn count(&self, name: &str) -> usize {
        let begun = self.0.lock().unwrap();
        begun.iter().filter(|job| *job == name).count()
    }
}

/// Lets workers run while this many seconds pass.
fn let_pass(runtime: &SimRuntime, seconds: u64) {
    let never = runtime.event();
    never.wait_past(never.epoch(), Some(Duration::from_secs(seconds)));
}

/// Runs `call`, which must not wait for time to pass.
fn at_once<T>(runtime: &SimRuntime, call: impl FnOnce() -> T) -> T {
    let begin = runtime.now();
    let result = call();
    assert_eq!(runtime.now(), begin, "it waits");
    result
}

fn fill(db: &Db) {
    let refused = (0..10_000_u32).any(|n| db.put(n.to_be_bytes(), [7; 400]).is_err());
    assert!(refused && db.stats().disk_full);
}

#[test]
fn a_full_disk_is_looked_after_each_second_and_no_caller_waits_for_that() {
    let machine = Machine::new(61);
    let (begun, options) = Begun::of(small());
    let (db, runtime) = machine.open(options);
    machine.disk.set_free_space(Some(60_000));
    fill(&db);
    machine.disk.set_free_space(Some(0));
    let_pass(&runtime, 100);
    let before = begun.count("disk space");
    let_pass(&runtime, 60);
    let looks = begun.count("disk space") - before;
    assert!((59..=61).contains(&looks), "{looks} in a minute");
    let listed = db.due_jobs();
    let listed = listed.iter().find(|due| due.job == "disk space");
    assert_eq!(listed.map(|due| due.why.as_str()), Some("the disk is full"));
    at_once(&runtime, || {
        let _there_may_be_garbage = db.wait_until_idle();
    });
    machine.disk.set_free_space(None);
    let_pass(&runtime, 2);
    let is_listed = db.due_jobs().iter().any(|due| due.job == "disk space");
    assert!(!db.stats().disk_full && !is_listed);
    let before = begun.count("disk space");
    let_pass(&runtime, 60);
    assert_eq!(begun.count("disk space"), before, "all is as it should be");
    db.close().unwrap();
    machine.check();
}

#[test]
fn a_ballast_without_room_is_tried_again_after_half_a_minute() {
    let machine = Machine::new(62);
    let (begun, options) = Begun::of(small());
    machine.disk.set_free_space(Some(60_000));
    let (db, runtime) = machine.open(options);
    let_pass(&runtime, 1);
    assert_eq!(
        (begun.count("disk space"), db.stats().ballast_bytes),
        (1, 0)
    );
    // What else happens is no reason to try again.
    db.put("key", "value").unwrap();
    db.flush().unwrap();
    let_pass(&runtime, 28);
    assert_eq!(begun.count("disk space"), 1);
    let_pass(&runtime, 62);
    assert_eq!(begun.count("disk space"), 4);
    machine.disk.set_free_space(None);
    at_once(&runtime, || db.wait_until_idle().unwrap());
    assert_eq!(db.stats().ballast_bytes, 0, "nobody waits for it");
    let_pass(&runtime, 31);
    assert!(db.stats().ballast_bytes > 0 && !db.stats().disk_full);
    let_pass(&runtime, 90);
    assert_eq!(begun.count("disk space"), 5);
    db.close().unwrap();
    machine.check();
}

#[test]
fn what_hides_much_is_flushed_a_second_after_the_last_write() {
    let machine = Machine::new(63);
    let (begun, options) = Begun::of(
        small()
            .memory_budget(64 << 20)
            .tuning(Tuning::default().memtable_bytes(1 << 20)),
    );
    let (db, runtime) = machine.open(options);
    (0..100_u32).for_each(|n| db.put(n.to_be_bytes(), [7; 200]).unwrap());
    db.compact().unwrap();
    let_pass(&runtime, 10);
    let in_memory = || db.0.engine.read.view.load().memtable.table.len();
    let pause = |milliseconds| {
        runtime.delay(Duration::from_millis(milliseconds));
        runtime.run_until_idle();
    };
    let before = begun.count("settle");
    db.delete_range(10_u32.to_be_bytes()..90_u32.to_be_bytes())
        .unwrap();
    runtime.run_until_idle();
    for n in 0..10_u32 {
        pause(700);
        // Another writer, whose writes hide nothing.
        db.put((1_000 + n).to_be_bytes(), "new").unwrap();
        runtime.run_until_idle();
    }
    assert_eq!((begun.count("settle"), in_memory() > 0), (before, true));
    pause(999);
    assert_eq!(begun.count("settle"), before);
    // The time counts from when the worker has seen the last write.
    let_pass(&runtime, 2);
    assert!(begun.count("settle") > before);
    assert_eq!(in_memory(), 0);
    let settled = begun.count("settle");
    let_pass(&runtime, 60);
    assert!(begun.count("settle") <= settled + 2, "again and again");
    let settled = begun.count("settle");
    let_pass(&runtime, 600);
    assert_eq!(begun.count("settle"), settled);
    assert_eq!(db.iter().count(), 30);
    db.close().unwrap();
    machine.check();
}

/// The worker tries the lock, and comes again.
#[test]
fn settling_waits_for_a_commit_lock_that_is_not_free() {
    let machine = Machine::new(64);
    let (begun, options) = Begun::of(
        small()
            .memory_budget(64 << 20)
            .tuning(Tuning::default().memtable_bytes(1 << 20)),
    );
    let (db, runtime) = machine.open(options);
    db.put("key", "value").unwrap();
    db.compact().unwrap();
    let_pass(&runtime, 10);
    let before = begun.count("settle");
    db.delete_range("a".."z").unwrap();
    let held = db.0.engine.write.commit.lock();
    let_pass(&runtime, 10);
    let tries = begun.count("settle") - before;
    assert!((3..=4).contains(&tries), "{tries} in ten seconds");
    drop(held);
    let_pass(&runtime, 4);
    assert_eq!(db.0.engine.read.view.load().memtable.table.len(), 0);
    db.close().unwrap();
    machine.check();
}

#[test]
fn memory_is_lent_two_seconds_after_the_last_job_and_no_caller_waits_for_that() {
    let machine = Machine::new(65);
    let (begun, options) = Begun::of(small());
    let (db, runtime) = machine.open(options);
    let lent = || begun.count("lend memory");
    db.put("key", "value").unwrap();
    db.flush().unwrap();
    at_once(&runtime, || db.wait_until_idle().unwrap());
    let before = lent();
    let_pass(&runtime, 1);
    assert_eq!(lent(), before);
    let_pass(&runtime, 2);
    assert_eq!(lent(), before + 1);
    let_pass(&runtime, 60);
    assert_eq!(lent(), before + 1, "it is lent");
    // A job takes it back.
    db.put("key", "other").unwrap();
    db.flush().unwrap();
    let_pass(&runtime, 60);
    assert_eq!(lent(), before + 2);
    // One that has failed is to be tried again.
    machine.disk.set_fault(Box::new(|call| {
        let is_table = call.path.extension().is_some_and(|e| e == "rec");
        if is_table && call.op == Op::Create {
            return Fault::Fail(std::io::ErrorKind::Other);
        }
        Fault::None
    }));
    db.put("key", "third").unwrap();
    db.flush().unwrap_err();
    let_pass(&runtime, 60);
    assert!(!db.0.engine.read.view.load().sealed.is_empty());
    assert_eq!(lent(), before + 2, "a memtable is sealed");
    machine.disk.clear_faults();
    let_pass(&runtime, 60);
    assert_eq!(lent(), before + 3);
    db.close().unwrap();
    machine.check();
}
