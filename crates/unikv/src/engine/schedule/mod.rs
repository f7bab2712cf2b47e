//! What is due in the background: one place decides, and every caller asks it.
//!
//! Locks: those of [`idle::IdleWork`] and of the leases are leaves, taken under the catalog's.

use crate::base::sync::atomic::AtomicBool;
use crate::engine::catalog::{Catalog, CatalogState};
use crate::engine::core::Core;
use crate::engine::read::ReadState;
use crate::engine::schedule::garbage::GarbageRequests;
use crate::engine::schedule::idle::IdleWork;
use crate::engine::schedule::joins::Effort;
use crate::engine::space::DiskSpace;
use crate::error::Result;
use std::sync::Arc;
use std::time::Duration;

mod checks;
mod freezing;
pub(crate) mod garbage;
pub(crate) mod idle;
pub(crate) mod joins;
pub(crate) mod merges;
mod reads;
mod splits;

pub use checks::JobError;

/// The component that knows what is due.
pub(crate) struct Scheduler {
    core: Arc<Core>,
    space: Arc<DiskSpace>,
    read: Arc<ReadState>,
    catalog: Arc<Catalog>,
    pub(crate) idle: IdleWork,
    pub(crate) garbage_requests: GarbageRequests,
    /// The last flush that was tried had to wait for a merge.
    pub(crate) flush_blocked: AtomicBool,
}

impl Scheduler {
    pub(crate) fn new(
        core: &Arc<Core>,
        space: &Arc<DiskSpace>,
        read: &Arc<ReadState>,
        catalog: &Arc<Catalog>,
    ) -> Arc<Scheduler> {
        Arc::new(Scheduler {
            core: Arc::clone(core),
            space: Arc::clone(space),
            read: Arc::clone(read),
            catalog: Arc::clone(catalog),
            idle: IdleWork::default(),
            garbage_requests: GarbageRequests::default(),
            flush_blocked: AtomicBool::new(false),
        })
    }

    /// Waits until the background finds nothing to do.
    pub(crate) fn await_background(&self) -> Result<()> {
        self.core.check_open()?;
        self.catalog.lock().given_up_joins.clear();
        let _at_once = self.idle.ask();
        // What there is to do may depend on snapshots that have gone since the background last
        // looked.
        self.core.work.notify();
        let idle = || {
            let mut catalog = self.catalog.lock();
            let limits = self.space.partition_limits();
            let mut partitions = catalog.version.partitions().iter();
            let idle = catalog.merging.is_empty()
                && self.plan_merge(&catalog, None).is_none()
                && !partitions.any(|p| CatalogState::is_to_be_split(p, limits))
                && self.read.view.load().sealed.is_empty();
            let joined = !idle || self.plan_join(&catalog, Effort::Merges, None).is_none();
            // A join that was given up meanwhile is in backoff, and nothing is in its way any more.
            let in_backoff = !joined && !catalog.given_up_joins.is_empty();
            if in_backoff {
                catalog.given_up_joins.clear();
            }
            let for_reads = self.plan_scan_merge(&catalog).is_some()
                || self.plan_when_idle(&catalog).is_some()
                || self.is_index_wanted()
                || self.are_blocks_wanted();
            drop(catalog);
            // A read of an old view may have paid the last of it without knowing.
            if for_reads || in_backoff {
                self.core.work.notify();
            }
            idle && joined && !for_reads
        };
        self.core.wait_while(idle, || self.check_jobs())
    }

    /// How long from `now` until the first job in backoff is retried, flushes left aside.
    pub(crate) fn backoff_left(&self, now: Duration) -> Option<Duration> {
        let backoffs = [
            self.core.health.backoff_left(now),
            self.join_rest_left(now),
            self.rest_begins_in(now),
        ];
        backoffs.into_iter().flatten().min()
    }
}
