//! `check`: verifies a whole database.

use crate::args::DirArg;
use crate::exit::{Code, Failure, Outcome, found};
use crate::output::Output;
use clap::Args;
use indicatif::{HumanBytes, HumanCount};
use serde_json::{Value, json};
use std::io::{self, Write};
use unikv::{CheckReport, Db};

/// `check DIR`
#[derive(Args)]
pub struct Check {
    #[command(flatten)]
    dir: DirArg,
    #[command(flatten)]
    output: Output,
}

impl Check {
    pub fn run(self) -> Outcome {
        let report = Db::check(&self.dir.dir).map_err(Failure::opening)?;
        let printed = self
            .output
            .print(|| to_json(&report), |out| print_text(&report, out));
        found(report.is_clean(), Code::Corruption, printed)
    }
}

fn to_json(report: &CheckReport) -> Value {
    let problems: Vec<_> = report
        .problems
        .iter()
        .map(|problem| {
            json!({
                "file": problem.file.to_string_lossy(),
                "offset": problem.offset,
                "what": problem.what,
            })
        })
        .collect();
    json!({
        "clean": report.is_clean(),
        "files": report.files,
        "bytes": report.bytes,
        "ballast_bytes": report.ballast_bytes,
        "records": report.records,
        "keys": report.keys,
        "pointers": report.pointers,
        "problems": problems,
        "notes": report.notes,
    })
}

fn print_text(report: &CheckReport, out: &mut dyn Write) -> io::Result<()> {
    for note in &report.notes {
        writeln!(out, "note: {note}")?;
    }
    for problem in &report.problems {
        let (file, offset) = (problem.file.display(), problem.offset);
        writeln!(out, "problem: {file} at offset {offset}: {}", problem.what)?;
    }
    if report.ballast_bytes > 0 {
        let bytes = HumanBytes(report.ballast_bytes);
        writeln!(out, "note: {bytes} are kept back for a full disk")?;
    }
    let verdict = match report.problems.len() {
        0 => "no problems".to_owned(),
        1 => "1 problem".to_owned(),
        n => format!("{n} problems"),
    };
    writeln!(
        out,
        "{} files, {}, {} records, {} keys, {} pointers: {verdict}",
        report.files,
        HumanBytes(report.bytes),
        HumanCount(report.records),
        HumanCount(report.keys),
        HumanCount(report.pointers),
    )
}
