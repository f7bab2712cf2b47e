//! A secondary of many keyspaces, and a checkpoint of many partitions.

use crate::figures::{Figures, Outcome};
use crate::timetable::beside;
use crate::{keyspaces, partitions, small};
use clap::Args;
use std::path::Path;
use std::time::{Duration, Instant};
use unikv::{Db, KeyspaceOptions, Options, Secondary, SecondaryOptions};
use unikv_bench::Failure;

#[derive(Args, Clone)]
pub struct Sizes {
    /// Keyspaces, with five small keys each, of the database that is followed
    #[arg(long, default_value_t = 10_000)]
    followed: u64,
    /// Partitions of the database of which checkpoints are made
    #[arg(long, default_value_t = 10_000)]
    copied_partitions: u64,
    /// Bytes of that database, in MB
    #[arg(long, default_value_t = 1_000)]
    copied_mb: u64,
}

const REFRESHES: u32 = 20;
const CHECKPOINTS: u32 = 5;

pub fn round(dir: &Path, rate: u64, sizes: &Sizes) -> Outcome<Figures> {
    let mut figures = Figures::default();
    secondary(&dir.join("db"), sizes.followed, &mut figures)?;
    checkpoints(dir, rate, sizes, &mut figures)?;
    Ok(figures)
}

fn secondary(path: &Path, count: u64, figures: &mut Figures) -> Outcome<()> {
    let db = Db::open(path, Options::default()).map_err(Failure::engine)?;
    keyspaces::make(&db, count)?;
    db.flush().map_err(Failure::engine)?;
    db.wait_until_idle().map_err(Failure::engine)?;
    let begin = Instant::now();
    let secondary =
        Db::open_secondary(path, SecondaryOptions::default()).map_err(Failure::engine)?;
    let what = format!("a secondary of {count} keyspaces opens");
    let asked = Some(Duration::from_secs(1));
    figures.time(what, begin.elapsed(), asked);
    check(&secondary, count)?;
    let mut times = Vec::new();
    for n in 0..REFRESHES {
        let made = db.keyspace(&format!("new {n}"), KeyspaceOptions::default());
        made.map_err(Failure::engine)?;
        let begin = Instant::now();
        secondary.refresh().map_err(Failure::engine)?;
        times.push(begin.elapsed());
        if secondary.find_keyspace(&format!("new {n}")).is_none() {
            return Err(Failure::verification("the new keyspace is not shown"));
        }
    }
    times.sort_unstable();
    let median = times.get(times.len() / 2).copied().unwrap_or_default();
    let asked = Some(Duration::from_millis(10));
    figures.time("it refreshes after one new keyspace", median, asked);
    drop(secondary);
    db.close().map(drop).map_err(Failure::engine)
}

fn check(secondary: &Secondary, count: u64) -> Outcome<()> {
    for n in (0..count).step_by(97) {
        let keyspace = secondary.find_keyspace(&format!("keyspace {n}"));
        let keyspace = keyspace.ok_or_else(|| Failure::verification("a keyspace is missing"))?;
        let key = small::key(n * 5);
        let found = keyspace.get(key).map_err(Failure::engine)?;
        small::check(&key, found.as_deref())?;
    }
    Ok(())
}

fn checkpoints(dir: &Path, rate: u64, sizes: &Sizes, figures: &mut Figures) -> Outcome<()> {
    let path = dir.join("partitions");
    let (db, _) = partitions::loaded(&path, sizes.copied_mb, 256, sizes.copied_partitions)?;
    let ran = beside(&db, rate, || {
        for n in 0..CHECKPOINTS {
            let copy = dir.join(format!("checkpoint {n}"));
            db.checkpoint(&copy).map_err(Failure::engine)?;
        }
        Ok(())
    })?;
    let count = db.stats().partitions.len();
    let what = format!("{CHECKPOINTS} checkpoints of {count} partitions");
    ran.add_to(figures, &what, Some(Duration::from_millis(5)), None);
    db.close().map(drop).map_err(Failure::engine)
}
