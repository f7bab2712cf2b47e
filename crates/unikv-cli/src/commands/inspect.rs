//! `inspect`: what stands in one file of a database, part by part.

use crate::args;
use crate::exit::{Code, Outcome, found};
use crate::output::Output;
use clap::Args;
use indicatif::HumanCount;
use serde_json::{Map, Value, json};
use std::io::{self, Write};
use std::path::PathBuf;
use unikv::inspect::{Part, inspect};

/// `inspect FILE`
#[derive(Args)]
pub struct Inspect {
    /// CURRENT, a manifest, a segment of the log (.wal), a record file (.rec) or a key table (.key)
    file: PathBuf,
    /// Show this many parts, and then only what is damaged; the whole file is verified anyway
    #[arg(long, value_name = "COUNT", value_parser = args::count)]
    limit: Option<u64>,
    #[command(flatten)]
    output: Output,
}

impl Inspect {
    pub fn run(self) -> Outcome {
        let mut out = io::BufWriter::new(io::stdout().lock());
        let (mut shown, mut left_out, mut written) = (0_u64, 0_u64, Ok(()));
        let seen = inspect(&self.file, &mut |part| {
            let in_limit = self.limit.is_none_or(|limit| shown < limit);
            if !in_limit && part.fault.is_none() {
                left_out += 1;
            } else if written.is_ok() {
                shown += 1;
                written = if self.output.json {
                    writeln!(out, "{}", to_json(part))
                } else {
                    print(part, &mut out)
                };
            }
        })?;
        let as_json = || {
            json!({
                "kind": seen.kind.to_string(),
                "len": seen.len,
                "parts": seen.parts,
                "parts_left_out": left_out,
                "faults": seen.faults,
            })
        };
        let as_text = |out: &mut dyn Write| {
            if left_out > 0 {
                writeln!(out, "… {} parts more", HumanCount(left_out))?;
            }
            let verdict = match seen.faults {
                0 => "every checksum right".to_owned(),
                n => format!("{} DAMAGED", HumanCount(n)),
            };
            writeln!(
                out,
                "{}: {} bytes, {} parts, {verdict}",
                seen.kind,
                HumanCount(seen.len),
                HumanCount(seen.parts)
            )
        };
        let printed = written.and_then(|()| self.output.print_to(&mut out, as_json, as_text));
        found(seen.faults == 0, Code::Corruption, printed)
    }
}

fn to_json(part: &Part) -> Value {
    let fields = part.fields.iter();
    let fields: Map<String, Value> = fields
        .map(|(name, value)| ((*name).to_owned(), value.as_str().into()))
        .collect();
    json!({
        "offset": part.offset,
        "len": part.len,
        "depth": part.depth,
        "what": part.what,
        "fields": fields,
        "fault": part.fault,
    })
}

fn print(part: &Part, out: &mut impl Write) -> io::Result<()> {
    let indent = "  ".repeat(usize::from(part.depth));
    write!(
        out,
        "{:>12} {:>9}  {indent}{}",
        part.offset, part.len, part.what
    )?;
    for (index, (name, value)) in part.fields.iter().enumerate() {
        let separator = if index == 0 { ": " } else { ", " };
        write!(out, "{separator}{name} {value}")?;
    }
    if let Some(fault) = &part.fault {
        write!(out, "  DAMAGED: {fault}")?;
    }
    writeln!(out)
}
