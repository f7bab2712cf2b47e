//! `check`: verifies a whole database.

use crate::args::DirArg;
use crate::exit::{Code, Failure, Outcome, found};
use crate::output::Output;
use clap::Args;
use serde_json::{Value, json};
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
            .print(|| to_json(&report), |out| writeln!(out, "{report}"));
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
