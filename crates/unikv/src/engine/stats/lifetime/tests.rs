use super::*;
use crate::engine::tests::common::rewrite_manifest;
use crate::engine::tests::{Machine, Model, churn, small};
use crate::testing::golden;
use crate::vfs::Vfs;
use crate::vfs::sim::{Fault, Keep, Op};
use crate::{Db, ErrorKind, Options};
use rand::SeedableRng;
use rand::rngs::SmallRng;

const PATH: &str = "MANIFEST-000001";

fn decode(bytes: &[u8]) -> Result<LifetimeStats> {
    LifetimeStats::decode(bytes, Path::new(PATH))
}

fn stall(cause: StallCause, count: u64, ns: u64, longest: u64) -> StallStats {
    StallStats {
        cause,
        count,
        time: Duration::from_nanos(ns),
        longest: Duration::from_nanos(longest),
    }
}

/// Every figure set, each to another number.
fn full() -> LifetimeStats {
    let mut full = LifetimeStats::default();
    for (tag, number) in full.numbers() {
        *number = 1000 + u64::from(tag);
    }
    full.scan_cost = 1000 + u64::from(SCAN_COST_TAG);
    let each = StallCause::ALL.iter().zip(1..);
    full.stall_causes = each.map(|(c, n)| stall(*c, n, n * 100, n * 50)).collect();
    full
}

fn lifetime(db: &Db) -> LifetimeStats {
    db.stats().lifetime
}

/// Writes with overwrites, until there were flushes and merges.
fn work(db: &Db, seed: u64) {
    churn(
        db,
        &mut Model::new(),
        &mut SmallRng::seed_from_u64(seed),
        800,
    );
    db.compact().unwrap();
    db.wait_until_idle().unwrap();
}

/// Bytes of the log and the manifest are written by opening and closing, too.
fn without_logs(mut figures: LifetimeStats) -> LifetimeStats {
    (figures.wal_bytes, figures.manifest_bytes) = (0, 0);
    figures
}

#[test]
fn lifetime_figures_survive_encoding_byte_for_byte() {
    let bytes = full().encode();
    golden::check("lifetime", &bytes);
    assert_eq!(decode(&golden::load("lifetime")).unwrap(), full());
    assert!(LifetimeStats::default().encode().is_empty());
    assert_eq!(decode(&[]).unwrap(), LifetimeStats::default());
    for len in 1..bytes.len() {
        // Cut within a field it is damaged, between fields it holds fewer.
        match decode(&bytes[..len]) {
            Ok(fewer) => assert_ne!(fewer, full()),
            Err(error) => assert_eq!(error.kind(), ErrorKind::Corruption),
        }
    }
}

#[test]
fn figures_and_causes_of_a_newer_release_are_skipped() {
    let mut out = FieldWriter::default();
    out.put_skippable(LAST_TAG + 1, b"new");
    let newer: Vec<u8> = [77_u64, 1, 2, 3].map(u64::to_le_bytes).concat();
    out.put_skippable(STALL_TAG, &newer);
    let bytes = [full().encode(), out.finish()].concat();
    assert_eq!(decode(&bytes).unwrap(), full());
    let mut out = FieldWriter::default();
    out.put_skippable(STALL_TAG, &newer[1..]);
    let error = decode(&out.finish()).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Corruption);
}

#[test]
fn what_was_counted_before_is_added() {
    let mut now = LifetimeStats {
        merges: 2,
        wal_bytes: u64::MAX,
        stall_causes: vec![stall(StallCause::Space, 4, 40, 30)],
        ..LifetimeStats::default()
    };
    let before = LifetimeStats {
        merges: 3,
        wal_bytes: 1,
        splits: 1,
        stall_causes: vec![
            stall(StallCause::Memtables, 1, 1, 1),
            stall(StallCause::Space, 1, 50, 50),
        ],
        ..LifetimeStats::default()
    };
    now = now.after(&before);
    let counted = (now.merges, now.wal_bytes, now.splits);
    assert_eq!(counted, (5, u64::MAX, 1));
    let expected = [
        stall(StallCause::Memtables, 1, 1, 1),
        stall(StallCause::Space, 5, 90, 50),
    ];
    assert_eq!(now.stall_causes, expected);
}

#[test]
fn every_writer_counts_in_the_amplification() {
    let mut figures = LifetimeStats::default();
    assert_eq!(figures.write_amplification(), 0.0);
    for (tag, number) in figures.numbers() {
        *number = if tag <= 9 { 10 } else { 0 };
    }
    assert_eq!(figures.write_amplification(), 8.0);
}

#[test]
fn a_new_database_and_one_of_an_older_release_begin_at_zero() {
    let machine = Machine::new(5);
    let (db, _runtime) = machine.open(small());
    let fresh = LifetimeStats::default();
    assert_eq!(without_logs(lifetime(&db)), fresh);
    work(&db, 5);
    db.close().unwrap();
    // What an older release makes of it: it skips the field, and its snapshot is without.
    rewrite_manifest(&machine, |edit| {
        let figures = edit.lifetime.take().unwrap();
        assert!(decode(&figures).unwrap().flushes > 5);
    });
    let (db, _runtime) = machine.open(small());
    assert_eq!(without_logs(lifetime(&db)), fresh);
    db.close().unwrap();
}

#[test]
fn lifetime_figures_grow_from_opening_to_opening() {
    let machine = Machine::new(6);
    let mut before = LifetimeStats::default();
    for seed in 0..3 {
        let (db, _runtime) = machine.open(small());
        assert_eq!(without_logs(lifetime(&db)), without_logs(before.clone()));
        work(&db, seed);
        let (now, stats) = (lifetime(&db), db.stats());
        assert_eq!(now.flushes, before.flushes + stats.flushes);
        assert_eq!(now.merges, before.merges + stats.merges);
        let user = before.user_bytes_written + stats.user_bytes_written;
        assert_eq!(now.user_bytes_written, user);
        let of_jobs = |figures: &LifetimeStats| without_logs(figures.clone()).written_bytes();
        let of_process = stats.written_bytes() - stats.wal_bytes - stats.manifest_bytes;
        assert_eq!(of_jobs(&now), of_jobs(&before) + of_process);
        // Closing has written a little more.
        assert!(now.wal_bytes >= before.wal_bytes + stats.wal_bytes);
        assert!(stats.flushes > 5 && stats.merges > 0, "{stats:#?}");
        assert!(now.write_amplification() > 1.0);
        db.close().unwrap();
        before = now;
    }
    machine.check();
}

#[test]
fn closing_stores_figures_only_if_something_was_written() {
    let machine = Machine::new(7);
    let appended = |machine: &Machine, use_it: &dyn Fn(&Db)| {
        let (db, runtime) = machine.open(small());
        use_it(&db);
        runtime.run_one();
        let manifest = db.0.engine.catalog.lock().manifest.path().to_owned();
        let before = machine.disk.len(&manifest).unwrap();
        db.close().unwrap();
        machine.disk.len(&manifest).unwrap() - before
    };
    assert_eq!(appended(&machine, &|_| ()), 0);
    assert!(appended(&machine, &|db| db.put("key", "value").unwrap()) > 0);
    // What was in the log alone is flushed now, which counts; after that there is nothing.
    assert!(appended(&machine, &|db| db.flush().unwrap()) > 0);
    assert_eq!(appended(&machine, &|db| drop(db.get("key").unwrap())), 0);
}

#[test]
fn a_crash_loses_only_what_was_counted_since_the_last_job() {
    for keep in [Keep::Nothing, Keep::All, Keep::Torn(3)] {
        let machine = Machine::new(8);
        let (db, _runtime) = machine.open(small());
        work(&db, 8);
        let stored = {
            let catalog = db.0.engine.catalog.lock();
            of(&catalog.version, Path::new(PATH)).unwrap()
        };
        let counted = lifetime(&db);
        assert!(
            counted.flushes - stored.flushes <= 1,
            "{stored:?} {counted:?}"
        );
        assert!(stored.flushes > 5 && stored.merges > 0, "{stored:?}");
        let after = Machine {
            disk: machine.disk.power_cut(keep),
            seed: 8,
        };
        let (db, _runtime) = after.open(small());
        assert_eq!(*db.0.engine.core.counters.before(), stored);
        db.close().unwrap();
        after.check();
    }
}

#[test]
fn a_failure_to_store_figures_is_no_failure_of_closing() {
    for failing in [Op::Append, Op::Sync] {
        let machine = Machine::new(9);
        let (db, _runtime) = machine.open(small());
        work(&db, 9);
        let manifest = db.0.engine.catalog.lock().manifest.path().to_owned();
        machine.disk.set_fault(Box::new(move |call| {
            if call.op == failing && call.path == manifest {
                Fault::Fail(std::io::ErrorKind::Other)
            } else {
                Fault::None
            }
        }));
        db.close().unwrap();
        machine.disk.clear_faults();
        let (db, _runtime) = machine.open(Options::default());
        assert!(lifetime(&db).flushes > 5);
        db.close().unwrap();
        machine.check();
    }
}
