//! `backup`: points in time of a database, in a directory that may be on another disk.

use crate::args::DirArg;
use crate::commands::byte_progress;
use crate::exit::{self, Code, Failure, Outcome};
use crate::output::Output;
use crate::reading::Reading;
use clap::{Args, Subcommand};
use indicatif::{HumanBytes, ProgressBar};
use serde_json::{Value, json};
use std::io;
use std::path::PathBuf;
use std::time::{Duration, UNIX_EPOCH};
use unikv::backup::{Point, Repository};

/// `backup ACTION …`
#[derive(Args)]
pub struct Backup {
    #[command(subcommand)]
    action: Action,
}

#[derive(Subcommand)]
enum Action {
    /// Adds a point: the database as it is now. Copies what no earlier point has
    Create(Create),
    /// Prints the points, oldest first
    List(List),
    /// Reads every byte of one point or of all and compares checksums; exits with 4 if one does not
    /// match
    Verify(Verify),
    /// Removes all points but the newest, and what only they needed
    Prune(Prune),
    /// Makes a database of a point, by default of the newest
    Restore(Restore),
}

/// `backup create DIR REPOSITORY`
#[derive(Args)]
struct Create {
    #[command(flatten)]
    dir: DirArg,
    #[command(flatten)]
    at: RepositoryArg,
}

/// `backup list REPOSITORY`
#[derive(Args)]
struct List {
    #[command(flatten)]
    at: RepositoryArg,
}

/// `backup verify REPOSITORY`
#[derive(Args)]
struct Verify {
    #[command(flatten)]
    at: RepositoryArg,
    /// Only this point
    #[arg(long, value_name = "NUMBER")]
    point: Option<u64>,
}

/// `backup prune REPOSITORY --keep N`
#[derive(Args)]
struct Prune {
    #[command(flatten)]
    at: RepositoryArg,
    /// How many points are kept, the newest
    #[arg(long, value_name = "N")]
    keep: usize,
}

/// `backup restore REPOSITORY DEST`
#[derive(Args)]
struct Restore {
    #[command(flatten)]
    at: RepositoryArg,
    /// The directory of the database, which must not exist
    dest: PathBuf,
    /// Which point
    #[arg(long, value_name = "NUMBER")]
    point: Option<u64>,
}

#[derive(Args)]
struct RepositoryArg {
    /// The directory of the backups; `create` makes it
    repository: PathBuf,
    #[command(flatten)]
    output: Output,
}

impl RepositoryArg {
    /// The repository, and a bar that shows how far a call has come, on a terminal.
    fn open(&self) -> (Repository, ProgressBar) {
        let bar = byte_progress(Some(0));
        let shown = bar.clone();
        let repository = Repository::at(&self.repository).on_progress(move |progress| {
            shown.set_length(progress.all_bytes);
            shown.set_position(progress.bytes);
        });
        (repository, bar)
    }

    /// Prints one or the other.
    fn print(&self, as_json: Value, text: &str) -> io::Result<()> {
        self.output
            .print(|| as_json, |out| out.write_all(text.as_bytes()))
    }
}

impl Backup {
    pub fn run(self) -> Outcome {
        match self.action {
            Action::Create(create) => create.run(),
            Action::List(list) => list.run(),
            Action::Verify(verify) => verify.run(),
            Action::Prune(prune) => prune.run(),
            Action::Restore(restore) => restore.run(),
        }
    }
}

impl Create {
    fn run(self) -> Outcome {
        let (repository, bar) = self.at.open();
        let db = Reading::open_to_copy(&self.dir)?;
        let made = db.back_up(&repository)?;
        db.close()?;
        bar.finish_and_clear();
        let seconds = made.elapsed.as_secs_f64();
        let (copied, shared) = (made.copied_bytes, made.shared_bytes);
        let mut as_json = point_json(&made.point);
        as_json["copied_bytes"] = json!(copied);
        as_json["shared_bytes"] = json!(shared);
        as_json["seconds"] = json!(seconds);
        self.at.print(as_json, &format!("{made}\n"))?;
        Ok(Code::Success)
    }
}

/// A time as people write it, in UTC; as milliseconds since 1970 where no calendar has it.
fn time_in_words(ms: u64) -> String {
    const YEAR_10000: u64 = 253_402_300_800_000;
    match ms {
        ms if ms < YEAR_10000 => {
            let time = UNIX_EPOCH + Duration::from_millis(ms);
            humantime::format_rfc3339_seconds(time).to_string()
        }
        ms => format!("{ms} ms"),
    }
}

impl List {
    fn run(self) -> Outcome {
        let listed = self.at.open().0.points()?;
        let mut text = format!(
            "{:>8} {:>20} {:>15} {:>7} {:>12}\n",
            "point", "time", "sequence number", "files", "bytes"
        );
        for point in &listed.points {
            text += &format!(
                "{:>8} {:>20} {:>15} {:>7} {:>12}\n",
                point.number,
                time_in_words(point.time_ms),
                point.seq,
                point.files(),
                HumanBytes(point.bytes()).to_string()
            );
        }
        for error in &listed.damaged {
            text += &format!("{error}\n");
        }
        let damaged = listed.damaged.iter().map(ToString::to_string);
        let as_json = json!({
            "points": listed.points.iter().map(point_json).collect::<Value>(),
            "damaged": damaged.collect::<Value>(),
        });
        let printed = self.at.print(as_json, &text);
        exit::found(listed.damaged.is_empty(), Code::Corruption, printed)
    }
}

impl Verify {
    fn run(self) -> Outcome {
        let (repository, bar) = self.at.open();
        let listed = repository.points()?;
        let mut problems: Vec<String> = Vec::new();
        let numbers = match self.point {
            Some(number) => vec![number],
            None => {
                problems.extend(listed.damaged.iter().map(ToString::to_string));
                listed.points.iter().map(|point| point.number).collect()
            }
        };
        let (mut text, mut verified) = (String::new(), Vec::new());
        for number in numbers {
            let found = repository.verify(number)?;
            let sound = found.is_sound();
            let said = if sound { "sound" } else { "damaged" };
            let bytes = HumanBytes(found.bytes);
            text += &format!("point {number}: {said}, {bytes} compared\n");
            verified.push(json!({ "point": number, "bytes": found.bytes, "sound": sound }));
            problems.extend(found.problems.iter().map(ToString::to_string));
        }
        bar.finish_and_clear();
        problems.sort_unstable();
        problems.dedup();
        for problem in &problems {
            text += &format!("{problem}\n");
        }
        let is_sound = problems.is_empty();
        let printed = self.at.print(
            json!({ "points": verified, "problems": problems, "sound": is_sound }),
            &text,
        );
        exit::found(is_sound, Code::Corruption, printed)
    }
}

impl Prune {
    fn run(self) -> Outcome {
        let pruned = self.at.open().0.prune(self.keep)?;
        let text = format!("{pruned}\n");
        let as_json = json!({
            "removed": pruned.points,
            "kept": pruned.kept,
            "files": pruned.files,
            "bytes": pruned.bytes,
        });
        self.at.print(as_json, &text)?;
        Ok(Code::Success)
    }
}

impl Restore {
    fn run(self) -> Outcome {
        let (repository, bar) = self.at.open();
        let number = match self.point {
            Some(number) => number,
            None => {
                let points = repository.points()?;
                if let Some(error) = points.damaged.into_iter().next() {
                    let failure = Failure::from(error);
                    return Err(failure.at("which point is the newest is unknown; choose one"));
                }
                let newest = points.points.last().map(|point| point.number);
                let none = || {
                    Failure::invalid("the repository has no points").remedy("make a backup first")
                };
                newest.ok_or_else(none)?
            }
        };
        let restored = repository.restore(number, &self.dest)?;
        bar.finish_and_clear();
        let seconds = restored.elapsed.as_secs_f64();
        let mut as_json = point_json(&restored.point);
        as_json["dir"] = json!(restored.dir.to_string_lossy());
        as_json["seconds"] = json!(seconds);
        self.at.print(as_json, &format!("{restored}\n"))?;
        Ok(Code::Success)
    }
}

fn point_json(point: &Point) -> Value {
    json!({
        "point": point.number,
        "time_ms": point.time_ms,
        "seq": point.seq,
        "commit_tag": point.commit_tag.as_ref().map(|commit_tag| commit_tag.escape_ascii().to_string()),
        "files": point.files(),
        "bytes": point.bytes(),
    })
}

#[cfg(test)]
mod tests {
    use super::time_in_words;

    #[test]
    fn times_are_those_of_a_calendar() {
        assert_eq!(time_in_words(1_795_740_886_937), "2026-11-27T00:54:46Z");
        assert_eq!(time_in_words(0), "1970-01-01T00:00:00Z");
        assert_eq!(time_in_words(253_402_300_799_999), "9999-12-31T23:59:59Z");
        assert_eq!(time_in_words(u64::MAX), "18446744073709551615 ms");
    }
}
