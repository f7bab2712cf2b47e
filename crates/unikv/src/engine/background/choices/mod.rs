//! The component that chooses files, for many jobs at once: those with garbage, and those in which
//! values of neighbours are spread. It knows what came of earlier passes.
//!
//! Locks: those inside, leaves.

mod collections;
pub(super) mod passes;
mod rounds;
mod slices;

use crate::base::keys::PartitionId;
use crate::base::sync::Mutex;
use crate::engine::background::requests::Requests;
use crate::engine::core::Core;
use crate::engine::space::DiskSpace;
use crate::jobs::space::garbage::Pressure;
use crate::version::Version;
use rounds::{Choice, Look, MOST_TOGETHER_BYTES, Round, Rounds};
use std::collections::HashSet;
use std::sync::Arc;
use std::time::Duration;

/// A job of several partitions reads no more than this part of what is stored: it takes as much
/// space beside it.
const PART_TOGETHER: u64 = 128;

/// A slice is put off for this many times as long as the last one took, if look-ups waited for the
/// device meanwhile and nobody has scanned since.
const GIVES_WAY: u32 = 3;

/// The component that chooses files.
pub(crate) struct Choices {
    core: Arc<Core>,
    space: Arc<DiskSpace>,
    /// Callers that wait for garbage collection.
    pub(crate) garbage_requests: Requests,
    /// Where one has failed: that partition is left as it is until the database is reopened.
    failed: Mutex<HashSet<PartitionId>>,
    /// Where merges with victims have failed since the last pass that succeeded.
    failed_with_victims: Mutex<HashSet<PartitionId>>,
    rest: Mutex<Rest>,
    /// The present choice of files to cluster.
    clusterings: Rounds<Choice>,
    /// The present choice of value logs to reclaim, or of partitions with obsolete versions.
    collections: Rounds<Pressure>,
}

/// When slices give way to look-ups.
#[derive(Debug, Default)]
struct Rest {
    ends: Duration,
    /// What scans had charged when it began: it is over when they charge more.
    charged: u64,
}

impl Choices {
    pub(crate) fn new(core: &Arc<Core>, space: &Arc<DiskSpace>) -> Choices {
        Choices {
            core: Arc::clone(core),
            space: Arc::clone(space),
            garbage_requests: Requests::default(),
            failed: Mutex::default(),
            failed_with_victims: Mutex::default(),
            rest: Mutex::default(),
            clusterings: Rounds::default(),
            collections: Rounds::default(),
        }
    }

    /// A collection has failed: what it could not read may be left alone from now on.
    pub(crate) fn collection_failed(&self) {
        self.collections.end();
    }

    /// A slice has failed.
    pub(crate) fn slice_failed(&self, partition: Option<PartitionId>) {
        self.failed.lock().extend(partition);
        self.clusterings.end();
    }

    /// Bytes that one job reads of several partitions.
    pub(crate) fn most_together_bytes(&self, version: &Version) -> u64 {
        let files = version.file_sums();
        let stored = files.bytes + version.partition_sums().key_table_bytes;
        self.small_bytes()
            .max(stored / PART_TOGETHER)
            .min(MOST_TOGETHER_BYTES)
    }

    /// The cost of a merge that is small in any case.
    pub(crate) fn small_bytes(&self) -> u64 {
        (self.core.options.unsorted_bytes / 4).min(MOST_TOGETHER_BYTES)
    }

    /// Whether a slice has failed there.
    fn has_failed(&self, partition: PartitionId) -> bool {
        self.failed.lock().contains(&partition)
    }

    /// A pass in the partition is committed.
    pub(crate) fn merged(&self, partition: PartitionId) {
        self.failed_with_victims.lock().remove(&partition);
    }

    /// A slice has ended at `now` and took so long, while look-ups read files so often: each
    /// millisecond or more often, they keep the device busy, and wait for it behind the slice.
    /// What scans have `charged` and nothing has spent is this much by then.
    pub(crate) fn ended(&self, now: Duration, took: Duration, misses: u64, charged: u64) {
        if u128::from(misses) > took.as_millis() {
            let ends = now.saturating_add(took.saturating_mul(GIVES_WAY));
            let mut rest = self.rest.lock();
            let ends = ends.max(rest.ends);
            *rest = Rest { ends, charged };
        }
    }

    /// How long slices still give way if nobody scans, which more `charged` would show.
    pub(crate) fn rest_left(
        &self,
        now: Duration,
        charged: impl FnOnce() -> u64,
    ) -> Option<Duration> {
        let rest = self.rest.lock();
        let left = rest.ends.saturating_sub(now);
        (!left.is_zero() && charged() <= rest.charged).then_some(left)
    }
}
