//! Who runs beside whom.

use super::oracle::PAIRS;
use super::world::{World, all_is_well, options};
use crate::Tuning;
use crate::base::sync::Weakness;
use crate::error::Result;
use crate::testing::shuttle_model::{count, fails, holds};
use crate::vfs::sim::{Fault, Keep, Op};
use crate::{Clustering, Db, ErrorKind};
use rand::SeedableRng;
use rand::rngs::SmallRng;
use shuttle::thread;
use std::sync::Arc;
use std::time::Duration;

/// Two writers, a reader, and somebody who flushes, compacts, collects and looks.
fn readers_beside_writers_and_jobs() {
    let world = World::new(2);
    let db = world.open();
    let mut threads = world.spawn_writers(&db, 40);
    let (reader, its_db) = (Arc::clone(&world), db.clone());
    threads.push(thread::spawn(move || {
        let mut rng = SmallRng::seed_from_u64(1);
        (0..12).try_for_each(|_| reader.read(&its_db, &mut rng))
    }));
    let its_db = db.clone();
    threads.push(thread::spawn(move || {
        its_db.flush()?;
        its_db.stats();
        its_db.compact()?;
        its_db.collect_garbage()?;
        its_db.flush()?;
        its_db.release_views();
        its_db.wait_until_idle()
    }));
    all_is_well(threads);
    world.close(db);
    world.check_disk(&world.disk, world.oracle.acknowledged());
}

#[test]
fn reads_are_right_beside_writers_and_jobs() {
    let happens = ["flushes", "merges", "splits"];
    holds(1, 30, &happens, readers_beside_writers_and_jobs);
}

/// Somebody who scans everything again and again.
fn spawn_scans(world: &Arc<World>, db: &Db) -> thread::JoinHandle<Result<()>> {
    let (world, db) = (Arc::clone(world), db.clone());
    thread::spawn(move || (0..20).try_for_each(|_| world.scan(&db)))
}

/// A database of small partitions is opened again with options by which they are joined, keys
/// merged for scans and values clustered for them; two writers, somebody who flushes and merges,
/// and a reader that scans and always waits for the device.
fn scans_beside_joins_and_what_they_cause() {
    let world = World::new(2);
    let db = world.open_disk(
        &world.disk,
        options().tuning(Tuning::default().partition_bytes(4 << 10)),
    );
    all_is_well(world.spawn_writers(&db, 16));
    db.wait_until_idle().unwrap();
    world.close(db);
    world.disk.set_cold(true);
    let for_scans = options()
        .tuning(
            Tuning::default()
                .partition_bytes(64 << 10)
                .unsorted_bytes(64 << 10)
                .scan_merge_limit(1),
        )
        .max_space_amp(100.0)
        .inline_value_bytes(16)
        .clustering(Clustering::Automatic);
    let db = world.open_disk(&world.disk, for_scans);
    let mut threads = world.spawn_writers(&db, 8);
    threads.push(spawn_scans(&world, &db));
    let its_db = db.clone();
    threads.push(thread::spawn(move || {
        its_db.flush()?;
        its_db.flush()?;
        its_db.compact()?;
        its_db.flush()
    }));
    all_is_well(threads);
    // Tables that nothing merges before it is worth its cost to scans.
    for _ in 0..6 {
        world.oracle.write(&db, 0).unwrap();
        db.flush().unwrap();
    }
    let mut threads = world.spawn_writers(&db, 2);
    threads.push(spawn_scans(&world, &db));
    all_is_well(threads);
    db.wait_until_idle().unwrap();
    world.scan(&db).unwrap();
    world.close(db);
    world.check_disk(&world.disk, world.oracle.acknowledged());
}

#[test]
fn scans_are_right_beside_joins_and_what_they_cause() {
    let happens = ["splits", "joins", "scan merges", "clusterings"];
    holds(8, 30, &happens, scans_beside_joins_and_what_they_cause);
}

/// A writer that flushes as soon as it has overwritten everything, so that older versions go at
/// once, and a reader.
fn gets_beside_flushes() {
    let world = World::new(1);
    let db = world.open();
    let writer = thread::spawn({
        let (world, db) = (Arc::clone(&world), db.clone());
        move || {
            (0..4).try_for_each(|_| {
                (0..PAIRS).try_for_each(|_| world.oracle.write(&db, 0))?;
                // A read that begins here needs the version that the flush leaves out.
                thread::yield_now();
                world.oracle.write(&db, 0)?;
                db.flush()
            })
        }
    });
    for read in 0..100 {
        world.oracle.check_get(&db, 0, read % PAIRS).unwrap();
    }
    all_is_well(vec![writer]);
    world.close(db);
}

#[test]
fn a_get_beside_flushes_finds_its_version() {
    holds(6, 100, &["flushes", "merges"], gets_beside_flushes);
}

#[test]
fn a_wrong_order_of_view_and_number_is_noticed() {
    fails(Weakness::SeqBeforeView, 1, 100, gets_beside_flushes);
}

#[test]
fn a_job_that_notifies_nobody_is_noticed() {
    fails(
        Weakness::JobTellsNobody,
        1,
        40,
        readers_beside_writers_and_jobs,
    );
}

/// Three writers, somebody who syncs, and images of the disk as a power cut after each write and
/// kills meanwhile would leave it.
fn writers_and_crashes() {
    let world = World::new(3);
    let db = world.open();
    let mut threads = world.spawn_writers_that(&db, 5, |world| world.cut_power(Keep::Nothing));
    let (syncing, its_db) = (Arc::clone(&world), db.clone());
    threads.push(thread::spawn(move || {
        (0..6).try_for_each(|_| {
            let acknowledged = syncing.oracle.acknowledged();
            its_db.sync()?;
            syncing.oracle.note_synced(&acknowledged);
            Ok(())
        })
    }));
    for round in 0..2 {
        for _ in 0..4 {
            thread::yield_now();
        }
        world.cut_power(Keep::Torn(round));
        let least = world.oracle.acknowledged();
        world.keep_image(world.disk.process_kill(), least);
    }
    all_is_well(threads);
    world.close(db);
    let images = std::mem::take(&mut *world.images.lock().unwrap());
    count("crashes", images.len() as u64);
    for (disk, least) in images {
        world.check_disk(&disk, least);
    }
}

#[test]
fn what_was_acknowledged_survives_a_crash_beside_it() {
    holds(2, 20, &["flushes", "crashes"], writers_and_crashes);
}

/// A caller closes the database under two writers and a reader.
fn close_beside_everything() {
    let world = World::new(2);
    let db = world.open();
    let mut threads = world.spawn_writers(&db, 12);
    let (reader, its_db) = (Arc::clone(&world), db.clone());
    threads.push(thread::spawn(move || {
        let mut rng = SmallRng::seed_from_u64(3);
        (0..8).try_for_each(|_| reader.read(&its_db, &mut rng))
    }));
    for _ in 0..3 {
        thread::yield_now();
    }
    db.flush().unwrap();
    db.close().unwrap();
    for thread in threads {
        if let Err(error) = thread.join().unwrap() {
            assert_eq!(error.kind(), ErrorKind::Closed, "{error}");
            count("ended by the close", 1);
        }
    }
    world.check_disk(&world.disk, world.oracle.acknowledged());
}

#[test]
fn closing_beside_everything_loses_nothing_acknowledged() {
    holds(3, 40, &["ended by the close"], close_beside_everything);
}

/// Waits, as time passes, until writes are taken again.
fn await_writes(world: &World, db: &Db) {
    for _ in 0..200 {
        if db.put("afterwards", "again").is_ok() {
            return;
        }
        world.runtime.pass(Duration::from_secs(1));
        thread::yield_now();
    }
    panic!(
        "writing does not resume: {:?}",
        db.put("afterwards", "again")
    );
}

/// Each writer ends with its first error, which `allows` allows; then the others go on without it,
/// and a reader as if nothing were. `trouble` makes it and ends it.
fn trouble_beside_writers(trouble: impl FnOnce(&World, &Db), allows: fn(ErrorKind) -> bool) {
    let world = World::new(3);
    let db = world.open();
    let writers = world.spawn_writers(&db, 14);
    let reader = thread::spawn({
        let (world, db) = (Arc::clone(&world), db.clone());
        move || {
            let mut rng = SmallRng::seed_from_u64(4);
            (0..10).try_for_each(|_| world.read(&db, &mut rng))
        }
    });
    trouble(&world, &db);
    for writer in writers {
        if let Err(error) = writer.join().unwrap() {
            assert!(allows(error.kind()), "{error}");
            count("writers that failed", 1);
        }
    }
    reader.join().unwrap().unwrap();
    world.disk.clear_faults();
    await_writes(&world, &db);
    world.close(db);
    world.check_disk(&world.disk, world.oracle.acknowledged());
}

fn full_disk_beside_writers() {
    let trouble = |world: &World, db: &Db| {
        thread::yield_now();
        world.disk.set_free_space(Some(2 << 10));
        for _ in 0..20 {
            thread::yield_now();
            world.runtime.pass(Duration::from_millis(500));
        }
        let _may_be_refused = db.flush();
        world.disk.set_free_space(None);
    };
    trouble_beside_writers(trouble, |kind| {
        matches!(kind, ErrorKind::DiskFull | ErrorKind::WritesSuspended)
    });
}

#[test]
fn a_full_disk_beside_writers_loses_nothing_and_passes() {
    let happens = ["merges", "splits", "collections", "writers that failed"];
    holds(4, 30, &happens, full_disk_beside_writers);
}

fn failed_sync_beside_writers() {
    let trouble = |world: &World, _: &Db| {
        let mut left = 1;
        world.disk.set_fault(Box::new(move |call| {
            let is_log = call.path.extension().is_some_and(|of| of == "wal");
            if call.op == Op::Sync && is_log && left > 0 {
                left -= 1;
                return Fault::Fail(std::io::ErrorKind::Other);
            }
            Fault::None
        }));
        thread::yield_now();
    };
    trouble_beside_writers(trouble, |kind| {
        matches!(kind, ErrorKind::Io | ErrorKind::WritesSuspended)
    });
}

#[test]
fn a_failed_sync_of_the_log_beside_writers_loses_nothing_and_passes() {
    let happens = ["flushes", "merges", "splits", "writers that failed"];
    holds(5, 30, &happens, failed_sync_beside_writers);
}
