//! RocksDB: as it comes, tuned for point reads, tuned for scans and syncs too, and with values in
//! blob files.

use crate::share;
use rocksdb::{
    BlockBasedOptions, Cache, DB, DBCompressionType, DBRawIterator, Options, ReadOptions,
    WaitForCompactOptions, WriteBatch, WriteOptions,
};
use std::path::Path;
use std::time::{Duration, Instant};
use unikv_bench::Failure;
use unikv_bench::engine::{BatchOp, Direction, Engine};
use unikv_bench::suite::contender::{Contender, Entrant, Settings, Terms};

/// The crate names the version of its source in the version of its bindings.
const VERSION: &str = "11.8.1, crate rocksdb 0.25";

/// An open database.
pub struct RocksDb {
    db: DB,
    write: WriteOptions,
    read_ahead_bytes: usize,
}

/// What it is opened with.
#[derive(Clone)]
pub struct Setup {
    options: Options,
    sync: bool,
    /// Of scans; with 0 it begins to read ahead by itself, after two blocks one after the other.
    read_ahead_bytes: usize,
}

/// What is set beside the shares of memory.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Kind {
    Defaults,
    Tuned,
    Scans,
    Blobs,
}

/// What a scan of 50 records of a kilobyte takes.
const SCAN_BYTES: usize = 64 << 10;
const BLOCK_BYTES: usize = 16 << 10;
/// Log files that are written over instead of being removed.
const RECYCLED_LOGS: usize = 4;

/// The four settings.
pub fn entrants() -> Vec<Box<dyn Contender>> {
    let entrant = |name, setup| -> Box<dyn Contender> {
        Box::new(Entrant::<RocksDb> {
            name,
            version: || VERSION.to_owned(),
            survives_a_kill: true,
            setup,
        })
    };
    vec![
        entrant("rocksdb", |terms| setup(terms, Kind::Defaults)),
        entrant("rocksdb-tuned", |terms| setup(terms, Kind::Tuned)),
        entrant("rocksdb-scans", |terms| setup(terms, Kind::Scans)),
        entrant("rocksdb-blobs", |terms| setup(terms, Kind::Blobs)),
    ]
}

fn setup(terms: &Terms, kind: Kind) -> (Setup, Settings) {
    let mut settings = share::settings(terms);
    let mut table = BlockBasedOptions::default();
    table.set_block_cache(&Cache::new_lru_cache(share::cache(terms) as usize));
    if kind != Kind::Defaults {
        table.set_bloom_filter(10.0, false);
        table.set_cache_index_and_filter_blocks(true);
        table.set_pin_l0_filter_and_index_blocks_in_cache(true);
        settings.push(("bloom filters", "10 bits a key".to_owned()));
        settings.push(("indexes and filters", "in the block cache".to_owned()));
    }
    if kind == Kind::Scans {
        table.set_block_size(BLOCK_BYTES);
        settings.push(("blocks", "of 16 KiB".to_owned()));
    }
    let mut options = Options::default();
    options.set_block_based_table_factory(&table);
    options.set_compression_type(DBCompressionType::None);
    options.set_write_buffer_size(share::memtable(terms) as usize);
    options.set_max_write_buffer_number(share::MEMTABLES as i32);
    if kind == Kind::Scans {
        options.set_recycle_log_file_num(RECYCLED_LOGS);
        settings.push(("log files", "4 are written over".to_owned()));
        settings.push(("scans", "read 64 KiB ahead".to_owned()));
    }
    if kind == Kind::Blobs {
        options.set_enable_blob_files(true);
        options.set_min_blob_size(128);
        options.set_enable_blob_gc(true);
        options.set_blob_compression_type(DBCompressionType::None);
        settings.push((
            "blob files",
            "values of 128 bytes and more, collected".to_owned(),
        ));
    }
    settings.push(("everything else", "as by default".to_owned()));
    let setup = Setup {
        options,
        sync: terms.sync,
        read_ahead_bytes: if kind == Kind::Scans { SCAN_BYTES } else { 0 },
    };
    (setup, settings)
}

fn visit_all(
    mut iterator: DBRawIterator<'_>,
    limit: usize,
    step: fn(&mut DBRawIterator<'_>),
    mut visit: impl FnMut(&[u8], &[u8]) -> Result<(), Failure>,
) -> Result<(), Failure> {
    let mut left = limit;
    while left > 0 {
        let Some((key, value)) = iterator.item() else {
            break;
        };
        visit(key, value)?;
        left -= 1;
        if left > 0 {
            step(&mut iterator);
        }
    }
    iterator.status().map_err(Failure::engine)
}

impl Engine for RocksDb {
    type Setup = Setup;

    fn open(dir: &Path, setup: &Setup, create: bool) -> Result<RocksDb, Failure> {
        let mut options = setup.options.clone();
        options.create_if_missing(create);
        let mut write = WriteOptions::default();
        write.set_sync(setup.sync);
        let db = DB::open(&options, dir).map_err(Failure::engine)?;
        Ok(RocksDb {
            db,
            write,
            read_ahead_bytes: setup.read_ahead_bytes,
        })
    }

    fn put(&self, key: &[u8], value: &[u8]) -> Result<(), Failure> {
        let put = self.db.put_opt(key, value, &self.write);
        put.map_err(Failure::engine)
    }

    fn delete(&self, key: &[u8]) -> Result<(), Failure> {
        let deleted = self.db.delete_opt(key, &self.write);
        deleted.map_err(Failure::engine)
    }

    fn write(&self, batch: &[BatchOp<'_>]) -> Result<(), Failure> {
        let mut all = WriteBatch::default();
        for operation in batch {
            match *operation {
                BatchOp::Put(key, value) => all.put(key, value),
                BatchOp::Delete(key) => all.delete(key),
            }
        }
        let written = self.db.write_opt(all, &self.write);
        written.map_err(Failure::engine)
    }

    fn get<R>(&self, key: &[u8], found: impl FnOnce(&[u8]) -> R) -> Result<Option<R>, Failure> {
        let value = self.db.get_pinned(key).map_err(Failure::engine)?;
        Ok(value.map(|value| found(&value)))
    }

    fn multi_get(
        &self,
        keys: &[&[u8]],
        mut found: impl FnMut(usize, Option<&[u8]>) -> Result<(), Failure>,
    ) -> Result<(), Failure> {
        for (place, value) in self.db.multi_get(keys).into_iter().enumerate() {
            found(place, value.map_err(Failure::engine)?.as_deref())?;
        }
        Ok(())
    }

    fn scan(
        &self,
        from: Option<&[u8]>,
        direction: Direction,
        limit: usize,
        visit: impl FnMut(&[u8], &[u8]) -> Result<(), Failure>,
    ) -> Result<(), Failure> {
        let mut read = ReadOptions::default();
        read.set_readahead_size(self.read_ahead_bytes);
        let mut iterator = self.db.raw_iterator_opt(read);
        match (direction, from) {
            (Direction::Forwards, Some(key)) => iterator.seek(key),
            (Direction::Forwards, None) => iterator.seek_to_first(),
            (Direction::Backwards, Some(key)) => iterator.seek_for_prev(key),
            (Direction::Backwards, None) => iterator.seek_to_last(),
        }
        match direction {
            Direction::Forwards => visit_all(iterator, limit, |at| at.next(), visit),
            Direction::Backwards => visit_all(iterator, limit, |at| at.prev(), visit),
        }
    }

    fn flush(&self) -> Result<(), Failure> {
        self.db.flush().map_err(Failure::engine)
    }

    fn compact(&self) -> Result<(), Failure> {
        self.db.compact_range(None::<&[u8]>, None::<&[u8]>);
        Ok(())
    }

    fn settle(&self) -> Result<Duration, Failure> {
        let start = Instant::now();
        let waited = self.db.wait_for_compact(&WaitForCompactOptions::default());
        waited.map_err(Failure::engine)?;
        Ok(start.elapsed())
    }

    fn close(self) -> Result<(), Failure> {
        Ok(())
    }
}
