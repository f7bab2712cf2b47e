//! `stats`: sizes and counters of a database, whether or not another process has it open.

mod as_json;
mod options;
mod print;

use crate::args::{DirArg, millis};
use crate::commands::gc::print_files;
use crate::exit::{Code, Failure, Outcome};
use crate::output::Output;
use crate::reading::open_secondary;
use clap::Args;
use serde_json::{Value, json};
use std::io::{self, Write};
use std::time::Duration;
use unikv::{EffectiveOptions, GarbageStats, PublishedStats, Secondary};

use as_json::secondary_to_json;
pub use as_json::{recovery_to_json, stats_to_json};
pub use options::{options_to_json, print_options};
use print::{print_followed, print_stats};

/// `stats DIR`
#[derive(Args)]
pub struct Stats {
    #[command(flatten)]
    dir: DirArg,
    /// List every record file with its live and dead bytes
    #[arg(long)]
    files: bool,
    #[command(flatten)]
    output: Output,
}

impl Stats {
    pub fn run(self) -> Outcome {
        let secondary = open_secondary(&self.dir)?;
        if !secondary.stats().has_writer {
            return self.show_stored(&secondary);
        }
        match PublishedStats::read(&self.dir.dir).map_err(Failure::opening)? {
            Some(published) => self.show_published(&published, &secondary),
            None => self.show_followed(&secondary),
        }
    }

    /// Shows what the files say of a database that nobody has open.
    fn show_stored(&self, secondary: &Secondary) -> Outcome {
        let stats = secondary.database_stats()?;
        let (garbage, options) = (secondary.garbage(), secondary.options());
        let as_json =
            || json!({ "stats": stats_to_json(&stats), "options": options_to_json(&options) });
        self.output.print(as_json, |out| {
            print_stats(&stats, &Limits::of(&garbage, &options), out)?;
            self.print_files_of(&garbage, out)?;
            writeln!(out, "\noptions (see `unikv options`)")?;
            print_options(&options, out)
        })?;
        Ok(Code::Success)
    }

    /// Shows what the process that has the database open has published.
    fn show_published(&self, published: &PublishedStats, secondary: &Secondary) -> Outcome {
        let limits = Limits {
            partition_bytes: published.partition_bytes,
            unsorted_bytes: published.unsorted_bytes,
            max_space_amp: published.max_space_amp,
            dead_bytes: published.dead_bytes,
            allowed_dead_bytes: published.allowed_dead_bytes,
        };
        self.output.print(
            || published_to_json(published),
            |out| {
                writeln!(out, "{}", age_in_words(published))?;
                print_stats(&published.stats, &limits, out)?;
                self.print_files_of(&secondary.garbage(), out)
            },
        )?;
        Ok(Code::Success)
    }

    /// Shows what a secondary sees of a database whose figures nobody publishes.
    fn show_followed(&self, secondary: &Secondary) -> Outcome {
        let stats = secondary.stats();
        let as_json = || json!({ "followed": secondary_to_json(&stats) });
        self.output.print(as_json, |out| {
            writeln!(
                out,
                "as a secondary sees it: the process that has it open publishes no figures, or has \
                 not yet (Options::publish_stats)"
            )?;
            print_followed(&stats, out)?;
            self.print_files_of(&secondary.garbage(), out)
        })?;
        Ok(Code::Success)
    }

    fn print_files_of(&self, garbage: &GarbageStats, out: &mut dyn Write) -> io::Result<()> {
        if self.files {
            writeln!(out)?;
            print_files(&garbage.files, out)?;
        }
        Ok(())
    }
}

/// Published figures, whose they are, and how old.
pub fn published_to_json(published: &PublishedStats) -> Value {
    json!({
        "stats": stats_to_json(&published.stats),
        "published": {
            "pid": published.pid,
            "age_ms": millis(published.age),
            "interval_ms": millis(published.interval),
            "open_for_ms": millis(published.open_for),
            "is_old": is_old(published),
        },
    })
}

/// Whether published figures are older than they should ever be.
pub fn is_old(published: &PublishedStats) -> bool {
    published.age > 3 * published.interval + Duration::from_secs(1)
}

/// Whose figures these are, and how old.
pub fn age_in_words(published: &PublishedStats) -> String {
    let age = published.age.as_secs_f64();
    if is_old(published) {
        format!(
            "OLD: process {} published this {age:.0} s ago, and nothing since: it has ended or \
             hangs",
            published.pid
        )
    } else {
        format!(
            "as process {} published it {age:.1} s ago, with the database open for {}",
            published.pid,
            seconds_in_words(published.open_for)
        )
    }
}

/// A time in whole seconds.
pub fn seconds_in_words(time: Duration) -> String {
    humantime::format_duration(Duration::from_secs(time.as_secs())).to_string()
}

/// What sizes are compared with; 0 where that is not known.
#[derive(Default)]
struct Limits {
    partition_bytes: u64,
    unsorted_bytes: u64,
    max_space_amp: f64,
    dead_bytes: u64,
    allowed_dead_bytes: u64,
}

impl Limits {
    fn of(garbage: &GarbageStats, options: &EffectiveOptions) -> Limits {
        Limits {
            partition_bytes: options.partition_bytes,
            unsorted_bytes: options.unsorted_bytes,
            max_space_amp: garbage.max_space_amp,
            dead_bytes: garbage.dead_bytes,
            allowed_dead_bytes: garbage.allowed_bytes,
        }
    }
}

/// Prints the figures of an open database.
pub fn print(db: &unikv::Db, out: &mut dyn Write) -> io::Result<()> {
    print_stats(&db.stats(), &Limits::of(&db.garbage(), &db.options()), out)
}
