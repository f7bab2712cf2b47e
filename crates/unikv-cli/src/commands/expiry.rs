//! `ttl`, `expire` and `persist`: how long a record lives.

use crate::args::{DirArg, KeyspaceArg, Notation, duration};
use crate::exit::{Code, Failure, Outcome};
use crate::reading::Reading;
use clap::Args;
use serde_json::json;
use std::io::{self, Write};
use std::time::Duration;
use unikv::{Keyspace, Ttl as Remaining};

/// `ttl DIR KEY`
#[derive(Args)]
pub struct Ttl {
    #[command(flatten)]
    dir: DirArg,
    /// The key
    key: String,
    /// Print it as a JSON object, in milliseconds; null if it never expires
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    keyspace: KeyspaceArg,
    #[command(flatten)]
    notation: Notation,
}

impl Ttl {
    pub fn run(self) -> Outcome {
        let key = self.notation.bytes(&self.key)?;
        let db = Reading::open(&self.dir)?;
        let Some(ttl) = db.find(&self.keyspace)?.ttl(&key)? else {
            return Ok(Code::KeyNotFound);
        };
        let left = match ttl {
            Remaining::Never => None,
            Remaining::Remaining(left) => Some(left),
        };
        let mut out = io::stdout().lock();
        match (self.json, left) {
            (true, left) => {
                let ms = left.map(|left| u64::try_from(left.as_millis()).unwrap_or(u64::MAX));
                writeln!(out, "{}", json!({ "ttl_ms": ms }))?;
            }
            (false, None) => writeln!(out, "never")?,
            (false, Some(left)) => writeln!(out, "{}", humantime::format_duration(left))?,
        }
        out.flush()?;
        drop(out);
        db.close()?;
        Ok(Code::Success)
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
}

impl Expire {
    pub fn run(self) -> Outcome {
        let key = self.notation.bytes(&self.key)?;
        change(&self.dir, &self.keyspace, |keyspace| {
            keyspace.expire(&key, self.ttl)
        })
    }
}

/// `persist DIR KEY`
#[derive(Args)]
pub struct Persist {
    #[command(flatten)]
    dir: DirArg,
    /// The key
    key: String,
    #[command(flatten)]
    keyspace: KeyspaceArg,
    #[command(flatten)]
    notation: Notation,
}

impl Persist {
    pub fn run(self) -> Outcome {
        let key = self.notation.bytes(&self.key)?;
        change(&self.dir, &self.keyspace, |keyspace| {
            keyspace.persist(&key)?;
            keyspace.contains_key(&key)
        })
    }
}

/// Opens the database, makes a change, and says whether the key is there.
fn change(
    dir: &DirArg,
    keyspace: &KeyspaceArg,
    change: impl FnOnce(&Keyspace) -> unikv::Result<bool>,
) -> Outcome {
    let db = dir.open_to_change(false)?;
    let is_there = change(&keyspace.find(&db)?).map_err(Failure::from)?;
    db.close()?;
    Ok(match is_there {
        true => Code::Success,
        false => Code::KeyNotFound,
    })
}
