//! What runs beside readers and writers: the scheduler, what it runs, and what callers ask for.
//!
//! A job: its inputs are chosen under the catalog lock ([`scheduler`]), it runs without locks, and
//! it commits under the catalog lock. A job that fails removes what it began (unless the commit was
//! tried: then its outcome is unknown), leaves its error in `health` and is retried after a pause,
//! while the other jobs go on.

mod checks;
mod freezing;
mod full_disk;
pub(crate) mod garbage;
mod idle;
pub(crate) mod ingest;
pub(crate) mod kinds;
mod lease;
mod maintenance;
pub(crate) mod scheduler;
pub(crate) mod workers;

pub use checks::JobError;

use crate::base::sync::RwLock;
use crate::engine::background::garbage::GarbageRequests;
use crate::engine::background::idle::Idle;
use crate::engine::background::kinds::Passes;
use crate::engine::background::scheduler::{JobKind, Scheduler};
use crate::engine::backpressure::Backpressure;
use crate::engine::catalog::Catalog;
use crate::engine::core::Core;
use crate::engine::read::ReadState;
use crate::engine::space::DiskSpace;
use crate::engine::write::WritePath;
use crate::jobs::{Cancel, JobContext};
use crate::options::Clustering;
use crate::vfs::Event;
use std::cell::RefCell;
use std::sync::Arc;

/// A partition large enough to be split has so many key tables at least.
const KEY_TABLES_OF_A_PARTITION: u64 = 8;

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
    /// Held shared by each ingest, and alone to release the directory.
    pub(crate) ingesting: RwLock<()>,
    /// All kinds of work but flushes, the most urgent first.
    kinds: Vec<&'static dyn JobKind>,
    pub(crate) scheduler: Scheduler,
    pub(crate) idle: Idle,
    pub(crate) passes: Passes,
    pub(crate) garbage_requests: GarbageRequests,
}

/// What [`Background::new`] is made of.
pub(crate) struct BackgroundParts<'a> {
    pub(crate) core: &'a Arc<Core>,
    pub(crate) space: &'a Arc<DiskSpace>,
    pub(crate) backpressure: &'a Arc<Backpressure>,
    pub(crate) read: &'a Arc<ReadState>,
    pub(crate) catalog: &'a Arc<Catalog>,
    pub(crate) write: &'a Arc<WritePath>,
}

impl Background {
    pub(crate) fn new(parts: BackgroundParts<'_>) -> Arc<Background> {
        Arc::new(Background {
            core: Arc::clone(parts.core),
            space: Arc::clone(parts.space),
            backpressure: Arc::clone(parts.backpressure),
            read: Arc::clone(parts.read),
            catalog: Arc::clone(parts.catalog),
            write: Arc::clone(parts.write),
            sync_wake: parts.core.store.env().runtime.event(),
            ingesting: RwLock::default(),
            kinds: kinds::all(),
            scheduler: Scheduler::default(),
            idle: Idle::default(),
            passes: Passes::default(),
            garbage_requests: GarbageRequests::default(),
        })
    }

    /// Ends a job when the database is closed.
    pub(crate) fn until_closed(&self) -> Cancel<'_> {
        Cancel::at_closing(&self.core.closing)
    }

    /// Whether all merges copy values in key order.
    pub(crate) fn copies(&self) -> bool {
        self.core.options.clustering == Clustering::EveryMerge && !self.space.full.is_full()
    }

    /// What a job needs, which copies values in key order if it is to `cluster`. Lists the snapshots, so take it after choosing the job's inputs: a
    /// snapshot that is not listed then sees the newest version of everything in them.
    pub(crate) fn job_context<'a>(&'a self, cancel: Cancel<'a>, cluster: bool) -> JobContext<'a> {
        JobContext {
            store: &self.core.store,
            cache: &self.core.cache,
            next_file: &self.core.next_file,
            cancel,
            snapshots: self.core.snapshots.list(),
            hash_seed: self.core.hash_seed,
            block_bytes: self.core.options.block_bytes as usize,
            key_table_bytes: self.core.memory.plan.key_table_bytes as usize,
            key_table_reach_bytes: self.core.options.partition_bytes / KEY_TABLES_OF_A_PARTITION,
            read_buffers_bytes: self.core.memory.plan.merge_read_bytes as usize,
            inline_value_bytes: self.core.options.inline_value_bytes as usize,
            copied_file_bytes: self.core.options.unsorted_bytes.clamp(64 << 10, 64 << 20),
            cluster,
            begun: RefCell::new(Vec::new()),
            _running: self.core.memory.begin_job(),
        }
    }
}
