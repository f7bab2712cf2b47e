//! What scans read and prefetch, on a disk of which nothing is in memory.

mod gaps;

use crate::engine::tests::Machine;
use crate::testing::file_trace::{Event, FileTrace, prefetched_in_vain, prefetches, reads};
use crate::{Bytes, Clustering, Db, Iter, Options, Tuning};
use rand::SeedableRng;
use rand::rngs::SmallRng;
use rand::seq::SliceRandom;
use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

/// Large enough that it does not bound a batch.
const MEMORY: u64 = 256 << 20;

fn key(n: usize) -> Vec<u8> {
    format!("key{n:06}").into_bytes()
}

fn value(n: usize, len: usize) -> Vec<u8> {
    (0..len).map(|i| (n * 31 + i * i) as u8).collect()
}

/// Takes `count` entries of `range` and compares them with what was put.
fn scan(db: &Db, range: &Range<usize>, value_len: usize, forward: bool, count: usize) {
    let mut iter = db.range(key(range.start)..key(range.end));
    for step in 0..count.min(range.len()) {
        let (n, entry) = if forward {
            (range.start + step, iter.next())
        } else {
            (range.end - 1 - step, iter.next_back())
        };
        let (found, content) = entry.unwrap().unwrap();
        assert!(
            found == key(n) && content == value(n, value_len),
            "entry {n} is {}",
            found.escape_ascii()
        );
    }
    if count > range.len() {
        assert!(iter.next().is_none() && iter.next_back().is_none());
    }
}

#[test]
fn clustered_values_take_a_scan_few_reads() {
    const KEYS: usize = 3000;
    const VALUE_LEN: usize = 1000;
    let reads_under = |clustering| {
        let machine = Machine::new(1);
        let options = || {
            Options::default()
                .tuning(
                    Tuning::default()
                        .memtable_bytes(64 << 10)
                        .unsorted_bytes(8 << 20),
                )
                .memory_budget(MEMORY)
                .clustering(clustering)
        };
        let (db, _) = machine.open(options());
        let mut order: Vec<usize> = (0..KEYS).collect();
        order.shuffle(&mut SmallRng::seed_from_u64(1));
        for n in order {
            db.put(key(n), value(n, VALUE_LEN)).unwrap();
        }
        db.compact().unwrap();
        assert_eq!(db.stats().clustered_bytes, 0);
        db.wait_until_idle().unwrap();
        let stats = db.stats();
        assert!(stats.flushes > 30 && stats.merges > 0, "{stats:#?}");
        match clustering {
            Clustering::LeastWriting => assert_eq!(stats.clustered_bytes, 0),
            Clustering::Automatic => {
                let bytes = (KEYS * VALUE_LEN) as u64;
                assert!(stats.clustered_bytes >= bytes, "{stats:#?}");
            }
        }
        db.close().unwrap();
        // Opened again there is nothing in caches.
        machine.disk.set_cold(true);
        let (db, _) = machine.open(options());
        let before = db.stats().reads;
        scan(&db, &(1000..KEYS), VALUE_LEN, true, 100);
        let reads = db.stats().reads - before;
        scan(&db, &(0..KEYS), VALUE_LEN, true, KEYS + 1);
        scan(&db, &(0..KEYS), VALUE_LEN, false, KEYS + 1);
        reads
    };
    let scattered = reads_under(Clustering::LeastWriting);
    let clustered = reads_under(Clustering::Automatic);
    assert!(
        clustered * 4 <= scattered,
        "{clustered} reads where values are clustered, {scattered} where not"
    );
}

/// A database whose entries, in key order, are the records of one file, on a cold disk.
struct OneFile {
    machine: Machine,
    db: Db,
    entries: usize,
    records_end: u64,
    /// Bytes of a record.
    frame_len: u64,
    trace: FileTrace,
}

/// Such that the longest batch is one read.
const VALUE_LEN: usize = 14;

impl OneFile {
    fn new(entries: usize) -> OneFile {
        let machine = Machine::new(2);
        let options = Options::default()
            .tuning(Tuning::default().memtable_bytes(32 << 20))
            .memory_budget(MEMORY)
            .inline_value_bytes(0)
            .clustering(Clustering::LeastWriting);
        let (db, _) = machine.open(options);
        for n in 0..entries {
            db.put(key(n), value(n, VALUE_LEN)).unwrap();
        }
        db.compact().unwrap();
        let version = Arc::clone(&db.0.engine.read.view.load().version);
        let [file] = &version.record_files().to_vec()[..] else {
            panic!("{} record files", version.record_files().len());
        };
        let records_end = file.meta().records_end;
        let trace = FileTrace::begin(&machine.disk, file.path());
        machine.disk.set_cold(true);
        OneFile {
            machine,
            db,
            entries,
            records_end,
            frame_len: records_end / entries as u64,
            trace,
        }
    }

    /// What a scan of `count` entries of `range` does to the file.
    fn scan(&self, range: &Range<usize>, forward: bool, count: usize) -> Vec<Event> {
        self.trace.take();
        scan(&self.db, range, VALUE_LEN, forward, count);
        let events = self.trace.take();
        for event in &events {
            let (Event::Prefetched(bytes) | Event::Read(bytes)) = event;
            assert!(bytes.start < bytes.end && bytes.end <= self.records_end);
        }
        events
    }
}

#[test]
fn who_says_how_many_entries_are_wanted_waits_for_one_read_of_values() {
    let one = OneFile::new(500);
    let scanned = |range: Iter, forward: bool| {
        one.trace.take();
        let taken: Vec<_> = if forward {
            range.take(50).collect()
        } else {
            range.rev().take(50).collect()
        };
        assert_eq!(taken.len(), 50);
        for (i, entry) in taken.iter().enumerate() {
            let n = if forward { 100 + i } else { 399 - i };
            let (found, content) = entry.as_ref().unwrap();
            assert!(*found == key(n) && *content == value(n, VALUE_LEN));
        }
        reads(&one.trace.take()).len()
    };
    let range = || one.db.range(key(100)..key(400));
    for forward in [true, false] {
        let by_itself = scanned(range(), forward);
        assert_eq!(by_itself, 3, "batches of 8, 16 and 32");
        assert_eq!(scanned(range().expecting(50), forward), 1);
        // It bounds nothing.
        assert_eq!(scanned(range().expecting(20), forward), 2);
        assert!(scanned(range().expecting(0), forward) > 3);
        assert_eq!(scanned(range().expecting(usize::MAX), forward), 1);
    }
}

fn len(bytes: Range<u64>) -> u64 {
    bytes.end - bytes.start
}

/// For each read, how many bytes after it, in the direction of travel, have been prefetched.
fn leads(events: &[Event], forward: bool) -> Vec<u64> {
    let mut prefetched: Option<u64> = None;
    let mut leads = Vec::new();
    for event in events {
        match (event, forward) {
            (Event::Prefetched(bytes), true) => prefetched = prefetched.max(Some(bytes.end)),
            (Event::Prefetched(bytes), false) => {
                prefetched = Some(prefetched.map_or(bytes.start, |at| at.min(bytes.start)));
            }
            (Event::Read(bytes), true) => {
                leads.push(
                    prefetched
                        .expect("not prefetched")
                        .saturating_sub(bytes.end),
                );
            }
            (Event::Read(bytes), false) => {
                let at = prefetched.expect("not prefetched");
                leads.push(bytes.start.saturating_sub(at));
            }
        }
    }
    leads
}

#[test]
fn a_long_cold_scan_prefetches_what_it_reads_and_more_the_longer_it_gets() {
    // Batches of 8, 16 and so on up to 512 have 1016 entries; then each has 1024.
    let file = OneFile::new(1016 + 5 * 1024 + 300);
    let all = 0..file.entries;
    let ends_with_a_batch = 200..200 + 1016 + 3 * 1024;
    let ends_in_a_batch = 200..200 + 1016 + 3 * 1024 + 100;
    for (range, forward) in [
        (&all, true),
        (&all, false),
        (&ends_with_a_batch, true),
        (&ends_with_a_batch, false),
        (&ends_in_a_batch, true),
        (&ends_in_a_batch, false),
    ] {
        let events = file.scan(range, forward, usize::MAX);
        let what = format!("{range:?}, forward: {forward}");
        let reads = reads(&events).into_iter().map(len).collect::<Vec<_>>();
        let leads = leads(&events, forward);
        assert_eq!(
            reads.iter().sum::<u64>(),
            range.len() as u64 * file.frame_len,
            "{what}: each record is read once"
        );
        let full = reads.len() - 1;
        assert!(reads[..full].is_sorted(), "{what}: {reads:?}");
        assert!(reads[0] <= 8 * file.frame_len, "{what}: {reads:?}");
        // The first batches prefetch themselves alone, the later ones as much again.
        let last = leads.len() - 1;
        assert!(
            leads[..6].iter().all(|lead| *lead == 0),
            "{what}: {leads:?}"
        );
        assert!(leads[6] >= 512 * file.frame_len, "{what}: {leads:?}");
        let most = 1024 * file.frame_len;
        assert!(leads[7..last - 1].iter().all(|lead| *lead == most));
        // The prefetches end with the range, unless it ends within a batch.
        let in_vain = prefetched_in_vain(&events);
        if range == &ends_in_a_batch {
            assert!(in_vain <= most, "{what}: {in_vain} bytes")
        } else {
            assert_eq!(in_vain, 0, "{what}: {events:?}")
        }
        assert!(*range != all || leads[last] == 0, "{what}: {leads:?}");
    }
}

#[test]
fn a_short_cold_scan_prefetches_little_more_than_it_hands_out() {
    let file = OneFile::new(4000);
    for forward in [true, false] {
        for count in [2, 5, 8, 100, 500] {
            let events = file.scan(&(700..3500), forward, count);
            let what = format!("{count} entries, forward: {forward}: {events:?}");
            let read: u64 = reads(&events).into_iter().map(len).sum();
            assert!(read <= file.frame_len * (2 * count as u64 + 8), "{what}");
            assert!(leads(&events, forward).iter().all(|lead| *lead == 0));
            assert_eq!(prefetched_in_vain(&events), 0, "{what}");
        }
        // One record is read at once.
        let events = file.scan(&(1200..1201), forward, 2);
        assert!(matches!(events[..], [Event::Read(_)]), "{events:?}");
    }
}

#[test]
fn a_scan_of_what_is_in_memory_soon_stops_to_prefetch() {
    let file = OneFile::new(1016 + 20 * 1024);
    file.machine.disk.set_cold(false);
    for forward in [true, false] {
        let events = file.scan(&(0..file.entries), forward, usize::MAX);
        assert_eq!(prefetches(&events), []);
    }

    let mut iter = file.db.iter();
    file.machine.disk.set_cold(true);
    assert_eq!(iter.by_ref().take(1016 + 1024).count(), 1016 + 1024);
    assert!(prefetches(&file.trace.take()).len() > 8);
    file.machine.disk.set_cold(false);
    assert_eq!(iter.count(), 19 * 1024);
    let events = file.trace.take();
    let last = events
        .iter()
        .rposition(|event| matches!(event, Event::Prefetched(_)));
    let prefetched = prefetches(&events).len();
    // The last batch that found something missing was the first of these sixteen.
    assert_eq!(prefetched, 15, "{events:?}");
    assert!(last.is_some_and(|last| last < events.len() - 3));
}

#[test]
fn long_reads_of_what_is_seldom_in_memory_are_direct() {
    const ENTRIES: usize = 400;
    let one = OneFile::new(100 * ENTRIES);
    // How the values of the scan are read that begins at a multiple of this many entries.
    let scan = |n: usize| {
        one.trace.take();
        let first = n * ENTRIES;
        let range = one.db.range(key(first)..).expecting(ENTRIES);
        for (i, entry) in range.take(ENTRIES).enumerate() {
            let (found, content) = entry.unwrap();
            assert!(found == key(first + i) && content == value(first + i, VALUE_LEN));
        }
        one.trace.take()
    };
    let is_direct = |n| {
        let events = scan(n);
        let bytes: u64 = reads(&events).into_iter().map(len).sum();
        assert_eq!(bytes, ENTRIES as u64 * one.frame_len, "{events:?}");
        prefetches(&events).is_empty()
    };
    assert!(!is_direct(0), "nothing is known yet");
    let direct: Vec<_> = (1..90).filter(|n| is_direct(*n)).collect();
    assert!((30..60).contains(&direct.len()), "{}", direct.len());
    // What is read again stays in memory.
    for n in &direct {
        assert!(!is_direct(*n), "{n}");
    }

    // A device that cannot read this much at once gives the records one by one.
    let path = one.db.0.engine.read.view.load().version.record_files()[0]
        .path()
        .to_owned();
    one.machine.disk.set_read_fault(Box::new(move |call| {
        let fails = call.path == path && call.bytes > 1000;
        fails.then_some(std::io::ErrorKind::Other)
    }));
    for n in 90..100 {
        scan(n);
    }
}

#[test]
fn once_scans_have_waited_often_enough_the_background_reads_the_blocks_of_the_table() {
    let machine = Machine::new(9);
    let options = || {
        let options = Options::default().memory_budget(64 << 20);
        options
            .inline_value_bytes(200)
            .tuning(Tuning::default().key_table_bytes(2 << 20))
    };
    let (db, _) = machine.open(options());
    let key = |n: usize| format!("key{n:06}").into_bytes();
    (0..16_000).for_each(|n| db.put(key(n), [n as u8; 100]).unwrap());
    db.compact().unwrap();
    db.close().unwrap();

    let (db, _) = machine.open(options());
    let reads_of = |step| {
        let before = db.stats().reads;
        for n in (0..16_000).step_by(step) {
            let (found, value) = db.range(key(n)..).next().unwrap().unwrap();
            assert!(found == key(n) && value[..] == [n as u8; 100]);
        }
        db.stats().reads - before
    };
    assert!(reads_of(400) > 20);
    db.wait_until_idle().unwrap();
    assert_eq!(reads_of(1), 0);
}

#[test]
fn after_a_failed_read_both_ends_go_on_where_they_were() {
    // Beside their keys, and apart from them.
    [100, 1000]
        .into_iter()
        .for_each(the_back_goes_on_where_it_was);
}

fn the_back_goes_on_where_it_was(len: usize) {
    let machine = Machine::new(9);
    let options = || {
        let options = Options::default().memory_budget(64 << 20);
        options.inline_value_bytes(200)
    };
    let (db, _) = machine.open(options());
    const KEYS: usize = 4000;
    (0..KEYS).for_each(|n| db.put(key(n), value(n, len)).unwrap());
    db.compact().unwrap();
    db.close().unwrap();

    let (db, _) = machine.open(options());
    let mut iter = db.range(key(0)..);
    let mut left = KEYS;
    let back = |iter: &mut Iter, left: &mut usize| match iter.next_back() {
        Some(Ok((found, content))) => {
            *left -= 1;
            assert!(
                found == key(*left) && content == value(*left, len),
                "{left}"
            );
            Ok(true)
        }
        Some(Err(error)) => Err(error),
        None => Ok(false),
    };
    (0..50).for_each(|_| assert!(back(&mut iter, &mut left).unwrap()));
    let fails = |kind| {
        machine.disk.set_read_fault(Box::new(move |_| kind));
    };
    fails(Some(std::io::ErrorKind::Other));
    let error = std::iter::repeat_with(|| back(&mut iter, &mut left)).find_map(Result::err);
    assert_eq!(error.unwrap().kind(), crate::ErrorKind::Io);
    assert!(left > KEYS / 2, "most is to be read yet");
    fails(None);
    iter.seek(key(0));
    while back(&mut iter, &mut left).unwrap() {}
    assert_eq!(left, 0);
}

/// What a batch could not read ahead is read again when its turn comes: the caller has not asked
/// for it before, and the disk may work again.
#[test]
fn an_error_of_what_nobody_has_asked_for_yet_is_not_kept() {
    for (value_len, back) in [(100, false), (100, true), (1000, false), (1000, true)] {
        let machine = Machine::new(9);
        let options = || {
            let options = Options::default().memory_budget(64 << 20);
            options.inline_value_bytes(200)
        };
        let (db, _) = machine.open(options());
        const KEYS: usize = 1500;
        (0..KEYS).for_each(|n| db.put(key(n), value(n, value_len)).unwrap());
        db.compact().unwrap();
        db.close().unwrap();

        let (db, _) = machine.open(options());
        let mut iter = db.range(key(0)..).expecting(KEYS);
        let step = |iter: &mut Iter, n: usize| {
            if back {
                (iter.next_back(), KEYS - 1 - n)
            } else {
                (iter.next(), n)
            }
        };
        let check = |(found, n): (Option<crate::Result<(Bytes, Bytes)>>, usize)| {
            let (found, content) = found.unwrap().unwrap();
            assert!(found == key(n) && content == value(n, value_len), "{n}");
        };
        // The table is opened, and of the batch that the first step gathers, the first part can be
        // read.
        db.get(key(step(&mut db.iter(), 0).1)).unwrap();
        let failed = Arc::new(AtomicUsize::new(0));
        let count = Arc::clone(&failed);
        machine.disk.set_read_fault(Box::new(move |call| {
            let middle = (KEYS * value_len / 2) as u64;
            let fails = (call.offset < middle) == back && call.offset > 4096;
            count.fetch_add(usize::from(fails), Ordering::Relaxed);
            fails.then_some(std::io::ErrorKind::Other)
        }));
        check(step(&mut iter, 0));
        assert!(failed.load(Ordering::Relaxed) > 0);
        machine.disk.clear_faults();
        (1..KEYS).for_each(|n| check(step(&mut iter, n)));
        assert!(step(&mut iter, 0).0.is_none());
    }
}
