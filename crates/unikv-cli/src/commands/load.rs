//! `load`: many records from text, and the keyspaces that the text names.
//!
//! Memory holds one line, one batch, and the names of keyspaces that were made.

use crate::args::{DEFAULT_KEYSPACE, DirArg, EngineArgs, find_keyspace};
use crate::commands::dump::now_ms;
use crate::exit::{Code, Failure, Outcome};
use crate::lines::Lines;
use crate::opening;
use crate::output::Output;
use crate::text::{Form, KeyspaceLine, Line};
use clap::Args;
use indicatif::{HumanBytes, HumanCount};
use serde_json::json;
use std::io;
use std::time::Duration;
use unikv::{Batch, Db, Keyspace};

/// Large enough that a group commit costs little, small against a memtable.
const BATCH_BYTES: usize = 256 << 10;

/// `load DIR FILE`
#[derive(Args)]
pub struct Load {
    #[command(flatten)]
    dir: DirArg,
    /// The file, or - for standard input
    file: String,
    /// The form of the lines; by default JSON lines in .jsonl, .ndjson and .json files, else TSV
    #[arg(long, value_name = "FORM")]
    format: Option<Form>,
    #[command(flatten)]
    output: Output,
    /// The keyspace to load into, which must be there; of a file that names keyspaces, only this
    /// one is loaded. By default each that the file names is, made if need be, and records before
    /// the first name go into `default`
    #[arg(long, value_name = "NAME")]
    keyspace: Option<String>,
    #[command(flatten)]
    engine: EngineArgs,
}

impl Load {
    pub fn run(self) -> Outcome {
        let lines = Lines::open(&self.file, self.format)?;
        let only = self.keyspace.as_deref();
        // A new database has the default keyspace alone.
        let may_create = only.is_none_or(|name| name == DEFAULT_KEYSPACE);
        let db = opening::open_or_create(&self.dir.dir, self.engine.options()?, may_create)?;
        let loader = Loader::new(&db, only)?;
        let loaded = loader.load(lines)?;
        db.sync()?;
        db.close()?;
        self.report(&loaded)?;
        Ok(Code::Success)
    }

    fn report(&self, loaded: &Loaded) -> io::Result<()> {
        let as_json = || {
            json!({
                "records": loaded.records,
                "bytes": loaded.bytes,
                "keyspaces_made": loaded.made,
            })
        };
        self.output.print(as_json, |out| {
            for name in &loaded.made {
                writeln!(out, "made the keyspace {name:?}")?;
            }
            let (records, bytes) = (HumanCount(loaded.records), HumanBytes(loaded.bytes));
            writeln!(out, "loaded {records} records, {bytes} of keys and values")
        })
    }
}

/// Records on their way into keyspaces.
struct Loader<'a> {
    db: &'a Db,
    /// The only keyspace to load, if one was given.
    only: Option<&'a str>,
    /// Where records go now; `None`: nowhere, since another keyspace is to be loaded.
    into: Option<Keyspace>,
    /// Whether records expire there that do not say it.
    has_default_ttl: bool,
    batch: Batch,
    loaded: Loaded,
}

#[derive(Default)]
struct Loaded {
    records: u64,
    bytes: u64,
    /// The keyspaces that were made.
    made: Vec<String>,
    /// The first keyspace that was passed over.
    passed_over: Option<String>,
    /// Whether the keyspace that was given came.
    found: bool,
}

impl<'a> Loader<'a> {
    fn new(db: &'a Db, only: Option<&'a str>) -> Result<Loader<'a>, Failure> {
        let into = find_keyspace(db, only.unwrap_or(DEFAULT_KEYSPACE))?;
        Ok(Loader {
            db,
            only,
            has_default_ttl: has_default_ttl(db, &into)?,
            into: Some(into),
            batch: Batch::new(),
            loaded: Loaded::default(),
        })
    }

    fn load(mut self, mut lines: Lines) -> Result<Loaded, Failure> {
        let name = lines.name.clone();
        while let Some(line) = lines.next()? {
            match line {
                Line::Record(expires_ms) => self.add(&lines.key, &lines.value, expires_ms)?,
                Line::Keyspace(keyspace) => self
                    .begin(keyspace)
                    .map_err(|failure| failure.at(&lines.place()))?,
            }
        }
        self.db.write(&self.batch)?;
        self.refuse_absent(&name)?;
        Ok(self.loaded)
    }

    /// The records from here on are of this keyspace, which is made or changed as the line says.
    fn begin(&mut self, line: KeyspaceLine) -> Result<(), Failure> {
        let KeyspaceLine { name, options } = line;
        if self.only.is_some_and(|only| only != name) {
            self.into = None;
            self.loaded.passed_over.get_or_insert(name);
            return Ok(());
        }
        let is_new = self.db.find_keyspace(&name).is_none();
        let into = self.db.keyspace(&name, options)?;
        self.has_default_ttl = has_default_ttl(self.db, &into)?;
        self.into = Some(into);
        self.loaded.found = true;
        if is_new {
            self.loaded.made.push(name);
        }
        Ok(())
    }

    fn add(&mut self, key: &[u8], value: &[u8], expires_ms: Option<u64>) -> Result<(), Failure> {
        let Some(keyspace) = &self.into else {
            return Ok(());
        };
        let left_ms = expires_ms.map(|ms| ms.saturating_sub(now_ms()));
        match left_ms {
            // A record without an expiry has none here, whatever the keyspace says by default.
            None if self.has_default_ttl => {
                self.batch
                    .put_with_ttl_in(keyspace, key, value, Duration::MAX)
            }
            None => self.batch.put_in(keyspace, key, value),
            Some(0) => self.batch.delete_in(keyspace, key),
            Some(ms) => {
                let ttl = Duration::from_millis(ms);
                self.batch.put_with_ttl_in(keyspace, key, value, ttl)
            }
        };
        self.loaded.records += 1;
        self.loaded.bytes += (key.len() + value.len()) as u64;
        if self.batch.byte_len() >= BATCH_BYTES {
            self.db.write(&self.batch)?;
            self.batch.clear();
        }
        Ok(())
    }

    /// A dump that has other keyspaces only is not what was meant.
    fn refuse_absent(&self, file: &str) -> Result<(), Failure> {
        let Loaded { records, found, .. } = self.loaded;
        match (self.only, &self.loaded.passed_over) {
            (Some(only), Some(other)) if records == 0 && !found => {
                let remedy = format!(
                    "it has {other:?}: load that, and rename it with `unikv keyspace rename`"
                );
                let failure = Failure::invalid(format!("there is no keyspace {only:?} here"));
                Err(failure.remedy(remedy).in_file(file))
            }
            _ => Ok(()),
        }
    }
}

fn has_default_ttl(db: &Db, keyspace: &Keyspace) -> Result<bool, Failure> {
    let ttl = match keyspace.number()? {
        0 => db.options().default_ttl,
        _ => keyspace.options()?.default_ttl,
    };
    Ok(ttl.is_some())
}
