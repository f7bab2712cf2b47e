//! What [`super::tombstone_debt`] goes by: what writes may free, and the space of a version.
//!
//! Locks: those inside, leaves.

use crate::base::keys::FileNumber;
use crate::base::sync::Mutex;
use crate::base::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use crate::jobs::space::Space;
use crate::partition::Horizon;
use crate::version::Version;
use std::collections::{BTreeSet, VecDeque};
use std::sync::Weak;

/// What the rules go by.
#[derive(Debug, Default)]
pub(crate) struct Estimates {
    /// Bytes that a record takes in the mean, of those that are about alike.
    pub(super) mean_record_bytes: AtomicU64,
    /// Whether there are records that are much longer than the others.
    pub(super) has_outliers: AtomicBool,
    /// Bytes that the writes of one memtable may free.
    pub(super) memtable_limit: AtomicU64,
    /// As many writes in the memtable are worth a flush when writers are idle; 0: none are.
    pub(super) writes_worth_a_flush: AtomicU64,
    /// Deletes of this process before the open memtable.
    pub(super) deletes_before: AtomicU64,
    /// Space would press if no snapshot were left.
    pub(super) presses_without_snapshots: AtomicBool,
    /// What the writes in each sealed memtable of this process free, oldest first.
    pub(super) sealed_bytes: Mutex<VecDeque<u64>>,
    /// What was summed up last.
    pub(super) known: Mutex<Option<KnownSpace>>,
}

/// What the writes of one memtable free, about, beyond their own bytes: those count as it is, and a
/// record that is as long as what it supersedes frees nothing more. Shorter and longer ones make up
/// for each other.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Freed {
    sum: i64,
    most: u64,
    /// What ranges are that have been deleted.
    ranges: u64,
}

impl Freed {
    /// Adds what a group of batches frees; returns by how much more is free than ever before.
    pub(crate) fn add(&mut self, bytes: i64) -> u64 {
        self.sum = self.sum.saturating_add(bytes);
        let before = self.most;
        self.most = before.max(u64::try_from(self.sum).unwrap_or(0));
        self.most - before
    }

    pub(crate) fn bytes(self) -> u64 {
        self.most
    }

    /// Adds ranges that have been deleted. They cost nothing: a merge is about to drop them.
    pub(crate) fn add_ranges(&mut self, bytes: u64) {
        self.ranges = self.ranges.saturating_add(bytes);
    }

    /// The same with ranges.
    pub(crate) fn bytes_with_ranges(self) -> u64 {
        self.most.saturating_add(self.ranges)
    }
}

/// The space of a version, as long as that is the one asked about.
#[derive(Debug)]
pub(super) struct KnownSpace {
    pub(super) version: Weak<Version>,
    pub(super) horizon: Horizon,
    pub(super) unreadable: BTreeSet<FileNumber>,
    pub(super) space: Space,
}

impl Estimates {
    /// A memtable whose writes free this much is about to be sealed.
    pub(crate) fn sealed(&self, freed: Freed) {
        self.sealed_bytes.lock().push_back(freed.bytes());
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

    /// Whether anything expired or will, in the version that was summed up last.
    pub(super) fn expires(&self) -> bool {
        self.known
            .lock()
            .as_ref()
            .is_some_and(|known| known.space.expires)
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

#[cfg(test)]
mod tests {
    use super::Freed;

    #[test]
    fn longer_and_shorter_records_make_up_for_each_other() {
        let mut freed = Freed::default();
        assert_eq!((freed.add(100), freed.bytes()), (100, 100));
        // What comes again and again counts once.
        for _ in 0..1000 {
            for bytes in [50, 50, 50, 50, -200] {
                freed.add(bytes);
            }
        }
        assert_eq!(freed.bytes(), 300);
        assert_eq!(freed.add(250), 50, "100 and 250: 50 more than ever");
        freed.add(i64::MIN);
        assert_eq!((freed.add(i64::MAX), freed.bytes()), (0, 350));
    }
}
