//! What is due: one place that workers, waiting callers and the account of failures ask.
//!
//! A [`JobKind`] of work finds the most urgent job of its kind; the [`Scheduler`] asks the kinds in
//! their order ([`super::kinds::all`]), leases the partitions of the first job found, runs it, and
//! keeps account of how it ended. To add a kind: a file in `kinds/`, and its line in that list.
//!
//! A job is found and leased under the catalog's lock, and run under no lock. One that fails is in
//! backoff, and so is what it works on, while others go on; its error is in
//! [`Health`](crate::engine::health::Health) until it succeeds or is no longer due.
//!
//! Lock: `given_up`, a leaf.

use super::Background;
use super::lease::{Lease, Leases};
use crate::base::keys::PartitionId;
use crate::base::seeded::slip;
use crate::base::sync::Mutex;
use crate::engine::background::kinds;
use crate::engine::catalog::CatalogState;
use crate::engine::health::{COLLECT, Health, JobName};
use crate::error::{Error, ErrorKind, Result};
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

/// How long a job that was given up is left alone.
const LEFT_ALONE: Duration = Duration::from_secs(3);

/// A kind of work.
pub(crate) trait JobKind: Send + Sync {
    /// What a person calls it.
    fn name(&self) -> JobName;

    /// Finds the most urgent job among those that `ask` allows. Cheap: it reads no file.
    fn find(&self, background: &Background, ask: &Ask<'_>) -> Option<Job>;

    /// Whether it serves reads alone: it may become due without anybody's knowing.
    fn is_for_reads(&self) -> bool {
        false
    }

    /// Notes that a job of this kind has failed.
    fn failed(&self, background: &Background, partition: Option<PartitionId>, error: &Error) {
        let now = background.core.now();
        let health = &background.core.health;
        health.job_failed(self.name(), partition, error.clone(), now);
    }
}

/// What is to be done: the purpose and the inputs are in `run`.
pub(crate) struct Job {
    /// The partitions that it holds while it runs. A failure is one of the first.
    pub(crate) partitions: Vec<PartitionId>,
    run: Box<dyn FnOnce(&Background) -> Result<Ended>>,
}

impl Job {
    pub(crate) fn new(
        partitions: impl IntoIterator<Item = PartitionId>,
        run: impl FnOnce(&Background) -> Result<Ended> + 'static,
    ) -> Job {
        Job {
            partitions: partitions.into_iter().collect(),
            run: Box::new(run),
        }
    }
}

/// How a job ended that has not failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Ended {
    Done,
    /// There was nothing to do after all: less urgent work has its turn.
    Nothing,
    /// Others need what it needs: it is left alone for a while.
    GivenUp,
}

/// What is asked for.
pub(crate) struct Ask<'a> {
    pub(crate) catalog: &'a CatalogState,
    health: &'a Health,
    scheduler: &'a Scheduler,
    by: By,
}

#[derive(Clone, Copy)]
enum By {
    /// A worker, at this time: nothing that is leased or in backoff.
    Worker(Duration),
    /// A caller that waits until nothing is due: backoff does not matter.
    Waiter,
    /// The account of failures: only what concerns this partition, leased or not.
    Failure(Option<PartitionId>),
}

impl Ask<'_> {
    /// Whether the answer is run, and not only looked at.
    pub(crate) fn is_by_worker(&self) -> bool {
        matches!(self.by, By::Worker(_))
    }

    /// Whether the partition can be leased.
    pub(crate) fn is_free(&self, partition: PartitionId) -> bool {
        matches!(self.by, By::Failure(_)) || self.scheduler.leases.is_free(partition)
    }

    /// Whether a job of `name` that works on `partition` is in question.
    pub(crate) fn allows(&self, name: JobName, partition: Option<PartitionId>) -> bool {
        match self.by {
            By::Worker(now) => {
                !self.health.is_in_backoff(name, partition, now)
                    && !self.scheduler.is_left_alone(name, partition, now)
            }
            By::Waiter => true,
            By::Failure(of) => partition == of,
        }
    }
}

/// A job that is to run, with its leases.
struct Next {
    job: Job,
    lease: Lease,
}

#[derive(Default)]
pub(crate) struct Scheduler {
    pub(crate) leases: Arc<Leases>,
    /// Jobs that were given up, and until when they are left alone.
    given_up: Mutex<BTreeMap<(JobName, Option<PartitionId>), Duration>>,
}

impl Scheduler {
    fn is_left_alone(&self, name: JobName, of: Option<PartitionId>, now: Duration) -> bool {
        let until = self.given_up.lock().get(&(name, of)).copied();
        until.is_some_and(|until| until > now)
    }

    /// Lets what was given up be tried again. Whether there was any.
    pub(crate) fn forget_given_up(&self) -> bool {
        let mut given_up = self.given_up.lock();
        let any = !given_up.is_empty();
        given_up.clear();
        any
    }

    /// How long from `now` until something that was given up may be tried again.
    fn left_alone_for(&self, now: Duration) -> Option<Duration> {
        let mut given_up = self.given_up.lock();
        given_up.retain(|_, until| *until > now);
        let first = given_up.values().min()?;
        Some(first.saturating_sub(now))
    }
}

impl Background {
    fn ask<'a>(&'a self, catalog: &'a CatalogState, by: By) -> Ask<'a> {
        Ask {
            catalog,
            health: &self.core.health,
            scheduler: &self.scheduler,
            by,
        }
    }

    /// As a caller asks that waits for all work.
    #[cfg(test)]
    pub(crate) fn ask_all<'a>(&'a self, catalog: &'a CatalogState) -> Ask<'a> {
        self.ask(catalog, By::Waiter)
    }

    /// Runs the most urgent job of `kinds`. False: none is due that can be run now.
    pub(crate) fn run_next_job(&self, kinds: &[&dyn JobKind]) -> Result<bool> {
        self.core.health.check_fatal()?;
        for kind in kinds {
            if let Some(next) = self.take(*kind)
                && self.run(*kind, next)?
            {
                return Ok(true);
            }
        }
        Ok(false)
    }

    /// Finds a job and leases its partitions.
    fn take(&self, kind: &dyn JobKind) -> Option<Next> {
        let catalog = self.catalog.lock();
        self.forget_settled(&catalog);
        let ask = self.ask(&catalog, By::Worker(self.core.now()));
        let job = kind.find(self, &ask)?;
        let leased = slip!(GcUnleased, kind.name() != COLLECT, true);
        let leased = if leased { &job.partitions[..] } else { &[] };
        let lease = self.scheduler.leases.take(leased);
        Some(Next { job, lease })
    }

    fn run(&self, kind: &dyn JobKind, Next { job, lease }: Next) -> Result<bool> {
        let (name, of) = (kind.name(), job.partitions.first().copied());
        let ended = (job.run)(self);
        if let Err(error) = &ended {
            self.space.note_full(error);
        }
        // Before anybody else may choose it, it is known how it ended.
        let went_on = match ended {
            Err(error) if error.kind() == ErrorKind::Closed => Err(error),
            Err(error) => {
                kind.failed(self, of, &error);
                Ok(true)
            }
            Ok(ended) => {
                self.core.health.job_succeeded(name, of);
                if ended == Ended::GivenUp {
                    let until = self.core.now().saturating_add(LEFT_ALONE);
                    let given_up = &self.scheduler.given_up;
                    given_up.lock().insert((name, of), until);
                }
                Ok(ended != Ended::Nothing)
            }
        };
        drop(lease);
        went_on
    }

    /// The first kind of which a job is due, leased partitions left aside.
    pub(crate) fn what_is_due(&self, catalog: &CatalogState) -> Option<&'static dyn JobKind> {
        let ask = self.ask(catalog, By::Waiter);
        let mut kinds = kinds::FLUSHES.iter().chain(&self.kinds).copied();
        kinds.find(|kind| kind.find(self, &ask).is_some())
    }

    /// Whether the job of a failure is still due.
    pub(crate) fn is_still_due(
        &self,
        catalog: &CatalogState,
        name: JobName,
        of: Option<PartitionId>,
    ) -> bool {
        let ask = self.ask(catalog, By::Failure(of));
        let kinds = kinds::FLUSHES.iter().chain(&self.kinds);
        let mut kinds = kinds.filter(|kind| kind.name() == name);
        kinds.any(|kind| kind.find(self, &ask).is_some())
    }

    /// How long from `now` until a job of `kinds` that failed, was given up or needs idle writers
    /// may be due.
    pub(crate) fn retry_in(&self, kinds: &[&dyn JobKind], now: Duration) -> Option<Duration> {
        let is_of = |name| kinds.iter().any(|kind| kind.name() == name);
        let waits = [
            self.core.health.backoff_left(is_of, now),
            self.scheduler.left_alone_for(now),
            self.idle_begins_in(now),
        ];
        waits.into_iter().flatten().min()
    }
}
