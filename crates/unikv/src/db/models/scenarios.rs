//! Who runs beside whom.

use super::oracle::{Oracle, PAIRS};
use crate::base::sync::Weakness;
use crate::testing::shuttle_model::{ModelRuntime, count, fails, holds};
use crate::vfs::Env;
use crate::vfs::sim::{Fault, Keep, Op, SimVfs};
use crate::{Db, ErrorKind, Options, Result};
use rand::rngs::SmallRng;
use rand::{Rng, SeedableRng};
use shuttle::thread;
use std::sync::{Arc, Mutex};
use std::time::Duration;

/// A machine with its disk, and what was written to it.
struct World {
    disk: SimVfs,
    runtime: Arc<ModelRuntime>,
    oracle: Oracle,
    writers: usize,
    /// What crashes would have left, and of each writer the last write that must be there.
    images: Mutex<Vec<(SimVfs, Vec<u64>)>>,
}

fn options() -> Options {
    Options::default()
        .memtable_bytes(4 << 10)
        .unsorted_bytes(8 << 10)
        .partition_bytes(6 << 10)
        .max_space_amp(1.2)
        .key_table_bytes(1 << 10)
        .block_bytes(512)
        .memory_budget(1 << 20)
        .background_threads(2)
}

impl World {
    fn new(writers: usize) -> Arc<World> {
        Arc::new(World {
            disk: SimVfs::new(),
            runtime: ModelRuntime::new(1),
            oracle: Oracle::new(writers),
            writers,
            images: Mutex::default(),
        })
    }

    fn open(&self) -> Db {
        self.open_disk(&self.disk)
    }

    fn open_disk(&self, disk: &SimVfs) -> Db {
        let env = Env {
            vfs: Arc::new(disk.clone()),
            runtime: Arc::clone(&self.runtime) as _,
        };
        Db::open_in(env, "/db", options()).unwrap()
    }

    /// Opens what is left on `disk`, which must show at least `least`, and writes to it.
    fn check_disk(&self, disk: &SimVfs, least: Vec<u64>) {
        let db = self.open_disk(disk);
        let bounds = self.oracle.bounds(least);
        let read = |keys| db.multi_get(keys);
        self.oracle
            .check_moment(&self.oracle.moment(read).unwrap(), &bounds);
        let all = self.oracle.moment_of_iter(db.iter(), || ()).unwrap();
        self.oracle.check_moment(&all, &bounds);
        db.put("afterwards", "more").unwrap();
        db.close().unwrap();
        let env = Env {
            vfs: Arc::new(disk.clone()),
            runtime: Arc::clone(&self.runtime) as _,
        };
        let report = Db::check_in(&env, "/db").unwrap();
        assert!(report.is_clean(), "{:#?}", report.problems);
    }

    /// `writes` writes of each writer, in a thread each, which does `then` after each.
    fn spawn_writers_that(
        self: &Arc<Self>,
        db: &Db,
        writes: u64,
        then: fn(&World),
    ) -> Vec<thread::JoinHandle<Result<()>>> {
        let spawn = |writer| {
            let (world, db) = (Arc::clone(self), db.clone());
            thread::spawn(move || {
                (0..writes).try_for_each(|_| {
                    world.oracle.write(&db, writer)?;
                    then(&world);
                    Ok(())
                })
            })
        };
        (0..self.writers).map(spawn).collect()
    }

    fn spawn_writers(
        self: &Arc<Self>,
        db: &Db,
        writes: u64,
    ) -> Vec<thread::JoinHandle<Result<()>>> {
        self.spawn_writers_that(db, writes, |_| ())
    }

    /// Keeps what a power cut now would leave.
    fn cut_power(&self, keep: Keep) {
        let least = self.oracle.durable();
        self.keep_image(self.disk.power_cut(keep), least);
    }

    fn keep_image(&self, disk: SimVfs, least: Vec<u64>) {
        let mut images = self.images.lock().unwrap();
        images.push((disk, least));
    }

    /// Closes the database, and counts what its background has done.
    fn close(&self, db: Db) {
        let stats = db.stats();
        count("flushes", stats.flushes);
        count("merges", stats.merges);
        count("splits", stats.splits);
        count("collections", stats.gcs);
        count("stalls", stats.stalls);
        db.close().unwrap();
    }

    /// One read of a kind that `rng` chooses, checked.
    fn read(&self, db: &Db, rng: &mut SmallRng) -> Result<()> {
        let oracle = &self.oracle;
        let least = oracle.acknowledged();
        let moment = match rng.random_range(0..8) {
            0 => {
                let snapshot = db.snapshot();
                let bounds = oracle.bounds(least);
                let first = oracle.moment(|keys| snapshot.multi_get(keys))?;
                oracle.check_moment(&first, &bounds);
                let again = oracle.moment_of_iter(snapshot.iter().rev(), || ())?;
                assert_eq!(again, first, "what a snapshot shows has changed");
                return Ok(());
            }
            1 => oracle.moment(|keys| db.multi_get(keys))?,
            2 => {
                let iter = db.iter();
                let bounds = oracle.bounds(least);
                let shown = oracle.moment_of_iter(iter, || {
                    if rng.random_ratio(1, 4) {
                        db.release_views();
                    }
                })?;
                oracle.check_moment(&shown, &bounds);
                return Ok(());
            }
            3 => oracle.moment_of_iter(db.iter().rev(), || ())?,
            _ => {
                let writer = rng.random_range(0..self.writers);
                return oracle.check_get(db, writer, rng.random_range(0..PAIRS));
            }
        };
        oracle.check_moment(&moment, &oracle.bounds(least));
        Ok(())
    }
}

fn all_is_well(ended: Vec<thread::JoinHandle<Result<()>>>) {
    for thread in ended {
        thread.join().unwrap().unwrap();
    }
}

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
        its_db.quiesce()
    }));
    all_is_well(threads);
    world.close(db);
    world.check_disk(&world.disk, world.oracle.acknowledged());
}

#[test]
fn reads_are_right_beside_writers_and_jobs() {
    holds(1, 30, readers_beside_writers_and_jobs);
}

/// A writer that flushes as soon as it has overwritten everything, so that older versions go at once,
/// and a reader.
fn gets_beside_flushes() {
    let world = World::new(1);
    let db = world.open();
    let writer = thread::spawn({
        let (world, db) = (Arc::clone(&world), db.clone());
        move || {
            (0..4).try_for_each(|_| {
                (0..=PAIRS).try_for_each(|_| world.oracle.write(&db, 0))?;
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
    holds(6, 100, gets_beside_flushes);
}

#[test]
fn a_wrong_order_of_view_and_number_is_noticed() {
    fails(Weakness::SeqBeforeView, 13, 100, gets_beside_flushes);
}

#[test]
fn a_job_that_tells_nobody_is_noticed() {
    fails(
        Weakness::JobTellsNobody,
        1,
        40,
        readers_beside_writers_and_jobs,
    );
}

/// Three writers, somebody who syncs, and images of the disk as a power cut after each write and kills
/// meanwhile would leave it.
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
    holds(2, 20, writers_and_crashes);
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
    holds(3, 40, close_beside_everything);
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

/// Each writer ends with its first error, which `allows` allows; then the others go on without it, and
/// a reader as if nothing were. `trouble` makes it and ends it.
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
    holds(4, 30, full_disk_beside_writers);
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
    holds(5, 30, failed_sync_beside_writers);
}
