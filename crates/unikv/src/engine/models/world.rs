//! The machine of a model: its disk, its database, and what was written to it.

use super::oracle::{Oracle, PAIRS};
use crate::testing::shuttle_model::{ModelRuntime, count};
use crate::vfs::Env;
use crate::vfs::sim::{Keep, SimVfs};
use crate::{Db, Options, Result, Tuning};
use rand::Rng;
use rand::rngs::SmallRng;
use shuttle::thread;
use std::sync::{Arc, Mutex};

/// A machine with its disk, and what was written to it.
pub(super) struct World {
    pub(super) disk: SimVfs,
    pub(super) runtime: Arc<ModelRuntime>,
    pub(super) oracle: Oracle,
    writers: usize,
    /// What crashes would have left, and of each writer the last write that must be there.
    pub(super) images: Mutex<Vec<(SimVfs, Vec<u64>)>>,
}

pub(super) fn options() -> Options {
    Options::default()
        .tuning(
            Tuning::default()
                .memtable_bytes(4 << 10)
                .unsorted_bytes(8 << 10)
                .partition_bytes(6 << 10)
                .key_table_bytes(1 << 10)
                .block_bytes(512)
                .background_threads(2),
        )
        .max_space_amp(1.2)
        .memory_budget(1 << 20)
}

impl World {
    pub(super) fn new(writers: usize) -> Arc<World> {
        Arc::new(World {
            disk: SimVfs::new(),
            runtime: ModelRuntime::new(1),
            oracle: Oracle::new(writers),
            writers,
            images: Mutex::default(),
        })
    }

    pub(super) fn open(&self) -> Db {
        self.open_disk(&self.disk, options())
    }

    pub(super) fn open_disk(&self, disk: &SimVfs, options: Options) -> Db {
        let env = Env {
            vfs: Arc::new(disk.clone()),
            runtime: Arc::clone(&self.runtime) as _,
        };
        Db::open("/db", options.env(env)).unwrap()
    }

    /// Opens what is left on `disk`, which must show at least `least`, and writes to it.
    pub(super) fn check_disk(&self, disk: &SimVfs, least: Vec<u64>) {
        let db = self.open_disk(disk, options());
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
        let report = env.check("/db").unwrap();
        assert!(report.is_clean(), "{:#?}", report.problems);
    }

    /// `writes` writes of each writer, in a thread each, which does `then` after each.
    pub(super) fn spawn_writers_that(
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

    pub(super) fn spawn_writers(
        self: &Arc<Self>,
        db: &Db,
        writes: u64,
    ) -> Vec<thread::JoinHandle<Result<()>>> {
        self.spawn_writers_that(db, writes, |_| ())
    }

    /// Keeps what a power cut now would leave.
    pub(super) fn cut_power(&self, keep: Keep) {
        let least = self.oracle.durable();
        self.keep_image(self.disk.power_cut(keep), least);
    }

    pub(super) fn keep_image(&self, disk: SimVfs, least: Vec<u64>) {
        let mut images = self.images.lock().unwrap();
        images.push((disk, least));
    }

    /// Closes the database, and counts what its background has done.
    pub(super) fn close(&self, db: Db) {
        let stats = db.stats();
        count("flushes", stats.flushes);
        count("merges", stats.merges);
        count("splits", stats.splits);
        count("joins", stats.joins);
        count("scan merges", stats.scan_merges);
        count("clusterings", stats.clusterings);
        count("collections", stats.gcs);
        count("stalls", stats.stalls);
        db.close().unwrap();
    }

    /// Reads all there is, backwards.
    pub(super) fn scan(&self, db: &Db) -> Result<()> {
        let least = self.oracle.acknowledged();
        let moment = self.oracle.moment_of_iter(db.iter().rev(), || ())?;
        self.oracle
            .check_moment(&moment, &self.oracle.bounds(least));
        Ok(())
    }

    /// One read of a kind that `rng` chooses, checked.
    pub(super) fn read(&self, db: &Db, rng: &mut SmallRng) -> Result<()> {
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
            3 => return self.scan(db),
            _ => {
                let writer = rng.random_range(0..self.writers);
                return oracle.check_get(db, writer, rng.random_range(0..PAIRS));
            }
        };
        oracle.check_moment(&moment, &oracle.bounds(least));
        Ok(())
    }
}

pub(super) fn all_is_well(ended: Vec<thread::JoinHandle<Result<()>>>) {
    for thread in ended {
        thread.join().unwrap().unwrap();
    }
}
