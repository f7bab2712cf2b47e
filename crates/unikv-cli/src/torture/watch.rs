//! What one sees of a run: a line every ten seconds, and at the end whether memory or space
//! drifted.

use crate::exit::Failure;
use crate::output::Output;
use crate::torture::worker::{Counts, Shared};
use hdrhistogram::Histogram;
use indicatif::{HumanBytes, HumanCount};
use serde_json::json;
use std::io::{self, Write};
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};
use unikv::Stats;
use unikv_bench::measure::latency::{Interval, interval_sum};
use unikv_bench::measure::process::anonymous_bytes;
use unikv_bench::measure::space::{SpaceReport, SpaceWatch};

/// How often a line is written.
pub const EVERY: Duration = Duration::from_secs(10);
/// What memory and space may grow from the second quarter of a run to the last.
const DRIFT: f64 = 0.15;
const MEMORY_SLACK_BYTES: f64 = (32 << 20) as f64;
/// Fewer points than this say nothing about drift.
const LEAST_POINTS: usize = 16;

/// One line of the report.
struct Point {
    anonymous_bytes: f64,
    /// Files without the log over what the bound allows.
    space: f64,
}

/// Watches a run.
pub struct Watch<'a> {
    shared: &'a Shared<'a>,
    puts: &'a [Interval],
    space: &'a SpaceWatch,
    output: Output,
    sum: Histogram<u64>,
    last: (Instant, u64, Stats),
    points: Vec<Point>,
    longest_put_ns: u64,
    pub space_report: SpaceReport,
}

impl<'a> Watch<'a> {
    pub fn new(
        shared: &'a Shared<'a>,
        puts: &'a [Interval],
        space: &'a SpaceWatch,
        output: Output,
    ) -> Watch<'a> {
        Watch {
            shared,
            puts,
            space,
            output,
            sum: interval_sum(),
            last: (Instant::now(), 0, shared.db.stats()),
            points: Vec::new(),
            longest_put_ns: 0,
            space_report: SpaceReport::default(),
        }
    }

    pub fn print_head(&self, out: &mut impl Write) -> io::Result<()> {
        if self.output.json {
            return Ok(());
        }
        writeln!(
            out,
            "{:>8}{:>10}{:>10}{:>10}{:>10}{:>11}{:>11}{:>11}{:>7}{:>7}{:>7}{:>7}{:>7}{:>7}{:>10}",
            "seconds",
            "ops/s",
            "writes/s",
            "p99 put",
            "max put",
            "anonymous",
            "directory",
            "live",
            "space",
            "parts",
            "splits",
            "joins",
            "merges",
            "GCs",
            "stall ms"
        )
    }

    /// Writes the line of the time since the last one.
    pub fn line(&mut self, out: &mut impl Write) -> Result<(), Failure> {
        self.sum.reset();
        for interval in self.puts {
            interval.drain_into(&mut self.sum);
        }
        let stats = self.shared.db.stats();
        let (now, operations) = (Instant::now(), operations(self.shared.counts));
        let seconds = (now - self.last.0).as_secs_f64().max(1e-3);
        let space = self.space.take()?;
        let anonymous = anonymous_bytes().unwrap_or(0);
        let longest = self.sum.max();
        self.longest_put_ns = self.longest_put_ns.max(longest);
        let old = &self.last.2;
        let stall = stats.stall_time.saturating_sub(old.stall_time) + stats.pause_time
            - old.pause_time.min(stats.pause_time);
        let run_seconds = (now - self.shared.started).as_secs_f64();
        let operations_per_second = ((operations - self.last.1) as f64 / seconds) as u64;
        let writes_per_second = (self.sum.len() as f64 / seconds) as u64;
        let p99_ms = self.sum.value_at_quantile(0.99) as f64 / 1e6;
        let longest_ms = longest as f64 / 1e6;
        let directory = space.worst.data_bytes + space.worst.wal_bytes;
        let live = self.shared.oracle.live_bytes();
        let (partitions, splits) = (stats.partitions.len(), stats.splits - old.splits);
        let (joins, merges) = (stats.joins - old.joins, stats.merges - old.merges);
        let (gcs, stall_ms) = (stats.gcs - old.gcs, stall.as_secs_f64() * 1e3);
        let as_json = || {
            json!({
                "event": "load",
                "seconds": run_seconds,
                "operations_per_second": operations_per_second,
                "writes_per_second": writes_per_second,
                "p99_put_ms": p99_ms,
                "longest_put_ms": longest_ms,
                "anonymous_bytes": anonymous,
                "directory_bytes": directory,
                "live_bytes": live,
                "space_ratio": space.worst_ratio,
                "partitions": partitions,
                "splits": splits,
                "joins": joins,
                "merges": merges,
                "gcs": gcs,
                "stall_ms": stall_ms,
            })
        };
        self.output.print_to(out, as_json, |out| {
            writeln!(
                out,
                "{run_seconds:>8.0}{:>10}{:>10}{:>10}{:>10}{:>11}{:>11}{:>11}{:>7.3}{partitions:>7}\
                 {splits:>7}{joins:>7}{merges:>7}{gcs:>7}{stall_ms:>10.0}",
                HumanCount(operations_per_second).to_string(),
                HumanCount(writes_per_second).to_string(),
                format!("{p99_ms:.2} ms"),
                format!("{longest_ms:.1} ms"),
                HumanBytes(anonymous).to_string(),
                HumanBytes(directory).to_string(),
                HumanBytes(live).to_string(),
                space.worst_ratio,
            )
        })?;
        self.points.push(Point {
            anonymous_bytes: anonymous as f64,
            space: space.worst_ratio,
        });
        self.space_report.merge(&space);
        self.last = (now, operations, stats);
        Ok(())
    }

    /// What the whole run came to; an error if memory or space drifted.
    pub fn finish(&self, out: &mut impl Write) -> Result<(), Failure> {
        let counts = self.shared.counts;
        let of = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        let in_words = |counter: &AtomicU64| HumanCount(of(counter)).to_string();
        let longest_ms = self.longest_put_ns as f64 / 1e6;
        let stats = &self.last.2;
        let as_json = || {
            json!({
                "event": "ended",
                "writes": of(&counts.writes),
                "reads": of(&counts.reads),
                "scanned": of(&counts.scanned),
                "snapshots": of(&counts.snapshots),
                "releases": of(&counts.releases),
                "longest_put_ms": longest_ms,
                "flushes": stats.flushes,
                "merges": stats.merges,
                "gcs": stats.gcs,
                "splits": stats.splits,
                "joins": stats.joins,
                "write_amplification": stats.write_amplification(),
            })
        };
        self.output.print_to(out, as_json, |out| {
            writeln!(
                out,
                "{} writes, {} reads, {} entries scanned, {} snapshots held, {} releases of views; \
                 longest put {longest_ms:.1} ms",
                in_words(&counts.writes),
                in_words(&counts.reads),
                in_words(&counts.scanned),
                in_words(&counts.snapshots),
                in_words(&counts.releases),
            )?;
            writeln!(
                out,
                "{} flushes, {} merges, {} garbage collections alone, {} splits, {} joins, write \
                 amplification {:.2}",
                stats.flushes,
                stats.merges,
                stats.gcs,
                stats.splits,
                stats.joins,
                stats.write_amplification()
            )
        })?;
        self.drift(out)
    }

    fn drift(&self, out: &mut impl Write) -> Result<(), Failure> {
        let quarter = self.points.len() / 4;
        if self.points.len() < LEAST_POINTS {
            let as_json = || json!({ "event": "drift", "too_short": true });
            let said = self
                .output
                .print_to(out, as_json, |out| writeln!(out, "drift: too short a run"));
            return Ok(said?);
        }
        let mean = |from: usize, of: fn(&Point) -> f64| {
            let points = self.points.iter().skip(from).take(quarter);
            points.map(of).sum::<f64>() / quarter as f64
        };
        let last = self.points.len() - quarter;
        let memory = (
            mean(quarter, |p| p.anonymous_bytes),
            mean(last, |p| p.anonymous_bytes),
        );
        let space = (mean(quarter, |p| p.space), mean(last, |p| p.space));
        let as_json = || {
            json!({
                "event": "drift",
                "too_short": false,
                "anonymous_bytes": [memory.0, memory.1],
                "space_ratio": [space.0, space.1],
            })
        };
        self.output.print_to(out, as_json, |out| {
            writeln!(
                out,
                "drift from the second quarter to the last: anonymous memory {} to {}, share of the \
                 space bound {:.3} to {:.3}",
                HumanBytes(memory.0 as u64),
                HumanBytes(memory.1 as u64),
                space.0,
                space.1
            )
        })?;
        if memory.1 > memory.0 * (1.0 + DRIFT) + MEMORY_SLACK_BYTES {
            return Err(Failure::verification("anonymous memory drifts upwards"));
        }
        if space.1 > space.0 * (1.0 + DRIFT) + 0.05 {
            return Err(Failure::verification("the space taken drifts upwards"));
        }
        Ok(())
    }
}

fn operations(counts: &Counts) -> u64 {
    let all = [&counts.writes, &counts.reads];
    all.iter().map(|count| count.load(Ordering::Relaxed)).sum()
}
