//! `put`, `get` and `del`: one record at a time.

use crate::args::{DirArg, KeyspaceArg, Notation, duration};
use crate::exit::{Code, Outcome};
use crate::text::{self, Form};
use clap::Args;
use std::io::{self, Read, Write};
use std::time::Duration;
use unikv::WriteOptions;

/// `put DIR KEY VALUE`
#[derive(Args)]
pub struct Put {
    #[command(flatten)]
    dir: DirArg,
    /// The key
    key: String,
    /// The value, or - to read it from standard input as it is
    value: String,
    /// The record expires after this, such as 90s or 12h; by default when the keyspace says
    #[arg(long, value_name = "DURATION", value_parser = duration)]
    ttl: Option<Duration>,
    #[command(flatten)]
    keyspace: KeyspaceArg,
    #[command(flatten)]
    notation: Notation,
}

impl Put {
    pub fn run(self) -> Outcome {
        let key = self.notation.bytes(&self.key)?;
        let value = if self.value == "-" {
            let mut value = Vec::new();
            io::stdin().lock().read_to_end(&mut value)?;
            value
        } else {
            self.notation.bytes(&self.value)?
        };
        let db = self.dir.open_to_change(self.keyspace.is_default())?;
        let mut options = WriteOptions::default();
        if let Some(ttl) = self.ttl {
            options = options.ttl(ttl);
        }
        let keyspace = self.keyspace.find(&db)?;
        keyspace.put_with(&key, &value, options)?;
        db.close()?;
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
    /// Print the record as a JSON object
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    keyspace: KeyspaceArg,
    #[command(flatten)]
    notation: Notation,
}

impl Get {
    pub fn run(self) -> Outcome {
        let key = self.notation.bytes(&self.key)?;
        let db = self.dir.open_existing()?;
        let Some(value) = self.keyspace.find(&db)?.get(&key)? else {
            return Ok(Code::KeyNotFound);
        };
        let mut out = io::stdout().lock();
        if self.json {
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
}

impl Del {
    pub fn run(self) -> Outcome {
        let key = self.notation.bytes(&self.key)?;
        let db = self.dir.open_to_change(false)?;
        self.keyspace.find(&db)?.delete(&key)?;
        db.close()?;
        Ok(Code::Success)
    }
}
