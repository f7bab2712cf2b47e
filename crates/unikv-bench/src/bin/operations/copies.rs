//! Checkpoints and backups beside a writer.

use crate::records::{Figures, Outcome, Records, beside, percentiles};
use std::path::Path;
use std::time::Duration;
use unikv::backup::{Made, Repository};
use unikv::{Db, Options, SecondaryOptions};
use unikv_bench::Failure;
use unikv_bench::measure::quiet::wait_until_quiet;
use unikv_bench::report::figures::millis;

/// What the writer does a second.
const RATE: u64 = 10_000;
const CHECKPOINTS: u64 = 5;
/// Records of a copy that are read.
const READ: u64 = 10_000;

/// A load; checkpoints beside a writer; a backup, an update of one record in a hundred, and another
/// backup; a restored database.
pub fn run(dir: &Path, count: u64, seconds: u64) -> Outcome<Figures> {
    let records = Records {
        count,
        bytes: 1_000,
    };
    let db = Db::open(dir.join("db"), Options::default()).map_err(Failure::engine)?;
    records.load(&db)?;
    let mut figures = vec![(
        "in the database".to_owned(),
        format!("{:.1} GB", db.stats().disk_bytes as f64 / 1e9),
    )];
    checkpoints(dir, &db, &records, seconds, &mut figures)?;
    wait_until_quiet();
    backups(dir, &db, &records, &mut figures)?;
    db.close().map_err(Failure::engine)?;
    Ok(figures)
}

fn checkpoints(
    dir: &Path,
    db: &Db,
    records: &Records,
    seconds: u64,
    figures: &mut Figures,
) -> Outcome<()> {
    let pause = Duration::from_secs(seconds) / CHECKPOINTS as u32;
    let (without, ()) = beside(db, records, Some(RATE), || {
        std::thread::sleep(pause * CHECKPOINTS as u32);
        Ok(())
    })?;
    let (with, mut times) = beside(db, records, Some(RATE), || {
        let mut times = Vec::new();
        for n in 0..CHECKPOINTS {
            std::thread::sleep(pause);
            let made = db.checkpoint(dir.join(format!("checkpoint-{n}")));
            let made = made.map_err(Failure::engine)?;
            if let Some(why) = made.copied_because {
                return Err(Failure::invalid(format!("files were copied: {why}")));
            }
            times.push(made.elapsed);
        }
        Ok(times)
    })?;
    times.sort();
    for n in 0..CHECKPOINTS {
        let copy = dir.join(format!("checkpoint-{n}"));
        sample(&copy, records)?;
        Db::destroy(&copy).map_err(Failure::engine)?;
    }
    let mut add = |what: &str, figure: String| figures.push((what.to_owned(), figure));
    let all: Vec<String> = times.iter().map(|time| millis(*time)).collect();
    add("checkpoints", all.join(", "));
    let what = "puts at 10,000 a second: half, 99 %, 99.9 %, longest";
    add(what, percentiles(&without.latencies));
    add(
        "the same while checkpoints are made",
        percentiles(&with.latencies),
    );
    Ok(())
}

fn backups(dir: &Path, db: &Db, records: &Records, figures: &mut Figures) -> Outcome<()> {
    let repository = Repository::at(dir.join("backups"));
    let shown = |made: &Made| {
        format!(
            "{:.1} s, {:.3} GB copied and read back, {:.3} GB shared",
            made.elapsed.as_secs_f64(),
            made.copied_bytes as f64 / 1e9,
            made.shared_bytes as f64 / 1e9
        )
    };
    let full = repository.back_up(db).map_err(Failure::engine)?;
    let mut buffer = vec![0; records.bytes];
    for n in 0..records.count / 100 {
        records.put(db, records.drawn(n), 1 << 40, &mut buffer)?;
    }
    let more = repository.back_up(db).map_err(Failure::engine)?;
    let restored = repository.restore(more.point.number, dir.join("restored"));
    let restored = restored.map_err(Failure::engine)?;
    sample(&restored.dir, records)?;
    let copy = Db::open_read_only(&restored.dir, SecondaryOptions::default());
    let copy = copy.map_err(Failure::engine)?;
    for n in 0..records.count / 100 {
        let record = records.drawn(n);
        let found = copy.get(Records::key(record)).map_err(Failure::engine)?;
        if records.check(record, found.as_deref())? != 1 << 40 {
            return Err(Failure::verification(format!("record {record} is stale")));
        }
    }
    figures.push(("first backup".into(), shown(&full)));
    let what = "backup after an update of 1 % of the records, drawn anywhere";
    figures.push((what.into(), shown(&more)));
    figures.push(("restore".into(), millis(restored.elapsed)));
    Ok(())
}

/// Reads some records of a copy.
fn sample(dir: &Path, records: &Records) -> Outcome<()> {
    let copy = Db::open_read_only(dir, SecondaryOptions::default()).map_err(Failure::engine)?;
    for n in 0..READ {
        let record = records.drawn(!n);
        let found = copy.get(Records::key(record)).map_err(Failure::engine)?;
        records.check(record, found.as_deref())?;
    }
    Ok(())
}
