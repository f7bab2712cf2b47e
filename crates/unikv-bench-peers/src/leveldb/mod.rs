//! LevelDB, as the system has it.

mod ffi;

use crate::share;
use ffi::{Batch, Cursor, Db, Options};
use std::path::Path;
use unikv_bench::Failure;
use unikv_bench::engine::{BatchOp, Direction, Engine};
use unikv_bench::suite::contender::{Contender, Entrant, Settings, Terms};

/// An open database.
pub struct LevelDb(Db);

/// The one setting.
pub fn entrants() -> Vec<Box<dyn Contender>> {
    vec![Box::new(Entrant::<LevelDb> {
        name: "leveldb",
        version: || {
            let (major, minor) = ffi::version();
            format!("{major}.{minor}, of the system")
        },
        survives_a_kill: true,
        setup,
    })]
}

fn setup(terms: &Terms) -> (Options, Settings) {
    let mut settings = share::settings(terms);
    settings.push(("bloom filters", "10 bits a key".to_owned()));
    settings.push(("open files", OPEN_FILES.to_string()));
    settings.push(("everything else", "as by default".to_owned()));
    let options = Options {
        create_if_missing: false,
        write_buffer_bytes: share::memtable(terms) as usize,
        cache_bytes: share::cache(terms) as usize,
        open_files: OPEN_FILES,
        bloom_bits: 10,
        sync: terms.sync,
    };
    (options, settings)
}

const OPEN_FILES: i32 = 1_000;

fn visit_all(
    cursor: &mut Cursor<'_>,
    limit: usize,
    step: fn(&mut Cursor<'_>),
    mut visit: impl FnMut(&[u8], &[u8]) -> Result<(), Failure>,
) -> Result<(), Failure> {
    let mut left = limit;
    while left > 0 {
        let Some((key, value)) = cursor.entry() else {
            break;
        };
        visit(key, value)?;
        left -= 1;
        if left > 0 {
            step(cursor);
        }
    }
    cursor.status().map_err(Failure::engine)
}

impl Engine for LevelDb {
    type Setup = Options;

    fn open(dir: &Path, setup: &Options, create: bool) -> Result<LevelDb, Failure> {
        let options = Options {
            create_if_missing: create,
            ..setup.clone()
        };
        Db::open(dir, &options)
            .map(LevelDb)
            .map_err(Failure::engine)
    }

    fn put(&self, key: &[u8], value: &[u8]) -> Result<(), Failure> {
        self.0.put(key, value).map_err(Failure::engine)
    }

    fn delete(&self, key: &[u8]) -> Result<(), Failure> {
        self.0.delete(key).map_err(Failure::engine)
    }

    fn write(&self, batch: &[BatchOp<'_>]) -> Result<(), Failure> {
        let mut all = Batch::new();
        for operation in batch {
            match *operation {
                BatchOp::Put(key, value) => all.put(key, value),
                BatchOp::Delete(key) => all.delete(key),
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
        let mut cursor = self.0.cursor();
        match (direction, from) {
            (Direction::Forwards, Some(key)) => cursor.seek(key),
            (Direction::Forwards, None) => cursor.seek_to_first(),
            (Direction::Backwards, None) => cursor.seek_to_last(),
            (Direction::Backwards, Some(from)) => {
                cursor.seek(from);
                match cursor.entry() {
                    None => cursor.seek_to_last(),
                    Some((key, _)) if key != from => cursor.prev(),
                    Some(_) => {}
                }
            }
        }
        match direction {
            Direction::Forwards => visit_all(&mut cursor, limit, |at| at.next(), visit),
            Direction::Backwards => visit_all(&mut cursor, limit, |at| at.prev(), visit),
        }
    }

    fn compact(&self) -> Result<(), Failure> {
        self.0.compact();
        Ok(())
    }

    fn close(self) -> Result<(), Failure> {
        Ok(())
    }
}
