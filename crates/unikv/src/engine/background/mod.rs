//! What runs beside readers and writers, as a loop: facts ([`facts`]), the most urgent rule's job
//! (`jobs/plan`), the lease of its partitions, the run without locks ([`run`]), and the commit
//! ([`commit`]).
//!
//! A job is found and leased under the catalog's lock, and commits under it. A job that fails
//! removes what it began (unless the commit was tried: then its outcome is unknown), leaves its
//! error in `health` and is retried after a pause, while the other jobs go on.

mod choices;
#[cfg(test)]
mod chores;
mod commit;
mod counted;
mod facts;
mod idle;
pub(crate) mod ingest;
mod lease;
mod maintenance;
mod requests;
mod run;
pub(crate) mod scheduler;
mod warm;
pub(crate) mod workers;

use crate::base::keys::PartitionId;
use crate::base::sync::atomic::Ordering;
use crate::codec::Dictionaries;
use crate::engine::background::choices::Choices;
use crate::engine::background::counted::Counted;
use crate::engine::background::idle::Idle;
use crate::engine::background::lease::Lease;
use crate::engine::background::requests::Running;
use crate::engine::background::scheduler::Scheduler;
use crate::engine::background::warm::Warmth;
use crate::engine::backpressure::Backpressure;
use crate::engine::catalog::{Catalog, CatalogState};
use crate::engine::core::Core;
use crate::engine::read::ReadState;
use crate::engine::space::DiskSpace;
use crate::engine::uses::Uses;
use crate::engine::write::WritePath;
use crate::error::{Error, ErrorKind, Result};
use crate::events::Event;
use crate::jobs::compact::retention::Readers;
use crate::jobs::plan::{
    CLUSTER, COLLECT, Facts, Filter, Job, JobName, OnFailure, Planned, Rule, SCAN_MERGE, plan,
    rules,
};
use crate::jobs::{Cancel, JobContext, Needs, written};
use crate::vfs;
pub(crate) use run::Ended;
use std::cell::RefCell;
use std::sync::Arc;
use std::time::Duration;

/// A partition large enough to be split has this many key tables at least, and where partitions are
/// a small part of what is stored, for each table is a file that jobs write again.
const KEY_TABLES_OF_A_PARTITION: u64 = 8;
const KEY_TABLES_OF_A_SMALL_PARTITION: u64 = 4;
/// No table is small whose records are this part of what is stored, or more.
const PART_OF_A_KEY_TABLE: u64 = 1024;

/// A job that is to run, with its leases.
struct Next {
    planned: Planned,
    lease: Lease,
}

/// The component that does what is due.
pub(crate) struct Background {
    core: Arc<Core>,
    space: Arc<DiskSpace>,
    backpressure: Arc<Backpressure>,
    read: Arc<ReadState>,
    catalog: Arc<Catalog>,
    write: Arc<WritePath>,
    /// Notified when the periodic sync is to end.
    pub(crate) sync_wake: Arc<dyn vfs::Event>,
    /// Each ingest is one.
    pub(crate) ingesting: Uses,
    pub(crate) scheduler: Scheduler,
    pub(crate) idle: Idle,
    /// The dictionaries that jobs have learned last.
    pub(crate) dictionaries: Dictionaries,
    pub(crate) choices: Choices,
    pub(crate) counted: Counted,
    pub(crate) warmth: Warmth,
    /// The jobs that run.
    pub(crate) running: Running,
    #[cfg(test)]
    chores: Option<Arc<chores::Chores>>,
}

impl Background {
    pub(crate) fn new(
        core: &Arc<Core>,
        space: &Arc<DiskSpace>,
        backpressure: &Arc<Backpressure>,
        read: &Arc<ReadState>,
        catalog: &Arc<Catalog>,
        write: &Arc<WritePath>,
    ) -> Arc<Background> {
        core.cache.wishes().hear();
        read.charged.hear();
        Arc::new(Background {
            core: Arc::clone(core),
            space: Arc::clone(space),
            backpressure: Arc::clone(backpressure),
            read: Arc::clone(read),
            catalog: Arc::clone(catalog),
            write: Arc::clone(write),
            sync_wake: core.store.env().runtime.event(),
            ingesting: Uses::default(),
            scheduler: Scheduler::default(),
            idle: Idle::default(),
            dictionaries: Dictionaries::default(),
            choices: Choices::new(core, space),
            counted: Counted::default(),
            warmth: Warmth::new(core, read),
            running: Running::default(),
            #[cfg(test)]
            chores: chores::Chores::taken(),
        })
    }

    /// How long it is known at `now` that nobody writes.
    pub(crate) fn idle_time(&self, now: Duration) -> Duration {
        let seq = self.read.visible_seq.load(Ordering::Acquire);
        self.idle.time(seq, now)
    }

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
        let lease = self.scheduler.leases.take(&planned.job.partitions());
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
                elapsed: took,
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
}

impl Background {
    /// Ends a job when the database is closed.
    pub(crate) fn until_closed(&self) -> Cancel<'_> {
        Cancel::at_closing(&self.core.closing)
    }

    /// The newest records of a key table take as much, or their keys fill it.
    fn key_table_referenced_bytes(&self) -> u64 {
        let stored = self.read.view.load().version.file_sums().bytes;
        let partition = self.core.options.partition_bytes;
        let most = partition / KEY_TABLES_OF_A_SMALL_PARTITION;
        (partition / KEY_TABLES_OF_A_PARTITION).max(most.min(stored / PART_OF_A_KEY_TABLE))
    }

    /// What a job needs. Lists the snapshots, so take it after choosing the job's inputs: a
    /// snapshot that is not listed then sees the newest version of everything in them.
    pub(crate) fn job_context<'a>(
        &'a self,
        cancel: Cancel<'a>,
        needs: Needs<'a>,
    ) -> JobContext<'a> {
        JobContext {
            store: &self.core.store,
            cache: &self.core.cache,
            next_file: &self.core.next_file,
            cancel,
            // The clock first: see `engine::snapshots`.
            readers: Readers {
                time_ms: self.core.clock.job_ms(),
                snapshots: self.core.snapshots.list(),
            },
            hash_seed: self.core.hash_seed,
            block_bytes: self.core.options.block_bytes as usize,
            key_table_bytes: self.core.memory.plan.key_table_bytes as usize,
            key_table_referenced_bytes: self.key_table_referenced_bytes(),
            read_buffers_bytes: self.core.memory.plan.merge_read_bytes as usize,
            copied_file_bytes: self.core.options.unsorted_bytes.clamp(64 << 10, 64 << 20),
            unreadable: self.space.unreadable(),
            compressions: self.read.compressions(),
            waiting: needs.waiting,
            dictionaries: &self.dictionaries,
            late_syncs: needs.syncs_late.then(RefCell::default),
            begun: RefCell::new(Vec::new()),
            _running: self.core.memory.begin_job(),
        }
    }
}
