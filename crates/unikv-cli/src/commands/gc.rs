//! `gc`: what garbage collection sees and would do, or doing it now.

use crate::args::DirArg;
use crate::exit::{Code, Outcome};
use crate::output::Output;
use clap::Args;
use indicatif::{HumanBytes, HumanCount};
use serde_json::{Value, json};
use std::io::{self, Write};
use unikv::{GarbageStats, RecordFileStats};

/// `gc DIR`
#[derive(Args)]
pub struct Gc {
    #[command(flatten)]
    dir: DirArg,
    /// Only show what would be collected next, and why; change nothing
    #[arg(long)]
    explain: bool,
    #[command(flatten)]
    output: Output,
}

impl Gc {
    pub fn run(self) -> Outcome {
        let db = self.dir.open_existing()?;
        let before = db.garbage();
        if !self.explain {
            db.collect_garbage()?;
        }
        let (after, stats) = (db.garbage(), db.stats());
        let as_json = || {
            let mut object = to_json(&after);
            if !self.explain {
                object["dead_bytes_before"] = before.dead_bytes.into();
                object["collections"] = stats.gcs.into();
                object["copied_bytes"] = stats.gc_copied_bytes.into();
            }
            object
        };
        self.output.print(as_json, |out| {
            if self.explain {
                explain(&before, out)
            } else {
                writeln!(
                    out,
                    "garbage {} before, {} after; {} collections copied {}",
                    HumanBytes(before.dead_bytes),
                    HumanBytes(after.dead_bytes),
                    stats.gcs,
                    HumanBytes(stats.gc_copied_bytes)
                )
            }
        })?;
        db.close()?;
        Ok(Code::Success)
    }
}

fn to_json(garbage: &GarbageStats) -> Value {
    let files = garbage.files.iter().map(|file| {
        json!({
            "number": file.number,
            "is_table": file.is_table,
            "file_bytes": file.file_bytes,
            "record_bytes": file.record_bytes,
            "records": file.records,
            "live_records": file.live_records,
            "live_bytes": file.live_bytes,
            "dead_bytes": file.dead_bytes(),
            "victim": file.victim.map(|place| place + 1),
        })
    });
    json!({
        "max_space_amp": garbage.max_space_amp,
        "live_bytes": garbage.live_bytes,
        "key_table_bytes": garbage.key_table_bytes,
        "dead_bytes": garbage.dead_bytes,
        "allowed_bytes": garbage.allowed_bytes,
        "riding_from_bytes": garbage.riding_from_bytes,
        "alone_from_bytes": garbage.alone_from_bytes,
        "next_partition": garbage.next_partition,
        "files": files.collect::<Vec<_>>(),
    })
}

fn explain(garbage: &GarbageStats, out: &mut dyn Write) -> io::Result<()> {
    writeln!(out, "{garbage}")?;
    writeln!(
        out,
        "\nVictims are the value logs with most dead bytes for each byte to copy. What is dead in a table \
         of an\nUnsortedStore its merge will tell.\n"
    )?;
    print_files(&garbage.files, out)
}

/// One line for each record file.
pub fn print_files(files: &[RecordFileStats], out: &mut dyn Write) -> io::Result<()> {
    writeln!(
        out,
        "{:>11}  {:<14}{:>12}{:>12}{:>12}{:>8}{:>14}  victim",
        "record file", "is", "records", "live", "dead", "dead %", "live records"
    )?;
    for file in files {
        let dead = file.dead_bytes();
        let share = 100.0 * dead as f64 / file.record_bytes.max(1) as f64;
        let (kind, live, dead, share) = if file.is_table {
            ("table", "-".to_owned(), "-".to_owned(), "-".to_owned())
        } else {
            (
                "value log",
                HumanBytes(file.live_bytes).to_string(),
                HumanBytes(dead).to_string(),
                format!("{share:.1}"),
            )
        };
        let victim = file
            .victim
            .map_or_else(String::new, |place| (place + 1).to_string());
        writeln!(
            out,
            "{:>11}  {kind:<14}{:>12}{live:>12}{dead:>12}{share:>8}{:>14}  {victim}",
            file.number,
            HumanBytes(file.record_bytes).to_string(),
            HumanCount(file.live_records).to_string(),
        )?;
    }
    Ok(())
}
