//! `repair`: salvages a damaged database into a new directory.

use crate::args::{DirArg, EngineArgs};
use crate::exit::{Code, Failure, Outcome, found};
use crate::output::Output;
use clap::Args;
use indicatif::{HumanBytes, HumanCount};
use serde_json::{Value, json};
use std::fs;
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use unikv::{Bytes, Db, RepairOptions, RepairReport, RepairTrust};

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
            .print(|| as_json(&report), |out| print_text(&report, out));
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

fn trust(report: &RepairReport) -> &'static str {
    match report.trust {
        RepairTrust::Manifest => "manifest",
        RepairTrust::ManifestPrefix => "beginning of the manifest",
        _ => "files alone",
    }
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
        "trust": trust(report),
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

/// Keys and places of each sort that are printed; the JSON object has more.
const MOST_PRINTED: usize = 20;

fn print_text(report: &RepairReport, out: &mut dyn Write) -> io::Result<()> {
    for note in &report.notes {
        writeln!(out, "note: {note}")?;
    }
    for file in report.files.iter() {
        if let Some(why) = &file.ignored {
            writeln!(out, "{}: not used: {why}", file.name)?;
        }
        for fault in file.faults.iter().take(MOST_PRINTED) {
            writeln!(
                out,
                "{} at offset {}: {}",
                file.name, fault.offset, fault.what
            )?;
        }
        more(out, file.fault_count, "damaged places of this file")?;
    }
    print_losses(report, out)?;
    if !report.options_carried {
        writeln!(
            out,
            "The options of the database are lost; it has the defaults."
        )?;
    }
    let keyspaces = report.keyspaces.iter();
    for name in keyspaces.take(MOST_PRINTED) {
        writeln!(out, "keyspace: {name:?}")?;
    }
    more(out, report.keyspaces.len() as u64, "keyspaces")?;
    let saved = match &report.written {
        Some(to) => format!("saved in {}", to.display()),
        None => "to be saved".to_owned(),
    };
    writeln!(
        out,
        "{} records, {}, {saved}, by the {}: {} lost, {} in doubt, {} uncertain and {}",
        HumanCount(report.saved),
        HumanBytes(report.saved_bytes),
        trust(report),
        HumanCount(report.lost),
        HumanCount(report.in_doubt),
        HumanCount(report.uncertain),
        if report.uncertain_included {
            "saved, too"
        } else {
            "left out"
        },
    )
}

fn print_losses(report: &RepairReport, out: &mut dyn Write) -> io::Result<()> {
    for gap in &report.log.gaps {
        let (file, offset) = (gap.file.display(), gap.offset);
        let after = gap.after_seq;
        let before = gap
            .before_seq
            .map_or("the end".to_owned(), |seq| seq.to_string());
        writeln!(
            out,
            "lost: batches of {file} at offset {offset}, between sequence numbers {after} and \
             {before}: {}",
            gap.what
        )?;
    }
    if let Some(cut) = &report.log.cut {
        let (file, offset) = (cut.path.display(), cut.offset);
        writeln!(out, "{file} ends at offset {offset}: {}", cut.reason)?;
    }
    if report.log.batches_dropped > 0 {
        let dropped = HumanCount(report.log.batches_dropped);
        writeln!(out, "lost: a part of each of {dropped} batches")?;
    }
    for range in report.lost_ranges.iter().take(MOST_PRINTED) {
        let to = range.to.as_ref().map_or("the end".to_owned(), quoted);
        let missing = match range.missing {
            Some(n) => format!("{n} records"),
            None => "records".to_owned(),
        };
        let (from, file) = (quoted(&range.from), range.file.display());
        let keyspace = within(&range.keyspace);
        writeln!(
            out,
            "lost: {missing} of {file} from {from} to {to}{keyspace}"
        )?;
    }
    more(out, report.lost_range_count, "ranges")?;
    for lost in report.lost_keys.iter().take(MOST_PRINTED) {
        let (key, file) = (quoted(&lost.key), lost.file.display());
        let (offset, keyspace) = (lost.offset, within(&lost.keyspace));
        writeln!(out, "lost: {key}{keyspace}, {file} at offset {offset}")?;
    }
    more(out, report.lost, "lost keys")?;
    for uncertain in report.uncertain_keys.iter().take(MOST_PRINTED) {
        let keyspace = within(&uncertain.keyspace);
        writeln!(out, "uncertain: {}{keyspace}", quoted(&uncertain.key))?;
    }
    more(out, report.uncertain, "uncertain keys")
}

fn quoted(key: &Bytes) -> String {
    format!("\"{}\"", text(key))
}

/// Names a keyspace, unless it is the default one.
fn within(keyspace: &str) -> String {
    match keyspace {
        "default" => String::new(),
        _ => format!(" of the keyspace {keyspace:?}"),
    }
}

fn more(out: &mut dyn Write, count: u64, what: &str) -> io::Result<()> {
    match count.saturating_sub(MOST_PRINTED as u64) {
        0 => Ok(()),
        more => writeln!(out, "… {} more {what}", HumanCount(more)),
    }
}
