//! UniKV with its default options.

use crate::store::{Outcome, Store};
use std::path::Path;
use unikv::{Compression, Db, ErrorKind, Keyspace, KeyspaceOptions, Options};
use unikv_bench::Failure;

/// At zstd's own default level.
const ZSTD: Compression = Compression::Zstd { level: 3 };

pub struct UniKv {
    db: Db,
    keyspaces: Vec<Keyspace>,
}

impl Store for UniKv {
    const NAME: &'static str = "UniKV";
    const VERSION: &'static str = "UniKV as it is here";
    const DELETES_RANGES: bool = true;

    fn open(dir: &Path, memory_bytes: u64, keyspaces: usize) -> Outcome<UniKv> {
        open_with(Options::default(), dir, memory_bytes, keyspaces)
    }

    fn open_zstd(dir: &Path, memory_bytes: u64) -> Option<Outcome<UniKv>> {
        let options = Options::default().compression(ZSTD);
        Some(open_with(options, dir, memory_bytes, 1))
    }

    fn put(&self, keyspace: usize, key: &[u8], value: &[u8]) -> Outcome<()> {
        self.keyspaces[keyspace]
            .put(key, value)
            .map_err(Failure::engine)
    }

    fn delete(&self, key: &[u8]) -> Outcome<()> {
        self.db.delete(key).map_err(Failure::engine)
    }

    fn delete_range(&self, from: &[u8], to: &[u8]) -> Outcome<()> {
        self.db.delete_range(from..to).map_err(Failure::engine)
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
        for entry in self.db.range(from..).take(limit) {
            let (key, value) = entry.map_err(Failure::engine)?;
            visit(&key, &value)?;
        }
        Ok(())
    }

    fn compact(&self) -> Outcome<()> {
        self.db.compact().map_err(Failure::engine)
    }

    fn transact(
        &self,
        key: &[u8],
        meanwhile: &dyn Fn() -> Outcome<()>,
        change: &dyn Fn(Option<&[u8]>) -> Vec<u8>,
    ) -> Outcome<bool> {
        let mut transaction = self.db.begin();
        let found = transaction.get(key).map_err(Failure::engine)?;
        meanwhile()?;
        let put = transaction.put(key, change(found.as_deref()));
        put.map_err(Failure::engine)?;
        match transaction.commit() {
            Ok(()) => Ok(true),
            Err(error) if error.kind() == ErrorKind::Conflict => Ok(false),
            Err(error) => Err(Failure::engine(error)),
        }
    }

    fn transact_until(&self, key: &[u8], change: &dyn Fn(Option<&[u8]>) -> Vec<u8>) -> Outcome<()> {
        let changed = self.db.transact(|transaction| {
            let found = transaction.get(key)?;
            transaction.put(key, change(found.as_deref()))
        });
        changed.map_err(Failure::engine)
    }
}

fn open_with(options: Options, dir: &Path, memory_bytes: u64, keyspaces: usize) -> Outcome<UniKv> {
    let options = options.memory_budget(memory_bytes);
    let db = Db::open(dir, options).map_err(Failure::engine)?;
    let name = |n: usize| match n {
        0 => "default".to_owned(),
        n => format!("keyspace{n}"),
    };
    let open = |n| db.keyspace(&name(n), KeyspaceOptions::default());
    let keyspaces = (0..keyspaces).map(open).collect::<Result<_, _>>();
    let keyspaces = keyspaces.map_err(Failure::engine)?;
    Ok(UniKv { db, keyspaces })
}
