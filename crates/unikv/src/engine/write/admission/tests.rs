use crate::base::sync::atomic::Ordering;
use crate::engine::memory::MAX_SEALED;
use crate::engine::tests::{Machine, small};
use crate::vfs::Runtime;
use crate::{Db, ErrorKind, WriteOptions};
use std::time::Duration;

fn no_wait() -> WriteOptions {
    WriteOptions::default().no_wait(true)
}

/// Whether a write was done; if not, it was to wait.
fn is_done(written: crate::Result<()>) -> bool {
    match written {
        Err(error) => {
            assert_eq!(error.kind(), ErrorKind::WouldBlock, "{error}");
            false
        }
        Ok(()) => true,
    }
}

fn set_cost(db: &Db, ns_per_kib: u64) {
    let costs = &db.0.engine.backpressure.state;
    costs.ns_per_kib.store(ns_per_kib, Ordering::Relaxed);
}

#[test]
fn a_write_that_may_not_wait_is_refused_or_not_slowed() {
    let machine = Machine::new(11);
    let (db, runtime) = machine.open(small());
    let begin = runtime.now();
    set_cost(&db, 400_000);
    assert!(!is_done(db.put_with("long", vec![1; 4000], no_wait())));
    assert_eq!(db.get("long").unwrap(), None);
    assert!(is_done(db.put_with("short", vec![2; 600], no_wait())));
    assert!(db.get("short").unwrap().is_some());
    // What they cost is owed, and would make the next one pause.
    let mut done = 0;
    while is_done(db.delete_with("short", no_wait())) {
        done += 1;
        assert!(done < 100, "writes that never pause");
    }
    assert!(!is_done(db.delete_with("short", no_wait())));
    assert_eq!(runtime.now(), begin, "a write was slowed");
    assert_eq!(db.stats().stalls, 0);
    // Time settles the debt, also if nobody ever pauses.
    runtime.delay(Duration::from_millis(1));
    assert!(is_done(db.delete_with("short", no_wait())));
    // A batch is refused whole; one that may wait is slowed.
    let mut batch = crate::Batch::new();
    batch.put("a", "1").put("b", vec![3; 4000]);
    assert!(!is_done(db.write_with(&batch, no_wait())));
    assert_eq!(db.multi_get(["a", "b"]).unwrap(), [None, None]);
    db.write(&batch).unwrap();
    assert!(runtime.now() > begin + Duration::from_millis(1));
    set_cost(&db, 0);
    assert!(is_done(db.put_with("long", vec![1; 4000], no_wait())));
}

#[test]
fn what_a_delete_hides_does_not_slow_one_that_may_not_wait() {
    let machine = Machine::new(14);
    let (db, runtime) = machine.open(small());
    for i in 0..50 {
        db.put(format!("key{i:05}"), vec![i; 2000]).unwrap();
    }
    db.compact().unwrap();
    db.wait_until_idle().unwrap();
    let (begin, stalls) = (runtime.now(), db.stats().stalls);
    let costs = &db.0.engine.backpressure.state;
    costs.ns_per_kib.store(400_000, Ordering::Relaxed);
    costs.space_ns_per_kib.store(400_000, Ordering::Relaxed);
    // Nobody knows what it hides before it is written; later writes pause for it.
    assert!(is_done(db.delete_with("key00007", no_wait())));
    assert_eq!((runtime.now(), db.stats().stalls), (begin, stalls));
    assert!(!is_done(db.delete_with("key00008", no_wait())));
}

#[test]
fn a_large_value_that_would_be_slowed_leaves_no_file() {
    let machine = Machine::new(12);
    let (db, _) = machine.open(small());
    db.wait_until_idle().unwrap();
    let files = machine.disk.file_names().len();
    set_cost(&db, 1);
    let value = vec![5; 3 << 20];
    assert!(!is_done(db.put_with("large", &value, no_wait())));
    assert_eq!(machine.disk.file_names().len(), files);
    set_cost(&db, 0);
    assert!(is_done(db.put_with("large", &value, no_wait())));
    assert_eq!(db.get("large").unwrap().as_deref(), Some(&value[..]));
}

#[test]
fn a_sync_that_waits_for_flushes_of_what_was_recovered_is_refused() {
    let machine = Machine::new(15);
    let (db, _) = machine.open(small());
    db.put("before", "the kill").unwrap();
    let disk = machine.disk.process_kill();
    let machine = Machine { disk, seed: 16 };
    let (db, _) = machine.open(small());
    let options = no_wait().durability(crate::Durability::Sync);
    assert!(!is_done(db.put_with("key", "value", options)));
    assert_eq!(db.get("key").unwrap(), None);
    db.wait_until_idle().unwrap();
    assert!(is_done(db.put_with("key", "value", options)));
}

#[test]
fn writes_that_may_not_wait_are_refused_while_all_memtables_are_sealed() {
    let machine = Machine::new(13);
    let (db, _) = machine.open(small());
    // The background runs when a writer waits for it, and not before.
    let mut written = 0;
    while is_done(db.put_with(format!("key{written:05}"), vec![6; 500], no_wait())) {
        written += 1;
        assert_eq!(db.stats().stalls, 0, "a write was slowed");
        // Else their cost refuses them before.
        set_cost(&db, 0);
        assert!(written < 100_000, "memtables without end");
    }
    assert_eq!(db.0.engine.read.view.load().sealed.len(), MAX_SEALED);
    assert_eq!(db.stats().stalls, 0);
    assert_eq!(db.get(format!("key{written:05}")).unwrap(), None);
    db.wait_until_idle().unwrap();
    assert!(is_done(db.put_with("last", "there", no_wait())));
    assert_eq!(db.iter().count(), written + 1);
}
