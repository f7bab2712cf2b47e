//! RocksDB, opened read-only. Column families become keyspaces.

use crate::{Outcome, Record, Source};
use rocksdb::{DB, IteratorMode, Options, ReadOptions};
use std::path::Path;

pub(crate) struct RocksDb {
    db: DB,
    families: Vec<String>,
}

impl RocksDb {
    pub(crate) fn open(path: &Path) -> Outcome<RocksDb> {
        let options = Options::default();
        let families = DB::list_cf(&options, path)?;
        let db = DB::open_cf_for_read_only(&options, path, &families, false)?;
        Ok(RocksDb { db, families })
    }
}

impl Source for RocksDb {
    fn keyspaces(&self) -> Outcome<Vec<String>> {
        Ok(self.families.clone())
    }

    fn records(&self, keyspace: &str) -> Outcome<Box<dyn Iterator<Item = Outcome<Record>> + '_>> {
        let family = self.db.cf_handle(keyspace);
        let family = family.ok_or("the column family is gone")?;
        let mut options = ReadOptions::default();
        options.set_verify_checksums(true);
        options.fill_cache(false);
        let records = self
            .db
            .iterator_cf_opt(family, options, IteratorMode::Start);
        Ok(Box::new(records.map(|record| Ok(record?))))
    }
}
