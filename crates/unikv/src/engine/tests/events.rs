//! What a listener hears of an engine, and what it may do.

use super::{Machine, Model, churn, small};
use crate::testing::limit;
use crate::vfs::sim::{Fault, Op};
use crate::{Db, Event, HolderKind, Options, StallCause, TimedOperation, Tuning, Wait};
use rand::SeedableRng;
use rand::rngs::SmallRng;
use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, OnceLock};
use std::time::Duration;

/// All that a listener has heard.
#[derive(Clone, Default)]
struct Heard(Arc<Mutex<Vec<Event>>>);

impl Heard {
    fn of(options: Options) -> (Heard, Options) {
        let heard = Heard::default();
        let events = Arc::clone(&heard.0);
        let listen = move |event: &Event| events.lock().unwrap().push(event.clone());
        (heard, options.listener(listen))
    }

    fn events(&self) -> Vec<Event> {
        self.0.lock().unwrap().clone()
    }

    fn count(&self, name: &str) -> usize {
        self.events().iter().filter(|e| e.name() == name).count()
    }
}

/// The numbers in a reason.
fn figures_in(why: &str) -> Vec<u64> {
    let words = why.split(|c: char| !c.is_ascii_digit());
    words.filter_map(|word| word.parse().ok()).collect()
}

#[test]
fn every_job_begins_and_ends_and_what_it_has_written_adds_up() {
    for seed in 0..4 {
        let machine = Machine::new(seed);
        let (heard, options) = Heard::of(
            small()
                .tuning(Tuning::default().partition_bytes(32 << 10))
                .max_space_amp(1.2),
        );
        let (db, _) = machine.open(options);
        let mut model = Model::new();
        churn(&db, &mut model, &mut SmallRng::seed_from_u64(seed), 3000);
        db.compact().unwrap();
        db.wait_until_idle().unwrap();
        let stats = db.stats();
        db.close().unwrap();
        let events = heard.events();
        assert!(matches!(&events[0], Event::Opened { recovery, .. } if recovery.created));
        let (mut running, mut bytes, mut ended) = (HashMap::new(), HashMap::new(), HashMap::new());
        for event in &events {
            match event {
                Event::JobBegan {
                    job,
                    partition,
                    why,
                } => {
                    *running.entry((*job, *partition)).or_insert(0) += 1;
                    let figures = figures_in(why);
                    match *job {
                        "flush" => assert!(why.ends_with("memtables are sealed"), "{why}"),
                        "garbage collection" | "split" => {
                            assert!(figures[0] > figures[1], "{job}: {why}")
                        }
                        _ => assert!(!why.is_empty(), "{job}"),
                    }
                }
                Event::JobEnded {
                    job,
                    partition,
                    bytes: written,
                    ..
                } => {
                    *running.get_mut(&(*job, *partition)).unwrap() -= 1;
                    *bytes.entry(*job).or_insert(0) += written;
                    *ended.entry(*job).or_insert(0) += 1;
                }
                _ => {}
            }
        }
        assert!(running.values().all(|running| *running == 0), "{running:?}");
        let sum: u64 = bytes.values().sum();
        let written =
            stats.flush_bytes + stats.merge_bytes + stats.gc_bytes + stats.scan_merge_bytes;
        assert_eq!(sum, written);
        assert_eq!(bytes["flush"], stats.flush_bytes);
        assert_eq!(ended["flush"], stats.flushes);
        assert_eq!(ended["split"], stats.splits);
        assert!(
            ended["merge"] > 0 && ended.contains_key("garbage collection"),
            "{ended:?}"
        );
    }
}

#[test]
fn each_stall_and_each_slowdown_has_its_end() {
    let machine = Machine::new(3);
    let (heard, options) = Heard::of(small());
    let (db, _) = machine.open(options);
    for n in 0..3000_u32 {
        db.put(n.to_be_bytes(), [7; 200]).unwrap();
    }
    db.compact().unwrap();
    let stats = db.stats();
    db.close().unwrap();
    let (mut stalls, mut slow) = (Vec::new(), Vec::new());
    let (mut waited, mut is_stalled, mut slowed_by) = (Duration::ZERO, false, None);
    for event in heard.events() {
        match event {
            Event::StallBegan { cause } => {
                assert!(
                    !is_stalled && [StallCause::FlushWait, StallCause::MergeWait].contains(&cause)
                );
                is_stalled = true;
            }
            Event::StallEnded { cause, elapsed } => {
                assert!(is_stalled);
                is_stalled = false;
                waited += elapsed;
                stalls.push(cause);
            }
            Event::SlowdownBegan { cause } => assert_eq!(slowed_by.replace(cause), None),
            Event::SlowdownEnded { cause, elapsed } => {
                assert_eq!(slowed_by.take(), Some(cause));
                slow.push(elapsed);
            }
            _ => {}
        }
    }
    assert!(!is_stalled && slowed_by.is_none());
    assert_eq!(
        (stalls.len() as u64, waited),
        (stats.stalls, stats.stall_time)
    );
    assert!(stats.stalls > 0 && !slow.is_empty(), "{stats:#?}");
}

#[test]
fn a_failing_job_is_heard_of_until_it_has_recovered() {
    let machine = Machine::new(5);
    let (heard, options) = Heard::of(small());
    let (db, runtime) = machine.open(options);
    db.put("key", "value").unwrap();
    machine.disk.set_fault(Box::new(|call| {
        let is_table = call.path.extension().is_some_and(|e| e == "rec");
        if is_table && call.op == Op::Create {
            Fault::Fail(std::io::ErrorKind::Other)
        } else {
            Fault::None
        }
    }));
    assert!(db.flush().is_err());
    assert!(!runtime_waits(&runtime, || heard.count("job failed") >= 70));
    machine.disk.clear_faults();
    assert!(runtime_waits(&runtime, || heard.count("job recovered") > 0));
    db.close().unwrap();
    let of_flush = heard.events().into_iter().filter_map(|event| match event {
        Event::JobFailed {
            job: "flush",
            error,
            failures,
            retry_in,
            ..
        } => {
            assert!(error.to_string().contains(".rec"), "{error}");
            assert_eq!(retry_in, Some(Duration::from_secs(1)));
            Some(i64::from(failures))
        }
        Event::JobRecovered {
            job: "flush",
            failures,
            ..
        } => Some(-i64::from(failures)),
        _ => None,
    });
    let of_flush: Vec<_> = of_flush.collect();
    assert!(of_flush.len() > 10, "{of_flush:?}");
    let failed = of_flush.len() as i64 - 1;
    let expected: Vec<_> = (1..=failed).chain([-failed]).collect();
    assert_eq!(of_flush, expected);
}

#[test]
fn writing_that_is_suspended_is_heard_to_resume() {
    let machine = Machine::new(6);
    let (heard, options) = Heard::of(small());
    let (db, _) = machine.open(options);
    db.put("key", "value").unwrap();
    machine.disk.set_fault(Box::new(|call| {
        let is_log = call.path.extension().is_some_and(|e| e == "wal");
        if is_log && call.op == Op::Sync {
            Fault::Fail(std::io::ErrorKind::Other)
        } else {
            Fault::None
        }
    }));
    assert!(db.sync().is_err());
    machine.disk.clear_faults();
    assert_eq!(heard.count("writes resumed"), 0);
    db.flush().unwrap();
    db.put("key", "value").unwrap();
    db.close().unwrap();
    let suspended = heard.events().into_iter().filter_map(|event| match event {
        Event::WritesSuspended { until_reopened, .. } => Some(Some(until_reopened)),
        Event::WritesResumed => Some(None),
        _ => None,
    });
    assert_eq!(suspended.collect::<Vec<_>>(), [Some(false), None]);
}

#[test]
fn a_full_disk_is_heard_of_and_that_there_is_room_again() {
    let machine = Machine::new(7);
    let (heard, options) = Heard::of(small());
    let (db, runtime) = machine.open(options);
    machine.disk.set_free_space(Some(60_000));
    let full = (0..10_000_u32).any(|n| db.put(n.to_be_bytes(), [7; 400]).is_err());
    assert!(full);
    machine.disk.set_free_space(None);
    let room = runtime_waits(&runtime, || heard.count("disk freed") > 0);
    assert!(room && db.put("key", "value").is_ok());
    db.close().unwrap();
    assert_eq!(
        (heard.count("disk full"), heard.count("disk freed")),
        (1, 1)
    );
}

/// Lets a minute pass, or less if `done` says so.
fn runtime_waits(runtime: &Arc<crate::vfs::sim::SimRuntime>, done: impl Fn() -> bool) -> bool {
    use crate::vfs::Runtime as _;
    let never = runtime.event();
    (0..60).any(|_| {
        never.wait_past(never.epoch(), Some(Duration::from_secs(1)));
        done()
    })
}

/// A directory of the real file system.
fn dir() -> tempfile::TempDir {
    tempfile::tempdir().unwrap()
}

#[test]
fn a_listener_may_call_any_method_whatever_it_hears_of() {
    let _limit = limit("a listener that uses the database");
    let dir = dir();
    let (slot, calls) = (Arc::new(OnceLock::<Db>::new()), Arc::new(AtomicU64::new(0)));
    let (db, counted) = (Arc::clone(&slot), Arc::clone(&calls));
    let options = small()
        .tuning(
            Tuning::default()
                .partition_bytes(64 << 10)
                .memtable_bytes(16 << 10),
        )
        .listener(move |event: &Event| {
            let Some(db) = db.get() else { return };
            let call = counted.fetch_add(1, Ordering::Relaxed);
            let key = format!("of the listener {}", event.name());
            // It may have been closed meanwhile.
            let _closed = db.put(&key, call.to_be_bytes());
            let _closed = db.get(&key);
            assert!(db.iter().take(3).count() <= 3);
            let snapshot = db.snapshot();
            drop((db.stats(), db.garbage(), snapshot));
            if call.is_multiple_of(16) {
                let _closed = db.flush();
                let _closed = db.sync();
            }
        });
    let db = Db::open(dir.path(), options).unwrap();
    assert!(slot.set(db.clone()).is_ok());
    for n in 0..4000_u32 {
        db.put((n % 1000).to_be_bytes(), [7; 300]).unwrap();
    }
    db.compact().unwrap();
    // It holds a handle, and is dropped all the same.
    db.close().unwrap();
    assert!(calls.load(Ordering::Relaxed) > 20);
    assert_eq!(Arc::strong_count(&slot), 1, "the listener is still there");
    Db::open(dir.path(), Options::default())
        .unwrap()
        .close()
        .unwrap();
}

#[test]
fn a_listener_may_panic_and_may_close_the_database() {
    let _limit = limit("a listener that closes the database");
    let dir = dir();
    let slot = Arc::new(OnceLock::<Db>::new());
    let (db, later) = (Arc::clone(&slot), Arc::new(AtomicU64::new(0)));
    let heard = Arc::clone(&later);
    let options = Options::default().listener(move |event: &Event| match event {
        Event::Opened { .. } => panic!("a listener that panics, as this test wants"),
        Event::JobEnded { .. } => {
            if let Some(db) = db.get() {
                assert_eq!(db.stats().listener_panics, 1);
                let _twice = db.clone().close();
            }
            heard.fetch_add(1, Ordering::Relaxed);
        }
        _ => {}
    });
    let db = Db::open(dir.path(), options).unwrap();
    assert!(slot.set(db.clone()).is_ok());
    db.put("key", "value").unwrap();
    let _closed = db.flush();
    let _closed = db.close();
    crate::testing::wait_for("the listener", || later.load(Ordering::Relaxed) > 0);
    crate::testing::wait_for("the end of the listener", || Arc::strong_count(&slot) == 1);
    let db = slot.get().unwrap();
    assert_eq!(db.stats().listener_panics, 1);
    Db::open(dir.path(), Options::default())
        .unwrap()
        .close()
        .unwrap();
}

#[test]
fn what_a_slow_listener_does_not_take_is_counted() {
    let machine = Machine::new(8);
    let (heard, options) = Heard::of(small());
    let (db, runtime) = machine.open(options);
    // The opening, and the first job.
    runtime.run_until_idle();
    let events = &db.0.engine.core.events;
    for _ in 0..1500 {
        events.emit(|| Event::WritesResumed);
    }
    runtime.run_until_idle();
    assert_eq!(heard.count("writes resumed"), 1000);
    let lost = |event: &Event| matches!(event, Event::Lost { count: 500 });
    assert!(
        lost(heard.events().last().unwrap()),
        "{:?}",
        heard.events().last()
    );
    events.emit(|| Event::WritesResumed);
    runtime.run_until_idle();
    assert_eq!(heard.count("writes resumed"), 1001);
    db.close().unwrap();
}

#[test]
fn slow_operations_are_heard_of_with_key_and_reason_and_quick_ones_are_not() {
    let machine = Machine::new(9);
    let (heard, options) = Heard::of(small());
    let (db, runtime) = machine.open(options.slow_after(Duration::from_millis(5)));
    let others = db
        .keyspace("others", crate::KeyspaceOptions::default())
        .unwrap();
    db.put("quick", "value").unwrap();
    let costs = &db.0.engine.backpressure.state.ns_per_kib;
    costs.store(1_000_000, Ordering::Relaxed);
    others.put("slow".repeat(30), vec![1; 20 << 10]).unwrap();
    costs.store(0, Ordering::Relaxed);
    assert_eq!(db.get("quick").unwrap().as_deref(), Some(&b"value"[..]));
    runtime.run_until_idle();
    let slow = heard.events().into_iter().filter_map(|event| match event {
        Event::SlowOperation(slow) => Some(slow),
        _ => None,
    });
    let [slow] = &slow.collect::<Vec<_>>()[..] else {
        panic!("{:?}", heard.events());
    };
    assert_eq!(slow.operation, TimedOperation::Put);
    assert_eq!(slow.keyspace.as_deref(), Some("others"));
    assert_eq!(slow.key, "slow".repeat(16).as_bytes());
    let [(Wait::Slowdown, waited)] = slow.waited[..] else {
        panic!("{slow:?}");
    };
    assert!(
        waited >= Duration::from_millis(20) && slow.elapsed >= waited,
        "{slow:?}"
    );
    drop(others);
    db.close().unwrap();
}

#[test]
fn every_operation_that_was_done_is_among_the_latencies() {
    let machine = Machine::new(10);
    let (db, _) = machine.open(small().latencies(true).slow_after(Duration::MAX));
    let mut batch = crate::Batch::new();
    batch.put("a", "1").put("b", "2");
    db.write(&batch).unwrap();
    db.put("c", "3").unwrap();
    db.put("large", vec![1; 2000]).unwrap();
    db.get("a").unwrap();
    assert!(db.contains_key("a").unwrap());
    db.multi_get(["a", "b"]).unwrap();
    assert_eq!(db.iter().count(), 4);
    db.sync().unwrap();
    db.flush().unwrap();
    let found: Vec<_> = db.stats().latencies;
    let count = |what: &str| found.iter().find(|t| t.what == what).map(|t| t.measured);
    let reads = [("get", 1), ("multi_get", 1), ("seek", 1)];
    let writes = [("write", 1), ("put", 2), ("sync", 1)];
    for (what, times) in reads.into_iter().chain(writes) {
        assert_eq!(count(what), Some(times), "{what}: {found:#?}");
    }
    assert_eq!(count("flush"), Some(1), "{found:#?}");
    db.close().unwrap();
    let (db, _) = machine.open(small());
    db.get("a").unwrap();
    assert!(db.stats().latencies.is_empty());
}

#[test]
fn whoever_keeps_an_old_state_is_listed_with_its_age() {
    let machine = Machine::new(11);
    let (db, runtime) = machine.open(small());
    let mut model = Model::new();
    churn(&db, &mut model, &mut SmallRng::seed_from_u64(11), 500);
    let snapshot = db.snapshot();
    runtime_waits(&runtime, || true);
    let mut iter = db.iter();
    assert!(iter.next().is_some());
    churn(&db, &mut model, &mut SmallRng::seed_from_u64(12), 2000);
    db.compact().unwrap();
    let later = snapshot.iter();
    let holders = db.stats().holders;
    let [a, b, c] = &holders[..] else {
        panic!("{holders:#?}");
    };
    assert_eq!(
        (a.kind, b.kind, c.kind),
        (
            HolderKind::Snapshot,
            HolderKind::Iterator,
            HolderKind::Iterator
        )
    );
    assert!(a.age >= b.age + Duration::from_secs(1) && b.age >= c.age);
    assert_eq!((a.seq, c.seq), (snapshot_seq(&db), a.seq));
    assert!(b.id != c.id && a.behind >= 2000 && b.behind >= 2000);
    assert!(b.holds_view && b.pinned_bytes > 0 && !c.holds_view && c.pinned_bytes == 0);
    db.release_views();
    let holders = db.stats().holders;
    assert!(
        holders.iter().all(|h| !h.holds_view && h.pinned_bytes == 0),
        "{holders:#?}"
    );
    drop((snapshot, iter, later));
    assert!(db.stats().holders.is_empty());
}

/// The sequence number of the oldest snapshot.
fn snapshot_seq(db: &Db) -> u64 {
    db.stats().pins.oldest_seq.unwrap()
}
