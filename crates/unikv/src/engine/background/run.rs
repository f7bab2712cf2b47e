//! Finding what is due, running it, and taking note of how it ended.

use super::Background;
use super::lease::Lease;
use crate::base::keys::{FileNumber, PartitionId};
use crate::base::seeded::slip;
use crate::base::sync::atomic::Ordering;
use crate::engine::catalog::CatalogState;
use crate::engine::stats::holders::DueJob;
use crate::error::{Error, ErrorKind, Result};
use crate::events::Event;
use crate::jobs::compact::parts::MergeInputs;
use crate::jobs::grant::grant;
use crate::jobs::plan::rules::{self, merge};
use crate::jobs::plan::{
    CLUSTER, COLLECT, Facts, Filter, Job, JobName, OfCatalog, OnFailure, Planned, Rule, SCAN_MERGE,
    Why, plan,
};
use crate::jobs::space::tombstones;
use crate::jobs::written;
use crate::key_table::Wish;
use crate::version::Version;
use std::sync::Arc;
use std::time::Duration;

/// How a job ended that has not failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Ended {
    Done,
    /// There was nothing to do after all: less urgent work has its turn.
    Nothing,
    /// One partition of several has failed, and the others are done. Both is noted.
    InPart,
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
    planned: Planned,
    lease: Lease,
}

impl Background {
    /// Runs the most urgent job of `rules`. False: none is due that can be run now.
    pub(crate) fn run_next_job(&self, rules: &[Rule]) -> Result<bool> {
        self.core.health.check_fatal()?;
        if self.core.health.has_failures() {
            self.forget_settled(&self.catalog.lock());
        }
        let mut left = rules;
        while let Some(next) = self.take(left) {
            let name = next.planned.rule.name;
            if self.run(next)? {
                return Ok(true);
            }
            let at = left.iter().position(|rule| rule.name == name);
            left = &left[at.map_or(left.len(), |at| at + 1)..];
        }
        #[cfg(any(test, debug_assertions))]
        debug_assert_eq!(self.check_facts(&self.catalog.lock()), Ok(()));
        Ok(false)
    }

    /// Finds a job and leases its partitions.
    fn take(&self, rules: &[Rule]) -> Option<Next> {
        let mut catalog = self.catalog.lock();
        self.note_charged(&mut catalog);
        let mut facts = self.facts_of(&catalog);
        let look_up = |facts: &mut Facts<'_>, of| self.look_up(facts, of, &catalog, Filter::Worker);
        let planned = plan(rules, &mut facts, Filter::Worker, look_up)?;
        self.note_turn(&planned.job, &catalog);
        let leased = slip!(GcUnleased, planned.rule.name != COLLECT, true);
        let leased = if leased {
            planned.job.partitions()
        } else {
            Vec::new()
        };
        let lease = self.scheduler.leases.take(&leased);
        Some(Next { planned, lease })
    }

    /// Notes that a merge or a join with merges begins: they take turns.
    fn note_turn(&self, job: &Job, catalog: &CatalogState) {
        match job {
            Job::Merge(_) => self.scheduler.merge_begins(),
            Job::Join(sides) => {
                let partitions = sides.iter().filter_map(|id| catalog.version.partition(*id));
                let mut generations = partitions.map(|partition| &partition.generations);
                if generations.any(|generations| !generations.is_empty()) {
                    self.scheduler.join_with_merges_begins();
                }
            }
            _ => {}
        }
    }

    /// Takes note of what scans have charged since.
    fn note_charged(&self, catalog: &mut CatalogState) {
        while let Some(id) = self.read.charged.take() {
            catalog.note_charged(id);
        }
    }

    fn run(&self, Next { planned, lease }: Next) -> Result<bool> {
        let Planned { rule, job, why } = planned;
        let (name, of) = (rule.name, job.partitions().first().copied());
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
                self.job_failed(name, of, &error);
                Ok(true)
            }
            Ok(Ended::InPart | Ended::Discarded) => Ok(true),
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

    /// Takes notice of the failure of a job.
    pub(super) fn job_failed(&self, name: JobName, of: Option<PartitionId>, error: &Error) {
        let is_counted = |rule: &Rule| rule.name == name && rule.on_failure == OnFailure::Counted;
        if !rules::all().any(is_counted) {
            self.note_failure(name, of, error);
        }
        let counters = &self.core.counters;
        match name {
            // What failed may be a victim that is left alone from now on.
            COLLECT => self.choices.collection_failed(),
            CLUSTER => {
                counters.failed_clusterings.fetch_add(1, Ordering::Relaxed);
                self.choices.slice_failed(of);
            }
            SCAN_MERGE => {
                counters.failed_scan_merges.fetch_add(1, Ordering::Relaxed);
            }
            _ => {}
        }
        self.core.events.emit(|| {
            let noted = self.core.health.failure(name, of);
            let now = self.core.now();
            Event::JobFailed {
                job: name,
                partition: of.map(|id| id.0),
                error: error.clone(),
                failures: noted.as_ref().map_or(1, |failure| failure.failures),
                retry_in: noted.map(|failure| failure.retry_at.saturating_sub(now)),
            }
        });
    }

    /// What a rule finds.
    pub(super) fn find(
        &self,
        rule: &Rule,
        catalog: &CatalogState,
        filter: Filter,
    ) -> Option<(Job, Why)> {
        let mut facts = self.facts_of(catalog);
        self.look_up(&mut facts, rule.of_catalog, catalog, filter);
        (rule.find)(&facts, filter)
    }

    /// The first rule by which a job is due, leased partitions left aside.
    pub(crate) fn what_is_due(&self, catalog: &mut CatalogState) -> Option<&'static Rule> {
        self.note_charged(catalog);
        let mut rules = rules::all();
        rules.find(|rule| self.find(rule, catalog, Filter::Waiter).is_some())
    }

    /// The most urgent job of each rule that is due, those that run left aside, in the order in
    /// which workers take them.
    pub(crate) fn due_jobs(&self) -> Vec<DueJob> {
        let (mut all, now, held_back) = (Vec::new(), self.core.now(), self.held_back());
        for rule in rules::all() {
            let mut catalog = self.catalog.lock();
            self.note_charged(&mut catalog);
            let found = self.find(rule, &catalog, rule.listed_for);
            drop(catalog);
            let Some((job, why)) = found else {
                continue;
            };
            let of = job.partitions();
            let mut due = DueJob::new(rule.name, &of, why);
            let first = of.first().copied();
            let held = held_back.iter().filter(|held| {
                (held.job, held.partition) == (rule.name, first) && held.until > now
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
        let mut facts = self.facts_of(&catalog);
        facts.leased.retain(|id| !held.contains(id));
        let of = OfCatalog::Collections;
        self.look_up(&mut facts, of, &catalog, Filter::Worker);
        facts.garbage.next.is_some()
    }

    /// Whether the job of a failure is still due.
    pub(crate) fn is_still_due(
        &self,
        catalog: &CatalogState,
        name: JobName,
        of: Option<PartitionId>,
    ) -> bool {
        let mut rules = rules::all().filter(|rule| rule.name == name);
        rules.any(|rule| self.find(rule, catalog, Filter::Failure(of)).is_some())
    }

    /// How long from `now` until a job of `rules` may be due that failed, was given up or waits for
    /// its time.
    pub(crate) fn retry_in(&self, rules: &[Rule], now: Duration) -> Option<Duration> {
        let is_of = |name| rules.iter().any(|rule| rule.name == name);
        let backoff = self.core.health.backoff_left(is_of, now);
        let given_up = self.scheduler.left_alone_for(now);
        let facts = self.facts_of_waits(rules, now);
        let due = rules.iter().filter_map(|rule| (rule.due_in)(&facts));
        // What is due now and could not be chosen becomes free with a notification.
        let later = due.filter(|rest| !rest.is_zero());
        backoff.into_iter().chain(given_up).chain(later).min()
    }
}

impl Background {
    /// Does what a job says. The leases of its partitions are held.
    fn perform(&self, job: &Job) -> Result<Ended> {
        match job {
            Job::LookAfterDisk => {
                let idle = self.idle_time(self.core.now());
                Ok(Ended::done_if(self.write.look_after_disk(idle)))
            }
            Job::Flush => self.flush_oldest(),
            Job::Settle(what) => Ok(self.settle_when_idle(*what)),
            Job::LendMemory => {
                let now = self.core.now();
                Ok(Ended::done_if(self.core.memory.lend(now)))
            }
            Job::Merge(ids) => {
                self.warmth.turn_begins(false);
                self.merge_these(ids)
            }
            Job::Collect(pass) => {
                self.run_plans(COLLECT, &self.plans_of(pass, MergeInputs::collect))
            }
            Job::Cluster(slice) => self.run_slice(slice),
            Job::FreezeToCluster(ids) => {
                let frozen = self.catalog.lock().freeze_these(ids);
                Ok(Ended::done_if(frozen))
            }
            Job::Split(id) => self.split(*id),
            Job::Join(sides) => self.join_leased(*sides),
            Job::Clear(ids) => self.clear(ids),
            Job::JoinGone(ids) => self.join_gone(ids),
            Job::FreezeForSpace => {
                self.space.full_disk.reclaim.frozen();
                self.catalog.lock().freeze_all();
                Ok(Ended::Done)
            }
            Job::FreezeTombstones(id) => self.freeze_tombstones(*id),
            Job::ScanMerge(id) => self.scan_merge_in(*id),
            Job::PointerIndex => Ok(Ended::done_if(self.make_index())),
            Job::KeyBlocks => Ok(Ended::done_if(self.read_blocks())),
            Job::PointerIndexes => {
                let version = Arc::clone(&self.read.view.load().version);
                version.key_tables().for_each(|table| table.want_index());
                Ok(Ended::Done)
            }
            Job::Warm => {
                self.warmth.turn_begins(true);
                Ok(Ended::done_if(self.warmth.read_hints()))
            }
            Job::NoteHints => Ok(Ended::done_if(self.warmth.note_hints())),
            Job::NoteClock => self.note_clock(),
            #[cfg(test)]
            Job::Chore(id) => self.do_chore(*id),
        }
    }

    /// Makes the pointer index of a table that wants one. False: none does any more.
    fn make_index(&self) -> bool {
        let next = || self.next_wish(Wish::Index);
        grant(next, |table| table.make_index(self.core.hash_seed))
    }

    /// Reads the key blocks of a table that wants them. False: none does any more.
    fn read_blocks(&self) -> bool {
        let version = Arc::clone(&self.read.view.load().version);
        let sums = version.partition_sums();
        let bytes = sums.key_table_bytes + sums.saved_bytes;
        let has_room = self.core.cache.has_room_for_blocks(bytes);
        let next = || self.next_wish(Wish::Blocks);
        grant(next, |table| table.read_blocks(has_room))
    }

    /// A table that wants this. A commit has a table's successor want what it wants before it lists
    /// it, so both are read under one lock.
    fn next_wish(&self, wish: Wish) -> Option<(FileNumber, Arc<Version>)> {
        let catalog = self.catalog.lock();
        let number = self.core.cache.wishes().of(wish).take()?;
        Some((number, Arc::clone(&catalog.version)))
    }

    /// Freezes the open generation of a leased partition if much of it is tombstones. What cannot
    /// be read is left to the merge, which reports it.
    fn freeze_tombstones(&self, id: PartitionId) -> Result<Ended> {
        let version = Arc::clone(&self.read.view.load().version);
        let partition = version.partition(id);
        let newest = partition.and_then(|p| Some((p, p.generations.first()?)));
        let Some((partition, generation)) = newest else {
            return Ok(Ended::Nothing);
        };
        let worth = tombstones::are_worth_a_merge(partition, generation, self.until_closed());
        self.counted.note(partition.id, generation);
        match worth {
            Err(error) if error.kind() == ErrorKind::Closed => return Err(error),
            Ok(true) => drop(self.catalog.lock().freeze(partition)),
            Ok(false) | Err(_) => {}
        }
        Ok(Ended::Done)
    }
}
