//! What runs beside readers and writers: the scheduler, what it runs, and what callers ask for.
//!
//! A job: its inputs are chosen under the catalog lock ([`scheduler`]), it runs without locks, and
//! it commits under the catalog lock. A job that fails removes what it began (unless the commit was
//! tried: then its outcome is unknown), leaves its error in `health` and is retried after a pause,
//! while the other jobs go on.

mod choices;
mod commit;
mod counted;
mod facts;
mod idle;
pub(crate) mod ingest;
pub(crate) mod kinds;
mod lease;
mod maintenance;
mod requests;
mod run;
pub(crate) mod scheduler;
mod warm;
pub(crate) mod workers;

use crate::base::sync::atomic::Ordering;
use crate::codec::Dictionaries;
use crate::engine::background::choices::Choices;
use crate::engine::background::counted::Counted;
use crate::engine::background::idle::Idle;
use crate::engine::background::requests::Running;
use crate::engine::background::scheduler::Scheduler;
use crate::engine::background::warm::Warmth;
use crate::engine::backpressure::Backpressure;
use crate::engine::catalog::Catalog;
use crate::engine::core::Core;
use crate::engine::read::ReadState;
use crate::engine::space::DiskSpace;
use crate::engine::uses::Uses;
use crate::engine::write::WritePath;
use crate::jobs::compact::retention::Readers;
use crate::jobs::{Cancel, JobContext, Needs};
use crate::vfs::Event;
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

/// The component that does what is due.
pub(crate) struct Background {
    core: Arc<Core>,
    space: Arc<DiskSpace>,
    backpressure: Arc<Backpressure>,
    read: Arc<ReadState>,
    catalog: Arc<Catalog>,
    write: Arc<WritePath>,
    /// Notified when the periodic sync is to end.
    pub(crate) sync_wake: Arc<dyn Event>,
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
    chores: Option<Arc<kinds::tests::Chores>>,
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
            chores: kinds::tests::Chores::taken(),
        })
    }

    /// How long it is known at `now` that nobody writes.
    pub(crate) fn idle_time(&self, now: Duration) -> Duration {
        let seq = self.read.visible_seq.load(Ordering::Acquire);
        self.idle.time(seq, now)
    }

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
