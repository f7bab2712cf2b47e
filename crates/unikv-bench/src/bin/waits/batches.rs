//! Large batches beside the timetable, and opening after a kill with one in the log.

use crate::figures::{Figures, Outcome, Unit};
use crate::small::{self, Ranges};
use crate::timetable::{Bandwidth, beside};
use clap::Args;
use std::io::{Read as _, Write as _};
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};
use unikv::{Batch, Db, Options};
use unikv_bench::Failure;
use unikv_bench::run::remove_store;
use unikv_bench::workload::keys::{KeyOrder, mix};
use unikv_bench::workload::values::{self, Lengths};

#[derive(Args, Clone)]
pub struct Sizes {
    /// Puts of nine bytes in one batch
    #[arg(long, default_value_t = 1_000_000)]
    puts: u64,
    /// Range deletes in one batch
    #[arg(long, value_delimiter = ',', default_values_t = [100_000, 400_000, 700_000])]
    ranges: Vec<u64>,
    /// The greatest share of the key space that a range covers
    #[arg(long, default_value_t = 1.0)]
    reach: f64,
    /// Seconds of batches of 5 MiB back to back
    #[arg(long, default_value_t = 60)]
    back_to_back: u64,
    /// Memory of the database that gets a batch larger than that, in MiB
    #[arg(long, default_value_t = 32)]
    budget: u64,
}

const KEYS: u64 = 10_000;

pub fn round(dir: &Path, rate: u64, sizes: &Sizes) -> Outcome<Figures> {
    let bandwidth = Bandwidth::measure(dir)?;
    let mut figures = Figures::default();
    bandwidth.add_to(&mut figures);
    let path = &dir.join("db");
    let with = |options: Options, run: &mut dyn FnMut(&Db) -> Outcome<()>| {
        remove_store(path)?;
        let db = Db::open(path, options).map_err(Failure::engine)?;
        run(&db)?;
        db.close().map(drop).map_err(Failure::engine)
    };
    let figures_of = &mut figures;
    with(Options::default(), &mut |db| {
        puts(db, rate, sizes.puts, bandwidth, figures_of)
    })?;
    for &count in &sizes.ranges {
        let ranges = Ranges {
            count,
            reach: sizes.reach,
        };
        with(Options::default(), &mut |db| {
            range_deletes(db, rate, ranges, bandwidth, figures_of)
        })?;
    }
    with(Options::default(), &mut |db| {
        back_to_back(db, rate, sizes.back_to_back, bandwidth, figures_of)
    })?;
    let small_memory = Options::default().memory_budget(8 << 20);
    with(small_memory, &mut |db| {
        let what = "40,000 records of 116 bytes, 8 MiB of memory";
        one_batch(db, rate, what, (40_000, 92), bandwidth, figures_of)
    })?;
    let budget = sizes.budget << 20;
    with(Options::default().memory_budget(budget), &mut |db| {
        let what = format!("twice the memory of {} MiB", sizes.budget);
        let records = (2 * budget / 1_024, 1_000);
        one_batch(db, rate, &what, records, bandwidth, figures_of)
    })?;
    remove_store(path)?;
    reopened(path, sizes.puts, bandwidth, figures_of)?;
    Ok(figures)
}

fn puts(
    db: &Db,
    rate: u64,
    count: u64,
    bandwidth: Bandwidth,
    figures: &mut Figures,
) -> Outcome<()> {
    let batch = small::batch(count);
    let ran = beside(db, rate, || db.write(&batch).map_err(Failure::engine))?;
    let what = format!("{count} puts of 9 bytes");
    ran.add_to(
        figures,
        &what,
        Some(bandwidth.bound(batch.byte_len())),
        None,
    );
    small::sample(db, count)
}

fn range_deletes(
    db: &Db,
    rate: u64,
    ranges: Ranges,
    bandwidth: Bandwidth,
    figures: &mut Figures,
) -> Outcome<()> {
    small::load(db, 0, KEYS)?;
    db.flush().map_err(Failure::engine)?;
    let batch = ranges.batch();
    let ran = beside(db, rate, || db.write(&batch).map_err(Failure::engine))?;
    let what = format!("{} range deletes", ranges.count);
    let bound = Some(bandwidth.bound(batch.byte_len()));
    ran.add_to(figures, &what, bound, None);
    let memory = db.stats().memory;
    let used = memory.memtables + memory.indexes + memory.metadata + memory.jobs;
    let used = used + memory.iterators + memory.cache;
    let share = used as f64 / memory.budget as f64;
    figures.number(
        format!("{what}: memory ÷ budget"),
        share,
        Unit::Times,
        Some(1.0),
    );
    let union = ranges.union();
    let check = |record| -> Outcome<Duration> {
        let key = small::key(record);
        let begin = Instant::now();
        let found = db.get(key).map_err(Failure::engine)?;
        let elapsed = begin.elapsed();
        if union.covers(record) {
            let is_gone = found.is_none().then_some(());
            is_gone.ok_or_else(|| Failure::verification(format!("record {record} is there")))?;
        } else {
            small::check(&key, found.as_deref())?;
        }
        Ok(elapsed)
    };
    let flushed = beside(db, rate, || db.flush().map_err(Failure::engine))?;
    flushed.add_to(figures, &format!("{what}, their flush"), bound, None);
    let first = check(0)?;
    let bound = Duration::from_millis(5);
    figures.time(
        format!("{what}: first get after the flush"),
        first,
        Some(bound),
    );
    (1..KEYS).try_for_each(|record| check(record).map(drop))
}

/// Batches of 5 MiB of 24-byte keys and 100-byte values.
fn back_to_back(
    db: &Db,
    rate: u64,
    seconds: u64,
    bandwidth: Bandwidth,
    figures: &mut Figures,
) -> Outcome<()> {
    const DISTINCT: u64 = 16;
    const RECORDS: u64 = (5 << 20) / 124;
    let batches: Vec<Batch> = (0..DISTINCT)
        .map(|n| records(n * RECORDS..(n + 1) * RECORDS, 100))
        .collect();
    let time = Duration::from_secs(seconds);
    let ran = beside(db, rate, || {
        let (begin, mut bytes) = (Instant::now(), 0);
        for batch in batches.iter().cycle() {
            if begin.elapsed() >= time {
                break;
            }
            db.write(batch).map_err(Failure::engine)?;
            bytes += batch.byte_len();
        }
        Ok(bytes)
    })?;
    let what = "batches of 5 MiB back to back";
    let bound = batches
        .first()
        .map(|batch| bandwidth.bound(batch.byte_len()));
    ran.add_to(figures, what, bound, None);
    let throughput = ran.result as f64 / ran.elapsed.as_secs_f64();
    let name = format!("{what}: throughput");
    figures.number(name, throughput, Unit::MegabytesPerSecond, None);
    sample(db, DISTINCT * RECORDS, 100)
}

/// One batch of COUNT records of 24-byte keys and values of LEN bytes.
fn one_batch(
    db: &Db,
    rate: u64,
    what: &str,
    (count, bytes): (u64, usize),
    bandwidth: Bandwidth,
    figures: &mut Figures,
) -> Outcome<()> {
    let batch = records(0..count, bytes);
    let ran = beside(db, rate, || Ok(db.write(&batch)))?;
    if let Err(error) = &ran.result {
        figures.text(format!("{what}: longest put"), "refused");
        figures.text(format!("{what}: 99.9 % of puts"), "");
        figures.text(format!("{what}: its own time"), error.to_string());
        return Ok(());
    }
    let bound = bandwidth.bound(batch.byte_len());
    ran.add_to(figures, what, Some(bound), None);
    sample(db, count, bytes)
}

fn records(range: std::ops::Range<u64>, bytes: usize) -> Batch {
    let (mut batch, mut value) = (Batch::new(), vec![0; bytes]);
    for record in range {
        values::fill(&mut value, record, 1);
        batch.put(KeyOrder::Random.key(record), &value);
    }
    batch
}

fn sample(db: &Db, count: u64, bytes: usize) -> Outcome<()> {
    for n in 0..10_000.min(count) {
        let record = mix(n) % count;
        let found = db.get(KeyOrder::Random.key(record));
        let found = found.map_err(Failure::engine)?.unwrap_or_default();
        let checked = values::check(&found, &Lengths::fixed(bytes), record);
        checked.map_err(|fault| Failure::verification(format!("record {record}: {fault}")))?;
    }
    Ok(())
}

/// Has another process write a batch of puts, kills it, and opens what it leaves.
fn reopened(path: &Path, count: u64, bandwidth: Bandwidth, figures: &mut Figures) -> Outcome<()> {
    let program = std::env::current_exe()?;
    let child = Command::new(program)
        .arg(path)
        .args(["--write-and-wait", &count.to_string()])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn();
    let mut child = child?;
    let written = child.stdout.as_mut().map(|out| out.read_exact(&mut [0]));
    child.kill()?;
    child.wait()?;
    written.transpose()?;
    let bytes = small::batch(count).byte_len();
    let mut keys: Vec<([u8; 8], u64)> = (0..count).map(|n| (small::key(n), n)).collect();
    let begin = Instant::now();
    keys.sort_unstable();
    let asked = bandwidth.time(bytes) + begin.elapsed();
    let begin = Instant::now();
    let db = Db::open(path, Options::default()).map_err(Failure::engine)?;
    let what = format!("opening after a kill with {count} puts in the log");
    figures.time(what, begin.elapsed(), Some(asked));
    small::sample(&db, count)?;
    db.close().map(drop).map_err(Failure::engine)
}

/// What the other process does: writes the batch, and waits to be killed.
pub fn write_and_wait(path: &Path, count: u64) -> Outcome<()> {
    let db = Db::open(path, Options::default()).map_err(Failure::engine)?;
    db.write(&small::batch(count)).map_err(Failure::engine)?;
    let mut out = std::io::stdout();
    out.write_all(b"\n").and_then(|()| out.flush())?;
    let _ended = std::io::stdin().read_to_end(&mut Vec::new());
    Ok(())
}
