//! What a phase costs: latencies per operation, and counters of the engine and of the system
//! taken before and after.
//!
//! Latencies are service times of a closed loop: each thread issues its next operation when the
//! last one has ended, so a stall shows in the latencies of the operations it held, once each.

use crate::ycsb::workload::Operation;
use hdrhistogram::Histogram;
use parking_lot::Mutex;
use rustix::time::{ClockId, clock_gettime};
use serde::Serialize;
use std::fs;
use std::time::Duration;
use unikv::Stats;

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
#[derive(Clone, Debug, Serialize)]
pub struct LatencySummary {
    pub operation: &'static str,
    pub count: u64,
    pub mean_us: f64,
    pub p50_us: f64,
    pub p99_us: f64,
    pub p999_us: f64,
    pub max_us: f64,
}

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
    }
}

/// The latencies of one thread since somebody last looked, for `--trace`.
pub struct Interval(Mutex<Histogram<u64>>);

impl Interval {
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

/// CPU time of all threads of this process so far.
fn cpu_time() -> Duration {
    let time = clock_gettime(ClockId::ProcessCPUTime);
    let seconds = u64::try_from(time.tv_sec).unwrap_or(0);
    Duration::new(seconds, u32::try_from(time.tv_nsec).unwrap_or(0))
}

/// Bytes that this process caused to be read from and written to devices so far.
fn device_bytes() -> Option<(u64, u64)> {
    let text = fs::read_to_string("/proc/self/io").ok()?;
    Some((field(&text, "read_bytes:")?, field(&text, "write_bytes:")?))
}

/// Anonymous memory of this process now.
pub fn anonymous_bytes() -> Option<u64> {
    let text = fs::read_to_string("/proc/self/status").ok()?;
    Some(field(&text, "RssAnon:")? << 10)
}

fn field(text: &str, name: &str) -> Option<u64> {
    let rest = text.lines().find_map(|line| line.strip_prefix(name))?;
    rest.split_whitespace().next()?.parse().ok()
}

/// The state of all counters at one moment.
pub struct Counters {
    cpu: Duration,
    device: Option<(u64, u64)>,
    stats: Stats,
}

impl Counters {
    pub fn now(stats: Stats) -> Counters {
        Counters {
            cpu: cpu_time(),
            device: device_bytes(),
            stats,
        }
    }
}

/// What happened between two moments. Bytes unless said.
#[derive(Clone, Debug, Default, Serialize)]
pub struct Costs {
    pub user_bytes_written: u64,
    pub wal_bytes: u64,
    /// Bytes of files for large values.
    pub large_bytes: u64,
    pub flush_bytes: u64,
    pub ingest_bytes: u64,
    pub merge_bytes: u64,
    /// Bytes written by garbage collection that ran alone.
    pub gc_bytes: u64,
    pub scan_merge_bytes: u64,
    pub manifest_bytes: u64,
    /// All of these but the user's.
    #[serde(skip)]
    written_bytes: u64,
    pub engine_reads: u64,
    pub engine_read_bytes: u64,
    pub device_read_bytes: Option<u64>,
    pub device_write_bytes: Option<u64>,
    pub cpu_us: f64,
    pub flushes: u64,
    pub merges: u64,
    /// Garbage collections that ran alone.
    pub gcs: u64,
    pub splits: u64,
    pub stalls: u64,
    pub stall_ms: f64,
    pub longest_stall_ms: f64,
}

impl Costs {
    /// From `before` to `after`, both of the same open database.
    pub fn between(before: &Counters, after: &Counters) -> Costs {
        let (old, new) = (&before.stats, &after.stats);
        let device = before.device.zip(after.device);
        Costs {
            user_bytes_written: new
                .user_bytes_written
                .saturating_sub(old.user_bytes_written),
            wal_bytes: new.wal_bytes.saturating_sub(old.wal_bytes),
            large_bytes: new.large_bytes.saturating_sub(old.large_bytes),
            flush_bytes: new.flush_bytes.saturating_sub(old.flush_bytes),
            ingest_bytes: new.ingest_bytes.saturating_sub(old.ingest_bytes),
            merge_bytes: new.merge_bytes.saturating_sub(old.merge_bytes),
            gc_bytes: new.gc_bytes.saturating_sub(old.gc_bytes),
            scan_merge_bytes: new.scan_merge_bytes.saturating_sub(old.scan_merge_bytes),
            manifest_bytes: new.manifest_bytes.saturating_sub(old.manifest_bytes),
            written_bytes: new.written_bytes().saturating_sub(old.written_bytes()),
            engine_reads: new.reads.saturating_sub(old.reads),
            engine_read_bytes: new.read_bytes.saturating_sub(old.read_bytes),
            device_read_bytes: device.map(|(old, new)| new.0.saturating_sub(old.0)),
            device_write_bytes: device.map(|(old, new)| new.1.saturating_sub(old.1)),
            cpu_us: after.cpu.saturating_sub(before.cpu).as_secs_f64() * 1e6,
            flushes: new.flushes.saturating_sub(old.flushes),
            merges: new.merges.saturating_sub(old.merges),
            gcs: new.gcs.saturating_sub(old.gcs),
            splits: new.splits.saturating_sub(old.splits),
            stalls: new.stalls.saturating_sub(old.stalls),
            stall_ms: new.stall_time.saturating_sub(old.stall_time).as_secs_f64() * 1e3,
            longest_stall_ms: new.longest_stall.as_secs_f64() * 1e3,
        }
    }

    /// Bytes that the engine wrote, as [`Stats::written_bytes`] sums them up.
    pub fn written_bytes(&self) -> u64 {
        self.written_bytes
    }

    /// Bytes written for each byte of keys and values; `None` when none was written.
    pub fn write_amplification(&self) -> Option<f64> {
        let user = self.user_bytes_written;
        (user > 0).then(|| self.written_bytes() as f64 / user as f64)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fields_of_proc_files() {
        let text = "VmRSS:\t  900 kB\nRssAnon:\t  40 kB\n";
        assert_eq!(field(text, "RssAnon:"), Some(40));
        assert_eq!(field(text, "RssFile:"), None);
    }

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

    #[test]
    fn write_amplification_counts_every_writer() {
        let mut stats = Stats::default();
        let before = Counters::now(stats.clone());
        stats.user_bytes_written = 1000;
        // Powers of two, so that no two sums are equal.
        let writers = [
            &mut stats.wal_bytes,
            &mut stats.large_bytes,
            &mut stats.flush_bytes,
            &mut stats.ingest_bytes,
            &mut stats.merge_bytes,
            &mut stats.gc_bytes,
            &mut stats.scan_merge_bytes,
            &mut stats.manifest_bytes,
        ];
        for (power, bytes) in writers.into_iter().enumerate() {
            *bytes = 1 << power;
        }
        let costs = Costs::between(&before, &Counters::now(stats.clone()));
        assert_eq!(costs.written_bytes(), 255);
        assert_eq!(costs.written_bytes(), stats.written_bytes());
        assert_eq!(costs.write_amplification(), Some(0.255));
        assert_eq!(Costs::default().write_amplification(), None);
    }
}
