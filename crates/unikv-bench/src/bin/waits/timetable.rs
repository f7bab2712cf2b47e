//! The client that puts on a fixed timetable beside a scenario, and the bandwidth of the log.

use crate::figures::{Figures, Outcome, Unit};
use hdrhistogram::Histogram;
use std::path::Path;
use std::sync::OnceLock;
use std::time::{Duration, Instant};
use unikv::Db;
use unikv::vfs::{Env, WriteMode};
use unikv_bench::Failure;
use unikv_bench::run::pace::{Pace, wait_until};
use unikv_bench::workload::values::{self, Lengths};

/// Records that the client updates in turns.
const RECORDS: u64 = 10_000;
const VALUE_BYTES: usize = 100;
/// The client runs alone for so long first.
const BEFORE: Duration = Duration::from_millis(100);
/// Of one append of the log writer.
const APPEND_BYTES: usize = 1 << 20;
const APPENDS: usize = 128;
/// What a wait may take beside the time in which the log is written.
const GRACE: Duration = Duration::from_millis(20);

/// How long the puts of the client took from when they were due, and what ran beside them.
pub struct Beside<T> {
    pub longest: Duration,
    /// Of 1,000 puts 999 took no longer.
    pub p999: Duration,
    /// How long it ran.
    pub elapsed: Duration,
    pub result: T,
}

/// Runs `during` beside a client that does `rate` puts a second, and reads back its values.
pub fn beside<T>(db: &Db, rate: u64, during: impl FnOnce() -> Outcome<T>) -> Outcome<Beside<T>> {
    let end = OnceLock::new();
    let (latencies, elapsed, result) = std::thread::scope(|scope| {
        let client = scope.spawn(|| put_until(db, rate, &end));
        std::thread::sleep(BEFORE);
        let begin = Instant::now();
        let result = during();
        let elapsed = begin.elapsed();
        let _set_once = end.set(Instant::now());
        let latencies = client.join();
        let latencies = latencies.map_err(|_| Failure::invalid("the client has panicked"))??;
        Ok::<_, Failure>((latencies, elapsed, result?))
    })?;
    Ok(Beside {
        longest: Duration::from_nanos(latencies.max()),
        p999: Duration::from_nanos(latencies.value_at_quantile(0.999)),
        elapsed,
        result,
    })
}

impl<T> Beside<T> {
    /// Adds the rows of a scenario: the waits and its own time, with the bounds asked for.
    pub fn add_to(
        &self,
        figures: &mut Figures,
        what: &str,
        longest: Option<Duration>,
        own: Option<Duration>,
    ) {
        figures.time(format!("{what}: longest put"), self.longest, longest);
        figures.time(format!("{what}: 99.9 % of puts"), self.p999, None);
        figures.time(format!("{what}: its own time"), self.elapsed, own);
    }
}

/// Begins with `~`, which no key of a scenario does.
fn key(record: u64) -> String {
    format!("~{record:015}")
}

/// Puts until the end is there and all that was due by then is done; then reads the values back.
fn put_until(db: &Db, rate: u64, end: &OnceLock<Instant>) -> Outcome<Histogram<u64>> {
    let mut latencies = Histogram::new_with_bounds(1, 600_000_000_000, 3);
    let latencies = latencies.as_mut().map_err(|e| Failure::engine(*e))?;
    let (begin, pace) = (Instant::now(), Pace::new(rate, 0, 1));
    let (mut puts, mut value) = (0, [0; VALUE_BYTES]);
    loop {
        let due = pace.due(begin, puts);
        if end.get().is_some_and(|end| due > *end) {
            break;
        }
        wait_until(due);
        let record = puts % RECORDS;
        values::fill(&mut value, record, puts);
        db.put(key(record), value).map_err(Failure::engine)?;
        latencies.saturating_record(due.elapsed().as_nanos() as u64);
        puts += 1;
    }
    for last in puts.saturating_sub(RECORDS)..puts {
        let record = last % RECORDS;
        let found = db.get(key(record)).map_err(Failure::engine)?;
        let found = found.ok_or_else(|| Failure::verification(format!("put {last} is lost")))?;
        let version = values::check(&found, &Lengths::fixed(VALUE_BYTES), record);
        if version.ok() != Some(last) {
            return Err(Failure::verification(format!("put {last} reads otherwise")));
        }
    }
    Ok(latencies.clone())
}

/// What the log takes, in bytes a second.
#[derive(Clone, Copy)]
pub struct Bandwidth(pub f64);

impl Bandwidth {
    /// Appends of 1 MiB to a new log file, made and written through the engine's own file layer as
    /// the log writer does it, without its checksum.
    pub fn measure(dir: &Path) -> Outcome<Bandwidth> {
        let vfs = Env::os().vfs;
        let path = dir.join("bandwidth.wal");
        let bytes: Vec<u8> = (0..APPEND_BYTES).map(|at| (at * 131) as u8).collect();
        let mut file = vfs.create(&path, WriteMode::Log, 0)?;
        let begin = Instant::now();
        for _ in 0..APPENDS {
            file.append(&bytes)?;
        }
        let elapsed = begin.elapsed();
        drop(file);
        vfs.remove(&path)?;
        let bytes = (APPENDS * APPEND_BYTES) as f64;
        Ok(Bandwidth(bytes / elapsed.as_secs_f64()))
    }

    /// The time in which the log takes these bytes.
    pub fn time(&self, bytes: usize) -> Duration {
        Duration::from_secs_f64(bytes as f64 / self.0)
    }

    /// How long a put may wait beside a batch of these bytes.
    pub fn bound(&self, bytes: usize) -> Duration {
        GRACE + self.time(bytes)
    }

    /// Adds the row of it.
    pub fn add_to(&self, figures: &mut Figures) {
        let what = "log, appends of 1 MiB";
        figures.number(what, self.0, Unit::MegabytesPerSecond, None);
    }
}
