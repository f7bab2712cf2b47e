//! `keyspace`: lists, makes, renames, empties and drops the keyspaces of a database.

use crate::args::{self, DEFAULT_KEYSPACE, DirArg, find_keyspace};
use crate::exit::{Code, Failure, Outcome};
use crate::reading::Reading;
use clap::{Args, Subcommand};
use indicatif::HumanBytes;
use serde_json::{Value, json};
use std::collections::HashMap;
use std::io::{self, Write};
use std::time::Duration;
use unikv::{Compression, Db, Keyspace, KeyspaceOptions, PartitionStats};

/// `keyspace ACTION DIR …`
#[derive(Args)]
pub struct Keyspaces {
    #[command(subcommand)]
    action: Action,
}

#[derive(Subcommand)]
enum Action {
    /// Prints each keyspace with its partitions, bytes and options, in the order in which they were
    /// made
    List(List),
    /// Makes a keyspace
    Create(Create),
    /// Gives a keyspace another name
    Rename(Rename),
    /// Removes all keys of a keyspace, and keeps the keyspace
    Empty(Remove),
    /// Removes a keyspace with all its keys
    Drop(Remove),
}

/// `keyspace list DIR`
#[derive(Args)]
struct List {
    #[command(flatten)]
    dir: DirArg,
    /// Print the list as a JSON object
    #[arg(long)]
    json: bool,
}

/// `keyspace create DIR NAME`
#[derive(Args)]
struct Create {
    #[command(flatten)]
    dir: DirArg,
    /// The name: 1 to 255 bytes that no other keyspace has
    name: String,
    /// Values below this size are kept beside their keys in the SortedStore; by default as the
    /// options of the database say
    #[arg(long, value_name = "SIZE", value_parser = args::small_size)]
    inline_value_bytes: Option<u32>,
    /// Records expire after this, such as 12h, if they are written without saying it; by default
    /// never
    #[arg(long, value_name = "DURATION", value_parser = args::duration)]
    default_ttl: Option<Duration>,
    /// How values and key blocks are compressed: none, lz4, zstd or zstd:LEVEL; by default as the
    /// options of the database say
    #[arg(long, value_name = "CODEC")]
    compression: Option<Compression>,
}

/// `keyspace rename DIR OLD NEW`
#[derive(Args)]
struct Rename {
    #[command(flatten)]
    dir: DirArg,
    /// The name that the keyspace has
    old: String,
    /// The name that it gets
    new: String,
}

/// `keyspace empty DIR NAME` and `keyspace drop DIR NAME`
#[derive(Args)]
struct Remove {
    #[command(flatten)]
    dir: DirArg,
    /// The name of the keyspace
    name: String,
    /// Only show what would be removed; change nothing
    #[arg(long)]
    dry_run: bool,
}

impl Keyspaces {
    pub fn run(self) -> Outcome {
        match self.action {
            Action::List(list) => list.run(),
            Action::Create(create) => create.run(),
            Action::Rename(rename) => rename.run(),
            Action::Empty(empty) => empty.run("empty", Keyspace::truncate),
            Action::Drop(drop) => drop.run("drop", Keyspace::drop_keyspace),
        }
    }
}

impl Create {
    fn run(self) -> Outcome {
        let db = self.dir.open_existing()?;
        if db.find_keyspace(&self.name).is_some() {
            let what = format!("there is a keyspace {:?} already", self.name);
            return Err(Failure::invalid(format!("{what} (choose another name)")));
        }
        let mut options = KeyspaceOptions::default();
        options.inline_value_bytes = self.inline_value_bytes;
        options.default_ttl = self.default_ttl;
        options.compression = self.compression;
        db.keyspace(&self.name, options)?;
        db.close()?;
        Ok(Code::Success)
    }
}

impl Rename {
    fn run(self) -> Outcome {
        let db = self.dir.open_existing()?;
        find_keyspace(&db, &self.old)?.rename(&self.new)?;
        db.close()?;
        Ok(Code::Success)
    }
}

impl Remove {
    fn run(self, verb: &str, remove: impl Fn(&Keyspace) -> unikv::Result<()>) -> Outcome {
        let db = self.dir.open_existing()?;
        let keyspace = find_keyspace(&db, &self.name)?;
        if self.name == DEFAULT_KEYSPACE {
            return Err(Failure::invalid(format!(
                "cannot {verb} the keyspace {DEFAULT_KEYSPACE:?} (delete its keys, or remove the \
                 database)"
            )));
        }
        if self.dry_run {
            self.explain(verb, &db, &keyspace)?;
        } else {
            remove(&keyspace)?;
            // The background removes the files, for which this process would not wait.
            let quiet = db.quiesce().map_err(Failure::from);
            quiet.map_err(|failure| failure.at("its keys are gone, but their files are not"))?;
        }
        db.close()?;
        Ok(Code::Success)
    }

    fn explain(&self, verb: &str, db: &Db, keyspace: &Keyspace) -> Result<(), Failure> {
        let mut out = io::stdout().lock();
        let name = &self.name;
        if keyspace.keys(..).next().transpose()?.is_none() {
            writeln!(out, "would {verb} the keyspace {name:?}, which has no keys")?;
            return Ok(());
        }
        let unknown = match flush_replayed(db) {
            Ok(()) => "",
            Err(_) => ", and what the log alone holds of it",
        };
        let bytes = HumanBytes(keyspace.approximate_size(..)?);
        writeln!(
            out,
            "would {verb} the keyspace {name:?}: about {bytes} on disk{unknown}"
        )?;
        Ok(())
    }
}

/// Waits for the flush of what opening has replayed from the log: sizes are those of tables. After
/// an error, as of a full disk, they lack it.
fn flush_replayed(db: &Db) -> unikv::Result<()> {
    db.flush()
}

/// A line of the list.
struct Row {
    name: String,
    /// By which `inspect` knows it.
    number: u32,
    partitions: usize,
    bytes: u64,
    options: KeyspaceOptions,
}

impl List {
    fn run(self) -> Outcome {
        let db = Reading::open(&self.dir)?;
        if let Reading::Opened(db) = &db {
            // The list helps to free a full disk, too.
            flush_replayed(db).ok();
        }
        let rows = rows(&db, &db.partitions())?;
        db.close()?;
        let mut out = io::stdout().lock();
        if self.json {
            let keyspaces: Vec<_> = rows.iter().map(Row::to_json).collect();
            writeln!(out, "{}", json!({ "keyspaces": keyspaces }))?;
        } else {
            print(&rows, &mut out)?;
        }
        Ok(Code::Success)
    }
}

fn rows(db: &Reading, partitions: &[PartitionStats]) -> Result<Vec<Row>, Failure> {
    let mut sums: HashMap<&str, (usize, u64)> = HashMap::new();
    for partition in partitions {
        if let Some(name) = partition.keyspace.as_deref() {
            let (count, bytes) = sums.entry(name).or_default();
            *count += 1;
            *bytes += partition.data_bytes;
        }
    }
    let mut rows = Vec::new();
    for name in db.keyspaces() {
        let keyspace = db.keyspace(&name)?;
        let (partitions, bytes) = sums.get(&*name).copied().unwrap_or_default();
        rows.push(Row {
            number: keyspace.keyspace_number()?,
            partitions,
            bytes,
            options: keyspace.keyspace_options()?,
            name,
        });
    }
    Ok(rows)
}

impl Row {
    fn to_json(&self) -> Value {
        json!({
            "name": self.name,
            "number": self.number,
            "partitions": self.partitions,
            "bytes": self.bytes,
            "options": {
                "inline_value_bytes": self.options.inline_value_bytes,
                "compression": self.options.compression.map(|it| it.to_string()),
            },
        })
    }
}

fn print(rows: &[Row], out: &mut impl Write) -> io::Result<()> {
    writeln!(
        out,
        "{:>10} {:>11} {:>12} {:>13} {:>11}  keyspace",
        "number", "partitions", "data", "inline below", "compression"
    )?;
    for row in rows {
        let inline = row.options.inline_value_bytes;
        let compression = row.options.compression;
        writeln!(
            out,
            "{:>10} {:>11} {:>12} {:>13} {:>11}  {}",
            row.number,
            row.partitions,
            HumanBytes(row.bytes).to_string(),
            inline.map_or("-".to_owned(), |bytes| bytes.to_string()),
            compression.map_or("-".to_owned(), |it| it.to_string()),
            row.name.escape_debug()
        )?;
    }
    Ok(())
}
