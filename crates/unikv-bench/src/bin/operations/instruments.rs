//! What each instrument costs a writer and a reader.

use crate::records::{Figures, Outcome, Records, beside};
use crate::turns::{self, Setting};
use std::path::Path;
use std::time::{Duration, Instant};
use unikv::{Db, Event, Options};
use unikv_bench::Failure;
use unikv_bench::run::remove_store;

type Change = fn(Options) -> Options;

const INSTRUMENTS: [(&str, Change); 5] = [
    ("without instruments", |options| options),
    ("latencies", |options| options.latencies(true)),
    ("a listener", |options| options.listener(|_: &Event| {})),
    ("published figures, each second", |options| {
        options.publish_stats(Duration::from_secs(1))
    }),
    ("a log of slow operations", |options| {
        options
            .listener(|_: &Event| {})
            .slow_after(Duration::from_millis(100))
    }),
];

/// Puts, then gets of what is in memory, with each instrument and without.
pub fn run(dir: &Path, seconds: u64, rounds: usize) -> Outcome<Figures> {
    let records = Records {
        count: 500_000,
        bytes: 100,
    };
    let time = Duration::from_secs(seconds) / 2;
    let path = dir.join("db");
    let open = |change: Change| -> Outcome<Db> {
        let options = change(Options::default());
        Db::open(&path, options).map_err(Failure::engine)
    };
    let puts = |change: Change| -> Outcome<f64> {
        remove_store(&path)?;
        let db = open(change)?;
        let wait = || {
            std::thread::sleep(time);
            Ok(())
        };
        let (written, ()) = beside(&db, &records, None, wait)?;
        db.close().map_err(Failure::engine)?;
        Ok(written.per_second())
    };
    let gets = |change: Change| -> Outcome<f64> {
        let db = open(change)?;
        let rate = get_for(&db, &records, time)?;
        db.close().map_err(Failure::engine)?;
        Ok(rate)
    };
    let mut figures = Figures::new();
    figures.extend(compare("puts", rounds, &puts)?);
    remove_store(&path)?;
    let db = open(INSTRUMENTS[0].1)?;
    records.load(&db)?;
    db.compact().map_err(Failure::engine)?;
    db.close().map_err(Failure::engine)?;
    figures.extend(compare("gets", rounds, &gets)?);
    Ok(figures)
}

fn compare(
    what: &str,
    rounds: usize,
    measure: &dyn Fn(Change) -> Outcome<f64>,
) -> Outcome<Figures> {
    let unit = format!("{what}/s");
    let mut settings: Vec<Setting<'_>> = INSTRUMENTS
        .iter()
        .map(|&(name, change)| -> Setting<'_> { (name, Box::new(move || measure(change))) })
        .collect();
    let figures = turns::compare(rounds, &unit, &mut settings)?;
    let named = figures.into_iter();
    Ok(named
        .map(|(name, figure)| (format!("{what}, {name}"), figure))
        .collect())
}

/// Gets of drawn records; the first pass over them is not counted.
fn get_for(db: &Db, records: &Records, time: Duration) -> Outcome<f64> {
    let mut value = Vec::new();
    let mut get = |record: u64| -> Outcome<()> {
        let is_there = db.get_into(Records::key(record), &mut value);
        let found = is_there.map_err(Failure::engine)?.then_some(&value[..]);
        records.check(record, found).map(drop)
    };
    (0..records.count).try_for_each(&mut get)?;
    let (begin, mut gets) = (Instant::now(), 0);
    while begin.elapsed() < time {
        for _ in 0..64 {
            get(records.drawn(gets))?;
            gets += 1;
        }
    }
    Ok(gets as f64 / begin.elapsed().as_secs_f64())
}
