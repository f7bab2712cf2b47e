//! Keyspaces by the thousand.

use crate::figures::{Figures, Outcome, Unit};
use crate::small;
use clap::Args;
use std::path::Path;
use std::time::{Duration, Instant};
use unikv::{Compression, Db, Keyspace, KeyspaceOptions, Options};
use unikv_bench::Failure;
use unikv_bench::measure::process::cpu_time;
use unikv_bench::run::remove_store;
use unikv_bench::workload::keys::{KeyOrder, mix};

#[derive(Args, Clone)]
pub struct Sizes {
    /// Keyspaces with five small keys each
    #[arg(long, default_value_t = 10_000)]
    keyspaces: u64,
    /// Rounds of making, writing and dropping a keyspace
    #[arg(long, default_value_t = 2_000)]
    churn: u64,
    /// Keyspaces of a thousand records each, compressed and not
    #[arg(long, default_value_t = 1_000)]
    compressed: u64,
}

const KEYS: u64 = 5;
const PUTS: u64 = 200_000;

/// Makes keyspaces of five small keys each; gives the times of the makings.
pub fn make(db: &Db, count: u64) -> Outcome<(Vec<Keyspace>, Vec<Duration>)> {
    let (mut all, mut times) = (Vec::new(), Vec::new());
    for n in 0..count {
        let begin = Instant::now();
        let made = db.keyspace(&format!("keyspace {n}"), KeyspaceOptions::default());
        times.push(begin.elapsed());
        let keyspace = made.map_err(Failure::engine)?;
        for key in (n * KEYS..(n + 1) * KEYS).map(small::key) {
            let put = keyspace.put(key, small::value(&key));
            put.map_err(Failure::engine)?;
        }
        all.push(keyspace);
    }
    Ok((all, times))
}

/// Reads what [`make`] has written.
pub fn check(all: &[Keyspace]) -> Outcome<()> {
    for (n, keyspace) in (0..).zip(all) {
        for key in (n * KEYS..(n + 1) * KEYS).map(small::key) {
            let found = keyspace.get(key).map_err(Failure::engine)?;
            small::check(&key, found.as_deref())?;
        }
    }
    Ok(())
}

pub fn round(dir: &Path, sizes: &Sizes) -> Outcome<Figures> {
    let mut figures = Figures::default();
    let count = sizes.keyspaces;
    let alone = Db::open(dir.join("one"), Options::default()).map_err(Failure::engine)?;
    let (one, _) = make(&alone, 1)?;
    let cost_alone = cost_of_puts(&one)?;
    alone.close().map_err(Failure::engine)?;

    let db = Db::open(dir.join("db"), Options::default()).map_err(Failure::engine)?;
    let mut cpu = cpu_time();
    let mut cpu_since = || {
        let before = std::mem::replace(&mut cpu, cpu_time());
        cpu.saturating_sub(before)
    };
    let (all, times) = make(&db, count)?;
    one_by_one(&mut figures, "made", times, cpu_since());
    let begin = Instant::now();
    db.flush().map_err(Failure::engine)?;
    db.wait_until_idle().map_err(Failure::engine)?;
    let what = format!("{count} keyspaces: until idle");
    let asked = Some(Duration::from_secs(5));
    figures.time(what, begin.elapsed(), asked);
    check(&all)?;
    let begin = Instant::now();
    let stats = db.stats();
    let asked = Some(Duration::from_millis(10));
    figures.time("stats()", begin.elapsed(), asked);
    figures.count("partitions", stats.partitions.len() as u64, None);
    let cost = cost_of_puts(&all[..1])?;
    figures.time("a put into one of them", cost, Some(cost_alone));
    db.wait_until_idle().map_err(Failure::engine)?;
    cpu_since();
    let mut times = Vec::new();
    for keyspace in all {
        let begin = Instant::now();
        keyspace.drop_keyspace().map_err(Failure::engine)?;
        times.push(begin.elapsed());
    }
    one_by_one(&mut figures, "dropped", times, cpu_since());
    let begin = Instant::now();
    db.wait_until_idle().map_err(Failure::engine)?;
    figures.time("all dropped: until idle", begin.elapsed(), None);
    at_once(&db, count, &mut figures)?;
    db.close().map_err(Failure::engine)?;
    Ok(figures)
}

/// All made by one call, and all dropped by one.
fn at_once(db: &Db, count: u64, figures: &mut Figures) -> Outcome<()> {
    let names = (0..count).map(|n| format!("keyspace {n}"));
    let asked = Some(Duration::from_secs(2));
    let begin = Instant::now();
    let all = db.create_keyspaces(names, KeyspaceOptions::default());
    let all = all.map_err(Failure::engine)?;
    figures.time("made by one call", begin.elapsed(), asked);
    if let Some(last) = all.last() {
        last.put("key", "value").map_err(Failure::engine)?;
    }
    let begin = Instant::now();
    db.drop_keyspaces(&all).map_err(Failure::engine)?;
    figures.time("dropped by one call", begin.elapsed(), asked);
    let begin = Instant::now();
    db.wait_until_idle().map_err(Failure::engine)?;
    figures.time("dropped by one call: until idle", begin.elapsed(), None);
    Ok(())
}

/// The rows of something done to each keyspace. The processor time is that of all threads.
fn one_by_one(figures: &mut Figures, what: &str, mut times: Vec<Duration>, cpu: Duration) {
    let count = times.len().max(1) as u32;
    let sum: Duration = times.iter().sum();
    times.sort_unstable();
    figures.time(format!("{what} one at a time: all"), sum, None);
    figures.time(format!("{what}: mean"), sum / count, None);
    let longest = times.last().copied().unwrap_or_default();
    figures.time(format!("{what}: slowest"), longest, None);
    let asked = Some(Duration::from_micros(500));
    figures.time(
        format!("{what}: processor time of each"),
        cpu / count,
        asked,
    );
}

/// The mean time of a put into the first of them.
fn cost_of_puts(keyspaces: &[Keyspace]) -> Outcome<Duration> {
    let keyspace = keyspaces.first();
    let keyspace = keyspace.ok_or_else(|| Failure::invalid("there is no keyspace"))?;
    let begin = Instant::now();
    for key in (0..PUTS).map(|n| small::key(n % 10_000)) {
        let put = keyspace.put(key, small::value(&key));
        put.map_err(Failure::engine)?;
    }
    Ok(begin.elapsed() / PUTS as u32)
}

/// Keyspaces that are made, written and dropped, while one write stays in the memtable.
pub fn churn(dir: &Path, sizes: &Sizes) -> Outcome<Figures> {
    let (mut figures, path) = (Figures::default(), &dir.join("db"));
    let db = Db::open(path, Options::default()).map_err(Failure::engine)?;
    db.put("stays", "in the memtable")
        .map_err(Failure::engine)?;
    let (begin, mut most_logs) = (Instant::now(), 0);
    for n in 0..sizes.churn {
        let (keyspaces, _) = make(&db, 1)?;
        keyspaces[0].drop_keyspace().map_err(Failure::engine)?;
        if n % 20 == 0 || n + 1 == sizes.churn {
            most_logs = most_logs.max(log_files(path)?);
        }
    }
    let what = format!("{} rounds of make, write, drop", sizes.churn);
    figures.time(&what, begin.elapsed(), None);
    figures.count(format!("{what}: most log files"), most_logs, Some(64 + 2));
    std::thread::sleep(Duration::from_secs(10));
    figures.count("log files after 10 s", log_files(path)?, Some(4));
    let partitions = db.stats().partitions.len() as u64;
    figures.count("partitions after 10 s", partitions, Some(1));
    let found = db.get("stays").map_err(Failure::engine)?;
    if found.as_deref() != Some(b"in the memtable") {
        return Err(Failure::verification("the write of the beginning is lost"));
    }
    db.close().map_err(Failure::engine)?;
    Ok(figures)
}

fn log_files(dir: &Path) -> Outcome<u64> {
    let mut count = 0;
    for entry in std::fs::read_dir(dir)? {
        count += u64::from(entry?.path().extension().is_some_and(|end| end == "wal"));
    }
    Ok(count)
}

/// A value of about 250 bytes that compresses: too long to be kept beside its key.
fn text(keyspace: u64, record: u64) -> String {
    let (one, other) = (mix(keyspace ^ record << 20), mix(record));
    let city = ["Berlin", "Kigali", "Lima", "Oslo", "Pune"][(one % 5) as usize];
    let plan = ["free of charge", "for one person", "for a family"][(other % 3) as usize];
    format!(
        r#"{{"identifier":{record},"user":"{:08x}","address":{{"city":"{city}","house":{}}},"#,
        one as u32,
        one % 300,
    ) + &format!(
        r#""subscription":{{"plan":"{plan}","active":{},"balance":{},"visits":{}}},"#,
        other.is_multiple_of(2),
        other % 100_000,
        one % 1_000,
    ) + &format!(
        r#""last_seen":"2026-{:02}-{:02}T{:02}:15:00Z","session":"{:016x}"}}"#,
        one % 12 + 1,
        one % 28 + 1,
        one % 24,
        mix(one),
    )
}

/// Small keyspaces, loaded in turns, with Zstandard and without.
pub fn zstd(dir: &Path, sizes: &Sizes) -> Outcome<Figures> {
    let mut figures = Figures::default();
    let zstd = Compression::Zstd { level: 3 };
    let cpu = cpu_time();
    let (plain, _) = load_texts(&dir.join("db"), sizes.compressed, Compression::None)?;
    let plain_cpu = cpu_time().saturating_sub(cpu);
    let cpu = cpu_time();
    let (time, bytes) = load_texts(&dir.join("db"), sizes.compressed, zstd)?;
    let zstd_cpu = cpu_time().saturating_sub(cpu);
    let what = format!("{} small keyspaces until idle", sizes.compressed);
    figures.time(format!("{what}, uncompressed"), plain, None);
    figures.time(
        format!("{what}, with Zstandard"),
        time,
        Some(plain.mul_f64(1.3)),
    );
    figures.time("processor time, uncompressed", plain_cpu, None);
    let asked = Some(plain_cpu.mul_f64(1.3));
    figures.time("processor time, with Zstandard", zstd_cpu, asked);
    figures.number("files with Zstandard", bytes as f64, Unit::Megabytes, None);
    Ok(figures)
}

/// The time until idle, and the bytes of the data files then.
fn load_texts(path: &Path, count: u64, compression: Compression) -> Outcome<(Duration, u64)> {
    const RECORDS: u64 = 1_000;
    remove_store(path)?;
    let options = Options::default().memory_budget(64 << 20);
    let db = Db::open(path, options.compression(compression)).map_err(Failure::engine)?;
    let all: Outcome<Vec<Keyspace>> = (0..count)
        .map(|n| {
            let made = db.keyspace(&n.to_string(), KeyspaceOptions::default());
            made.map_err(Failure::engine)
        })
        .collect();
    let all = all?;
    let begin = Instant::now();
    for record in 0..RECORDS {
        for (n, keyspace) in (0..).zip(&all) {
            let put = keyspace.put(KeyOrder::Random.key(record), text(n, record));
            put.map_err(Failure::engine)?;
        }
    }
    db.flush().map_err(Failure::engine)?;
    db.wait_until_idle().map_err(Failure::engine)?;
    let elapsed = begin.elapsed();
    let stats = db.stats();
    for (n, keyspace) in (0..).zip(&all) {
        for record in (0..RECORDS).step_by(37) {
            let found = keyspace.get(KeyOrder::Random.key(record));
            if found.map_err(Failure::engine)?.as_deref() != Some(text(n, record).as_bytes()) {
                let what = format!("record {record} of keyspace {n} reads otherwise");
                return Err(Failure::verification(what));
            }
        }
    }
    db.close().map_err(Failure::engine)?;
    Ok((elapsed, stats.record_file_bytes + stats.key_table_bytes))
}
