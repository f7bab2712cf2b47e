//! The state of [`super::tombstone_debt`]: what the rules go by.

use crate::base::keys::SeqNo;
use crate::base::sync::Mutex;
use crate::base::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use crate::jobs::space::Space;
use crate::version::Version;
use std::collections::VecDeque;
use std::sync::Weak;

/// What the rules go by.
#[derive(Debug, Default)]
pub(crate) struct TombstoneDebt {
    /// Bytes that a delete frees in the mean, of records that are about alike.
    pub(super) mean_record_bytes: AtomicU64,
    /// Whether there are records that are much longer than the others.
    pub(super) has_outliers: AtomicBool,
    /// Bytes that the writes of one memtable may free.
    pub(super) memtable_limit: AtomicU64,
    /// As many writes in the memtable are worth a flush when writers are idle; 0: none are.
    pub(super) writes_worth_a_flush: AtomicU64,
    /// Space would press if no snapshot were left.
    pub(super) presses_without_snapshots: AtomicBool,
    /// What the writes in each sealed memtable of this process free, oldest first.
    pub(super) sealed_bytes: Mutex<VecDeque<u64>>,
    /// What was summed up last.
    pub(super) known: Mutex<Option<KnownSpace>>,
}

/// The space of a version, as long as that is the one asked about.
#[derive(Debug)]
pub(super) struct KnownSpace {
    pub(super) version: Weak<Version>,
    pub(super) oldest: Option<SeqNo>,
    pub(super) space: Space,
}

impl TombstoneDebt {
    /// A memtable whose writes free this much is about to be sealed.
    pub(crate) fn sealed(&self, freed_bytes: u64) {
        self.sealed_bytes.lock().push_back(freed_bytes);
    }

    /// Notes whether space would press if no snapshot were left. The caller looks for the
    /// oldest snapshot afterwards: one that is released before that look is seen to be gone there,
    /// a later one wakes the background.
    pub(crate) fn judge(&self, presses: bool) {
        let flag = &self.presses_without_snapshots;
        flag.store(presses, Ordering::SeqCst);
    }

    /// Whether somebody is to be woken when the oldest snapshot has gone. To be asked after its
    /// release.
    pub(crate) fn waits_for_snapshots(&self) -> bool {
        self.presses_without_snapshots.load(Ordering::SeqCst)
    }

    /// What the writes of the memtables free that are sealed still, recovered ones left out.
    pub(super) fn freed_in(&self, sealed: usize) -> u64 {
        let mut bytes = self.sealed_bytes.lock();
        while bytes.len() > sealed {
            bytes.pop_front();
        }
        bytes.iter().sum()
    }
}
