//! Runs the phases one after another over one open store.

mod client;
pub mod pace;
pub mod plan;
mod shared;
mod threads;
mod verify;

use crate::engine::Engine;
use crate::failure::Failure;
use crate::measure::costs::{Costs, Counters};
use crate::measure::latency::Interval;
use crate::measure::process::{block_device_bytes, drop_cached_files};
use crate::measure::quiet::wait_for_device;
use crate::measure::space::{SpaceUse, SpaceWatch, directory_bytes};
use crate::measure::trace::{Gauge, Trace, Watch};
use crate::report::phase::{Beside, PhaseReport};
use crate::report::summary::MergeTally;
use crate::workload::phases::{Kind, Phase};
use crate::workload::versions::VersionTable;
use client::Task;
use plan::{PhaseWork, Plan};
use rustix::process::{Signal, getpid, kill_process};
use shared::{Shared, deadline};
use std::fs;
use std::io;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::{Duration, Instant};
use threads::Team;

/// Removes a store, if it is there.
pub fn remove_store(dir: &Path) -> Result<(), Failure> {
    match fs::remove_dir_all(dir) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => {
            Err(Failure::file(dir.display(), error))
        }
        _ => Ok(()),
    }
}

/// A run under way.
pub struct Runner<'a, E: Engine> {
    plan: &'a Plan,
    setup: E::Setup,
    // Taken only while the store is closed and opened again.
    engine: Option<E>,
    versions: Arc<VersionTable>,
    space: Option<SpaceWatch>,
    /// Merges of each partition so far.
    pub merges: MergeTally,
    trace: Option<Trace>,
    phases_done: u64,
    /// How long opening the store took.
    pub opened: Duration,
    // When the background was last quiet, and what clients have written since.
    quiet: Counters,
    written_since_quiet: u64,
}

impl<'a, E: Engine> Runner<'a, E> {
    /// Opens the store.
    ///
    /// # Errors
    /// It cannot be opened.
    pub fn new(
        plan: &'a Plan,
        setup: E::Setup,
        trace: Option<Trace>,
    ) -> Result<Runner<'a, E>, Failure> {
        let present = if plan.loads_first() { 0 } else { plan.records };
        // What the opening itself reads is to come from the device as well.
        if let Some(Kind::DropCache) = plan.phases.first().map(|phase| phase.kind) {
            drop_cached_files(&plan.dir)?;
        }
        // Without a load there has to be something already.
        let start = Instant::now();
        let engine = E::open(&plan.dir, &setup, plan.loads_first())?;
        let opened = start.elapsed();
        let versions = Arc::new(VersionTable::new(plan.most_records(), present));
        let limits = if plan.check_space {
            engine.space_limits(plan.space_floor)
        } else {
            None
        };
        let space = limits.map(|limits| {
            let (versions, record_bytes) = (Arc::clone(&versions), plan.record_bytes());
            let record_frame_bytes = plan.record_frame_bytes(limits.max_space_amp);
            SpaceWatch::start(plan.dir.clone(), limits, move || SpaceUse {
                live_bytes: versions.live() * record_bytes,
                frame_bytes: versions.live() * record_frame_bytes,
                pinned_bytes: 0,
            })
        });
        Ok(Runner {
            plan,
            setup,
            quiet: Counters::now(engine.figures()),
            engine: Some(engine),
            versions,
            space,
            merges: MergeTally::default(),
            trace,
            phases_done: 0,
            opened,
            written_since_quiet: 0,
        })
    }

    /// Runs one phase.
    ///
    /// # Errors
    /// The engine failed, a value was wrong, or the phase cannot be done.
    pub fn run(&mut self, phase: &Phase) -> Result<PhaseReport, Failure> {
        self.phases_done += 1;
        let mut report = match phase.kind {
            Kind::Reopen => self.reopen(phase)?,
            Kind::Settle => self.settle(phase)?,
            Kind::Flush => self.background(phase, E::flush)?,
            Kind::Compact => self.background(phase, E::compact)?,
            Kind::Die => return Err(die()),
            Kind::Pause(time) => self.background(phase, |_| {
                std::thread::sleep(time);
                Ok(())
            })?,
            Kind::DropCache => self.background(phase, |_| drop_cached_files(&self.plan.dir))?,
            Kind::Load
            | Kind::Mix(_)
            | Kind::Delete
            | Kind::Verify
            | Kind::VerifyScan
            | Kind::VerifyGets => self.clients(phase)?,
        };
        let figures = self.engine()?.figures();
        report.disk_bytes = match &figures {
            Some(figures) => figures.disk_bytes,
            None => directory_bytes(&self.plan.dir).map(|(data, log)| data + log)?,
        };
        report.live_bytes = self.versions.live() * self.plan.record_bytes();
        report.space = self.space.as_ref().map(SpaceWatch::take).transpose()?;
        if let Some(figures) = &figures {
            self.merges.note(&figures.partition_merges);
            report.partitions = figures.partition_merges.len();
        }
        Ok(report)
    }

    /// Closes the store.
    ///
    /// # Errors
    /// The engine failed.
    pub fn close(self) -> Result<(), Failure> {
        match self.engine {
            Some(engine) => engine.close(),
            None => Ok(()),
        }
    }

    /// The open store.
    ///
    /// # Errors
    /// A failure has left it closed.
    pub fn engine(&self) -> Result<&E, Failure> {
        self.engine.as_ref().ok_or_else(not_open)
    }

    /// All records below this number have been inserted.
    pub fn present(&self) -> u64 {
        self.versions.present()
    }

    fn reopen(&mut self, phase: &Phase) -> Result<PhaseReport, Failure> {
        let start = Instant::now();
        self.merges.close();
        if let Some(engine) = self.engine.take() {
            engine.close()?;
        }
        let closed = start.elapsed();
        let engine = E::open(&self.plan.dir, &self.setup, self.plan.loads_first())?;
        let opened = start.elapsed();
        let mut report = PhaseReport::new(phase, opened);
        report.close_seconds = Some(closed.as_secs_f64());
        report.open_seconds = Some((opened - closed).as_secs_f64());
        self.quiet = Counters::now(engine.figures());
        self.engine = Some(engine);
        Ok(report)
    }

    fn settle(&mut self, phase: &Phase) -> Result<PhaseReport, Failure> {
        let mut busy = Duration::ZERO;
        let mut report = self.background(phase, |engine| {
            busy = engine.settle()?;
            Ok(())
        })?;
        report.seconds = busy.as_secs_f64();
        report.device_seconds = wait_for_device(&self.plan.dir).map(|time| time.as_secs_f64());
        let now = Counters::now(self.engine()?.figures());
        let since = Costs::between(&self.quiet, &now);
        report.write_amplification_until_quiet = since.write_amplification();
        let user = std::mem::take(&mut self.written_since_quiet);
        let written = since.device_write_bytes.filter(|_| user > 0);
        report.process_write_amplification_until_quiet =
            written.map(|bytes| bytes as f64 / user as f64);
        self.quiet = now;
        Ok(report)
    }

    fn background(
        &self,
        phase: &Phase,
        wait: impl FnOnce(&E) -> Result<(), Failure>,
    ) -> Result<PhaseReport, Failure> {
        let engine = self.engine()?;
        let before = Counters::now(engine.figures());
        let start = Instant::now();
        wait(engine)?;
        let mut report = PhaseReport::new(phase, start.elapsed());
        report.costs = Costs::between(&before, &Counters::now(engine.figures()));
        Ok(report)
    }

    fn clients(&mut self, phase: &Phase) -> Result<PhaseReport, Failure> {
        let work = self.plan.work(phase, self.versions.present())?;
        let distribution = work
            .distribution
            .map(|distribution| distribution.to_string());
        let mut report = self.measure(phase, work)?;
        report.distribution = distribution;
        if phase.kind == Kind::Load {
            // There are holes in the numbers of its records: nothing can be verified.
            if report.operations < self.plan.records {
                let (done, all) = (report.operations, self.plan.records);
                let within = humantime::format_duration(Duration::from_secs(report.seconds as u64));
                return Err(Failure::invalid(format!(
                    "only {done} of {all} records in {within}, and it may not last longer"
                )));
            }
            self.versions.loaded(report.operations);
        }
        Ok(report)
    }

    fn measure(&mut self, phase: &Phase, work: PhaseWork) -> Result<PhaseReport, Failure> {
        let PhaseWork {
            tasks,
            operations,
            beside,
            ..
        } = work;
        let engine = self.engine.as_ref().ok_or_else(not_open)?;
        let (stop, stop_beside) = (AtomicBool::new(false), AtomicBool::new(false));
        let is_verify = !matches!(phase.kind, Kind::Load | Kind::Mix(_) | Kind::Delete);
        let shared = Shared {
            engine,
            order: self.plan.order,
            values: self.plan.values,
            verify: self.plan.verify || is_verify,
            threads: self.plan.threads_of(phase) + beside.len(),
            versions: &self.versions,
            stop: &stop,
            deadline: deadline(self.plan.duration_of(phase)),
        };
        let shared_beside = Shared {
            stop: &stop_beside,
            deadline: None,
            ..shared
        };
        let wants_latencies = self.trace.as_ref().is_some_and(Trace::wants_latencies);
        let gauge = |_: &Task| Gauge {
            interval: wants_latencies.then(Interval::new),
            ..Gauge::default()
        };
        let gauges: Vec<Gauge> = tasks.iter().map(gauge).collect();
        let gauges_beside: Vec<Gauge> = beside.iter().map(gauge).collect();
        let threads = tasks.len();
        let mut watch = Watch::new(
            engine,
            &phase.label,
            &gauges,
            operations,
            self.trace.as_mut(),
        );
        let seed = self.plan.seed.wrapping_add(self.phases_done << 32);
        let device = block_device_bytes(&self.plan.dir);
        let before = Counters::now(engine.figures());
        let start = Instant::now();
        let main = Team {
            shared: &shared,
            gauges: &gauges,
            tasks,
        };
        let beside = Team {
            shared: &shared_beside,
            gauges: &gauges_beside,
            tasks: beside,
        };
        let work = threads::run_clients(main, beside, seed, &mut watch);
        let elapsed = start.elapsed();
        let (peak, lowest_second) = (watch.peak, watch.lowest_second);
        let (work, beside) = work?;
        let after = Counters::now(engine.figures());
        let device = device.zip(block_device_bytes(&self.plan.dir));
        let mut report = PhaseReport::new(phase, elapsed);
        report.threads = threads;
        report.operations = work.operations;
        report.scanned_records = work.scanned;
        report.misses = work.misses;
        report.latencies = work.latencies.summaries();
        report.client_bytes_written = work.bytes_written + beside.bytes_written;
        self.written_since_quiet += report.client_bytes_written;
        report.beside = phase.beside.as_ref().map(|phase| Beside {
            phase: phase.label.clone(),
            operations: beside.operations,
            operations_per_second: beside.operations as f64 / elapsed.as_secs_f64().max(1e-9),
            latencies: beside.latencies.summaries(),
        });
        report.rate = phase.rate;
        let between = |(old, new): ((u64, u64), (u64, u64))| (new.0 - old.0, new.1 - old.1);
        report.block_device_bytes = device.map(between);
        report.trace = self.trace.as_mut().map(Trace::take).unwrap_or_default();
        report.peak_anonymous_bytes = peak.anonymous_bytes;
        report.peak_resident_bytes = peak.resident_bytes;
        report.peak_cgroup_bytes = peak.cgroup_bytes;
        report.lowest_second = lowest_second;
        let longest_write = work.longest_write.max(beside.longest_write);
        let longest_write_ms = longest_write.as_secs_f64() * 1e3;
        report.longest_write_ms = (longest_write_ms > 0.0).then_some(longest_write_ms);
        let cpu_us = Costs::between(&before, &after).cpu_us / work.operations.max(1) as f64;
        // Waiting for operations to be due takes time, too, and so do those beside.
        let is_alone = phase.rate.is_none() && phase.beside.is_none();
        report.cpu_us_per_operation = is_alone.then_some(cpu_us);
        report.costs = Costs::between(&before, &after);
        if self.plan.settle && !is_verify {
            report.settle_seconds = Some(engine.settle()?.as_secs_f64());
            report.costs = Costs::between(&before, &Counters::now(engine.figures()));
        }
        Ok(report)
    }
}

/// Ends this process at once, and nothing of it is cleaned up.
fn die() -> Failure {
    let killed = kill_process(getpid(), Signal::KILL);
    Failure::invalid(format!("die: still alive: {killed:?}"))
}

fn not_open() -> Failure {
    Failure::invalid("the store is not open")
}
