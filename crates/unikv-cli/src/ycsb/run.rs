//! Runs the phases one after another over one open database.

use crate::commands::stats::{recovery_in_words, recovery_to_json};
use crate::exit::Failure;
use crate::space::{SpaceLimits, SpaceUse, SpaceWatch};
use crate::ycsb::client::{Client, Gauge, Shared, Task, deadline};
use crate::ycsb::generator::Distribution;
use crate::ycsb::measure::{Costs, Counters, Interval, Latencies};
use crate::ycsb::plan::{PhaseWork, Plan};
use crate::ycsb::report::PhaseReport;
use crate::ycsb::summary::MergeTally;
use crate::ycsb::trace::{TICK, Trace, Watch};
use crate::ycsb::verify;
use crate::ycsb::versions::VersionTable;
use crate::ycsb::workload::{Kind, Phase};
use rand::SeedableRng;
use rand::rngs::SmallRng;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::mpsc::{self, Receiver, RecvTimeoutError};
use std::time::{Duration, Instant};
use unikv::{Db, EffectiveOptions};

/// A run under way.
pub struct Runner<'a> {
    plan: &'a Plan,
    // Taken only while the database is closed and opened again.
    db: Option<Db>,
    versions: Arc<VersionTable>,
    space: Option<SpaceWatch>,
    pub merges: MergeTally,
    trace: Option<Trace>,
    phases_done: u64,
    // When the background was last quiet.
    quiet: Counters,
}

/// What the clients of a phase did together.
#[derive(Default)]
struct Work {
    latencies: Latencies,
    operations: u64,
    scanned: u64,
    misses: u64,
    longest_write: Duration,
}

impl<'a> Runner<'a> {
    /// Opens the database.
    pub fn new(plan: &'a Plan, trace: Option<Trace>) -> Result<Runner<'a>, Failure> {
        let present = if plan.loads_first() { 0 } else { plan.records };
        let db = plan.open()?;
        let versions = Arc::new(VersionTable::new(plan.most_records(), present));
        let space = plan.check_space.then(|| {
            let limits = SpaceLimits::new(&db.options(), plan.space_floor);
            let (versions, record_bytes) = (Arc::clone(&versions), plan.record_bytes());
            SpaceWatch::start(plan.dir.clone(), limits, move || SpaceUse {
                live_bytes: versions.live() * record_bytes,
                pinned_bytes: 0,
            })
        });
        Ok(Runner {
            plan,
            quiet: Counters::now(db.stats()),
            db: Some(db),
            versions,
            space,
            merges: MergeTally::default(),
            trace,
            phases_done: 0,
        })
    }

    /// Runs one phase.
    pub fn run(&mut self, phase: &Phase) -> Result<PhaseReport, Failure> {
        self.phases_done += 1;
        let mut report = match phase.kind {
            Kind::Reopen => self.reopen(phase)?,
            Kind::Settle => self.settle(phase)?,
            Kind::Flush => self.background(phase, Db::flush)?,
            Kind::Compact => self.background(phase, Db::compact)?,
            Kind::Load
            | Kind::Mix(_)
            | Kind::Delete
            | Kind::Verify
            | Kind::VerifyScan
            | Kind::VerifyGets => self.clients(phase)?,
        };
        let stats = self.db()?.stats();
        report.disk_bytes = stats.disk_bytes;
        report.live_bytes = self.versions.live() * self.plan.record_bytes();
        report.space = self.space.as_ref().map(SpaceWatch::take).transpose()?;
        self.merges.note(&stats);
        report.partitions = stats.partitions.len();
        Ok(report)
    }

    /// The options in effect.
    pub fn options(&self) -> Result<EffectiveOptions, Failure> {
        Ok(self.db()?.options())
    }

    /// Closes the database.
    pub fn close(self) -> Result<(), Failure> {
        match self.db {
            Some(db) => Ok(db.close()?),
            None => Ok(()),
        }
    }

    fn db(&self) -> Result<&Db, Failure> {
        self.db
            .as_ref()
            .ok_or_else(|| Failure::invalid("the database is not open"))
    }

    fn reopen(&mut self, phase: &Phase) -> Result<PhaseReport, Failure> {
        let start = Instant::now();
        self.merges.close();
        if let Some(db) = self.db.take() {
            db.close()?;
        }
        let closed = start.elapsed();
        let db = self.plan.open()?;
        let opened = start.elapsed();
        let mut report = PhaseReport::new(phase, opened);
        report.close_seconds = Some(closed.as_secs_f64());
        report.open_seconds = Some((opened - closed).as_secs_f64());
        report.recovery = Some(recovery_to_json(db.recovery()));
        report.words = Some(recovery_in_words(db.recovery()));
        self.quiet = Counters::now(db.stats());
        self.db = Some(db);
        Ok(report)
    }

    fn settle(&mut self, phase: &Phase) -> Result<PhaseReport, Failure> {
        let mut report = self.background(phase, Db::quiesce)?;
        let now = Counters::now(self.db()?.stats());
        let since = Costs::between(&self.quiet, &now);
        report.write_amplification_until_quiet = since.write_amplification();
        self.quiet = now;
        Ok(report)
    }

    fn background(
        &self,
        phase: &Phase,
        wait: impl Fn(&Db) -> unikv::Result<()>,
    ) -> Result<PhaseReport, Failure> {
        let db = self.db()?;
        let before = Counters::now(db.stats());
        let start = Instant::now();
        wait(db)?;
        let mut report = PhaseReport::new(phase, start.elapsed());
        report.costs = Costs::between(&before, &Counters::now(db.stats()));
        Ok(report)
    }

    fn clients(&mut self, phase: &Phase) -> Result<PhaseReport, Failure> {
        let work = self.plan.work(phase, self.versions.present())?;
        let distribution = work.distribution.map(Distribution::name);
        let mut report = self.measure(phase, work)?;
        report.distribution = distribution;
        if phase.kind == Kind::Load {
            self.versions.loaded(report.operations);
        }
        Ok(report)
    }

    fn measure(&mut self, phase: &Phase, work: PhaseWork) -> Result<PhaseReport, Failure> {
        let PhaseWork {
            tasks, operations, ..
        } = work;
        let db = self
            .db
            .as_ref()
            .ok_or_else(|| Failure::invalid("the database is not open"))?;
        let stop = AtomicBool::new(false);
        let is_verify = !matches!(phase.kind, Kind::Load | Kind::Mix(_) | Kind::Delete);
        let shared = Shared {
            db,
            order: self.plan.order,
            value_bytes: self.plan.value_bytes,
            verify: self.plan.verify || is_verify,
            threads: self.plan.threads,
            versions: &self.versions,
            stop: &stop,
            // A load that stops early would leave holes in the numbers of its records.
            deadline: matches!(phase.kind, Kind::Mix(_))
                .then(|| deadline(self.plan.duration))
                .flatten(),
        };
        let tracing = self.trace.is_some();
        let gauge = |_: &Task| Gauge {
            operations: AtomicU64::new(0),
            interval: tracing.then(Interval::new),
        };
        let gauges: Vec<Gauge> = tasks.iter().map(gauge).collect();
        let threads = tasks.len();
        let mut watch = Watch::new(db, &phase.label, &gauges, operations, self.trace.as_mut());
        let seed = self.plan.seed.wrapping_add(self.phases_done << 32);
        let before = Counters::now(db.stats());
        let start = Instant::now();
        let work = run_clients(&shared, &gauges, tasks, seed, &mut watch);
        let elapsed = start.elapsed();
        let peak_anonymous_bytes = watch.peak_anonymous_bytes;
        let lowest_second = watch.lowest_second;
        let work = work?;
        let after = Counters::now(db.stats());
        let mut report = PhaseReport::new(phase, elapsed);
        report.threads = threads;
        report.operations = work.operations;
        report.scanned_records = work.scanned;
        report.misses = work.misses;
        report.latencies = work.latencies.summaries();
        report.peak_anonymous_bytes = peak_anonymous_bytes;
        report.lowest_second = lowest_second;
        let longest_write_ms = work.longest_write.as_secs_f64() * 1e3;
        report.longest_write_ms = (longest_write_ms > 0.0).then_some(longest_write_ms);
        report.cpu_us_per_operation =
            Some(Costs::between(&before, &after).cpu_us / work.operations.max(1) as f64);
        report.costs = Costs::between(&before, &after);
        if self.plan.settle && !is_verify {
            let settling = Instant::now();
            db.quiesce()?;
            report.settle_seconds = Some(settling.elapsed().as_secs_f64());
            report.costs = Costs::between(&before, &Counters::now(db.stats()));
        }
        Ok(report)
    }
}

fn run_clients(
    shared: &Shared<'_>,
    gauges: &[Gauge],
    tasks: Vec<Task>,
    seed: u64,
    watch: &mut Watch<'_>,
) -> Result<Work, Failure> {
    std::thread::scope(|scope| {
        let (sender, ended) = mpsc::channel();
        for (thread, (task, gauge)) in tasks.into_iter().zip(gauges).enumerate() {
            let sender = sender.clone();
            let rng = SmallRng::seed_from_u64(seed.wrapping_add(thread as u64));
            scope.spawn(move || {
                let work = run_client(shared, gauge, task, rng);
                if work.is_err() {
                    shared.stop.store(true, Ordering::Relaxed);
                }
                // The receiver lives until all threads have ended.
                let _ = sender.send(work);
            });
        }
        drop(sender);
        let work = collect(&ended, watch);
        if work.is_err() {
            shared.stop.store(true, Ordering::Relaxed);
        }
        watch.finish()?;
        work
    })
}

/// Waits for all clients. After a failure it still waits, so that the first one is reported.
fn collect(
    ended: &Receiver<Result<Work, Failure>>,
    watch: &mut Watch<'_>,
) -> Result<Work, Failure> {
    let mut sum = Work::default();
    let mut failure = None;
    loop {
        match ended.recv_timeout(TICK) {
            Ok(Ok(work)) => {
                sum.latencies.merge(&work.latencies);
                sum.operations += work.operations;
                sum.scanned += work.scanned;
                sum.misses += work.misses;
                sum.longest_write = sum.longest_write.max(work.longest_write);
            }
            Ok(Err(error)) => failure = failure.or(Some(error)),
            Err(RecvTimeoutError::Timeout) => watch.tick()?,
            Err(RecvTimeoutError::Disconnected) => break,
        }
    }
    failure.map_or(Ok(sum), Err)
}

fn run_client(
    shared: &Shared<'_>,
    gauge: &Gauge,
    task: Task,
    rng: SmallRng,
) -> Result<Work, Failure> {
    let mut client = Client::new(shared, gauge, rng);
    match task {
        Task::Load(records) => client.load(records)?,
        Task::GetAll(records) => client.get_all(records)?,
        Task::Delete { records, count } => client.delete_some(records, count)?,
        Task::Mix {
            mix,
            chooser,
            operations,
        } => client.run(&mix, &chooser, operations)?,
        Task::FullScan => client.scanned = verify::full_scan(shared, gauge)?,
    }
    Ok(Work {
        latencies: client.latencies,
        operations: client.operations,
        scanned: client.scanned,
        misses: client.misses,
        longest_write: client.longest_write,
    })
}
