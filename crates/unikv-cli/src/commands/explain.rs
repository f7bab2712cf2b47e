//! `explain`: the jobs of the background that are due, in their order, each with its reason.
//!
//! Of a database that a process has open, that is what this has published last; else it is what the
//! files say. Nothing is changed.

use super::stats::{age_in_words, published_to_json};
use crate::args::{DirArg, millis};
use crate::exit::{Code, Failure, Outcome};
use crate::output::Output;
use crate::reading::open_secondary;
use clap::Args;
use indicatif::HumanBytes;
use serde_json::{Value, json};
use std::io::{self, Write};
use unikv::{DueJob, PublishedStats, RunningJob, Secondary};

/// What only a process knows that has the database open.
const UNKNOWN: [&str; 4] = [
    "whether a job has failed, and when it is tried again",
    "which tables reads have made worth an index, or reading as a whole",
    "whether scans have made moving values worth its cost",
    "what is due once nobody has written for a while",
];

/// `explain DIR`
#[derive(Args)]
pub struct Explain {
    #[command(flatten)]
    dir: DirArg,
    #[command(flatten)]
    output: Output,
}

impl Explain {
    pub fn run(self) -> Outcome {
        let secondary = open_secondary(&self.dir)?;
        let has_writer = secondary.stats().has_writer;
        let published = has_writer.then(|| PublishedStats::read(&self.dir.dir));
        match published.transpose().map_err(Failure::opening)?.flatten() {
            Some(published) => self.show_published(&published),
            None => self.show_stored(&secondary, has_writer),
        }
    }

    fn show_stored(&self, secondary: &Secondary, has_writer: bool) -> Outcome {
        let due = secondary.due_jobs();
        let log_bytes = secondary.database_stats()?.memtable_bytes;
        let as_json = || {
            json!({
                "due": due.iter().map(due_to_json).collect::<Vec<_>>(),
                "log_bytes": log_bytes,
                "has_writer": has_writer,
                "unknown": UNKNOWN,
            })
        };
        self.output.print(as_json, |out| {
            let who = if has_writer {
                "the process that has the database open publishes no figures, or has not yet \
                 (Options::publish_stats)"
            } else {
                "nobody has the database open"
            };
            writeln!(out, "{who}; by what its files say:")?;
            if log_bytes > 0 {
                let bytes = HumanBytes(log_bytes);
                writeln!(out, "due:  flush: {bytes} of the log are in no table yet")?;
            }
            print_due(&due, log_bytes > 0, out)?;
            writeln!(out, "what its files do not say:")?;
            UNKNOWN.iter().try_for_each(|it| writeln!(out, "  {it}"))
        })?;
        Ok(Code::Success)
    }

    fn show_published(&self, published: &PublishedStats) -> Outcome {
        let (due, running) = (&published.due_jobs, &published.stats.running_jobs);
        let as_json = || {
            json!({
                "due": due.iter().map(due_to_json).collect::<Vec<_>>(),
                "running": running.iter().map(running_to_json).collect::<Vec<_>>(),
                "published": published_to_json(published)["published"],
            })
        };
        self.output.print(as_json, |out| {
            writeln!(out, "{}", age_in_words(published))?;
            for job in running {
                writeln!(out, "runs: {job}")?;
            }
            print_due(due, !running.is_empty(), out)
        })?;
        Ok(Code::Success)
    }
}

fn print_due(due: &[DueJob], has_more: bool, out: &mut dyn Write) -> io::Result<()> {
    if due.is_empty() && !has_more {
        return writeln!(out, "nothing is due");
    }
    due.iter().try_for_each(|job| writeln!(out, "due:  {job}"))
}

fn due_to_json(due: &DueJob) -> Value {
    json!({
        "job": due.job,
        "partitions": due.partitions,
        "partition_count": due.partition_count,
        "why": due.why,
        "retry_in_ms": due.retry_in.map(millis),
    })
}

fn running_to_json(job: &RunningJob) -> Value {
    json!({
        "job": job.job,
        "partition": job.partition,
        "why": job.why,
        "running_for_ms": millis(job.running_for),
    })
}
