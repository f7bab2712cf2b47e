//! fjall, with values beside their keys and with values apart.

use crate::share;
use fjall::config::CompressionPolicy;
use fjall::{
    CompressionType, Database, Guard, Keyspace, KeyspaceCreateOptions, KvSeparationOptions,
    PersistMode,
};
use std::ops::Bound;
use std::path::Path;
use unikv_bench::Failure;
use unikv_bench::engine::{BatchOp, Direction, Engine};
use unikv_bench::suite::contender::{Contender, Entrant, Settings, Terms};

/// An open database with its one keyspace.
pub struct Fjall {
    db: Database,
    records: Keyspace,
    sync: bool,
}

/// What it is opened with.
#[derive(Clone)]
pub struct Setup {
    cache_bytes: u64,
    memtable_bytes: u64,
    separated: bool,
    sync: bool,
}

/// The two settings. Nothing bounds its memory as a whole: with the caches and memtables of the
/// others it is killed for want of memory while it loads, so it gets smaller ones.
pub fn entrants() -> Vec<Box<dyn Contender>> {
    let entrant = |name, setup| -> Box<dyn Contender> {
        Box::new(Entrant::<Fjall> {
            name,
            version: || "crate fjall 3.1".to_owned(),
            survives_a_kill: true,
            setup,
        })
    };
    vec![
        entrant("fjall", |terms| setup(terms, false)),
        entrant("fjall-separated", |terms| setup(terms, true)),
    ]
}

fn setup(terms: &Terms, separated: bool) -> (Setup, Settings) {
    let (cache_bytes, memtable_bytes) = (terms.memory_bytes / 4, terms.memory_bytes / 40);
    let mut settings = share::settings_with(terms, memtable_bytes, cache_bytes);
    if separated {
        settings.push(("values apart", "of 128 bytes and more".to_owned()));
    }
    settings.push(("everything else", "as by default".to_owned()));
    let setup = Setup {
        cache_bytes,
        memtable_bytes,
        separated,
        sync: terms.sync,
    };
    (setup, settings)
}

impl Fjall {
    fn written(&self, outcome: fjall::Result<()>) -> Result<(), Failure> {
        outcome.map_err(Failure::engine)?;
        // Each write goes to the kernel by itself.
        if !self.sync {
            return Ok(());
        }
        let synced = self.db.persist(PersistMode::SyncData);
        synced.map_err(Failure::engine)
    }
}

fn visit_all(
    guards: impl Iterator<Item = Guard>,
    limit: usize,
    mut visit: impl FnMut(&[u8], &[u8]) -> Result<(), Failure>,
) -> Result<(), Failure> {
    for guard in guards.take(limit) {
        let (key, value) = guard.into_inner().map_err(Failure::engine)?;
        visit(&key, &value)?;
    }
    Ok(())
}

impl Engine for Fjall {
    type Setup = Setup;

    fn open(dir: &Path, setup: &Setup, create: bool) -> Result<Fjall, Failure> {
        if !create && !dir.exists() {
            return Err(Failure::invalid("no database there"));
        }
        let db = Database::builder(dir).cache_size(setup.cache_bytes).open();
        let db = db.map_err(Failure::engine)?;
        let options = || {
            let separation = KvSeparationOptions::default()
                .separation_threshold(128)
                .compression(CompressionType::None);
            KeyspaceCreateOptions::default()
                .max_memtable_size(setup.memtable_bytes)
                .data_block_compression_policy(CompressionPolicy::disabled())
                .with_kv_separation(setup.separated.then_some(separation))
        };
        let records = db.keyspace("records", options).map_err(Failure::engine)?;
        let sync = setup.sync;
        Ok(Fjall { db, records, sync })
    }

    fn put(&self, key: &[u8], value: &[u8]) -> Result<(), Failure> {
        self.written(self.records.insert(key, value))
    }

    fn delete(&self, key: &[u8]) -> Result<(), Failure> {
        self.written(self.records.remove(key))
    }

    fn write(&self, batch: &[BatchOp<'_>]) -> Result<(), Failure> {
        let mut all = self.db.batch();
        for operation in batch {
            match *operation {
                BatchOp::Put(key, value) => all.insert(&self.records, key, value),
                BatchOp::Delete(key) => all.remove(&self.records, key),
            }
        }
        self.written(all.commit())
    }

    fn get<R>(&self, key: &[u8], found: impl FnOnce(&[u8]) -> R) -> Result<Option<R>, Failure> {
        let value = self.records.get(key).map_err(Failure::engine)?;
        Ok(value.map(|value| found(&value)))
    }

    fn scan(
        &self,
        from: Option<&[u8]>,
        direction: Direction,
        limit: usize,
        visit: impl FnMut(&[u8], &[u8]) -> Result<(), Failure>,
    ) -> Result<(), Failure> {
        let from = from.map_or(Bound::Unbounded, Bound::Included);
        match direction {
            Direction::Forwards => {
                let all = self.records.range::<&[u8], _>((from, Bound::Unbounded));
                visit_all(all, limit, visit)
            }
            Direction::Backwards => {
                let all = self.records.range::<&[u8], _>((Bound::Unbounded, from));
                visit_all(all.rev(), limit, visit)
            }
        }
    }

    fn flush(&self) -> Result<(), Failure> {
        self.records
            .rotate_memtable_and_wait()
            .map_err(Failure::engine)
    }

    fn compact(&self) -> Result<(), Failure> {
        self.records.major_compact().map_err(Failure::engine)
    }

    fn close(self) -> Result<(), Failure> {
        Ok(())
    }
}
