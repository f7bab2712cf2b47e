//! What is known of earlier slices that cluster, and of generations that have been looked at (see
//! [`super::kinds`]).
//!
//! Locks: those inside, leaves.

mod rounds;

use crate::base::keys::{GenerationId, PartitionId};
use crate::base::sync::Mutex;
use crate::jobs::space::garbage::Pressure;
use crate::jobs::space::tombstones;
use crate::version::{Generation, Partition};
pub(super) use rounds::{Choice, Look, MOST_TOGETHER_BYTES, Round, Rounds};
use std::collections::{HashMap, HashSet};
use std::time::Duration;

/// A slice is put off for this many times as long as the last one took, if look-ups waited for the
/// device meanwhile and nobody has scanned since.
const GIVES_WAY: u32 = 3;

/// What is known of earlier slices.
#[derive(Debug, Default)]
pub(crate) struct Passes {
    /// Where one has failed: that partition is left as it is until the database is reopened.
    failed: Mutex<HashSet<PartitionId>>,
    /// Where merges with victims have failed since the last pass that succeeded.
    failed_with_victims: Mutex<HashSet<PartitionId>>,
    rest: Mutex<Rest>,
    /// The present choice of files to cluster.
    pub(super) clusterings: Rounds<Choice>,
    /// The present choice of value logs to reclaim, or of partitions with obsolete versions.
    pub(super) collections: Rounds<Pressure>,
}

/// When slices give way to look-ups.
#[derive(Debug, Default)]
struct Rest {
    ends: Duration,
    /// What scans had charged when it began: it is over when they charge more.
    charged: u64,
}

impl Passes {
    pub(crate) fn failed(&self, partition: Option<PartitionId>) {
        self.failed.lock().extend(partition);
    }

    pub(crate) fn has_failed(&self, partition: PartitionId) -> bool {
        self.failed.lock().contains(&partition)
    }

    /// A merge that took victims along has failed: the next one goes without.
    pub(crate) fn failed_with_victims(&self, partition: PartitionId) {
        self.failed_with_victims.lock().insert(partition);
    }

    pub(crate) fn have_failed_with_victims(&self, partition: PartitionId) -> bool {
        self.failed_with_victims.lock().contains(&partition)
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

/// The open generations whose tombstones have been counted, as they were then.
#[derive(Debug, Default)]
pub(crate) struct Counted(Mutex<HashMap<PartitionId, (GenerationId, u64)>>);

impl Counted {
    /// Whether the newest generation may have many tombstones, and has not been looked at.
    pub(crate) fn is_due(&self, partition: &Partition) -> bool {
        let newest = partition.generations.first();
        newest.is_some_and(|generation| {
            tombstones::may_be_many(generation)
                && self.0.lock().get(&partition.id) != Some(&state_of(generation))
        })
    }

    pub(super) fn note(&self, id: PartitionId, generation: &Generation) {
        self.0.lock().insert(id, state_of(generation));
    }
}

fn state_of(generation: &Generation) -> (GenerationId, u64) {
    (generation.id, generation.records())
}
