//! `dump`: a whole database or one keyspace as text, in the order of the keys.

use crate::args::{DEFAULT_KEYSPACE, DirArg, millis};
use crate::commands::byte_progress;
use crate::exit::{Code, Failure, Outcome};
use crate::output::Output;
use crate::reading::Reading;
use crate::text::{self, Form};
use clap::Args;
use indicatif::ProgressBar;
use std::io::{self, BufWriter, IsTerminal, Write};
use std::time::{SystemTime, UNIX_EPOCH};
use unikv::Ttl;

/// `dump DIR`
#[derive(Args)]
pub struct Dump {
    #[command(flatten)]
    dir: DirArg,
    /// The form of the lines
    #[arg(
        long,
        value_name = "FORM",
        default_value = "tsv",
        conflicts_with = "json"
    )]
    format: Form,
    /// Only this keyspace; by default all of them
    #[arg(long, value_name = "NAME")]
    keyspace: Option<String>,
    /// --json is the same as --format jsonl.
    #[command(flatten)]
    output: Output,
}

impl Dump {
    pub fn run(self) -> Outcome {
        let form = if self.output.json {
            Form::Jsonl
        } else {
            self.format
        };
        let db = Reading::open(&self.dir)?;
        let names = match self.keyspace {
            Some(name) => vec![name],
            None => db.keyspaces(),
        };
        let stdout = io::stdout().lock();
        // A bar between the lines of the dump would spoil both.
        let progress = (!stdout.is_terminal()).then(|| byte_progress(None));
        let mut out = BufWriter::with_capacity(1 << 18, stdout);
        // Without other keyspaces a dump is what releases before them wrote, and read.
        let is_plain = names == [DEFAULT_KEYSPACE];
        for name in &names {
            dump(&db, name, form, is_plain, &mut out, progress.as_ref())?;
        }
        out.flush()?;
        drop(out);
        if let Some(progress) = progress {
            progress.finish_and_clear();
        }
        db.close()?;
        Ok(Code::Success)
    }
}

fn dump(
    db: &Reading,
    name: &str,
    form: Form,
    is_plain: bool,
    out: &mut impl Write,
    progress: Option<&ProgressBar>,
) -> Result<(), Failure> {
    // The keyspace at one moment, with the times at which its records expire.
    let snapshot = db.keyspace(name)?;
    if !is_plain {
        text::write_keyspace(out, form, name, &snapshot.keyspace_options()?)?;
    }
    let expires = snapshot.expires();
    let now_ms = now_ms();
    for record in snapshot.iter() {
        let (key, value) = record?;
        let ttl = if expires { snapshot.ttl(&key)? } else { None };
        let expires_ms = ttl.and_then(|ttl| end_of(ttl, now_ms));
        text::write_expiring(out, form, &key, &value, expires_ms)?;
        if let Some(progress) = progress {
            progress.inc((key.len() + value.len()) as u64);
        }
    }
    Ok(())
}

/// The time in milliseconds since 1970.
pub(crate) fn now_ms() -> u64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH);
    millis(since.unwrap_or_default())
}

/// When what lives this long from now on expires, if it does.
fn end_of(ttl: Ttl, now_ms: u64) -> Option<u64> {
    match ttl {
        Ttl::Remaining(left) => Some(now_ms.saturating_add(millis(left))),
        _ => None,
    }
}
