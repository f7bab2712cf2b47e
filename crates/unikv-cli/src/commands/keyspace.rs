//! `keyspace`: lists, makes, renames, empties and drops the keyspaces of a database.

use crate::args::{self, DEFAULT_KEYSPACE, DirArg, find_keyspace};
use crate::exit::{Code, Failure, Outcome};
use crate::output::Output;
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
    #[command(flatten)]
    output: Output,
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
    #[command(flatten)]
    output: Output,
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
    #[command(flatten)]
    output: Output,
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
    #[command(flatten)]
    output: Output,
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
            return Err(Failure::invalid(what).remedy("choose another name"));
        }
        let mut options = KeyspaceOptions::default();
        options.inline_value_bytes = self.inline_value_bytes;
        options.default_ttl = self.default_ttl;
        options.compression = self.compression;
        let number = db.keyspace(&self.name, options.clone())?.number()?;
        db.close()?;
        self.output.print_json(|| {
            json!({
                "name": self.name,
                "number": number,
                "options": options_to_json(&options),
            })
        })?;
        Ok(Code::Success)
    }
}

impl Rename {
    fn run(self) -> Outcome {
        let db = self.dir.open_existing()?;
        find_keyspace(&db, &self.old)?.rename(&self.new)?;
        db.close()?;
        self.output
            .print_json(|| json!({ "name": self.new, "old_name": self.old }))?;
        Ok(Code::Success)
    }
}

impl Remove {
    fn run(self, verb: &str, remove: impl Fn(&Keyspace) -> unikv::Result<()>) -> Outcome {
        let db = self.dir.open_existing()?;
        let keyspace = find_keyspace(&db, &self.name)?;
        if self.name == DEFAULT_KEYSPACE {
            let what = format!("cannot {verb} the keyspace {DEFAULT_KEYSPACE:?}");
            let remedy = "delete its keys, or remove the database";
            return Err(Failure::invalid(what).remedy(remedy));
        }
        if self.dry_run {
            self.explain(verb, &db, &keyspace)?;
        } else {
            remove(&keyspace)?;
            // The background removes the files, for which this process would not wait.
            let quiet = db.wait_until_idle().map_err(Failure::from);
            quiet.map_err(|failure| failure.at("its keys are gone, but their files are not"))?;
            let as_json = || json!({ "name": self.name, "dry_run": false });
            self.output.print_json(as_json)?;
        }
        db.close()?;
        Ok(Code::Success)
    }

    fn explain(&self, verb: &str, db: &Db, keyspace: &Keyspace) -> Result<(), Failure> {
        let name = &self.name;
        let is_empty = keyspace.keys(..).next().transpose()?.is_none();
        let (mut bytes, mut is_flushed) = (0, true);
        if !is_empty {
            is_flushed = flush_replayed(db).is_ok();
            bytes = keyspace.approximate_size(..)?;
        }
        let as_json = || {
            json!({
                "name": name,
                "dry_run": true,
                "has_keys": !is_empty,
                "about_bytes": bytes,
            })
        };
        self.output.print(as_json, |out| {
            if is_empty {
                return writeln!(out, "would {verb} the keyspace {name:?}, which has no keys");
            }
            let unknown = if is_flushed {
                ""
            } else {
                ", and what the log alone holds of it"
            };
            let bytes = HumanBytes(bytes);
            writeln!(
                out,
                "would {verb} the keyspace {name:?}: about {bytes} on disk{unknown}"
            )
        })?;
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
        let rows = rows(&db, &db.partitions())?;
        db.close()?;
        let as_json = || {
            let keyspaces: Vec<_> = rows.iter().map(Row::to_json).collect();
            json!({ "keyspaces": keyspaces })
        };
        self.output.print(as_json, |out| print(&rows, out))?;
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
            "options": options_to_json(&self.options),
        })
    }
}

/// The options that are set; null stands for what the database says.
fn options_to_json(options: &KeyspaceOptions) -> Value {
    json!({
        "inline_value_bytes": options.inline_value_bytes,
        "compression": options.compression.map(|it| it.to_string()),
        "default_ttl_ms": options.default_ttl.map(args::millis),
    })
}

fn print(rows: &[Row], out: &mut dyn Write) -> io::Result<()> {
    writeln!(
        out,
        "{:>10} {:>11} {:>12} {:>13} {:>11} {:>12}  keyspace",
        "number", "partitions", "data", "inline below", "compression", "default TTL"
    )?;
    let or_dash = |text: Option<String>| text.unwrap_or_else(|| "-".to_owned());
    for row in rows {
        let options = &row.options;
        let ttl = args::span_in_words;
        writeln!(
            out,
            "{:>10} {:>11} {:>12} {:>13} {:>11} {:>12}  {}",
            row.number,
            row.partitions,
            HumanBytes(row.bytes).to_string(),
            or_dash(options.inline_value_bytes.map(|bytes| bytes.to_string())),
            or_dash(options.compression.map(|it| it.to_string())),
            or_dash(options.default_ttl.map(ttl)),
            row.name.escape_debug()
        )?;
    }
    Ok(())
}
