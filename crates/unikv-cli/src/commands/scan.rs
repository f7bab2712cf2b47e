//! `scan`: a range of records in either direction.

use crate::args::{DirArg, KeyspaceArg, Notation};
use crate::exit::{Code, Failure, Outcome};
use crate::output::Output;
use crate::range::RangeArgs;
use crate::reading::Reading;
use crate::text::{self, Form};
use clap::Args;
use std::io::{self, BufWriter, Write};

/// `scan DIR`
#[derive(Args)]
pub struct Scan {
    #[command(flatten)]
    dir: DirArg,
    #[command(flatten)]
    range: RangeArgs,
    /// At most this many records
    #[arg(long, value_name = "COUNT", value_parser = crate::args::count)]
    limit: Option<u64>,
    /// From the last key to the first
    #[arg(long)]
    reverse: bool,
    /// Print no values
    #[arg(long)]
    keys_only: bool,
    #[command(flatten)]
    output: Output,
    #[command(flatten)]
    keyspace: KeyspaceArg,
    #[command(flatten)]
    notation: Notation,
}

/// A key, and its value if that is to be printed.
type Record = (unikv::Bytes, Option<unikv::Bytes>);

impl Scan {
    pub fn run(self) -> Outcome {
        let range = self.range.bounds(&self.notation)?;
        let db = Reading::open(&self.dir)?;
        let keyspace = db.find(&self.keyspace)?;
        let Some(range) = range else {
            return Ok(Code::Success);
        };
        let mut out = BufWriter::new(io::stdout().lock());
        if self.keys_only {
            let keys = keyspace.keys(range);
            self.print_all(keys.map(|key| key.map(|key| (key, None))), &mut out)?;
        } else {
            let records = keyspace.range(range).expecting(self.limit());
            let records = records.map(|record| record.map(|(key, value)| (key, Some(value))));
            self.print_all(records, &mut out)?;
        }
        out.flush()?;
        drop(out);
        db.close()?;
        Ok(Code::Success)
    }

    /// The most records to print.
    fn limit(&self) -> usize {
        let limit = self.limit.map(usize::try_from);
        limit.map_or(usize::MAX, |limit| limit.unwrap_or(usize::MAX))
    }

    fn print_all(
        &self,
        records: impl DoubleEndedIterator<Item = unikv::Result<Record>>,
        out: &mut impl Write,
    ) -> Result<(), Failure> {
        if self.reverse {
            self.print(records.rev().take(self.limit()), out)
        } else {
            self.print(records.take(self.limit()), out)
        }
    }

    fn print(
        &self,
        records: impl Iterator<Item = unikv::Result<Record>>,
        out: &mut impl Write,
    ) -> Result<(), Failure> {
        for record in records {
            let (key, value) = record?;
            let (key, value) = (&key[..], value.as_deref());
            if self.output.json {
                text::write_record(out, Form::Jsonl, key, value)?;
            } else if self.notation.hex {
                out.write_all(text::to_hex(key).as_bytes())?;
                if let Some(value) = value {
                    write!(out, "\t{}", text::to_hex(value))?;
                }
                out.write_all(b"\n")?;
            } else {
                text::write_record(out, Form::Tsv, key, value)?;
            }
        }
        Ok(())
    }
}
