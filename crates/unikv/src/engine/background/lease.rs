//! Leases of partitions: one job at a time changes a partition's SortedStore, its borders, or what
//! it has frozen. Flushes need none: they touch newer generations only.
//!
//! Lock: `held`, a leaf. A job is chosen and leased under the catalog's lock, so that no two choose
//! the same partition.

use crate::base::keys::PartitionId;
use crate::base::sync::Mutex;
use std::collections::{BTreeSet, HashSet};
use std::sync::Arc;

/// The partitions that jobs hold.
#[derive(Debug, Default)]
pub(crate) struct Leases {
    held: Mutex<Held>,
}

#[derive(Debug, Default)]
struct Held {
    partitions: HashSet<PartitionId>,
    /// How many leases there are, those of jobs that hold no partition included.
    leases: usize,
}

/// A job's hold on partitions, given back when dropped.
pub(crate) struct Lease {
    leases: Arc<Leases>,
    partitions: Vec<PartitionId>,
}

impl Drop for Lease {
    fn drop(&mut self) {
        let mut held = self.leases.held.lock();
        held.leases -= 1;
        for partition in &self.partitions {
            held.partitions.remove(partition);
        }
    }
}

impl Leases {
    /// Takes the leases of `partitions`, which are free.
    pub(crate) fn take(self: &Arc<Self>, partitions: &[PartitionId]) -> Lease {
        let mut held = self.held.lock();
        held.leases += 1;
        held.partitions.extend(partitions);
        Lease {
            leases: Arc::clone(self),
            partitions: partitions.to_vec(),
        }
    }

    /// Whether no job holds the partition.
    #[cfg(test)]
    pub(crate) fn is_free(&self, partition: PartitionId) -> bool {
        !self.held.lock().partitions.contains(&partition)
    }

    /// The partitions that jobs hold.
    pub(crate) fn held(&self) -> BTreeSet<PartitionId> {
        self.held.lock().partitions.iter().copied().collect()
    }

    /// Whether no job runs that was chosen under the catalog's lock, and none holds a partition.
    pub(crate) fn are_free(&self) -> bool {
        let held = self.held.lock();
        held.leases == 0 && held.partitions.is_empty()
    }
}

#[cfg(test)]
impl Leases {
    /// Holds partitions as a job does, until they are released.
    pub(crate) fn hold(&self, partitions: impl IntoIterator<Item = PartitionId>) {
        self.held.lock().partitions.extend(partitions);
    }

    /// Whether the partition was held; it is free now.
    pub(crate) fn release(&self, partition: PartitionId) -> bool {
        self.held.lock().partitions.remove(&partition)
    }

    pub(crate) fn release_all(&self) {
        self.held.lock().partitions.clear();
    }
}
