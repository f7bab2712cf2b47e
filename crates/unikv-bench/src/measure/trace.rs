//! What one sees while a phase runs: a progress bar on a terminal, one line per second in a file,
//! and the peak of anonymous memory.

use crate::engine::Engine;
use crate::failure::Failure;
use crate::measure::latency::{Interval, interval_sum};
use crate::measure::process::{anonymous_bytes, cgroup_bytes, resident_bytes};
use crate::measure::progress::styled;
use hdrhistogram::Histogram;
use indicatif::ProgressBar;
use serde::Serialize;
use std::fs::File;
use std::io::{BufWriter, Write};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

/// How often a phase is looked at.
pub const TICK: Duration = Duration::from_millis(200);
const TRACE_STEP: Duration = Duration::from_secs(1);

/// What the reporting thread reads while a client works.
#[derive(Default)]
pub struct Gauge {
    /// Operations done.
    pub operations: AtomicU64,
    /// The longest operation since somebody last looked.
    pub longest_ns: AtomicU64,
    /// Latencies since somebody last looked, if a trace wants them.
    pub interval: Option<Interval>,
}

/// What happened in each second of every phase.
pub enum Trace {
    /// A CSV file with one line per second, and latencies in it.
    Csv(Csv),
    /// In memory, until it is taken; with the longest latency alone, which costs clients next to
    /// nothing.
    Points(Vec<Point>),
}

/// A CSV file.
pub struct Csv {
    path: PathBuf,
    out: BufWriter<File>,
    sum: Histogram<u64>,
}

/// What happened since the last point of a trace.
#[derive(Clone, Debug, Serialize)]
pub struct Point {
    /// Since the phase began.
    pub seconds: f64,
    /// Operations.
    pub operations: u64,
    /// The longest of them.
    pub max_us: f64,
    /// Anonymous memory now.
    pub anonymous_bytes: u64,
    /// For how long each cause held writers up.
    pub held_up_ms: Vec<f64>,
}

impl Trace {
    /// Begins a file at `path` for an engine that is held up by `causes`.
    ///
    /// # Errors
    /// The file cannot be written.
    pub fn create(path: &Path, causes: &[&str]) -> Result<Trace, Failure> {
        let failed = |error| Failure::file(path.display(), error);
        let mut out = BufWriter::new(File::create(path).map_err(failed)?);
        let header = "phase,seconds,operations,p50_us,p99_us,p999_us,max_us,anonymous_bytes";
        let causes = causes
            .iter()
            .map(|cause| format!(",{}_ms", cause.replace(' ', "_")));
        writeln!(out, "{header}{}", causes.collect::<String>()).map_err(failed)?;
        Ok(Trace::Csv(Csv {
            path: path.to_owned(),
            out,
            sum: interval_sum(),
        }))
    }

    /// One in memory.
    pub fn in_memory() -> Trace {
        Trace::Points(Vec::new())
    }

    /// Whether clients have to note each latency.
    pub fn wants_latencies(&self) -> bool {
        matches!(self, Trace::Csv(_))
    }

    /// What was kept in memory since this was last called.
    pub fn take(&mut self) -> Vec<Point> {
        match self {
            Trace::Csv(_) => Vec::new(),
            Trace::Points(points) => std::mem::take(points),
        }
    }
}

impl Csv {
    fn line(&mut self, phase: &str, gauges: &[Gauge], point: &Point) -> std::io::Result<()> {
        self.sum.reset();
        for interval in gauges.iter().filter_map(|gauge| gauge.interval.as_ref()) {
            interval.drain_into(&mut self.sum);
        }
        let at = |quantile| self.sum.value_at_quantile(quantile) as f64 / 1e3;
        let held_up = point.held_up_ms.iter().map(|ms| format!(",{ms:.3}"));
        writeln!(
            self.out,
            "{phase},{:.3},{},{:.1},{:.1},{:.1},{:.1},{}{}",
            point.seconds,
            self.sum.len(),
            at(0.5),
            at(0.99),
            at(0.999),
            self.sum.max() as f64 / 1e3,
            point.anonymous_bytes,
            held_up.collect::<String>(),
        )?;
        self.out.flush()
    }
}

/// The most memory that was seen.
#[derive(Clone, Copy, Debug)]
pub struct Peak {
    /// Anonymous memory of the process.
    pub anonymous_bytes: Option<u64>,
    /// Resident memory of the process.
    pub resident_bytes: Option<u64>,
    /// Of the memory cgroup, page cache included.
    pub cgroup_bytes: Option<u64>,
}

impl Peak {
    fn now() -> Peak {
        Peak {
            anonymous_bytes: anonymous_bytes(),
            resident_bytes: resident_bytes(),
            cgroup_bytes: cgroup_bytes(),
        }
    }

    fn look(&mut self) {
        let now = Peak::now();
        self.anonymous_bytes = self.anonymous_bytes.max(now.anonymous_bytes);
        self.resident_bytes = self.resident_bytes.max(now.resident_bytes);
        self.cgroup_bytes = self.cgroup_bytes.max(now.cgroup_bytes);
    }
}

/// Watches one phase.
pub struct Watch<'a, E> {
    engine: &'a E,
    phase: &'a str,
    gauges: &'a [Gauge],
    trace: Option<&'a mut Trace>,
    bar: ProgressBar,
    started: Instant,
    next_line: Instant,
    /// For how long writers have been held up, by cause.
    held_up: Vec<Duration>,
    /// The greatest that was seen.
    pub peak: Peak,
    /// Operations done when the last point was made.
    traced: u64,
    /// When the present second began, and how many operations had been done by then.
    second: (Instant, u64),
    /// The fewest operations in one second, if the phase has lasted one.
    pub lowest_second: Option<f64>,
}

impl<'a, E: Engine> Watch<'a, E> {
    /// Starts watching a phase of `operations`.
    pub fn new(
        engine: &'a E,
        phase: &'a str,
        gauges: &'a [Gauge],
        operations: u64,
        trace: Option<&'a mut Trace>,
    ) -> Watch<'a, E> {
        let template = "{prefix:12} {wide_bar} {human_pos}/{human_len} {per_sec} {eta}";
        let bar = styled(ProgressBar::new(operations), template).with_prefix(phase.to_owned());
        let started = Instant::now();
        Watch {
            engine,
            phase,
            gauges,
            trace,
            bar,
            started,
            next_line: started + TRACE_STEP,
            held_up: engine.held_up(),
            peak: Peak::now(),
            traced: 0,
            second: (started, 0),
            lowest_second: None,
        }
    }

    /// To be called every [`TICK`].
    ///
    /// # Errors
    /// The trace cannot be written.
    pub fn tick(&mut self) -> Result<(), Failure> {
        let done = self.done();
        self.bar.set_position(done);
        let seconds = self.second.0.elapsed().as_secs_f64();
        if seconds >= 1.0 {
            let rate = done.saturating_sub(self.second.1) as f64 / seconds;
            self.lowest_second = Some(self.lowest_second.map_or(rate, |low| low.min(rate)));
            self.second = (Instant::now(), done);
        }
        self.peak.look();
        if Instant::now() >= self.next_line {
            self.next_line += TRACE_STEP;
            self.write_line()?;
        }
        Ok(())
    }

    fn done(&self) -> u64 {
        let gauges = self.gauges.iter();
        gauges
            .map(|gauge| gauge.operations.load(Ordering::Relaxed))
            .sum()
    }

    fn write_line(&mut self) -> Result<(), Failure> {
        let done = self.done();
        let Some(trace) = self.trace.as_deref_mut() else {
            return Ok(());
        };
        let until_now = self.engine.held_up();
        let held_up = until_now.iter().zip(&self.held_up);
        let held_up = held_up.map(|(now, before)| now.saturating_sub(*before).as_secs_f64() * 1e3);
        let longest = self.gauges.iter();
        let longest = longest.map(|gauge| gauge.longest_ns.swap(0, Ordering::Relaxed));
        let point = Point {
            seconds: self.started.elapsed().as_secs_f64(),
            operations: done.saturating_sub(self.traced),
            max_us: longest.max().unwrap_or(0) as f64 / 1e3,
            anonymous_bytes: anonymous_bytes().unwrap_or(0),
            held_up_ms: held_up.collect(),
        };
        self.held_up = until_now;
        self.traced = done;
        match trace {
            Trace::Points(points) => points.push(point),
            Trace::Csv(csv) => csv
                .line(self.phase, self.gauges, &point)
                .map_err(|error| Failure::file(csv.path.display(), error))?,
        }
        Ok(())
    }

    /// Ends the watch: takes the bar away and writes the last, shorter line of the trace.
    ///
    /// # Errors
    /// The trace cannot be written.
    pub fn finish(&mut self) -> Result<(), Failure> {
        self.bar.finish_and_clear();
        self.peak.look();
        self.write_line()
    }
}
