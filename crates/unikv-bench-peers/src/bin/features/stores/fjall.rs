//! fjall, with optimistic transactions. It has no range deletes.

use crate::store::{Outcome, Store};
use fjall::config::CompressionPolicy;
use fjall::{KeyspaceCreateOptions, OptimisticTxDatabase, OptimisticTxKeyspace, Readable};
use std::path::Path;
use unikv_bench::Failure;

pub struct Fjall {
    db: OptimisticTxDatabase,
    keyspaces: Vec<OptimisticTxKeyspace>,
}

impl Store for Fjall {
    const NAME: &'static str = "fjall";
    const VERSION: &'static str = "crate fjall 3.1";
    const DELETES_RANGES: bool = false;

    fn open(dir: &Path, memory_bytes: u64, keyspaces: usize) -> Outcome<Fjall> {
        let builder = OptimisticTxDatabase::builder(dir).cache_size(memory_bytes / 4);
        let db = builder.open().map_err(Failure::engine)?;
        let options = || {
            KeyspaceCreateOptions::default()
                .max_memtable_size(memory_bytes / 40)
                .data_block_compression_policy(CompressionPolicy::disabled())
        };
        let open = |n: usize| db.keyspace(&format!("keyspace{n}"), options);
        let keyspaces = (0..keyspaces).map(open).collect::<Result<_, _>>();
        let keyspaces = keyspaces.map_err(Failure::engine)?;
        Ok(Fjall { db, keyspaces })
    }

    fn open_zstd(_dir: &Path, _memory_bytes: u64) -> Option<Outcome<Fjall>> {
        None
    }

    fn put(&self, keyspace: usize, key: &[u8], value: &[u8]) -> Outcome<()> {
        let put = self.keyspaces[keyspace].insert(key, value);
        put.map_err(Failure::engine)
    }

    fn delete(&self, key: &[u8]) -> Outcome<()> {
        self.keyspaces[0].remove(key).map_err(Failure::engine)
    }

    fn delete_range(&self, _from: &[u8], _to: &[u8]) -> Outcome<()> {
        Err(Failure::invalid("fjall has no range deletes"))
    }

    fn get(&self, keyspace: usize, key: &[u8]) -> Outcome<Option<Vec<u8>>> {
        let found = self.keyspaces[keyspace].get(key).map_err(Failure::engine)?;
        Ok(found.map(|value| value.to_vec()))
    }

    fn scan(
        &self,
        from: &[u8],
        limit: usize,
        visit: &mut dyn FnMut(&[u8], &[u8]) -> Outcome<()>,
    ) -> Outcome<()> {
        for guard in self.keyspaces[0].inner().range(from..).take(limit) {
            let (key, value) = guard.into_inner().map_err(Failure::engine)?;
            visit(&key, &value)?;
        }
        Ok(())
    }

    fn compact(&self) -> Outcome<()> {
        let keyspace = self.keyspaces[0].inner();
        keyspace
            .rotate_memtable_and_wait()
            .map_err(Failure::engine)?;
        keyspace.major_compact().map_err(Failure::engine)
    }

    fn transact(
        &self,
        key: &[u8],
        meanwhile: &dyn Fn() -> Outcome<()>,
        change: &dyn Fn(Option<&[u8]>) -> Vec<u8>,
    ) -> Outcome<bool> {
        let mut transaction = self.db.write_tx().map_err(Failure::engine)?;
        let keyspace = &self.keyspaces[0];
        let found = transaction.get(keyspace, key).map_err(Failure::engine)?;
        meanwhile()?;
        transaction.insert(keyspace, key, change(found.as_deref()));
        Ok(transaction.commit().map_err(Failure::engine)?.is_ok())
    }
}
