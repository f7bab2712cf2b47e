//! `put`, `get` and `del`: one record at a time.

use crate::args::{DirArg, KeyspaceArg, Notation, duration, millis};
use crate::exit::{self, Code, Failure, Outcome};
use crate::output::{Output, joined};
use crate::reading::Reading;
use crate::text::{self, Form};
use clap::Args;
use serde_json::json;
use std::fs::File;
use std::io::{self, Read, Write};
use std::path::PathBuf;
use std::time::Duration;
use unikv::WriteOptions;

/// `put DIR KEY VALUE` or `put DIR KEY --file PATH`
#[derive(Args)]
pub struct Put {
    #[command(flatten)]
    dir: DirArg,
    /// The key
    key: String,
    /// The value, or - to read it from standard input as it is
    #[arg(required_unless_present = "file")]
    value: Option<String>,
    /// Take the value from this file as it is, without having it in memory
    #[arg(long, value_name = "PATH", conflicts_with = "value")]
    file: Option<PathBuf>,
    /// The record expires after this, such as 90s or 12h; by default when the keyspace says
    #[arg(long, value_name = "DURATION", value_parser = duration)]
    ttl: Option<Duration>,
    #[command(flatten)]
    keyspace: KeyspaceArg,
    #[command(flatten)]
    notation: Notation,
    #[command(flatten)]
    output: Output,
}

impl Put {
    pub fn run(self) -> Outcome {
        let key = self.notation.bytes(&self.key)?;
        let open = |path: &PathBuf| File::open(path).map_err(|e| Failure::file(path, &e));
        let file = self.file.as_ref().map(open).transpose()?;
        let value = match self.value.as_deref() {
            // Whole, before the database is locked: what writes it may read the same one.
            Some("-") => {
                let mut value = Vec::new();
                io::stdin().lock().read_to_end(&mut value)?;
                value
            }
            Some(value) => self.notation.bytes(value)?,
            None => Vec::new(),
        };
        let db = self.dir.open_to_change(self.keyspace.is_default())?;
        let mut options = WriteOptions::default();
        if let Some(ttl) = self.ttl {
            options = options.ttl(ttl);
        }
        let keyspace = self.keyspace.find(&db)?;
        match file {
            Some(file) => keyspace.put_reader_with(&key, file, None, options)?,
            None => keyspace.put_with(&key, &value, options)?,
        }
        db.close()?;
        let ttl_ms = self.ttl.map(millis);
        let of = json!({ "keyspace": self.keyspace.keyspace, "ttl_ms": ttl_ms });
        self.output
            .print_json(|| joined(text::key_to_json(&key), of))?;
        Ok(Code::Success)
    }
}

/// `get DIR KEY`
#[derive(Args)]
pub struct Get {
    #[command(flatten)]
    dir: DirArg,
    /// The key
    key: String,
    #[command(flatten)]
    output: Output,
    /// Print only the bytes from this offset of the value on
    #[arg(long, value_name = "BYTES", default_value_t = 0)]
    offset: usize,
    /// Print at most this many bytes of the value
    #[arg(long, value_name = "BYTES")]
    len: Option<usize>,
    #[command(flatten)]
    keyspace: KeyspaceArg,
    #[command(flatten)]
    notation: Notation,
}

impl Get {
    pub fn run(self) -> Outcome {
        let key = self.notation.bytes(&self.key)?;
        let db = Reading::open(&self.dir)?;
        let keyspace = db.find(&self.keyspace)?;
        let len = self.len.unwrap_or(usize::MAX);
        let value = match (self.offset, self.len) {
            (0, None) => keyspace.get(&key)?,
            (start, _) => keyspace.get_range(&key, start..start.saturating_add(len))?,
        };
        let Some(value) = value else {
            let absent = || joined(text::key_to_json(&key), json!({ "found": false }));
            let printed = self.output.print_json(absent);
            return exit::found(false, Code::KeyNotFound, printed);
        };
        let mut out = io::stdout().lock();
        if self.output.json {
            text::write_record(&mut out, Form::Jsonl, &key, Some(&value))?;
        } else if self.notation.hex {
            writeln!(out, "{}", text::to_hex(&value))?;
        } else {
            out.write_all(&value)?;
            out.write_all(b"\n")?;
        }
        out.flush()?;
        drop(out);
        db.close()?;
        Ok(Code::Success)
    }
}

/// `del DIR KEY`
#[derive(Args)]
pub struct Del {
    #[command(flatten)]
    dir: DirArg,
    /// The key
    key: String,
    #[command(flatten)]
    keyspace: KeyspaceArg,
    #[command(flatten)]
    notation: Notation,
    #[command(flatten)]
    output: Output,
}

impl Del {
    pub fn run(self) -> Outcome {
        let key = self.notation.bytes(&self.key)?;
        let db = self.dir.open_to_change(false)?;
        self.keyspace.find(&db)?.delete(&key)?;
        db.close()?;
        let of = json!({ "keyspace": self.keyspace.keyspace });
        self.output
            .print_json(|| joined(text::key_to_json(&key), of))?;
        Ok(Code::Success)
    }
}
