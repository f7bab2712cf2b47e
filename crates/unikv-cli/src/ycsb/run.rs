//! Runs the phases one after another over one open database.

use crate::args::EngineArgs;
use crate::commands::stats::{recovery_in_words, recovery_to_json};
use crate::exit::Failure;
use crate::ycsb::client::{Client, Gauge, Shared, deadline};
use crate::ycsb::generator::{Chooser, Distribution};
use crate::ycsb::keys::{KEY_BYTES, KeyOrder};
use crate::ycsb::measure::{Costs, Counters, Interval, Latencies};
use crate::ycsb::report::PhaseReport;
use crate::ycsb::trace::{TICK, Trace, Watch};
use crate::ycsb::verify;
use crate::ycsb::versions::VersionTable;
use crate::ycsb::workload::{Kind, Mix, Phase};
use rand::SeedableRng;
use rand::rngs::SmallRng;
use std::ops::Range;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::mpsc::{self, Receiver, RecvTimeoutError};
use std::time::{Duration, Instant};
use unikv::Db;

/// Everything that a run is given.
pub struct Plan {
    pub dir: PathBuf,
    pub phases: Vec<Phase>,
    pub records: u64,
    pub operations: u64,
    pub value_bytes: usize,
    pub threads: usize,
    pub distribution: Option<Distribution>,
    pub scan_length: Option<u64>,
    pub order: KeyOrder,
    pub verify: bool,
    pub settle: bool,
    pub duration: Option<Duration>,
    pub seed: u64,
    pub engine: EngineArgs,
}

impl Plan {
    /// Whether the run itself inserts the records before it reads any.
    fn loads_first(&self) -> bool {
        let mut kinds = self.phases.iter().map(|phase| phase.kind);
        let is_data = |kind: &Kind| {
            !matches!(
                kind,
                Kind::Reopen | Kind::Settle | Kind::Flush | Kind::Compact
            )
        };
        kinds.find(is_data) == Some(Kind::Load)
    }

    fn operations_of(&self, phase: &Phase) -> u64 {
        phase.operations.unwrap_or(self.operations)
    }

    fn most_records(&self) -> u64 {
        let inserts = self.phases.iter().map(|phase| match phase.kind {
            Kind::Mix(mix) => mix.most_inserts(self.operations_of(phase)),
            _ => 0,
        });
        self.records + inserts.sum::<u64>()
    }

    fn distribution_of(&self, phase: &Phase, mix: &Mix) -> Distribution {
        phase.distribution.unwrap_or(match self.distribution {
            _ if mix.latest => Distribution::Latest,
            Some(distribution) => distribution,
            None => Distribution::Zipfian,
        })
    }

    fn open(&self) -> Result<Db, Failure> {
        // Without a load there has to be something already.
        let options = self.engine.options().create_if_missing(self.loads_first());
        Ok(Db::open(&self.dir, options)?)
    }
}

/// A run under way.
pub struct Runner<'a> {
    plan: &'a Plan,
    // Taken only while the database is closed and opened again.
    db: Option<Db>,
    versions: VersionTable,
    trace: Option<Trace>,
    phases_done: u64,
}

/// What the clients of a phase did together.
#[derive(Default)]
struct Work {
    latencies: Latencies,
    operations: u64,
    scanned: u64,
    misses: u64,
}

/// The share of one client.
enum Task<'a> {
    Load(Range<u64>),
    GetAll(Range<u64>),
    Mix {
        mix: &'a Mix,
        chooser: &'a Chooser,
        operations: u64,
    },
    FullScan,
}

impl<'a> Runner<'a> {
    /// Opens the database.
    pub fn new(plan: &'a Plan, trace: Option<Trace>) -> Result<Runner<'a>, Failure> {
        let present = if plan.loads_first() { 0 } else { plan.records };
        Ok(Runner {
            plan,
            db: Some(plan.open()?),
            versions: VersionTable::new(plan.most_records(), present),
            trace,
            phases_done: 0,
        })
    }

    /// Runs one phase.
    pub fn run(&mut self, phase: &Phase) -> Result<PhaseReport, Failure> {
        self.phases_done += 1;
        let mut report = match phase.kind {
            Kind::Reopen => self.reopen(phase)?,
            Kind::Settle => self.background(phase, Db::quiesce)?,
            Kind::Flush => self.background(phase, Db::flush)?,
            Kind::Compact => self.background(phase, Db::compact)?,
            Kind::Load | Kind::Mix(_) | Kind::Verify | Kind::VerifyScan | Kind::VerifyGets => {
                self.clients(phase)?
            }
        };
        let stats = self.db()?.stats();
        let record_bytes = (KEY_BYTES + self.plan.value_bytes) as u64;
        report.disk_bytes = stats.disk_bytes;
        report.live_bytes = self.versions.present() * record_bytes;
        Ok(report)
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
        self.db = Some(db);
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
        let (plan, present) = (self.plan, self.versions.present());
        let mut mix = Mix::default();
        let mut chooser = Chooser::Uniform;
        let mut distribution = None;
        let operations = match phase.kind {
            Kind::Load => plan.records,
            Kind::Mix(of_phase) => {
                if present == 0 && (of_phase.insert < 100) {
                    return Err(Failure::invalid(
                        "there are no records yet; begin with load",
                    ));
                }
                mix = of_phase;
                mix.scan_length = mix.scan_length.or(plan.scan_length);
                let chosen = plan.distribution_of(phase, &mix);
                distribution = Some(chosen);
                let operations = plan.operations_of(phase);
                chooser = Chooser::new(chosen, present.max(1), mix.most_inserts(operations));
                operations
            }
            _ => present,
        };
        let shares = (0..plan.threads as u64).map(|thread| share(operations, thread, plan.threads));
        let mut tasks: Vec<Task<'_>> = shares
            .map(|share| match phase.kind {
                Kind::Load => Task::Load(share),
                Kind::Mix(_) => Task::Mix {
                    mix: &mix,
                    chooser: &chooser,
                    operations: share.end - share.start,
                },
                _ => Task::GetAll(share),
            })
            .collect();
        match phase.kind {
            Kind::VerifyScan => tasks = vec![Task::FullScan],
            Kind::Verify => tasks.push(Task::FullScan),
            _ => {}
        }
        let full_scans = u64::from(matches!(phase.kind, Kind::Verify | Kind::VerifyScan));
        let gets = if phase.kind == Kind::VerifyScan {
            0
        } else {
            operations
        };
        let mut report = self.measure(phase, tasks, gets + full_scans * present)?;
        report.distribution = distribution.map(Distribution::name);
        if phase.kind == Kind::Load {
            self.versions.loaded(report.operations);
        }
        Ok(report)
    }

    fn measure(
        &mut self,
        phase: &Phase,
        tasks: Vec<Task<'_>>,
        operations: u64,
    ) -> Result<PhaseReport, Failure> {
        let db = self
            .db
            .as_ref()
            .ok_or_else(|| Failure::invalid("the database is not open"))?;
        let stop = AtomicBool::new(false);
        let is_verify = !matches!(phase.kind, Kind::Load | Kind::Mix(_));
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
        let gauge = |_: &Task<'_>| Gauge {
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
        let work = work?;
        let after = Counters::now(db.stats());
        let mut report = PhaseReport::new(phase, elapsed);
        report.threads = threads;
        report.operations = work.operations;
        report.scanned_records = work.scanned;
        report.misses = work.misses;
        report.latencies = work.latencies.summaries();
        report.peak_anonymous_bytes = peak_anonymous_bytes;
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

/// The part of `0..total` that falls to one of `threads`.
fn share(total: u64, thread: u64, threads: usize) -> Range<u64> {
    let threads = threads as u64;
    let at = |thread: u64| total / threads * thread + (total % threads).min(thread);
    at(thread)..at(thread + 1)
}

fn run_clients(
    shared: &Shared<'_>,
    gauges: &[Gauge],
    tasks: Vec<Task<'_>>,
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
    task: Task<'_>,
    rng: SmallRng,
) -> Result<Work, Failure> {
    let mut client = Client::new(shared, gauge, rng);
    match task {
        Task::Load(records) => client.load(records)?,
        Task::GetAll(records) => client.get_all(records)?,
        Task::Mix {
            mix,
            chooser,
            operations,
        } => client.run(mix, chooser, operations)?,
        Task::FullScan => client.scanned = verify::full_scan(shared, gauge)?,
    }
    Ok(Work {
        latencies: client.latencies,
        operations: client.operations,
        scanned: client.scanned,
        misses: client.misses,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shares_cover_everything_once() {
        for (total, threads) in [(10, 3), (2, 4), (0, 1), (100, 7)] {
            let mut next = 0;
            for thread in 0..threads {
                let share = share(total, thread, threads as usize);
                assert_eq!(share.start, next);
                next = share.end;
            }
            assert_eq!(next, total);
        }
    }
}
