//! Latencies per operation.
//!
//! In a closed loop they are service times: each thread issues its next operation when the last one
//! has ended, so a stall shows in the latencies of the operations it held, once each. In an open
//! loop operations are due at a fixed rate and timed from then, so a stall shows in all that it
//! delayed.

use crate::workload::phases::Operation;
use hdrhistogram::Histogram;
use parking_lot::Mutex;
use serde::Serialize;

const LONGEST_NS: u64 = 600_000_000_000;

/// Latencies of one thread (or, merged, of all), per operation, in nanoseconds.
#[derive(Default)]
pub struct Latencies {
    // A histogram is 400 KB, so there is one only for what happens.
    histograms: [Option<Histogram<u64>>; Operation::ALL.len()],
}

impl Latencies {
    /// Notes one operation.
    #[inline]
    pub fn record(&mut self, operation: Operation, latency_ns: u64) {
        let histogram = self.histograms[operation as usize].get_or_insert_with(new_histogram);
        histogram.saturating_record(latency_ns);
    }

    /// Adds those of another thread.
    pub fn merge(&mut self, other: &Latencies) {
        for (mine, theirs) in self.histograms.iter_mut().zip(&other.histograms) {
            if let Some(theirs) = theirs {
                // Both have the same bounds, so adding cannot fail.
                let _ = mine.get_or_insert_with(new_histogram).add(theirs);
            }
        }
    }

    /// The figures of each operation that happened.
    pub fn summaries(&self) -> Vec<LatencySummary> {
        let pairs = Operation::ALL.iter().zip(&self.histograms);
        pairs
            .filter_map(|(operation, h)| Some(summary(*operation, h.as_ref()?)))
            .collect()
    }
}

fn new_histogram() -> Histogram<u64> {
    // These bounds are valid; the crate has no constructor that cannot fail.
    Histogram::new_with_bounds(1, LONGEST_NS, 3).unwrap_or_else(|_| unreachable!("valid bounds"))
}

/// The latencies of one kind of operation, in microseconds.
#[derive(Clone, Debug, Default, Serialize)]
pub struct LatencySummary {
    /// Its name.
    pub operation: &'static str,
    /// How many there were.
    pub count: u64,
    /// Their mean.
    pub mean_us: f64,
    /// Half of them took no longer.
    pub p50_us: f64,
    /// 99 of 100 took no longer.
    pub p99_us: f64,
    /// 999 of 1000 took no longer.
    pub p999_us: f64,
    /// The longest.
    pub max_us: f64,
    /// Percentiles, and what they took in microseconds.
    pub curve: Vec<(f64, f64)>,
}

/// Of a curve; the last one is the longest.
const PERCENTILES: [f64; 16] = [
    0.0, 10.0, 25.0, 50.0, 75.0, 90.0, 95.0, 98.0, 99.0, 99.5, 99.8, 99.9, 99.95, 99.99, 99.999,
    100.0,
];

fn summary(operation: Operation, histogram: &Histogram<u64>) -> LatencySummary {
    let at = |quantile| histogram.value_at_quantile(quantile) as f64 / 1e3;
    LatencySummary {
        operation: operation.name(),
        count: histogram.len(),
        mean_us: histogram.mean() / 1e3,
        p50_us: at(0.5),
        p99_us: at(0.99),
        p999_us: at(0.999),
        max_us: histogram.max() as f64 / 1e3,
        curve: PERCENTILES
            .map(|percentile| (percentile, at(percentile / 100.0)))
            .to_vec(),
    }
}

/// The latencies of one thread since somebody last looked, for `--trace`.
pub struct Interval(Mutex<Histogram<u64>>);

impl Default for Interval {
    fn default() -> Interval {
        Interval::new()
    }
}

impl Interval {
    /// Nothing noted yet.
    pub fn new() -> Interval {
        Interval(Mutex::new(new_histogram()))
    }

    /// Notes one operation.
    pub fn record(&self, latency_ns: u64) {
        self.0.lock().saturating_record(latency_ns);
    }

    /// Moves what was noted into `sum`.
    pub fn drain_into(&self, sum: &mut Histogram<u64>) {
        let mut histogram = self.0.lock();
        let _ = sum.add(&*histogram);
        histogram.reset();
    }
}

/// An empty histogram to drain intervals into.
pub fn interval_sum() -> Histogram<u64> {
    new_histogram()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn latencies_of_threads_add_up() {
        let (mut sum, mut one) = (Latencies::default(), Latencies::default());
        one.record(Operation::Read, 1_000);
        one.record(Operation::Scan, u64::MAX);
        sum.record(Operation::Read, 3_000);
        sum.merge(&one);
        let summaries = sum.summaries();
        let names: Vec<_> = summaries.iter().map(|s| (s.operation, s.count)).collect();
        assert_eq!(names, [("read", 2), ("scan", 1)]);
        assert!((summaries[0].mean_us - 2.0).abs() < 0.01);
    }
}
