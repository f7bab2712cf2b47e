//! What many look-ups in one call prefetch and read; and look-ups by pointer indexes.

use crate::base::sync::Mutex;
use crate::engine::tests::Machine;
use crate::vfs::sim::{Fault, Op};
use crate::{Batch, Clustering, Db, Options, Tuning};
use std::sync::Arc;

const KEYS: usize = 3000;

fn key(n: usize) -> Vec<u8> {
    format!("key{n:06}").into_bytes()
}

fn value(n: usize, round: usize) -> Vec<u8> {
    (0..1000)
        .map(|i| (n * 31 + round * 7 + i * i) as u8)
        .collect()
}

fn options() -> Options {
    Options::default()
        .tuning(
            Tuning::default()
                .memtable_bytes(256 << 10)
                .unsorted_bytes(1 << 20),
        )
        .memory_budget(64 << 20)
        .clustering(Clustering::LeastWriting)
}

/// Calls of the disk, in order: prefetches and reads.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Call {
    Prefetched,
    Read,
}

struct Disk {
    machine: Machine,
    calls: Arc<Mutex<Vec<Call>>>,
}

impl Disk {
    /// Even keys lie in the SortedStore, odd ones in the UnsortedStore; every 8th is deleted or
    /// absent.
    fn filled() -> Disk {
        let machine = Machine::new(3);
        let (db, _) = machine.open(options());
        for parity in 0..2 {
            for n in (parity..KEYS).step_by(2).filter(|n| n % 8 != 0) {
                db.put(key(n), value(n, 0)).unwrap();
            }
            db.delete(key(8)).unwrap();
            match parity {
                0 => db.compact().unwrap(),
                _ => db.flush().unwrap(),
            }
        }
        db.close().unwrap();
        let calls = Arc::<Mutex<Vec<Call>>>::default();
        let push = |call: Call| {
            let calls = Arc::clone(&calls);
            move || calls.lock().push(call)
        };
        let (read, prefetched) = (push(Call::Read), push(Call::Prefetched));
        machine.disk.set_read_fault(Box::new(move |_| {
            read();
            None
        }));
        machine
            .disk
            .set_prefetch_rule(Box::new(move |_| prefetched()));
        Disk { machine, calls }
    }

    fn open(&self, is_cold: bool) -> Db {
        self.machine.disk.set_cold(is_cold);
        let (db, _) = self.machine.open(options());
        self.calls.lock().clear();
        db
    }

    /// Looks up `count` keys in one call; the calls that it made.
    fn look_up(&self, db: &Db, count: usize) -> Vec<Call> {
        // Far apart, in no order.
        let numbers: Vec<usize> = (0..count).map(|i| i * 1237 % KEYS).collect();
        let values = db.multi_get(numbers.iter().map(|n| key(*n))).unwrap();
        assert_eq!(values.len(), count);
        for (n, found) in numbers.iter().zip(values) {
            let expected = (n % 8 != 0).then(|| value(*n, 0));
            assert_eq!(found.as_deref(), expected.as_deref(), "key {n}");
        }
        std::mem::take(&mut self.calls.lock())
    }
}

fn count(calls: &[Call], call: Call) -> usize {
    calls.iter().filter(|it| **it == call).count()
}

#[test]
fn the_reads_of_many_keys_are_prefetched_before_they_are_waited_for() {
    let disk = Disk::filled();
    let db = disk.open(true);
    // The fences come to memory first.
    for n in (1..KEYS).step_by(20) {
        assert_eq!(db.contains_key(key(n)).unwrap(), n % 8 != 0);
    }
    disk.calls.lock().clear();
    let calls = disk.look_up(&db, 60);
    let prefetched = count(&calls, Call::Prefetched);
    assert!(prefetched > 40, "{prefetched} of {} calls", calls.len());
    // Most of what is read stands after that; what lies close together is prefetched later.
    let calls_in_order = calls.iter().enumerate();
    let mut prefetches = calls_in_order.filter(|(_, call)| **call == Call::Prefetched);
    let (last, _) = prefetches.nth(40).unwrap();
    let behind = count(&calls[last..], Call::Read);
    assert!(
        behind > 40,
        "{behind} of {} reads",
        count(&calls, Call::Read)
    );
    // Now it is in the read cache.
    assert_eq!(disk.look_up(&db, 60), []);
}

#[test]
fn what_is_in_memory_is_not_prefetched() {
    let disk = Disk::filled();
    let db = disk.open(false);
    for n in 0..KEYS {
        db.contains_key(key(n)).unwrap();
    }
    let calls = disk.look_up(&db, 200);
    // But once what lies around reads that lie close together, whether it is there or not.
    let files: usize = db.stats().record_file_bytes as usize;
    let pieces = files / (128 << 10) + db.stats().record_files;
    let prefetched = count(&calls, Call::Prefetched);
    assert!(
        prefetched <= pieces && pieces < 40,
        "{prefetched} of {pieces}"
    );
    db.close().unwrap();

    let db = disk.open(true);
    let mut batch = Batch::new();
    for n in (0..KEYS).filter(|n| n % 8 != 0) {
        batch.put(key(n), value(n, 0));
    }
    db.write(&batch).unwrap();
    disk.calls.lock().clear();
    let calls = disk.look_up(&db, 200);
    // Of the few that are absent nothing has to be known beforehand.
    assert!(count(&calls, Call::Prefetched) < 60, "{calls:?}");
}

#[test]
fn a_failed_read_is_reported_and_a_failed_prefetch_is_not() {
    let disk = Disk::filled();
    let db = disk.open(true);
    disk.machine
        .disk
        .set_read_fault(Box::new(|_| Some(std::io::ErrorKind::Other)));
    let keys = || (0..60).map(|n| key(n * 7 + 1));
    assert_eq!(
        db.multi_get(keys()).unwrap_err().kind(),
        crate::ErrorKind::Io
    );
    disk.machine.disk.set_read_fault(Box::new(|_| None));
    assert_eq!(db.multi_get(keys()).unwrap().len(), 60);
}

/// Reads every key so often that its table gets a pointer index, and sees the index answer.
fn read_often(db: &Db, keys: std::ops::Range<usize>, expected: impl Fn(usize) -> Option<Vec<u8>>) {
    for _ in 0..4 {
        for n in keys.clone() {
            let found = db.get(key(n)).unwrap();
            assert!(found.as_deref() == expected(n).as_deref(), "{n}");
        }
        db.wait_until_idle().unwrap();
    }
    assert!(db.stats().pointer_index_bytes > 0);
}

#[test]
fn a_pointer_index_leads_to_the_newest_value_of_each_moment() {
    let machine = Machine::new(5);
    let (db, _) = machine.open(options());
    let put = |keys: &mut dyn Iterator<Item = usize>, round| {
        keys.for_each(|n| db.put(key(n), value(n, round)).unwrap());
        db.compact().unwrap();
    };
    put(&mut (0..100), 0);
    let first = |n| Some(value(n, 0));
    read_often(&db, 0..100, first);
    let before = db.snapshot();
    // The other records keep the first file.
    put(&mut (0..100).step_by(3), 1);
    let newest = |n: usize| Some(value(n, usize::from(n.is_multiple_of(3))));
    read_often(&db, 0..100, newest);
    let as_before = || {
        for n in 0..100 {
            let found = before.get(key(n)).unwrap();
            assert!(found.as_deref() == first(n).as_deref(), "{n}");
        }
    };
    as_before();
    // Deletions and short values stand in the table itself.
    (0..100).step_by(5).for_each(|n| db.delete(key(n)).unwrap());
    (1..100)
        .step_by(5)
        .for_each(|n| db.put(key(n), b"short").unwrap());
    db.compact().unwrap();
    let newest = |n: usize| match n % 5 {
        0 => None,
        1 => Some(b"short".to_vec()),
        _ => newest(n),
    };
    read_often(&db, 0..110, |n| newest(n).filter(|_| n < 100));
    as_before();
}

#[test]
fn who_waits_for_the_background_waits_for_a_pointer_index_that_is_being_made() {
    let disk = Disk::filled();
    let db = disk.open(true);
    for n in (2..KEYS).step_by(80) {
        assert!(db.get(key(n)).unwrap().is_some() || n % 8 == 0);
    }
    let waits = Arc::<Mutex<Vec<bool>>>::default();
    let (noted, reader) = (Arc::clone(&waits), db.clone());
    disk.machine.disk.set_look_fault(Box::new(move |call| {
        if call.op == Op::Read && call.path.extension().is_some_and(|e| e == "key") {
            let leases = &reader.0.engine.background.scheduler.leases;
            noted.lock().push(!leases.are_free());
        }
        Fault::None
    }));
    db.wait_until_idle().unwrap();
    disk.machine.disk.clear_faults();
    assert!(db.stats().pointer_index_bytes > 0);
    let waits = waits.lock();
    assert!(
        !waits.is_empty() && waits.iter().all(|waits| *waits),
        "{waits:?}"
    );
}

#[test]
fn with_a_pointer_index_a_look_up_reads_a_record_and_no_block() {
    let disk = Disk::filled();
    let db = disk.open(true);
    for n in (0..KEYS).filter(|n| n % 8 != 0) {
        assert!(db.get(key(n)).unwrap().is_some(), "{n}");
    }
    db.wait_until_idle().unwrap();
    db.close().unwrap();
    // Again, and with nothing but the index in memory.
    let db = disk.open(true);
    for n in (2..KEYS).step_by(80) {
        assert!(db.get(key(n)).unwrap().is_some() || n % 8 == 0);
    }
    db.wait_until_idle().unwrap();
    assert!(db.stats().pointer_index_bytes > 0);
    disk.calls.lock().clear();
    let unread: Vec<usize> = (2..KEYS).step_by(2).filter(|n| n % 8 == 4).collect();
    let calls = |n: usize| {
        assert!(
            db.get(key(n)).unwrap().as_deref() == Some(&value(n, 0)),
            "{n}"
        );
        std::mem::take(&mut *disk.calls.lock())
    };
    for n in unread {
        assert!(count(&calls(n), Call::Read) <= 1, "{n}");
    }
    // Of a key that is not there, too.
    let absent: Vec<_> = (8..KEYS).step_by(8).map(|n| db.get(key(n))).collect();
    assert!(absent.iter().all(|found| found.as_ref().unwrap().is_none()));
    let read = disk.calls.lock().len();
    assert!(
        read <= 5,
        "{read}: the UnsortedStore's index is wrong now and then"
    );
}

fn index_bytes(db: &Db) -> u64 {
    db.wait_until_idle().unwrap();
    db.stats().pointer_index_bytes
}

#[test]
fn what_takes_the_place_of_a_table_whose_pointer_index_was_used_has_one_before_it_is_asked() {
    let machine = Machine::new(5);
    let (db, _) = machine.open(options());
    let put = |round| {
        (0..100).for_each(|n| db.put(key(n), value(n, round)).unwrap());
        db.compact().unwrap();
    };
    put(0);
    assert_eq!(index_bytes(&db), 0);
    read_often(&db, 0..100, |n| Some(value(n, 0)));
    put(1);
    assert!(index_bytes(&db) > 0);
    for n in 0..100 {
        let found = db.get(key(n)).unwrap();
        assert!(found.as_deref() == Some(&value(n, 1)), "{n}");
    }
}

#[test]
fn while_writers_rest_all_tables_get_a_pointer_index_if_there_is_room_for_all() {
    let machine = Machine::new(5);
    let idle = || options().clustering(Clustering::Automatic);
    let (db, _) = machine.open(idle());
    (0..KEYS).for_each(|n| db.put(key(n), value(n, 0)).unwrap());
    db.compact().unwrap();
    let all = index_bytes(&db);
    assert!(all as usize > 8 * KEYS, "{all}");
    db.close().unwrap();

    let (db, _) = machine.open(options());
    assert_eq!(index_bytes(&db), 0, "nothing is done when idle");
    db.close().unwrap();

    let (db, _) = machine.open(idle().memory_budget(512 << 10));
    assert_eq!(index_bytes(&db), 0, "there is no room");
}
