//! What is known of earlier passes that cluster (see [`super::kinds`]).
//!
//! Locks: both are leaves.

use crate::base::keys::PartitionId;
use crate::base::sync::Mutex;
use std::collections::HashSet;

/// What is known of earlier passes.
#[derive(Debug, Default)]
pub(crate) struct Passes {
    ended_by_writers: Mutex<Interrupted>,
    /// Where a pass has failed: that partition is left as it is until the database is reopened.
    failed: Mutex<HashSet<PartitionId>>,
}

#[derive(Debug, Default)]
struct Interrupted {
    /// By how many writes in a row passes were ended, none having come to its end.
    count: u32,
    /// The sequence number at the last of them.
    seq: u64,
}

impl Passes {
    /// A pass has come to its end.
    pub(crate) fn succeeded(&self) {
        self.ended_by_writers.lock().count = 0;
    }

    /// Writers have ended a pass, `seq` being the last number.
    pub(crate) fn interrupted(&self, seq: u64) {
        let mut interrupted = self.ended_by_writers.lock();
        // One write may end several passes.
        interrupted.count += u32::from(interrupted.seq != seq);
        interrupted.seq = seq;
    }

    /// How many passes in a row writers have ended.
    pub(crate) fn interruptions(&self) -> u32 {
        self.ended_by_writers.lock().count
    }

    pub(crate) fn failed(&self, partition: Option<PartitionId>) {
        self.failed.lock().extend(partition);
    }

    pub(crate) fn has_failed(&self, partition: PartitionId) -> bool {
        self.failed.lock().contains(&partition)
    }
}
