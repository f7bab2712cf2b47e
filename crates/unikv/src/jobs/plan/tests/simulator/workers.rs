//! The workers of the model: they choose jobs, hold leases, and end jobs in any order.
//!
//! Invariants, checked at each choice: no two jobs hold one partition; the partitions of the chosen
//! job exist; the job is not held back; the [`oracle`] agrees.

use super::counts::Counts;
use super::inputs::{self, Habits};
use super::kinds::{Ended, KINDS, Kind, Running, join, lend, settle};
use super::world::World;
use super::{kinds, oracle, promises};
use crate::base::keys::PartitionId;
use crate::jobs::plan::facts::Cause;
use crate::jobs::plan::{Filter, Job};
use rand::rngs::SmallRng;
use rand::seq::IteratorRandom;
use rand::{Rng, SeedableRng};
use std::collections::HashSet;
use std::time::Duration;

/// Each decision in a world with fewer partitions is compared with the oracle.
const SMALL: usize = 16;

/// Merges that may begin while a join with merges is due.
const MOST_PASSED: usize = 4;

/// Without new input all is done after this time: pauses of failures take a minute at most.
const LONG: Duration = Duration::from_secs(3_600);

/// After this time nothing waits for writers to be idle.
const LONG_IDLE: Duration = Duration::from_secs(6);

struct Worker {
    does_flushes: bool,
    job: Option<Running>,
    /// It has found nothing, and nothing has happened since it began to search.
    sleeps: bool,
    /// Something has happened since it began to search from the first kind on.
    is_behind: bool,
}

pub(super) struct Simulation {
    world: World,
    workers: Vec<Worker>,
    habits: Habits,
    rng: SmallRng,
    /// Whether each step is printed.
    is_printed: bool,
    /// Merges that began since a join with merges did, while one was due at each.
    passed_joins: usize,
    pub(super) counts: Counts,
}

impl Simulation {
    pub(super) fn new(seed: u64, partitions: usize, is_printed: bool) -> Simulation {
        let mut rng = SmallRng::seed_from_u64(seed);
        let world = inputs::new_world(partitions, &mut rng);
        let others = rng.random_range(1..=3);
        let worker = |does_flushes| Worker {
            does_flushes,
            job: None,
            sleeps: false,
            is_behind: false,
        };
        let others = (0..others).map(|_| worker(false));
        Simulation {
            world,
            workers: [worker(true)].into_iter().chain(others).collect(),
            habits: Habits::new(&mut rng),
            rng,
            is_printed,
            passed_joins: 0,
            counts: Counts::default(),
        }
    }

    /// Makes one input from outside, or one step of a worker.
    pub(super) fn step(&mut self) {
        if self.rng.random_ratio(1, 4) {
            let input = self.habits.next(&mut self.rng);
            self.print(|| format!("{input:?}"));
            inputs::apply(input, &mut self.world, &mut self.rng);
            self.wake();
        } else {
            let worker = self.rng.random_range(0..self.workers.len());
            self.work(worker);
        }
    }

    /// A worker ends its job, or chooses one.
    fn work(&mut self, worker: usize) {
        if self.workers[worker].job.is_some() {
            self.end(worker);
        } else if !self.workers[worker].sleeps {
            self.choose(worker, 0);
        }
    }

    /// Lets the workers finish without new input. The number of their steps must be proportional to
    /// the work. Time passes only while all workers sleep and a job is due.
    pub(super) fn settle(&mut self) {
        self.world.failing = 0;
        if self.rng.random_ratio(3, 4) {
            self.world.has_room = true;
        }
        self.wake();
        let (most, begin) = (8 * self.world.work(), self.world.now);
        let mut steps = 0;
        while steps < most && self.world.now - begin < LONG {
            steps += 1;
            let is_awake = |worker: &usize| {
                let worker = &self.workers[*worker];
                worker.job.is_some() || !worker.sleeps
            };
            let awake: Vec<_> = (0..self.workers.len()).filter(is_awake).collect();
            if !awake.is_empty() {
                let worker = awake[self.rng.random_range(0..awake.len())];
                self.work(worker);
                continue;
            }
            let due = self.due_for_waiter();
            let rest = self.rest(|_| true);
            // Nobody writes, and with time more becomes due. The clock is noted for ever, and so is
            // a full disk looked after.
            let world = &self.world;
            let is_disk_due = world.has_room && (world.disk.is_full || !world.has_ballast);
            let may_be_due = world.idle_time() < LONG_IDLE
                || world.give_way_for().is_some()
                || settle::is_unsettled(world)
                || is_disk_due
                || !world.is_lent;
            let rest = rest.filter(|_| due.is_some() || may_be_due);
            let Some(rest) = rest else {
                let world = &self.world;
                assert!(
                    due.is_none(),
                    "{due:?} is due, no worker will do it: {world:#?}"
                );
                promises::check(world);
                return;
            };
            self.print(|| format!("all sleep for {rest:?}"));
            self.counts.rests += 1;
            self.world.pass(rest);
            // To wake up and find nothing, or a full disk, is no work.
            steps = steps.saturating_sub(self.workers.len() + 2);
            self.wake();
        }
        let due = self.due_for_waiter();
        let passed = self.world.now - begin;
        panic!(
            "after {steps} jobs and {passed:?} {due:?} is due: {:#?}",
            self.world
        );
    }

    fn print(&self, what: impl FnOnce() -> String) {
        if self.is_printed {
            println!("{:?} {}", self.world.now, what());
        }
    }

    fn wake(&mut self) {
        for worker in &mut self.workers {
            worker.sleeps = false;
            worker.is_behind = true;
        }
    }

    /// Chooses the first job that is due by the worker's kinds, from the kind `first` on.
    fn choose(&mut self, worker: usize, first: usize) {
        self.counts.decisions += 1;
        if first == 0 {
            self.workers[worker].is_behind = false;
        }
        let is_checked = self.is_checked();
        self.forget_settled(is_checked);
        self.world.refresh();
        if is_checked {
            self.check_some();
        }
        let does_flushes = self.workers[worker].does_flushes;
        let mut facts = self.world.facts();
        let mut chosen = None;
        for (place, kind) in KINDS.iter().enumerate().skip(first) {
            if kind.is_flush != does_flushes {
                continue;
            }
            let found = kind.find(&mut facts, &self.world, Filter::Worker);
            let partitions = found.as_ref().map(Job::partitions);
            // A job of many partitions is rare, and has a limit.
            let is_large = partitions.as_ref().is_some_and(|it| it.len() > SMALL);
            if is_checked || is_large {
                oracle::check(kind, partitions.as_deref(), &self.world, Filter::Worker);
            }
            if let Some(work) = found {
                chosen = Some((place, work));
                break;
            }
        }
        match chosen {
            Some((kind, work)) => self.begin(worker, kind, work),
            None => {
                let worker = &mut self.workers[worker];
                worker.sleeps = !worker.is_behind;
                let of = |kind: &Kind| kind.is_flush == does_flushes;
                if first == 0 && is_checked && self.rng.random_ratio(1, 4) {
                    self.check_rest(of);
                }
            }
        }
    }

    fn begin(&mut self, worker: usize, kind: usize, job: Job) {
        let partitions = job.partitions();
        self.print(|| format!("{worker} begins {} {partitions:?}", KINDS[kind].name()));
        let of = (KINDS[kind].name(), partitions.first().copied());
        let is_held = self.world.failures.holds_back(of, self.world.now);
        assert!(!is_held, "{of:?} is held back");
        let unique: HashSet<_> = partitions.iter().collect();
        assert_eq!(unique.len(), partitions.len(), "{of:?} has one twice");
        let of_all = self.world.partitions.iter();
        let found = of_all.filter(|p| unique.contains(&p.id)).count();
        assert_eq!(found, partitions.len(), "{of:?} has what is not there");
        for other in self.workers.iter().filter_map(|it| it.job.as_ref()) {
            let shared = other.partitions.iter().find(|id| unique.contains(id));
            let other = KINDS[other.kind].name();
            assert!(shared.is_none(), "{of:?} and {other} hold {shared:?}");
        }
        self.check_turns(&job);
        self.world.leased.extend(&partitions);
        let mut running = Running {
            kind,
            job,
            partitions,
            inputs: Vec::new(),
            rounds: 0,
        };
        lend::job_begins(&mut self.world, &running);
        self.counts.begun[kind] += 1;
        let is_together = matches!(&running.job, Job::Merge(ids) if ids.len() > 1);
        self.counts.together += u64::from(is_together);
        (KINDS[kind].begin)(&mut self.world, &mut running);
        self.workers[worker].job = Some(running);
    }

    /// Checks that merges do not keep a join with merges waiting. The check takes time with the
    /// partitions, so only small worlds have it.
    fn check_turns(&mut self, job: &Job) {
        match job {
            Job::Merge(_) if self.world.partitions.len() <= SMALL => {
                let is_passed = join::is_one_with_merges_due(&self.world);
                self.passed_joins = if is_passed { self.passed_joins + 1 } else { 0 };
            }
            Job::Join(sides) if self.world.needs_merge(*sides) => self.passed_joins = 0,
            _ => {}
        }
        let passed = self.passed_joins;
        assert!(passed <= MOST_PASSED, "{passed} merges have passed a join");
    }

    /// Ends a job by its work or by a failure, and returns its leases, unless it goes on.
    fn end(&mut self, worker: usize) {
        let Some(mut running) = self.workers[worker].job.take() else {
            return;
        };
        let kind = &KINDS[running.kind];
        let of = (kind.name(), running.partitions.first().copied());
        let has_failed = kind.may_fail && self.rng.random_ratio(self.world.failing, 1_000);
        let ended = if has_failed {
            self.fail(&running, of);
            Ended::Done
        } else {
            (kind.end)(&mut self.world, &mut running, &mut self.rng)
        };
        self.print(|| format!("{worker} ends {of:?}: {ended:?}, failed: {has_failed}"));
        if ended == Ended::GoesOn {
            self.workers[worker].job = Some(running);
            return;
        }
        if has_failed {
            self.counts.failed += 1;
        } else {
            self.world.failures.forget(of);
        }
        if ended == Ended::GivenUp {
            self.counts.given_up += 1;
            self.world.failures.give_up(of, self.world.now);
        }
        lend::job_ends(&mut self.world, &running);
        for id in &running.partitions {
            self.world.leased.remove(id);
        }
        self.world.changed();
        if ended != Ended::Nothing {
            self.wake();
        } else {
            self.counts.vain += 1;
            self.choose(worker, running.kind + 1);
        }
    }

    /// Notes a failure. Its cause may be a full disk, which it may reveal. A merge or a
    /// collection of several partitions fails in any of them.
    fn fail(&mut self, running: &Running, mut of: (&'static str, Option<PartitionId>)) {
        match &running.job {
            Job::Merge(_) | Job::Collect(_) => {
                of.1 = running.partitions.iter().copied().choose(&mut self.rng);
            }
            _ => {}
        }
        kinds::failed(&mut self.world, running);
        if KINDS[running.kind].is_only_counted() {
            return;
        }
        if self.rng.random_ratio(1, 32) {
            self.world.full_begins();
        }
        let lacks_space = self.world.disk.is_full && self.rng.random();
        let cause = if lacks_space {
            Cause::DiskFull
        } else {
            Cause::Failed
        };
        self.world.failures.fail(of, cause, self.world.now);
    }

    /// The kind of the first job that is due, whatever is held back.
    fn due_for_waiter(&mut self) -> Option<&'static str> {
        self.world.refresh();
        oracle::check_all(&self.world, Filter::Waiter);
        let mut facts = self.world.facts();
        let mut due = KINDS.iter();
        let due = due.find(|kind| kind.find(&mut facts, &self.world, Filter::Waiter).is_some())?;
        Some(due.name())
    }

    /// The time that a worker of these kinds may sleep after it has found nothing.
    fn rest(&self, of: impl Fn(&Kind) -> bool) -> Option<Duration> {
        let facts = self.world.facts();
        let due = KINDS.iter().filter(|kind| of(kind));
        let due = due.filter_map(|kind| kind.due_in(&facts));
        // A job that is due now becomes free with a notification.
        let due = due.filter(|rest| !rest.is_zero());
        due.chain(self.world.failures.left(self.world.now)).min()
    }

    /// Checks that no job of these kinds becomes due while a worker sleeps.
    fn check_rest(&mut self, of: impl Fn(&Kind) -> bool) {
        const VERY_LONG: Duration = Duration::from_secs(100_000);
        let rest = self.rest(&of);
        let before = rest.map(|rest| rest.saturating_sub(Duration::from_nanos(1)));
        let (now, choices) = (self.world.now, self.world.choices.clone());
        self.world.now += before.unwrap_or(VERY_LONG);
        let mut facts = self.world.facts();
        for kind in KINDS.iter().filter(|kind| of(kind)) {
            let found = kind.find(&mut facts, &self.world, Filter::Worker).is_some();
            let name = kind.name();
            assert!(
                !found,
                "a worker sleeps for {rest:?}, and {name} is due before"
            );
        }
        (self.world.now, self.world.choices) = (now, choices);
    }

    /// Forgets the failures of jobs that are not due any more.
    fn forget_settled(&mut self, is_checked: bool) {
        let failed = self.world.failures.failed();
        if failed.is_empty() {
            return;
        }
        self.world.refresh();
        for (name, of) in failed {
            let filter = Filter::Failure(of);
            let mut facts = self.world.facts();
            let mut is_due = false;
            for kind in KINDS.iter().filter(|kind| kind.name() == name) {
                let found = kind.find(&mut facts, &self.world, filter);
                if is_checked {
                    let partitions = found.as_ref().map(Job::partitions);
                    oracle::check(kind, partitions.as_deref(), &self.world, filter);
                }
                is_due |= found.is_some();
            }
            if !is_due {
                self.world.failures.forget((name, of));
                self.world.changed();
                self.world.refresh();
            }
        }
    }

    /// Whether a decision is compared with the oracle, which takes time with the partitions.
    fn is_checked(&mut self) -> bool {
        let one_in = 1 + self.world.partitions.len() / SMALL;
        self.rng.random_ratio(1, one_in as u32)
    }

    /// Compares the figures with those made from scratch, or the jobs of all kinds with the oracle,
    /// at some of the decisions.
    fn check_some(&mut self) {
        match self.rng.random_range(0..16) {
            0 => self.world.check_figures(),
            1 => oracle::check_all(&self.world, Filter::Worker),
            2 => oracle::check_all(&self.world, Filter::Waiter),
            3 => oracle::check_all(&self.world, Filter::Listing),
            4 => {
                let at = self.rng.random_range(0..=self.world.partitions.len());
                let of = self.world.partitions.get(at).map(|p| p.id);
                oracle::check_all(&self.world, Filter::Failure(of));
            }
            _ => {}
        }
    }
}
