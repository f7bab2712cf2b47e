//! What one sees of a run: a line every ten seconds, and at the end whether memory or space
//! drifted.

use crate::exit::Failure;
use crate::torture::worker::{Counts, Shared};
use hdrhistogram::Histogram;
use indicatif::{HumanBytes, HumanCount};
use std::io::{self, Write};
use std::sync::atomic::Ordering;
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
    sum: Histogram<u64>,
    last: (Instant, u64, Stats),
    points: Vec<Point>,
    longest_put_ns: u64,
    pub space_report: SpaceReport,
}

impl<'a> Watch<'a> {
    pub fn new(shared: &'a Shared<'a>, puts: &'a [Interval], space: &'a SpaceWatch) -> Watch<'a> {
        Watch {
            shared,
            puts,
            space,
            sum: interval_sum(),
            last: (Instant::now(), 0, shared.db.stats()),
            points: Vec::new(),
            longest_put_ns: 0,
            space_report: SpaceReport::default(),
        }
    }

    pub fn print_head(&self, out: &mut impl Write) -> io::Result<()> {
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
        writeln!(
            out,
            "{:>8.0}{:>10}{:>10}{:>10}{:>10}{:>11}{:>11}{:>11}{:>7.3}{:>7}{:>7}{:>7}{:>7}{:>7}{:>10.0}",
            (now - self.shared.started).as_secs_f64(),
            HumanCount(((operations - self.last.1) as f64 / seconds) as u64).to_string(),
            HumanCount((self.sum.len() as f64 / seconds) as u64).to_string(),
            format!("{:.2} ms", self.sum.value_at_quantile(0.99) as f64 / 1e6),
            format!("{:.1} ms", longest as f64 / 1e6),
            HumanBytes(anonymous).to_string(),
            HumanBytes(space.worst.data_bytes + space.worst.wal_bytes).to_string(),
            HumanBytes(self.shared.oracle.live_bytes()).to_string(),
            space.worst_ratio,
            stats.partitions.len(),
            stats.splits - old.splits,
            stats.joins - old.joins,
            stats.merges - old.merges,
            stats.gcs - old.gcs,
            stall.as_secs_f64() * 1e3,
        )?;
        out.flush()?;
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
        let of = |counter: &std::sync::atomic::AtomicU64| {
            HumanCount(counter.load(Ordering::Relaxed)).to_string()
        };
        writeln!(
            out,
            "{} writes, {} reads, {} entries scanned, {} snapshots held, {} releases of views; longest put {:.1} ms",
            of(&counts.writes),
            of(&counts.reads),
            of(&counts.scanned),
            of(&counts.snapshots),
            of(&counts.releases),
            self.longest_put_ns as f64 / 1e6
        )?;
        let stats = &self.last.2;
        writeln!(
            out,
            "{} flushes, {} merges, {} garbage collections alone, {} splits, {} joins, write amplification {:.2}",
            stats.flushes,
            stats.merges,
            stats.gcs,
            stats.splits,
            stats.joins,
            stats.write_amplification()
        )?;
        self.drift(out)
    }

    fn drift(&self, out: &mut impl Write) -> Result<(), Failure> {
        let quarter = self.points.len() / 4;
        if self.points.len() < LEAST_POINTS {
            writeln!(out, "drift: too short a run to tell")?;
            return Ok(());
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
        writeln!(
            out,
            "drift from the second quarter to the last: anonymous memory {} to {}, share of the space \
             bound {:.3} to {:.3}",
            HumanBytes(memory.0 as u64),
            HumanBytes(memory.1 as u64),
            space.0,
            space.1
        )?;
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
