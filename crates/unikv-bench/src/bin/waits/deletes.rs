//! Reads beside range deletes, and over the tombstones of single keys.

use crate::figures::{Figures, Outcome};
use crate::small::{self, Ranges};
use clap::Args;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};
use unikv::{Db, Options, Tuning};
use unikv_bench::Failure;
use unikv_bench::run::remove_store;
use unikv_bench::workload::keys::mix;

#[derive(Args, Clone)]
pub struct Sizes {
    /// Range tombstones beside which gets are measured
    #[arg(long, default_value_t = 100_000)]
    tombstones: u64,
    /// The greatest share of the key space that one of them covers
    #[arg(long, default_value_t = 1.0)]
    tombstone_reach: f64,
    /// Tombstones of single keys, over which cursors go
    #[arg(long, default_value_t = 1_000_000)]
    deleted: u64,
}

/// Records that gets read; half of them are written again after the deletes.
const KEYS: u64 = 100_000;
/// Gets, and steps over deleted keys, that are measured.
const GETS: u64 = 20_000;
const STEPS: usize = 1_000;

/// A get may take so long on average, and at most.
const MEAN_GET: Duration = Duration::from_micros(20);
const LONGEST: Duration = Duration::from_millis(5);
const MEDIAN_STEP: Duration = Duration::from_micros(50);

fn options() -> Options {
    let options = Options::default().memory_budget(1 << 30);
    options.tuning(Tuning::default().memtable_bytes(80 << 20))
}

pub fn round(dir: &Path, sizes: &Sizes) -> Outcome<Figures> {
    let mut figures = Figures::default();
    let ranges = Ranges {
        count: sizes.tombstones,
        reach: sizes.tombstone_reach,
    };
    beside_ranges(&dir.join("db"), ranges, &mut figures)?;
    remove_store(&dir.join("db"))?;
    over_deleted(&dir.join("db"), sizes.deleted, &mut figures)?;
    Ok(figures)
}

/// Gets while the ranges are deleted one by one, and wherever the tombstones are then.
fn beside_ranges(path: &Path, ranges: Ranges, figures: &mut Figures) -> Outcome<()> {
    let open = || Db::open(path, options()).map_err(Failure::engine);
    let db = open()?;
    small::load(&db, 0, KEYS)?;
    db.flush().map_err(Failure::engine)?;
    let gets = beside_deletes(&db, ranges)?;
    gets.add_to(figures, "while range deletes are written");
    small::load(&db, 0, KEYS / 2)?;
    let union = ranges.union();
    let is_there = |record: u64| record < KEYS / 2 || !union.covers(record);
    let what = |place: &str| format!("{} range tombstones {place}", ranges.count);
    let all = |db: &Db| {
        Gets::measure(|n| {
            let record = mix(n) % KEYS;
            get(db, record, Some(is_there(record)))
        })
    };
    let flushes = db.stats().flushes;
    all(&db)?.add_to(figures, &what("in the open memtable"));
    figures.count("flushes meanwhile (one came before)", flushes, Some(1));
    db.close().map_err(Failure::engine)?;
    let db = open()?;
    all(&db)?.add_to(figures, &what("after reopening, in the memtable"));
    db.flush().map_err(Failure::engine)?;
    all(&db)?.add_to(figures, &what("in tables"));
    db.close().map_err(Failure::engine)?;
    let db = open()?;
    all(&db)?.add_to(figures, &what("after reopening, in tables"));
    db.close().map(drop).map_err(Failure::engine)
}

/// Deletes the ranges one by one, while another thread gets.
fn beside_deletes(db: &Db, ranges: Ranges) -> Outcome<Gets> {
    let is_over = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let reader = scope.spawn(|| {
            let mut gets = Gets::default();
            for n in 0.. {
                if is_over.load(Ordering::Relaxed) {
                    break;
                }
                gets.0.push(get(db, mix(n) % KEYS, None)?);
            }
            Ok(gets)
        });
        let mut deletes = (0..ranges.count).map(|n| db.delete_range(ranges.range(n)));
        let deleted = deletes.try_for_each(|deleted| deleted.map_err(Failure::engine));
        is_over.store(true, Ordering::Relaxed);
        let gets = reader.join();
        let gets = gets.map_err(|_| Failure::invalid("the reader has panicked"))?;
        deleted.and(gets)
    })
}

/// The time of one get, whose record is there, or not, or perhaps.
fn get(db: &Db, record: u64, is_there: Option<bool>) -> Outcome<Duration> {
    let key = small::key(record);
    let begin = Instant::now();
    let found = db.get(key).map_err(Failure::engine)?;
    let elapsed = begin.elapsed();
    if is_there.unwrap_or(found.is_some()) {
        small::check(&key, found.as_deref())?;
    } else if found.is_some() {
        let what = format!("record {record} was deleted and is there");
        return Err(Failure::verification(what));
    }
    Ok(elapsed)
}

/// The times of gets, in their order.
#[derive(Default)]
struct Gets(Vec<Duration>);

impl Gets {
    fn measure(get: impl FnMut(u64) -> Outcome<Duration>) -> Outcome<Gets> {
        let times: Outcome<Vec<Duration>> = (0..GETS).map(get).collect();
        Ok(Gets(times?))
    }

    fn add_to(&self, figures: &mut Figures, what: &str) {
        let (first, longest) = (self.0.first(), self.0.iter().max());
        let mean = self.0.iter().sum::<Duration>() / (self.0.len().max(1) as u32);
        let mut add = |name: &str, time, asked| {
            figures.time(format!("get, {what}: {name}"), time, Some(asked));
        };
        add("first", first.copied().unwrap_or_default(), LONGEST);
        add("mean", mean, MEAN_GET);
        add("longest", longest.copied().unwrap_or_default(), LONGEST);
    }
}

/// Steps of cursors over the tombstones of single keys, between two that are there.
fn over_deleted(path: &Path, count: u64, figures: &mut Figures) -> Outcome<()> {
    let db = Db::open(path, options()).map_err(Failure::engine)?;
    small::load(&db, 0, count)?;
    db.flush().map_err(Failure::engine)?;
    db.compact().map_err(Failure::engine)?;
    db.put("a", "first").map_err(Failure::engine)?;
    db.put("z", "last").map_err(Failure::engine)?;
    for record in 0..count {
        db.delete(small::key(record)).map_err(Failure::engine)?;
    }
    steps(&db, count, "in the memtable", figures)?;
    db.flush().map_err(Failure::engine)?;
    steps(&db, count, "in tables", figures)?;
    db.close().map(drop).map_err(Failure::engine)
}

fn steps(db: &Db, count: u64, place: &str, figures: &mut Figures) -> Outcome<()> {
    let what = format!("over {count} point tombstones {place}");
    let expect = |key: Option<&[u8]>| match key {
        Some(b"z") => Ok(()),
        other => Err(Failure::verification(format!(
            "came to {other:?}, not to z"
        ))),
    };
    // A new cursor for each step: one that has been there holds the keys that it read.
    timed(figures, &format!("seek {what}"), || {
        let (begin, mut cursor) = (Instant::now(), db.cursor());
        cursor.seek("b").map_err(Failure::engine)?;
        let elapsed = begin.elapsed();
        expect(cursor.key()).map(|()| elapsed)
    })?;
    timed(figures, &format!("seek before, then next {what}"), || {
        let (begin, mut cursor) = (Instant::now(), db.cursor());
        cursor.seek("a").map_err(Failure::engine)?;
        cursor.next().map_err(Failure::engine)?;
        let elapsed = begin.elapsed();
        expect(cursor.key()).map(|()| elapsed)
    })?;
    timed(figures, &format!("first key {what}"), || {
        let begin = Instant::now();
        let first = db.range("b"..).next().transpose();
        let first = first.map_err(Failure::engine)?;
        let elapsed = begin.elapsed();
        expect(first.as_ref().map(|(key, _)| &key[..])).map(|()| elapsed)
    })
}

/// At most a thousand steps, and for ten seconds.
fn timed(
    figures: &mut Figures,
    what: &str,
    mut step: impl FnMut() -> Outcome<Duration>,
) -> Outcome<()> {
    let (begin, mut times) = (Instant::now(), Vec::new());
    while times.len() < STEPS && begin.elapsed() < Duration::from_secs(10) {
        times.push(step()?);
    }
    let first = times.first().copied().unwrap_or_default();
    times.sort_unstable();
    let median = times.get(times.len() / 2).copied().unwrap_or_default();
    let longest = times.last().copied().unwrap_or_default();
    figures.time(format!("{what}: first"), first, Some(LONGEST));
    figures.time(format!("{what}: half"), median, Some(MEDIAN_STEP));
    figures.time(format!("{what}: longest"), longest, Some(LONGEST));
    Ok(())
}
