//! RocksDB, with optimistic transactions.

use crate::store::{Outcome, Store};
use rocksdb::{
    BlockBasedOptions, BoundColumnFamily, Cache, ColumnFamilyDescriptor, DBCompressionType,
    Direction, ErrorKind, IteratorMode, MultiThreaded, OptimisticTransactionDB, Options,
};
use std::path::Path;
use std::sync::Arc;
use unikv_bench::Failure;

type Db = OptimisticTransactionDB<MultiThreaded>;

pub struct RocksDb {
    db: Db,
    names: Vec<String>,
}

impl RocksDb {
    fn family(&self, keyspace: usize) -> Outcome<Arc<BoundColumnFamily<'_>>> {
        let family = self.db.cf_handle(&self.names[keyspace]);
        family.ok_or_else(|| Failure::invalid("a column family is missing"))
    }
}

impl Store for RocksDb {
    const NAME: &'static str = "RocksDB";
    // The crate builds its own source, unless it is given a library.
    const VERSION: &'static str = match option_env!("ROCKSDB_LIB_DIR") {
        None => "RocksDB 11.8.1, crate rocksdb 0.25",
        Some(_) => "RocksDB of the system, crate rocksdb 0.25",
    };
    const DELETES_RANGES: bool = true;

    fn open(dir: &Path, memory_bytes: u64, keyspaces: usize) -> Outcome<RocksDb> {
        open_with(DBCompressionType::None, dir, memory_bytes, keyspaces)
    }

    fn open_zstd(dir: &Path, memory_bytes: u64) -> Option<Outcome<RocksDb>> {
        Some(open_with(DBCompressionType::Zstd, dir, memory_bytes, 1))
    }

    fn put(&self, keyspace: usize, key: &[u8], value: &[u8]) -> Outcome<()> {
        let put = self.db.put_cf(&self.family(keyspace)?, key, value);
        put.map_err(Failure::engine)
    }

    fn delete(&self, key: &[u8]) -> Outcome<()> {
        self.db.delete(key).map_err(Failure::engine)
    }

    fn delete_range(&self, from: &[u8], to: &[u8]) -> Outcome<()> {
        let deleted = self.db.delete_range_cf(&self.family(0)?, from, to);
        deleted.map_err(Failure::engine)
    }

    fn get(&self, keyspace: usize, key: &[u8]) -> Outcome<Option<Vec<u8>>> {
        let found = self.db.get_cf(&self.family(keyspace)?, key);
        found.map_err(Failure::engine)
    }

    fn scan(
        &self,
        from: &[u8],
        limit: usize,
        visit: &mut dyn FnMut(&[u8], &[u8]) -> Outcome<()>,
    ) -> Outcome<()> {
        let from = IteratorMode::From(from, Direction::Forward);
        for entry in self.db.iterator(from).take(limit) {
            let (key, value) = entry.map_err(Failure::engine)?;
            visit(&key, &value)?;
        }
        Ok(())
    }

    fn compact(&self) -> Outcome<()> {
        self.db.compact_range(None::<&[u8]>, None::<&[u8]>);
        Ok(())
    }

    fn transact(
        &self,
        key: &[u8],
        meanwhile: &dyn Fn() -> Outcome<()>,
        change: &dyn Fn(Option<&[u8]>) -> Vec<u8>,
    ) -> Outcome<bool> {
        let transaction = self.db.transaction();
        let found = transaction.get_for_update(key, true);
        let found = found.map_err(Failure::engine)?;
        meanwhile()?;
        let put = transaction.put(key, change(found.as_deref()));
        put.map_err(Failure::engine)?;
        match transaction.commit() {
            Ok(()) => Ok(true),
            Err(error) if matches!(error.kind(), ErrorKind::Busy | ErrorKind::TryAgain) => {
                Ok(false)
            }
            Err(error) => Err(Failure::engine(error)),
        }
    }
}

fn open_with(
    compression: DBCompressionType,
    dir: &Path,
    memory_bytes: u64,
    keyspaces: usize,
) -> Outcome<RocksDb> {
    let mut table = BlockBasedOptions::default();
    table.set_block_cache(&Cache::new_lru_cache((memory_bytes / 4 * 3) as usize));
    table.set_bloom_filter(10.0, false);
    let mut options = Options::default();
    options.create_if_missing(true);
    options.set_block_based_table_factory(&table);
    options.set_compression_type(compression);
    options.set_write_buffer_size((memory_bytes / 16) as usize);
    options.set_max_write_buffer_number(4);
    // All column families together keep to the memory.
    options.set_db_write_buffer_size((memory_bytes / 4) as usize);
    // All at once: made one by one, each writes the options of all.
    options.create_missing_column_families(true);
    let others = (1..keyspaces).map(|n| format!("keyspace{n}"));
    let names: Vec<String> = ["default".to_owned()].into_iter().chain(others).collect();
    // By its name alone a column family would have RocksDB's default options.
    let family = |name| ColumnFamilyDescriptor::new(name, options.clone());
    let families: Vec<_> = names.iter().map(family).collect();
    let db = Db::open_cf_descriptors(&options, dir, families).map_err(Failure::engine)?;
    Ok(RocksDb { db, names })
}
