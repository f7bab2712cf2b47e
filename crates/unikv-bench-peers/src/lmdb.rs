//! LMDB: a memory-mapped B-tree with copy on write.
//!
//! It has no log and no cache of its own. Without syncing, a commit has been written to the kernel,
//! so that a killed process loses nothing; a power cut may lose the whole database.

#![allow(
    unsafe_code,
    reason = "mapping a file is unsafe when others change it; see the notes"
)]

use heed::types::Bytes;
use heed::{Database, Env, EnvFlags, EnvOpenOptions};
use std::fs;
use std::ops::Bound;
use std::path::Path;
use unikv_bench::Failure;
use unikv_bench::engine::{BatchOp, Direction, Engine};
use unikv_bench::suite::contender::{Contender, Entrant, Settings, Terms};

/// Addresses, not memory.
const MAP_BYTES: usize = 1 << 38;

/// An open environment with its one database.
pub struct Lmdb {
    env: Env,
    records: Database<Bytes, Bytes>,
}

/// The one setting.
pub fn entrants() -> Vec<Box<dyn Contender>> {
    vec![Box::new(Entrant::<Lmdb> {
        name: "lmdb",
        version: || heed::lmdb_version().string.to_owned() + ", crate heed 0.22",
        survives_a_kill: true,
        setup,
    })]
}

/// Whether each commit is synced.
fn setup(terms: &Terms) -> (bool, Settings) {
    let durability = if terms.sync {
        "each commit is synced"
    } else {
        "each commit is written (MDB_NOSYNC); a power cut may lose everything"
    };
    let settings = vec![
        ("memory", "all of the page cache".to_owned()),
        ("durability", durability.to_owned()),
        ("read-ahead", "none (MDB_NORDAHEAD)".to_owned()),
        ("everything else", "as by default".to_owned()),
    ];
    (terms.sync, settings)
}

impl Engine for Lmdb {
    type Setup = bool;

    fn open(dir: &Path, &sync: &bool, create: bool) -> Result<Lmdb, Failure> {
        if create {
            fs::create_dir_all(dir)?;
        } else if !dir.join("data.mdb").exists() {
            return Err(Failure::invalid("no database there"));
        }
        let mut options = EnvOpenOptions::new();
        options.map_size(MAP_BYTES).max_readers(126);
        let mut flags = EnvFlags::NO_READ_AHEAD;
        flags.set(EnvFlags::NO_SYNC, !sync);
        // SAFETY: of these flags one changes what the kernel reads ahead; the other gives up
        // durability after a power cut, which is what is asked for. Neither lets anyone write
        // through the map.
        unsafe { options.flags(flags) };
        // SAFETY: the directory belongs to this run alone, which opens it once at a time, so nobody
        // changes the file under the map.
        let env = unsafe { options.open(dir) }.map_err(Failure::engine)?;
        let mut transaction = env.write_txn().map_err(Failure::engine)?;
        let records = env.create_database(&mut transaction, None);
        let records = records.map_err(Failure::engine)?;
        transaction.commit().map_err(Failure::engine)?;
        Ok(Lmdb { env, records })
    }

    fn put(&self, key: &[u8], value: &[u8]) -> Result<(), Failure> {
        self.write(&[BatchOp::Put(key, value)])
    }

    fn delete(&self, key: &[u8]) -> Result<(), Failure> {
        self.write(&[BatchOp::Delete(key)])
    }

    fn write(&self, batch: &[BatchOp<'_>]) -> Result<(), Failure> {
        let mut transaction = self.env.write_txn().map_err(Failure::engine)?;
        for operation in batch {
            match *operation {
                BatchOp::Put(key, value) => self.records.put(&mut transaction, key, value),
                BatchOp::Delete(key) => self.records.delete(&mut transaction, key).map(|_| ()),
            }
            .map_err(Failure::engine)?;
        }
        transaction.commit().map_err(Failure::engine)
    }

    fn get<R>(&self, key: &[u8], found: impl FnOnce(&[u8]) -> R) -> Result<Option<R>, Failure> {
        let transaction = self.env.read_txn().map_err(Failure::engine)?;
        let value = self
            .records
            .get(&transaction, key)
            .map_err(Failure::engine)?;
        Ok(value.map(found))
    }

    fn scan(
        &self,
        from: Option<&[u8]>,
        direction: Direction,
        limit: usize,
        mut visit: impl FnMut(&[u8], &[u8]) -> Result<(), Failure>,
    ) -> Result<(), Failure> {
        let transaction = self.env.read_txn().map_err(Failure::engine)?;
        let from = from.map_or(Bound::Unbounded, Bound::Included);
        match direction {
            Direction::Forwards => {
                let range = (from, Bound::Unbounded);
                let all = self.records.range(&transaction, &range);
                for entry in all.map_err(Failure::engine)?.take(limit) {
                    let (key, value) = entry.map_err(Failure::engine)?;
                    visit(key, value)?;
                }
            }
            Direction::Backwards => {
                let range = (Bound::Unbounded, from);
                let all = self.records.rev_range(&transaction, &range);
                for entry in all.map_err(Failure::engine)?.take(limit) {
                    let (key, value) = entry.map_err(Failure::engine)?;
                    visit(key, value)?;
                }
            }
        }
        Ok(())
    }

    fn close(self) -> Result<(), Failure> {
        self.env.prepare_for_closing().wait();
        Ok(())
    }
}
