//! `load`: many records from text.

use crate::args::{DirArg, EngineArgs};
use crate::commands::byte_progress;
use crate::exit::{Code, Failure, Outcome};
use crate::text::{self, Form};
use clap::Args;
use indicatif::{HumanBytes, HumanCount, ProgressBar};
use serde_json::json;
use std::fs::File;
use std::io::{self, BufRead, BufReader, Write};
use std::path::Path;
use unikv::{Batch, Db};

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
    /// Print what was loaded as a JSON object
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    engine: EngineArgs,
}

#[derive(Default)]
struct Loaded {
    records: u64,
    bytes: u64,
}

impl Load {
    pub fn run(self) -> Outcome {
        let form = self.format.unwrap_or_else(|| form_of(&self.file));
        let (input, length): (Box<dyn BufRead>, Option<u64>) = if self.file == "-" {
            (Box::new(io::stdin().lock()), None)
        } else {
            let file = File::open(&self.file).map_err(|e| Failure::file(&self.file, &e))?;
            let length = file.metadata().ok().map(|metadata| metadata.len());
            (Box::new(BufReader::with_capacity(1 << 20, file)), length)
        };
        let db = Db::open(&self.dir.dir, self.engine.options())?;
        let progress = byte_progress(length);
        let loaded = load(&db, input, form, &self.file, &progress);
        progress.finish_and_clear();
        let loaded = loaded?;
        db.sync()?;
        db.close()?;
        self.report(&loaded)?;
        Ok(Code::Success)
    }

    fn report(&self, loaded: &Loaded) -> io::Result<()> {
        let mut out = io::stdout().lock();
        if self.json {
            let report = json!({"records": loaded.records, "bytes": loaded.bytes});
            writeln!(out, "{report}")
        } else {
            let (records, bytes) = (HumanCount(loaded.records), HumanBytes(loaded.bytes));
            writeln!(out, "loaded {records} records, {bytes} of keys and values")
        }
    }
}

fn form_of(file: &str) -> Form {
    let extension = Path::new(file)
        .extension()
        .and_then(|extension| extension.to_str());
    match extension {
        Some("jsonl" | "ndjson" | "json") => Form::Jsonl,
        _ => Form::Tsv,
    }
}

fn load(
    db: &Db,
    mut input: impl BufRead,
    form: Form,
    name: &str,
    progress: &ProgressBar,
) -> Result<Loaded, Failure> {
    let mut loaded = Loaded::default();
    let mut batch = Batch::new();
    let (mut line, mut key, mut value) = (Vec::new(), Vec::new(), Vec::new());
    let mut line_number = 0_u64;
    loop {
        line.clear();
        let read = input
            .read_until(b'\n', &mut line)
            .map_err(|e| Failure::file(name, &e))?;
        if read == 0 {
            break;
        }
        line_number += 1;
        let mut text = line.strip_suffix(b"\n").unwrap_or(&line);
        // A carriage return of the data is escaped; a bare one ends a line from elsewhere.
        text = text.strip_suffix(b"\r").unwrap_or(text);
        progress.inc(read as u64);
        if text.is_empty() {
            continue;
        }
        text::read_record(text, form, &mut key, &mut value)
            .map_err(|what| Failure::invalid(format!("{name}, line {line_number}: {what}")))?;
        batch.put(&key, &value);
        loaded.records += 1;
        loaded.bytes += (key.len() + value.len()) as u64;
        if batch.byte_len() >= BATCH_BYTES {
            db.write(&batch)?;
            batch.clear();
        }
    }
    db.write(&batch)?;
    Ok(loaded)
}
