//! Running what the [`scheduler`](super::scheduler) finds.

use super::Background;
use super::lease::Lease;
use crate::base::keys::PartitionId;
use crate::base::seeded::slip;
use crate::engine::background::JobKind;
use crate::engine::background::kinds::collect::Collections;
use crate::engine::background::kinds::merge::Merges;
use crate::engine::background::scheduler::Ask;
use crate::engine::catalog::CatalogState;
use crate::engine::health::{COLLECT, JobName};
use crate::engine::stats::holders::DueJob;
use crate::error::{Error, ErrorKind, Result};
use crate::events::Event;
use crate::jobs::plan::rules::merge;
use crate::jobs::plan::{Filter, Job, Why};
use crate::jobs::written;
use std::time::Duration;

/// How a job ended that has not failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Ended {
    Done,
    /// There was nothing to do after all: less urgent work has its turn.
    Nothing,
    /// One partition of several has failed, which is noted, and nothing of the others is kept.
    Discarded,
    /// Others need what it needs: it is left alone for a while.
    GivenUp,
}

impl Ended {
    /// Done, if there was anything to do.
    pub(crate) fn done_if(any: bool) -> Ended {
        if any { Ended::Done } else { Ended::Nothing }
    }
}

/// A job that is to run, with its leases.
struct Next {
    job: Job,
    why: Why,
    lease: Lease,
}

impl Background {
    fn ask<'a>(&'a self, catalog: &'a CatalogState, filter: Filter) -> Ask<'a> {
        Ask {
            catalog,
            health: &self.core.health,
            scheduler: &self.scheduler,
            filter,
            now: self.core.now(),
        }
    }

    /// As a caller asks that waits for all work.
    #[cfg(test)]
    pub(crate) fn ask_all<'a>(&'a self, catalog: &'a CatalogState) -> Ask<'a> {
        self.ask(catalog, Filter::Waiter)
    }

    /// Runs the most urgent job of `kinds`. False: none is due that can be run now.
    pub(crate) fn run_next_job(&self, kinds: &[&dyn JobKind]) -> Result<bool> {
        self.core.health.check_fatal()?;
        if self.core.health.has_failures() {
            self.forget_settled(&self.catalog.lock());
        }
        for kind in kinds {
            if let Some(next) = self.take(*kind)
                && self.run(*kind, next)?
            {
                return Ok(true);
            }
        }
        #[cfg(any(test, debug_assertions))]
        debug_assert_eq!(self.check_candidates(&self.catalog.lock()), Ok(()));
        Ok(false)
    }

    /// Finds a job and leases its partitions.
    fn take(&self, kind: &dyn JobKind) -> Option<Next> {
        let catalog = self.catalog.lock();
        let ask = self.ask(&catalog, Filter::Worker);
        let (job, why) = kind.find(self, &ask)?;
        let leased = slip!(GcUnleased, kind.name() != COLLECT, true);
        let leased = if leased { job.partitions() } else { Vec::new() };
        let lease = self.scheduler.leases.take(&leased);
        Some(Next { job, why, lease })
    }

    fn run(&self, kind: &dyn JobKind, Next { job, why, lease }: Next) -> Result<bool> {
        let (name, of) = (kind.name(), job.partitions().first().copied());
        let partition = of.map(|id| id.0);
        let events = &self.core.events;
        events.emit(|| Event::JobBegan {
            job: name,
            partition,
            why: why.to_string(),
        });
        let begin = self.core.now();
        let running = self.running.begin(name, of, why, begin);
        let (ended, bytes) = written::during(|| self.perform(&job));
        self.running.end(running);
        if let Err(error) = &ended {
            self.space.note_full(error);
        }
        let is_closed = |error: &Error| error.kind() == ErrorKind::Closed;
        let has_failed = ended.as_ref().is_err_and(|error| !is_closed(error));
        // Before anybody else may choose it, it is known how it ended.
        let went_on = match ended {
            Err(error) if is_closed(&error) => Err(error),
            Err(error) => {
                self.job_failed(kind, of, &error);
                Ok(true)
            }
            Ok(Ended::Discarded) => Ok(true),
            Ok(ended) => {
                self.core.job_recovered(name, of);
                if ended == Ended::GivenUp {
                    self.scheduler.give_up(name, of, self.core.now());
                }
                Ok(ended != Ended::Nothing)
            }
        };
        if !has_failed {
            let took = self.core.now().saturating_sub(begin);
            self.core.meter.job(name, took);
            events.emit(|| Event::JobEnded {
                job: name,
                partition,
                took,
                bytes,
            });
        }
        drop(lease);
        went_on
    }

    pub(super) fn note_failure(&self, name: JobName, of: Option<PartitionId>, error: &Error) {
        let now = self.core.now();
        self.core.health.job_failed(name, of, error.clone(), now);
    }

    /// Whether a job of `name` has failed in the partition. It is tried again alone: a failure
    /// would cost the others of its job what has been done for them.
    pub(super) fn is_tried_alone(&self, name: JobName, partition: PartitionId) -> bool {
        self.core.health.failure(name, Some(partition)).is_some()
    }

    /// Takes notice of the failure of a job.
    pub(super) fn job_failed(&self, kind: &dyn JobKind, of: Option<PartitionId>, error: &Error) {
        kind.failed(self, of, error);
        self.core.events.emit(|| {
            let noted = self.core.health.failure(kind.name(), of);
            let now = self.core.now();
            Event::JobFailed {
                job: kind.name(),
                partition: of.map(|id| id.0),
                error: error.clone(),
                failures: noted.as_ref().map_or(1, |failure| failure.failures),
                retry_in: noted.map(|failure| failure.retry_at.saturating_sub(now)),
            }
        });
    }

    /// The first kind of which a job is due, leased partitions left aside.
    pub(crate) fn what_is_due(&self, catalog: &CatalogState) -> Option<&'static dyn JobKind> {
        let ask = self.ask(catalog, Filter::Waiter);
        let mut kinds = self.all_kinds();
        kinds.find(|kind| kind.find(self, &ask).is_some())
    }

    /// The most urgent job of each kind that is due, those that run left aside, in the order in
    /// which workers take them.
    pub(crate) fn due_jobs(&self) -> Vec<DueJob> {
        let (mut all, now, held_back) = (Vec::new(), self.core.now(), self.held_back());
        for kind in self.all_kinds() {
            let catalog = self.catalog.lock();
            let ask = self.ask(&catalog, kind.is_listed_for());
            let found = kind.find(self, &ask);
            drop(catalog);
            let Some((job, why)) = found else {
                continue;
            };
            let of = job.partitions();
            let mut due = DueJob::new(kind.name(), &of, why);
            let first = of.first().copied();
            let held = held_back.iter().filter(|held| {
                (held.job, held.partition) == (kind.name(), first) && held.until > now
            });
            due.retry_in = held.map(|held| held.until.saturating_sub(now)).max();
            // Joins have two turns.
            if !all.contains(&due) {
                all.push(due);
            }
        }
        all
    }

    /// Whether a merge could be run now if nobody held the partitions `held`.
    pub(crate) fn is_merge_due(&self, held: &[PartitionId]) -> bool {
        let catalog = self.catalog.lock();
        let mut facts = self.facts_of(&catalog);
        facts.leased.retain(|id| !held.contains(id));
        merge::ready(&facts, Filter::Worker).next().is_some()
    }

    /// Whether a collection could be run now if nobody held the partitions `held`.
    pub(crate) fn is_collection_due(&self, held: &[PartitionId]) -> bool {
        let catalog = self.catalog.lock();
        let ask = self.ask(&catalog, Filter::Worker);
        let is_free = |id| held.contains(&id) || ask.is_free(id);
        !self.plan_collections(&ask, &is_free).is_empty()
    }

    /// Whether the job of a failure is still due.
    pub(crate) fn is_still_due(
        &self,
        catalog: &CatalogState,
        name: JobName,
        of: Option<PartitionId>,
    ) -> bool {
        let ask = self.ask(catalog, Filter::Failure(of));
        let kinds = self.all_kinds();
        let mut kinds = kinds.filter(|kind| kind.name() == name);
        kinds.any(|kind| kind.find(self, &ask).is_some())
    }

    /// How long from `now` until a job of `kinds` may be due that failed, was given up or waits for
    /// its time.
    pub(crate) fn retry_in(&self, kinds: &[&dyn JobKind], now: Duration) -> Option<Duration> {
        let is_of = |name| kinds.iter().any(|kind| kind.name() == name);
        let backoff = self.core.health.backoff_left(is_of, now);
        let given_up = self.scheduler.left_alone_for(now);
        let due = kinds.iter().filter_map(|kind| kind.due_in(self, now));
        // What is due now and could not be chosen becomes free with a notification.
        let later = due.filter(|rest| !rest.is_zero());
        backoff.into_iter().chain(given_up).chain(later).min()
    }
}

impl Background {
    /// Does what a job says. The leases of its partitions are held.
    fn perform(&self, job: &Job) -> Result<Ended> {
        match job {
            Job::Flush => self.flush_oldest(),
            Job::Merge(plans) => {
                self.warmth.turn_begins(false);
                self.run_plans(&Merges, plans)
            }
            Job::Collect(plans) => self.run_plans(&Collections, plans),
            Job::Cluster(plans) => self.run_slice(plans),
            Job::FreezeToCluster(ids) => Ok(Ended::done_if(self.freeze_these(ids))),
            Job::Split(id) => self.split(*id),
            Job::Join(sides) => self.join_leased(*sides),
            Job::Clear(ids) => self.clear(ids),
            Job::JoinGone(ids) => self.join_gone(ids),
            Job::FreezeForSpace => {
                self.freeze_for_space();
                Ok(Ended::Done)
            }
            Job::FreezeTombstones(id) => self.freeze_tombstones(*id),
            Job::ScanMerge(id, generation) => self.scan_merge_in(*id, *generation),
            Job::PointerIndex => Ok(Ended::done_if(self.make_index())),
            Job::KeyBlocks => Ok(Ended::done_if(self.read_blocks())),
            Job::PointerIndexes => {
                self.want_indexes();
                Ok(Ended::Done)
            }
            Job::Warm => {
                self.warmth.turn_begins(true);
                Ok(Ended::done_if(self.read_hints()))
            }
            Job::NoteHints => Ok(Ended::done_if(self.note_hints())),
            Job::NoteClock => self.note_clock(),
            #[cfg(test)]
            Job::Chore(id, chores) => super::kinds::tests::do_chore(self, *id, chores),
        }
    }
}
