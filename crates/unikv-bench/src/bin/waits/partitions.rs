//! The same data and memory with few partitions and with many.

use crate::figures::{Figures, Outcome, Unit};
use crate::timetable::beside;
use clap::Args;
use std::path::Path;
use std::time::{Duration, Instant};
use unikv::{Db, Options, Tuning};
use unikv_bench::Failure;
use unikv_bench::run::remove_store;
use unikv_bench::workload::keys::{KeyOrder, mix};
use unikv_bench::workload::values::{self, Lengths};

#[derive(Args, Clone)]
pub struct Sizes {
    /// Bytes of the data, in MB
    #[arg(long, default_value_t = 10_000)]
    data_mb: u64,
    /// Partitions that the data is to have in the second setting; ten in the first
    #[arg(long, default_value_t = 10_000)]
    partitions: u64,
    /// Seconds of updates
    #[arg(long, default_value_t = 60)]
    update_seconds: u64,
    /// Memory in MiB
    #[arg(long, default_value_t = 1_024)]
    memory: u64,
}

const VALUE_BYTES: usize = 1_000;

/// What one setting gave.
struct Setting {
    rate: f64,
    longest: Duration,
    p999: Duration,
    quiet: Duration,
    /// Written by the background until it was quiet.
    left: u64,
    partitions: usize,
}

pub fn round(dir: &Path, rate: u64, sizes: &Sizes) -> Outcome<Figures> {
    let mut figures = Figures::default();
    let path = &dir.join("db");
    let few = measure(path, rate, sizes, 10)?;
    let many = measure(path, rate, sizes, sizes.partitions)?;
    remove_store(path)?;
    let per_second = few.left as f64 / few.quiet.as_secs_f64();
    let quiet = Duration::from_secs_f64(1.3 * many.left as f64 / per_second);
    let settings = [
        (&few, [None, None, None]),
        (
            &many,
            [
                Some(Duration::from_millis(50).as_secs_f64()),
                Some(0.8 * few.rate),
                Some(quiet.as_secs_f64()),
            ],
        ),
    ];
    for (setting, [longest, rate, quiet]) in settings {
        let what = format!("{} partitions", setting.partitions);
        let mut add = |name: &str, value, unit, asked| {
            figures.number(format!("{what}: {name}"), value, unit, asked);
        };
        let seconds = |time: Duration| time.as_secs_f64();
        add(
            "longest put",
            seconds(setting.longest),
            Unit::Seconds,
            longest,
        );
        add("99.9 % of puts", seconds(setting.p999), Unit::Seconds, None);
        add("updates", setting.rate, Unit::PerSecond, rate);
        add("until quiet", seconds(setting.quiet), Unit::Seconds, quiet);
        add(
            "written meanwhile",
            setting.left as f64,
            Unit::Megabytes,
            None,
        );
    }
    Ok(figures)
}

fn measure(path: &Path, rate: u64, sizes: &Sizes, partitions: u64) -> Outcome<Setting> {
    remove_store(path)?;
    let (db, count) = loaded(path, sizes.data_mb, sizes.memory, partitions)?;
    let mut versions = vec![1_u32; count as usize];
    let time = Duration::from_secs(sizes.update_seconds);
    let ran = beside(&db, rate, || {
        let (begin, mut updates) = (Instant::now(), 0);
        while begin.elapsed() < time {
            let record = mix(updates) % count;
            let version = &mut versions[record as usize];
            *version += 1;
            put(&db, record, u64::from(*version))?;
            updates += 1;
        }
        Ok(updates)
    })?;
    let before = db.stats().written_bytes();
    let begin = Instant::now();
    db.wait_until_idle().map_err(Failure::engine)?;
    let quiet = begin.elapsed();
    let stats = db.stats();
    for n in 0..20_000 {
        let record = mix(!n) % count;
        check(&db, record, u64::from(versions[record as usize]))?;
    }
    db.close().map_err(Failure::engine)?;
    Ok(Setting {
        rate: ran.result as f64 / ran.elapsed.as_secs_f64(),
        longest: ran.longest,
        p999: ran.p999,
        quiet,
        left: stats.written_bytes() - before,
        partitions: stats.partitions.len(),
    })
}

/// A database of this many records, in about this many partitions.
pub fn loaded(path: &Path, data_mb: u64, memory: u64, partitions: u64) -> Outcome<(Db, u64)> {
    let count = data_mb * 1_000_000 / VALUE_BYTES as u64;
    let partition = (data_mb * 1_000_000 / partitions * 3 / 2).max(8 << 10);
    let options = Options::default().memory_budget(memory << 20).tuning(
        Tuning::default()
            .partition_bytes(partition)
            .unsorted_bytes((partition / 10).max(4 << 10)),
    );
    let db = Db::open(path, options).map_err(Failure::engine)?;
    for record in 0..count {
        put(&db, record, 1)?;
    }
    db.wait_until_idle().map_err(Failure::engine)?;
    Ok((db, count))
}

fn put(db: &Db, record: u64, version: u64) -> Outcome<()> {
    let mut value = [0; VALUE_BYTES];
    values::fill(&mut value, record, version);
    let put = db.put(KeyOrder::Random.key(record), value);
    put.map_err(Failure::engine)
}

fn check(db: &Db, record: u64, version: u64) -> Outcome<()> {
    let found = db.get(KeyOrder::Random.key(record));
    let found = found.map_err(Failure::engine)?.unwrap_or_default();
    let checked = values::check(&found, &Lengths::fixed(VALUE_BYTES), record);
    if checked.ok() == Some(version) {
        return Ok(());
    }
    let what = format!("record {record} does not read as version {version}");
    Err(Failure::verification(what))
}
