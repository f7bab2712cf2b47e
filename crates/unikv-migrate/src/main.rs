//! Copies a LevelDB or RocksDB database into a new UniKV database.
//!
//! ```text
//! cargo run --release --features leveldb -- leveldb SOURCE DEST
//! cargo run --release --features rocksdb -- rocksdb SOURCE DEST
//! ```
//!
//! Keys come out of the source in order, so each keyspace is one bulk ingest: no log, no memtable,
//! memory that does not grow, and all of it or nothing. Afterwards both sides are read once more
//! and compared. The source must not be open elsewhere. LevelDB offers no read-only opening: it
//! replays its log into a table when it is opened.

#[cfg(feature = "leveldb")]
mod leveldb;
#[cfg(feature = "rocksdb")]
mod rocksdb;

use std::ffi::OsString;
use std::io::{self, Write};
use std::path::Path;
use std::process::ExitCode;
use unikv::{Db, KeyspaceOptions, Options};

/// What may go wrong on either side.
type Outcome<T> = Result<T, Box<dyn std::error::Error>>;

/// A record of the source.
type Record = (Box<[u8]>, Box<[u8]>);

/// A database that is copied.
trait Source {
    /// The names of its spaces of keys; `default` is that without a name.
    fn keyspaces(&self) -> Outcome<Vec<String>>;

    /// All records of one, in bytewise order of their keys. An error ends the copy.
    fn records(&self, keyspace: &str) -> Outcome<Box<dyn Iterator<Item = Outcome<Record>> + '_>>;
}

fn open(kind: &str, path: &Path) -> Outcome<Box<dyn Source>> {
    match kind {
        #[cfg(feature = "leveldb")]
        "leveldb" => Ok(Box::new(leveldb::LevelDb::open(path)?)),
        #[cfg(feature = "rocksdb")]
        "rocksdb" => Ok(Box::new(rocksdb::RocksDb::open(path)?)),
        _ => Err(format!("this build cannot read {kind}: build it with --features {kind}").into()),
    }
}

fn copy(source: &dyn Source, db: &Db) -> Outcome<()> {
    for name in source.keyspaces()? {
        let copied = match name.as_str() {
            "default" => db.ingest_sorted(entries(source, &name)?, None)?,
            _ => {
                let keyspace = db.keyspace(&name, KeyspaceOptions::default())?;
                keyspace.ingest_sorted(entries(source, &name)?, None)?
            }
        };
        compare(source, db, &name)?;
        // Where nobody reads it any more, the copy goes on.
        let _unread = writeln!(io::stdout(), "{name}: {copied} records copied and compared");
    }
    Ok(())
}

type Entry = (Box<[u8]>, Option<Box<[u8]>>);

fn entries<'a>(
    source: &'a dyn Source,
    keyspace: &str,
) -> Outcome<impl Iterator<Item = Outcome<Entry>> + 'a> {
    let records = source.records(keyspace)?;
    Ok(records.map(|record| record.map(|(key, value)| (key, Some(value)))))
}

fn compare(source: &dyn Source, db: &Db, name: &str) -> Outcome<()> {
    let keyspace = db.find_keyspace(name).ok_or("the keyspace is gone")?;
    let mut copied = keyspace.iter();
    for record in source.records(name)? {
        let (key, value) = record?;
        let same = copied.next().transpose()?;
        if same.is_none_or(|(k, v)| *k != *key || *v != *value) {
            return Err(format!("{name}: the copy differs at key {key:02x?}").into());
        }
    }
    match copied.next() {
        None => Ok(()),
        Some(_) => Err(format!("{name}: the copy has records that the source has not").into()),
    }
}

fn migrate(kind: &str, source: &Path, dest: &Path) -> Outcome<()> {
    let from = open(kind, source)?;
    let db = Db::create_new(dest, Options::default())?;
    copy(&*from, &db).map_err(|error| {
        let (source, dest) = (source.display(), dest.display());
        format!("{error}\nRemove {dest} before you try again; {source} is unchanged.")
    })?;
    db.close()?;
    Ok(())
}

fn main() -> ExitCode {
    let arguments: Vec<OsString> = std::env::args_os().skip(1).collect();
    let [kind, source, dest] = arguments.as_slice() else {
        eprintln!("usage: unikv-migrate leveldb|rocksdb SOURCE DEST");
        return ExitCode::from(2);
    };
    match migrate(&kind.to_string_lossy(), source.as_ref(), dest.as_ref()) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("{error}");
            ExitCode::FAILURE
        }
    }
}
