//! What is known of earlier slices that cluster (see [`super::kinds`]).
//!
//! Lock: `failed`, a leaf.

use crate::base::keys::PartitionId;
use crate::base::sync::Mutex;
use std::collections::HashSet;

/// What is known of earlier slices.
#[derive(Debug, Default)]
pub(crate) struct Passes {
    /// Where one has failed: that partition is left as it is until the database is reopened.
    failed: Mutex<HashSet<PartitionId>>,
}

impl Passes {
    pub(crate) fn failed(&self, partition: Option<PartitionId>) {
        self.failed.lock().extend(partition);
    }

    pub(crate) fn has_failed(&self, partition: PartitionId) -> bool {
        self.failed.lock().contains(&partition)
    }
}
