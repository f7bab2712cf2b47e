//! `repair`: salvages a damaged database into a new directory.

use crate::args::{DirArg, EngineArgs};
use crate::exit::{Code, Failure, Outcome, found};
use crate::output::Output;
use clap::Args;
use serde_json::{Value, json};
use std::fs;
use std::path::{Path, PathBuf};
use unikv::{Bytes, Db, RepairOptions, RepairReport};

/// `repair DIR`
#[derive(Args)]
pub struct Repair {
    #[command(flatten)]
    dir: DirArg,
    /// The directory for the salvaged database, which must not exist or be empty; by default the
    /// name of the damaged one with `.repaired` after it
    #[arg(long, value_name = "NEWDIR")]
    to: Option<PathBuf>,
    /// Only show what would be saved and what is lost
    #[arg(long)]
    dry_run: bool,
    /// Save records, too, that may have been deleted or overwritten before the damage
    #[arg(long)]
    include_uncertain: bool,
    /// Save what is left of batches of which a part is lost
    #[arg(long)]
    partial_batches: bool,
    #[command(flatten)]
    output: Output,
    #[command(flatten)]
    engine: EngineArgs,
}

impl Repair {
    pub fn run(self) -> Outcome {
        let dir = &self.dir.dir;
        let to = match self.to {
            Some(to) => to,
            None => beside(dir)?,
        };
        let options = RepairOptions::default()
            .dry_run(self.dry_run)
            .include_uncertain(self.include_uncertain)
            .partial_batches(self.partial_batches)
            .options(self.engine.options()?);
        let report = Db::repair(dir, to, &options).map_err(Failure::opening)?;
        let printed = self
            .output
            .print(|| as_json(&report), |out| writeln!(out, "{report}"));
        found(report.is_complete(), Code::DataLost, printed)
    }
}

/// `db.repaired` for `db`, also where it was written `db/`, or `.` from within.
fn beside(dir: &Path) -> Result<PathBuf, Failure> {
    let whole;
    let mut named = dir;
    if dir.file_name().is_none() {
        whole = fs::canonicalize(dir).map_err(|e| Failure::file(dir, &e))?;
        named = &whole;
    }
    let Some(name) = named.file_name() else {
        let what = format!("{} has no name to make another one of", dir.display());
        return Err(Failure::invalid(what).remedy("give --to"));
    };
    let mut name = name.to_owned();
    name.push(".repaired");
    Ok(named.with_file_name(name))
}

fn text(key: &Bytes) -> String {
    key.escape_ascii().to_string()
}

fn as_json(report: &RepairReport) -> Value {
    let files = report.files.iter().map(|file| {
        let faults = file.faults.iter();
        json!({
            "name": file.name,
            "bytes": file.bytes,
            "items": file.items,
            "fault_count": file.fault_count,
            "faults": faults
                .map(|fault| json!({"offset": fault.offset, "what": fault.what}))
                .collect::<Value>(),
            "ignored": file.ignored,
        })
    });
    let lost_keys = report.lost_keys.iter().map(|lost| {
        json!({
            "keyspace": lost.keyspace,
            "key": text(&lost.key),
            "file": lost.file.to_string_lossy(),
            "offset": lost.offset,
        })
    });
    let lost_ranges = report.lost_ranges.iter().map(|range| {
        json!({
            "keyspace": range.keyspace,
            "from": text(&range.from),
            "to": range.to.as_ref().map(text),
            "missing": range.missing,
            "file": range.file.to_string_lossy(),
        })
    });
    let uncertain_keys = report.uncertain_keys.iter();
    let uncertain_keys =
        uncertain_keys.map(|of| json!({"keyspace": of.keyspace, "key": text(&of.key)}));
    let gaps = report.log.gaps.iter().map(|gap| {
        json!({
            "file": gap.file.to_string_lossy(),
            "offset": gap.offset,
            "bytes": gap.bytes,
            "after_seq": gap.after_seq,
            "before_seq": gap.before_seq,
            "what": gap.what,
        })
    });
    let cut = report.log.cut.as_ref().map(|cut| {
        json!({
            "file": cut.path.to_string_lossy(),
            "offset": cut.offset,
            "bytes": cut.bytes,
            "what": cut.reason,
        })
    });
    json!({
        "complete": report.is_complete(),
        "trust": report.trust.to_string(),
        "written": report.written.as_ref().map(|dir| dir.to_string_lossy().into_owned()),
        "keyspaces": report.keyspaces,
        "unlisted_keyspaces": report.unlisted_keyspaces,
        "saved": report.saved,
        "saved_bytes": report.saved_bytes,
        "tombstones": report.tombstones,
        "in_doubt": report.in_doubt,
        "lost": report.lost,
        "lost_keys": lost_keys.collect::<Value>(),
        "lost_range_count": report.lost_range_count,
        "lost_ranges": lost_ranges.collect::<Value>(),
        "uncertain": report.uncertain,
        "uncertain_included": report.uncertain_included,
        "uncertain_keys": uncertain_keys.collect::<Value>(),
        "log": {
            "segments": report.log.segments,
            "batches": report.log.batches,
            "batches_behind_gaps": report.log.batches_behind_gaps,
            "batches_dropped": report.log.batches_dropped,
            "gaps": gaps.collect::<Value>(),
            "cut": cut,
        },
        "options_carried": report.options_carried,
        "commit_tag": report.commit_tag.as_ref().map(text),
        "files": files.collect::<Value>(),
        "notes": report.notes,
        "seconds": report.elapsed.as_secs_f64(),
    })
}
