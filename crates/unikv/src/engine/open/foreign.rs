//! Which other engine's database a directory or a file is that is opened as one of ours.

use crate::error::{Error, ErrorKind};
use crate::vfs::{Access, Vfs};
use std::path::Path;

/// Another engine, and what can be done with a database of its.
struct Engine {
    name: &'static str,
    remedy: &'static str,
}

const LEVELDB: Engine = Engine {
    name: "LevelDB",
    remedy: "`unikv-migrate leveldb` copies it into a new database; or choose another directory",
};
const ROCKSDB: Engine = Engine {
    name: "RocksDB",
    remedy: "`unikv-migrate rocksdb` copies it into a new database; or choose another directory",
};
const FJALL: Engine = not_migrated("fjall");
const REDB: Engine = not_migrated("redb");
const LMDB: Engine = not_migrated("LMDB");
const SQLITE: Engine = not_migrated("SQLite");

const fn not_migrated(name: &'static str) -> Engine {
    Engine {
        name,
        remedy: "`unikv-migrate` does not read it: have a program of its own write the records as \
                 lines for `unikv load`; or choose another directory",
    }
}

/// The beginning of the files of engines that keep everything in one, and where that stands.
const FILES: [(usize, &[u8], &Engine); 3] = [
    (0, b"SQLite format 3\0", &SQLITE),
    (0, b"redb\x1A\x0A\xA9\x0D\x0A", &REDB),
    // The magic number after the header of a page.
    (16, &0xBEEF_C0DE_u32.to_le_bytes(), &LMDB),
];

/// The error of an opening that was refused; it names the engine whose database is at `path` if
/// that is one.
pub(crate) fn explained(vfs: &dyn Vfs, path: &Path, error: Error) -> Error {
    if !matches!(error.kind(), ErrorKind::Incompatible | ErrorKind::Io) {
        return error;
    }
    match of_directory(vfs, path).or_else(|| of_file(vfs, path)) {
        None => error,
        Some(engine) => {
            let what = format!("this is a database of {}, not of UniKV", engine.name);
            Error::incompatible(error.file().unwrap_or(path), what, engine.remedy)
        }
    }
}

fn of_directory(vfs: &dyn Vfs, dir: &Path) -> Option<&'static Engine> {
    let names = vfs.list(dir).ok()?;
    let begins = |name: &str, with: &[u8]| {
        names.iter().any(|it| it == name) && begin_of(vfs, &dir.join(name)).starts_with(with)
    };
    if begins("version", b"FJL") || begins(".fjall", b"FJL") {
        return Some(&FJALL);
    }
    if begins("CURRENT", b"MANIFEST-") {
        let is_rocksdb = |name: &String| name == "IDENTITY" || name.starts_with("OPTIONS-");
        let is_rocksdb = names.iter().any(is_rocksdb);
        return Some(if is_rocksdb { &ROCKSDB } else { &LEVELDB });
    }
    let is_data = |name: &&String| *name == "data.mdb";
    of_file(vfs, &dir.join(names.iter().find(is_data)?))
}

fn of_file(vfs: &dyn Vfs, path: &Path) -> Option<&'static Engine> {
    let begin = begin_of(vfs, path);
    let begins = |at: usize, magic| begin.get(at..).is_some_and(|it| it.starts_with(magic));
    let found = FILES.iter().find(|(at, magic, _)| begins(*at, magic));
    found.map(|(_, _, engine)| *engine)
}

/// The first bytes of a file; nothing where it cannot be read.
fn begin_of(vfs: &dyn Vfs, path: &Path) -> Vec<u8> {
    let mut begin = vec![0; 64];
    let read = vfs
        .open(path, Access::Sequential)
        .and_then(|file| file.read_at(&mut begin, 0));
    begin.truncate(read.unwrap_or(0));
    begin
}
