//! The first scan of a memtable that is full of small entries.

use crate::figures::{Figures, Outcome};
use crate::small;
use crate::timetable::{Bandwidth, beside};
use std::path::Path;
use unikv::{Db, Options, Tuning};
use unikv_bench::Failure;

const MEMTABLE: u64 = 64 << 20;

pub fn round(dir: &Path, rate: u64) -> Outcome<Figures> {
    let bandwidth = Bandwidth::measure(dir)?;
    let mut figures = Figures::default();
    bandwidth.add_to(&mut figures);
    let options = Options::default().memory_budget(1 << 30);
    let options = options.tuning(Tuning::default().memtable_bytes(MEMTABLE));
    let db = Db::open(dir.join("db"), options).map_err(Failure::engine)?;
    let mut count = 0;
    while db.stats().memtable_bytes < MEMTABLE / 10 * 9 {
        small::load(&db, count, count + 10_000)?;
        count += 10_000;
    }
    let ran = beside(&db, rate, || {
        let first = db.prefix("k").next();
        first.transpose().map_err(Failure::engine)
    })?;
    let what = format!("first scan of a memtable of {count} small entries");
    ran.add_to(&mut figures, &what, Some(bandwidth.bound(0)), None);
    let mut seen = 0;
    for entry in db.prefix("k") {
        let (key, value) = entry.map_err(Failure::engine)?;
        let key = key[..].try_into();
        let key = key.map_err(|_| Failure::verification("a key of another length"))?;
        small::check(&key, Some(&value))?;
        seen += 1;
    }
    if seen != count {
        return Err(Failure::verification(format!("{seen} of {count} entries")));
    }
    db.close().map_err(Failure::engine)?;
    Ok(figures)
}
