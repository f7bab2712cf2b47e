//! What one sees while a phase runs: a progress bar on a terminal, one line per second in a file,
//! and the peak of anonymous memory.

use crate::engine::Engine;
use crate::failure::Failure;
use crate::measure::latency::{Interval, interval_sum};
use crate::measure::process::anonymous_bytes;
use crate::measure::progress::styled;
use hdrhistogram::Histogram;
use indicatif::ProgressBar;
use std::fs::File;
use std::io::{BufWriter, Write};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

/// How often a phase is looked at.
pub const TICK: Duration = Duration::from_millis(200);
const TRACE_STEP: Duration = Duration::from_secs(1);

/// What the reporting thread reads while a client works.
pub struct Gauge {
    /// Operations done.
    pub operations: AtomicU64,
    /// Their latencies, if they are traced.
    pub interval: Option<Interval>,
}

/// A CSV file with one line per second of every phase.
pub struct Trace {
    path: PathBuf,
    out: BufWriter<File>,
    sum: Histogram<u64>,
}

impl Trace {
    /// Begins one at `path` for an engine that is held up by `causes`.
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
        Ok(Trace {
            path: path.to_owned(),
            out,
            sum: interval_sum(),
        })
    }

    fn line(
        &mut self,
        phase: &str,
        seconds: f64,
        memory: u64,
        held_up: &[Duration],
    ) -> std::io::Result<()> {
        let at = |quantile| self.sum.value_at_quantile(quantile) as f64 / 1e3;
        let held_up = held_up
            .iter()
            .map(|time| format!(",{:.3}", time.as_secs_f64() * 1e3));
        writeln!(
            self.out,
            "{phase},{seconds:.3},{},{:.1},{:.1},{:.1},{:.1},{memory}{}",
            self.sum.len(),
            at(0.5),
            at(0.99),
            at(0.999),
            self.sum.max() as f64 / 1e3,
            held_up.collect::<String>(),
        )?;
        self.out.flush()
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
    pub peak_anonymous_bytes: Option<u64>,
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
            peak_anonymous_bytes: anonymous_bytes(),
            second: (started, 0),
            lowest_second: None,
        }
    }

    /// To be called every [`TICK`].
    ///
    /// # Errors
    /// The trace cannot be written.
    pub fn tick(&mut self) -> Result<(), Failure> {
        let done = self
            .gauges
            .iter()
            .map(|gauge| gauge.operations.load(Ordering::Relaxed))
            .sum();
        self.bar.set_position(done);
        let seconds = self.second.0.elapsed().as_secs_f64();
        if seconds >= 1.0 {
            let rate = done.saturating_sub(self.second.1) as f64 / seconds;
            self.lowest_second = Some(self.lowest_second.map_or(rate, |low| low.min(rate)));
            self.second = (Instant::now(), done);
        }
        self.peak_anonymous_bytes = self.peak_anonymous_bytes.max(anonymous_bytes());
        if Instant::now() >= self.next_line {
            self.next_line += TRACE_STEP;
            self.write_line()?;
        }
        Ok(())
    }

    fn write_line(&mut self) -> Result<(), Failure> {
        let Some(trace) = self.trace.as_deref_mut() else {
            return Ok(());
        };
        trace.sum.reset();
        for interval in self
            .gauges
            .iter()
            .filter_map(|gauge| gauge.interval.as_ref())
        {
            interval.drain_into(&mut trace.sum);
        }
        let until_now = self.engine.held_up();
        let since = until_now.iter().zip(&self.held_up);
        let held_up: Vec<_> = since
            .map(|(now, before)| now.saturating_sub(*before))
            .collect();
        self.held_up = until_now;
        let seconds = self.started.elapsed().as_secs_f64();
        let memory = anonymous_bytes().unwrap_or(0);
        trace
            .line(self.phase, seconds, memory, &held_up)
            .map_err(|error| Failure::file(trace.path.display(), error))
    }

    /// Ends the watch: takes the bar away and writes the last, shorter line of the trace.
    ///
    /// # Errors
    /// The trace cannot be written.
    pub fn finish(&mut self) -> Result<(), Failure> {
        self.bar.finish_and_clear();
        self.peak_anonymous_bytes = self.peak_anonymous_bytes.max(anonymous_bytes());
        self.write_line()
    }
}
