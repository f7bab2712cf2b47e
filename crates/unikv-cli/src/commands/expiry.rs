//! `ttl`, `expire` and `clear-ttl`: how long a record lives.

use crate::args::{DirArg, KeyspaceArg, Notation, duration, millis};
use crate::exit::{self, Code, Failure, Outcome};
use crate::output::{Output, joined};
use crate::reading::Reading;
use crate::text;
use clap::Args;
use serde_json::{Value, json};
use std::time::Duration;
use unikv::{Keyspace, Ttl as Remaining};

/// `ttl DIR KEY`
#[derive(Args)]
pub struct Ttl {
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

impl Ttl {
    pub fn run(self) -> Outcome {
        let key = self.notation.bytes(&self.key)?;
        let db = Reading::open(&self.dir)?;
        let ttl = db.find(&self.keyspace)?.ttl(&key)?;
        let left = match ttl {
            Some(Remaining::Remaining(left)) => Some(left),
            _ => None,
        };
        let found = ttl.is_some();
        let as_json = || {
            report(
                &key,
                &self.keyspace,
                found,
                json!({ "ttl_ms": left.map(millis) }),
            )
        };
        let printed = self.output.print(as_json, |out| match (found, left) {
            (false, _) => Ok(()),
            (true, None) => writeln!(out, "never"),
            (true, Some(left)) => writeln!(out, "{}", humantime::format_duration(left)),
        });
        db.close()?;
        exit::found(found, Code::KeyNotFound, printed)
    }
}

/// `expire DIR KEY DURATION`
#[derive(Args)]
pub struct Expire {
    #[command(flatten)]
    dir: DirArg,
    /// The key
    key: String,
    /// After which time it expires, such as 90s or 12h
    #[arg(value_parser = duration)]
    ttl: Duration,
    #[command(flatten)]
    keyspace: KeyspaceArg,
    #[command(flatten)]
    notation: Notation,
    #[command(flatten)]
    output: Output,
}

impl Expire {
    pub fn run(self) -> Outcome {
        let key = self.notation.bytes(&self.key)?;
        let found = change(&self.dir, &self.keyspace, |keyspace| {
            keyspace.expire(&key, self.ttl)
        })?;
        let left = found.then(|| millis(self.ttl));
        let as_json = || report(&key, &self.keyspace, found, json!({ "ttl_ms": left }));
        let printed = self.output.print_json(as_json);
        exit::found(found, Code::KeyNotFound, printed)
    }
}

/// `clear-ttl DIR KEY`
#[derive(Args)]
pub struct ClearTtl {
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

impl ClearTtl {
    pub fn run(self) -> Outcome {
        let key = self.notation.bytes(&self.key)?;
        let found = change(&self.dir, &self.keyspace, |keyspace| {
            keyspace.clear_ttl(&key)?;
            keyspace.contains_key(&key)
        })?;
        let as_json = || report(&key, &self.keyspace, found, json!({ "ttl_ms": null }));
        let printed = self.output.print_json(as_json);
        exit::found(found, Code::KeyNotFound, printed)
    }
}

/// Opens the database, makes a change, and says whether the key is there.
fn change(
    dir: &DirArg,
    keyspace: &KeyspaceArg,
    change: impl FnOnce(&Keyspace) -> unikv::Result<bool>,
) -> Result<bool, Failure> {
    let db = dir.open_to_change(false)?;
    let is_there = change(&keyspace.find(&db)?)?;
    db.close()?;
    Ok(is_there)
}

/// What became of a key.
fn report(key: &[u8], keyspace: &KeyspaceArg, found: bool, more: Value) -> Value {
    let of = json!({ "keyspace": keyspace.keyspace, "found": found });
    joined(text::key_to_json(key), joined(of, more))
}
