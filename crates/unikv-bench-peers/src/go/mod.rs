//! Pebble and BadgerDB, which are written in Go. Each call crosses into Go, which takes a fraction
//! of a microsecond, and what is read is copied once more.

mod ffi;

use crate::share;
use ffi::{Db, Options};
use std::ffi::CStr;
use std::path::Path;
use std::time::{Duration, Instant};
use unikv_bench::Failure;
use unikv_bench::engine::{BatchOp, Direction, Engine};
use unikv_bench::measure::quiet::wait_until_quiet;
use unikv_bench::suite::contender::{Contender, Entrant, Settings, Terms};

/// An open store.
pub struct GoStore(Db);

/// One setting of each.
pub fn entrants() -> Vec<Box<dyn Contender>> {
    vec![
        Box::new(Entrant::<GoStore> {
            name: "pebble",
            version: || env!("PEBBLE_VERSION").to_owned(),
            // Without a sync, the log is written some time after the write was acknowledged.
            survives_a_kill: false,
            setup: |terms| {
                let (options, mut settings) = setup(c"pebble", terms);
                settings.push(("bloom filters", "10 bits a key".to_owned()));
                (options, settings)
            },
        }),
        Box::new(Entrant::<GoStore> {
            name: "badger",
            version: || env!("BADGER_VERSION").to_owned(),
            survives_a_kill: true,
            setup: |terms| {
                let (options, mut settings) = setup(c"badger", terms);
                settings.push(("value log", "values of 128 bytes and more".to_owned()));
                settings.push((
                    "collected",
                    "where waited for, as it is on request".to_owned(),
                ));
                (options, settings)
            },
        }),
    ]
}

fn setup(name: &'static CStr, terms: &Terms) -> (Options, Settings) {
    let mut settings = share::settings(terms);
    settings.push(("garbage collector", "of Go, as by default".to_owned()));
    let options = Options {
        name,
        memtable_bytes: share::memtable(terms),
        memtables: share::MEMTABLES,
        cache_bytes: share::cache(terms),
        sync: terms.sync,
    };
    (options, settings)
}

impl Engine for GoStore {
    type Setup = Options;

    fn open(dir: &Path, setup: &Options, create: bool) -> Result<GoStore, Failure> {
        let opened = Db::open(dir, setup, create);
        opened.map(GoStore).map_err(Failure::engine)
    }

    fn put(&self, key: &[u8], value: &[u8]) -> Result<(), Failure> {
        self.0.put(key, value).map_err(Failure::engine)
    }

    fn delete(&self, key: &[u8]) -> Result<(), Failure> {
        self.write(&[BatchOp::Delete(key)])
    }

    fn write(&self, batch: &[BatchOp<'_>]) -> Result<(), Failure> {
        let mut all = Vec::new();
        for operation in batch {
            match *operation {
                BatchOp::Put(key, value) => ffi::push(&mut all, key, Some(value)),
                BatchOp::Delete(key) => ffi::push(&mut all, key, None),
            }
        }
        self.0.write(&all).map_err(Failure::engine)
    }

    fn get<R>(&self, key: &[u8], found: impl FnOnce(&[u8]) -> R) -> Result<Option<R>, Failure> {
        self.0.get(key, found).map_err(Failure::engine)
    }

    fn scan(
        &self,
        from: Option<&[u8]>,
        direction: Direction,
        limit: usize,
        visit: impl FnMut(&[u8], &[u8]) -> Result<(), Failure>,
    ) -> Result<(), Failure> {
        let backwards = direction == Direction::Backwards;
        let scanned = self.0.scan(from, backwards, limit, visit);
        scanned.map_err(Failure::engine)?
    }

    fn flush(&self) -> Result<(), Failure> {
        self.0.flush().map_err(Failure::engine)
    }

    fn settle(&self) -> Result<Duration, Failure> {
        let start = Instant::now();
        self.0.tidy().map_err(Failure::engine)?;
        let tidied = start.elapsed();
        Ok(tidied + wait_until_quiet())
    }

    fn close(self) -> Result<(), Failure> {
        self.0.close().map_err(Failure::engine)
    }
}
