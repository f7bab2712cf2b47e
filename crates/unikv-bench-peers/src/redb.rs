//! redb: a B-tree with copy on write.
//!
//! It has no log. A write that shall not be synced is committed without durability, and then lives
//! in the memory of the process until the next durable commit: a kill loses it. So this is less
//! than what the other engines do. A durable commit comes after this many others, which bounds what
//! is lost and lets redb reuse pages.

use redb::{Database, Durability, ReadableDatabase, TableDefinition};
use std::fs;
use std::ops::Bound;
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};
use unikv_bench::Failure;
use unikv_bench::engine::{BatchOp, Direction, Engine};
use unikv_bench::suite::contender::{Contender, Entrant, Settings, Terms};

const RECORDS: TableDefinition<'_, &[u8], &[u8]> = TableDefinition::new("records");
const DURABLE_EVERY: u64 = 1_000;

/// An open database.
pub struct Redb {
    db: Database,
    sync: bool,
    commits: AtomicU64,
}

/// What it is opened with: the cache, and whether each commit is durable.
type Setup = (usize, bool);

/// The one setting.
pub fn entrants() -> Vec<Box<dyn Contender>> {
    vec![Box::new(Entrant::<Redb> {
        name: "redb",
        version: || "crate redb 4.5".to_owned(),
        survives_a_kill: false,
        setup,
    })]
}

fn setup(terms: &Terms) -> (Setup, Settings) {
    let durability = if terms.sync {
        "each commit is synced".to_owned()
    } else {
        format!("LESS than the others: a kill loses up to {DURABLE_EVERY} writes")
    };
    let settings = vec![
        ("cache", terms.memory_bytes.to_string()),
        ("durability", durability),
        ("compression", "none".to_owned()),
        ("everything else", "as by default".to_owned()),
    ];
    ((terms.memory_bytes as usize, terms.sync), settings)
}

impl Redb {
    fn commit(&self, batch: &[BatchOp<'_>], durable: bool) -> Result<(), Failure> {
        let mut transaction = self.db.begin_write().map_err(Failure::engine)?;
        if !durable {
            let set = transaction.set_durability(Durability::None);
            set.map_err(Failure::engine)?;
        }
        {
            let mut table = transaction.open_table(RECORDS).map_err(Failure::engine)?;
            for operation in batch {
                match *operation {
                    BatchOp::Put(key, value) => table.insert(key, value).map(|_| ()),
                    BatchOp::Delete(key) => table.remove(key).map(|_| ()),
                }
                .map_err(Failure::engine)?;
            }
        }
        transaction.commit().map_err(Failure::engine)
    }
}

impl Engine for Redb {
    type Setup = Setup;

    fn open(dir: &Path, &(cache_bytes, sync): &Setup, create: bool) -> Result<Redb, Failure> {
        let file = dir.join("records.redb");
        let mut builder = Database::builder();
        builder.set_cache_size(cache_bytes);
        let db = if create {
            fs::create_dir_all(dir)?;
            builder.create(file)
        } else {
            builder.open(file)
        };
        let db = Redb {
            db: db.map_err(Failure::engine)?,
            sync,
            commits: AtomicU64::new(0),
        };
        // Readers need the table to be there.
        db.commit(&[], true)?;
        Ok(db)
    }

    fn put(&self, key: &[u8], value: &[u8]) -> Result<(), Failure> {
        self.write(&[BatchOp::Put(key, value)])
    }

    fn delete(&self, key: &[u8]) -> Result<(), Failure> {
        self.write(&[BatchOp::Delete(key)])
    }

    fn write(&self, batch: &[BatchOp<'_>]) -> Result<(), Failure> {
        let nth = self.commits.fetch_add(1, Ordering::Relaxed);
        self.commit(batch, self.sync || nth % DURABLE_EVERY == DURABLE_EVERY - 1)
    }

    fn get<R>(&self, key: &[u8], found: impl FnOnce(&[u8]) -> R) -> Result<Option<R>, Failure> {
        let transaction = self.db.begin_read().map_err(Failure::engine)?;
        let table = transaction.open_table(RECORDS).map_err(Failure::engine)?;
        let value = table.get(key).map_err(Failure::engine)?;
        Ok(value.map(|value| found(value.value())))
    }

    fn scan(
        &self,
        from: Option<&[u8]>,
        direction: Direction,
        limit: usize,
        mut visit: impl FnMut(&[u8], &[u8]) -> Result<(), Failure>,
    ) -> Result<(), Failure> {
        let transaction = self.db.begin_read().map_err(Failure::engine)?;
        let table = transaction.open_table(RECORDS).map_err(Failure::engine)?;
        let from = from.map_or(Bound::Unbounded, Bound::Included);
        let range = match direction {
            Direction::Forwards => (from, Bound::Unbounded),
            Direction::Backwards => (Bound::Unbounded, from),
        };
        let mut range = table.range::<&[u8]>(range).map_err(Failure::engine)?;
        for _ in 0..limit {
            let entry = match direction {
                Direction::Forwards => range.next(),
                Direction::Backwards => range.next_back(),
            };
            let Some(entry) = entry else { break };
            let (key, value) = entry.map_err(Failure::engine)?;
            visit(key.value(), value.value())?;
        }
        Ok(())
    }

    fn flush(&self) -> Result<(), Failure> {
        self.commit(&[], true)
    }

    fn close(self) -> Result<(), Failure> {
        self.commit(&[], true)?;
        self.db.close().map_err(Failure::engine)
    }
}
