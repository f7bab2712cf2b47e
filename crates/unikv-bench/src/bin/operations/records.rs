//! The records that experiments write and check, and writers of them.

use hdrhistogram::Histogram;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};
use unikv::Db;
use unikv_bench::Failure;
use unikv_bench::report::figures::millis;
use unikv_bench::run::pace::{Pace, wait_until};
use unikv_bench::workload::keys::KeyOrder;
use unikv_bench::workload::values::{self, Lengths};

pub type Outcome<T> = Result<T, Failure>;
/// What was measured, and the figure with its unit.
pub type Figures = Vec<(String, String)>;

/// Records `0..count` whose values have `bytes` each.
#[derive(Clone, Copy)]
pub struct Records {
    pub count: u64,
    pub bytes: usize,
}

impl Records {
    pub fn key(record: u64) -> [u8; 24] {
        KeyOrder::Random.key(record)
    }

    /// Writes one.
    pub fn put(&self, db: &Db, record: u64, version: u64, buffer: &mut [u8]) -> Outcome<()> {
        let value = &mut buffer[..self.bytes];
        values::fill(value, record, version);
        db.put(Self::key(record), value).map_err(Failure::engine)
    }

    /// Writes all of them once.
    pub fn load(&self, db: &Db) -> Outcome<()> {
        let mut buffer = vec![0; self.bytes];
        (0..self.count).try_for_each(|record| self.put(db, record, 1, &mut buffer))
    }

    /// The version of a record's value, which must be one that was written.
    pub fn check(&self, record: u64, found: Option<&[u8]>) -> Outcome<u64> {
        let wrong = |what: String| Failure::verification(format!("record {record}: {what}"));
        let value = found.ok_or_else(|| wrong("not found".into()))?;
        let checked = values::check(value, &Lengths::fixed(self.bytes), record);
        checked.map_err(|fault| wrong(fault.to_string()))
    }

    /// A record drawn by a number, each as often as any other.
    pub fn drawn(&self, n: u64) -> u64 {
        unikv_bench::workload::keys::mix(n) % self.count
    }
}

/// What a writer did.
pub struct Written {
    pub puts: u64,
    pub elapsed: Duration,
    pub latencies: Histogram<u64>,
}

impl Written {
    pub fn per_second(&self) -> f64 {
        self.puts as f64 / self.elapsed.as_secs_f64()
    }
}

/// Updates drawn records until `is_over`, at `rate` a second if there is one. Puts are timed from
/// when they are due.
pub fn update(
    db: &Db,
    records: &Records,
    rate: Option<u64>,
    is_over: &AtomicBool,
) -> Outcome<Written> {
    let mut latencies = histogram()?;
    let (begin, mut puts) = (Instant::now(), 0);
    let (pace, mut buffer) = (
        rate.map(|rate| Pace::new(rate, 0, 1)),
        vec![0; records.bytes],
    );
    while !is_over.load(Ordering::Relaxed) {
        let due = match pace {
            Some(pace) => pace.due(begin, puts),
            None => Instant::now(),
        };
        wait_until(due);
        records.put(db, records.drawn(puts), 2 + puts, &mut buffer)?;
        latencies.saturating_record(due.elapsed().as_nanos() as u64);
        puts += 1;
    }
    let elapsed = begin.elapsed();
    Ok(Written {
        puts,
        elapsed,
        latencies,
    })
}

/// Runs `during` beside a writer, which ends with it.
pub fn beside<T>(
    db: &Db,
    records: &Records,
    rate: Option<u64>,
    during: impl FnOnce() -> Outcome<T>,
) -> Outcome<(Written, T)> {
    let is_over = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let writer = scope.spawn(|| update(db, records, rate, &is_over));
        let done = during();
        is_over.store(true, Ordering::Relaxed);
        let written = writer.join();
        let written = written.map_err(|_| Failure::invalid("the writer has panicked"))??;
        Ok((written, done?))
    })
}

/// Times in nanoseconds, up to ten minutes.
pub fn histogram() -> Outcome<Histogram<u64>> {
    Histogram::new_with_bounds(1, 600_000_000_000, 3).map_err(Failure::engine)
}

/// Half, 99 of a hundred, 999 of a thousand took no longer; the longest.
pub fn percentiles(histogram: &Histogram<u64>) -> String {
    let millis = |ns| millis(Duration::from_nanos(ns));
    let at = |quantile| millis(histogram.value_at_quantile(quantile));
    format!(
        "{}, {}, {}, {}",
        at(0.5),
        at(0.99),
        at(0.999),
        millis(histogram.max())
    )
}
