//! `ingest`: sorted records from text, all at once.

use crate::args::{DirArg, EngineArgs, KeyspaceArg};
use crate::exit::{Code, Failure, Outcome};
use crate::lines::Lines;
use crate::opening;
use crate::output::Output;
use crate::text::{Form, Line};
use clap::Args;
use indicatif::HumanCount;
use serde_json::json;
use std::time::{Duration, UNIX_EPOCH};
use unikv::Expiry;

/// `ingest DIR FILE`
#[derive(Args)]
pub struct Ingest {
    #[command(flatten)]
    dir: DirArg,
    /// The file, or - for standard input; lines as `load` reads them, whose keys ascend bytewise
    file: String,
    /// The form of the lines; by default JSON lines in .jsonl, .ndjson and .json files, else TSV
    #[arg(long, value_name = "FORM")]
    format: Option<Form>,
    #[command(flatten)]
    keyspace: KeyspaceArg,
    #[command(flatten)]
    output: Output,
    #[command(flatten)]
    engine: EngineArgs,
}

impl Ingest {
    pub fn run(self) -> Outcome {
        let mut lines = Lines::open(&self.file, self.format)?;
        // A new database has the default keyspace alone.
        let may_create = self.keyspace.is_default();
        let db = opening::open_or_create(&self.dir.dir, self.engine.options()?, may_create)?;
        let keyspace = self.keyspace.find(&db)?;
        let mut ingest = keyspace.ingest()?;
        while let Some(line) = lines.next()? {
            let Line::Record(expires_ms) = line else {
                let what = "a line names a keyspace, and `ingest` stores into one";
                let failure = Failure::invalid(what).remedy("use `unikv load`");
                return Err(failure.at(&lines.place()));
            };
            let expiry = match expires_ms {
                Some(ms) => Expiry::At(UNIX_EPOCH + Duration::from_millis(ms)),
                // A record without an expiry has none here, whatever the keyspace says by default.
                None => Expiry::Never,
            };
            let written = ingest.put_expiring(&lines.key, &lines.value, expiry);
            written.map_err(|error| Failure::from(error).at(&lines.place()))?;
        }
        let records = ingest.commit()?;
        drop(lines);
        db.close()?;
        let as_json = || json!({ "keyspace": self.keyspace.keyspace, "records": records });
        self.output.print(as_json, |out| {
            writeln!(out, "ingested {} records", HumanCount(records))
        })?;
        Ok(Code::Success)
    }
}
