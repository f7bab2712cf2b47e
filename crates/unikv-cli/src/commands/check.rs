//! `check`: verifies a whole database.

use crate::args::DirArg;
use crate::exit::{Code, Outcome};
use clap::Args;
use indicatif::{HumanBytes, HumanCount};
use serde_json::json;
use std::io::{self, Write};
use unikv::{CheckReport, Db};

/// `check DIR`
#[derive(Args)]
pub struct Check {
    #[command(flatten)]
    dir: DirArg,
    /// Print the findings as a JSON object
    #[arg(long)]
    json: bool,
}

impl Check {
    pub fn run(self) -> Outcome {
        let report = Db::check(&self.dir.dir)?;
        let mut out = io::stdout().lock();
        if self.json {
            print_json(&report, &mut out)?;
        } else {
            print_text(&report, &mut out)?;
        }
        Ok(if report.is_clean() {
            Code::Success
        } else {
            Code::Corruption
        })
    }
}

fn print_json(report: &CheckReport, out: &mut impl Write) -> io::Result<()> {
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
    let report = json!({
        "clean": report.is_clean(),
        "files": report.files,
        "bytes": report.bytes,
        "ballast_bytes": report.ballast_bytes,
        "records": report.records,
        "keys": report.keys,
        "pointers": report.pointers,
        "problems": problems,
        "notes": report.notes,
    });
    writeln!(out, "{report}")
}

fn print_text(report: &CheckReport, out: &mut impl Write) -> io::Result<()> {
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
