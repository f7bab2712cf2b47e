//! A choice of files, and the partitions out of which their values move one slice after the other.
//!
//! To choose is to look at every pointer of the version. Each slice moves what one partition has in
//! the files that were chosen, and leaves what the others have as it was. So a choice serves until
//! no partition of it is due, and of many partitions each costs a look at its own pointers.
//!
//! Invariant: what still lives in the files of a choice fits beside the garbage that there is, as
//! when they were chosen. Where others have made garbage meanwhile, it is chosen again.
//!
//! Lock: the one inside, a leaf.

use crate::base::keys::{FileNumber, PartitionId};
use crate::base::sync::Mutex;
use crate::record::RecordFile;
use crate::version::Version;
use std::sync::Arc;

/// The present choice.
#[derive(Debug, Default)]
pub(crate) struct Rounds(Mutex<Option<Round>>);

/// See the module.
#[derive(Clone, Debug)]
pub(in crate::engine::background) struct Round {
    pub(in crate::engine::background) files: Arc<[FileNumber]>,
    /// Those of which something is to move, that with most first.
    pub(in crate::engine::background) partitions: Arc<[PartitionId]>,
    /// Those before it are done.
    pub(in crate::engine::background) next: usize,
    /// Whether writers were idle, and whether only runs of values were to be joined.
    pub(in crate::engine::background) is_idle: bool,
    pub(in crate::engine::background) is_of_runs: bool,
}

impl Rounds {
    pub(in crate::engine::background) fn begin(&self, round: Round) {
        *self.0.lock() = Some(round);
    }

    pub(in crate::engine::background) fn end(&self) {
        *self.0.lock() = None;
    }

    /// The choice that was made while writers were idle, or were not.
    pub(in crate::engine::background) fn present(&self, is_idle: bool) -> Option<Round> {
        self.0
            .lock()
            .clone()
            .filter(|round| round.is_idle == is_idle)
    }

    /// The partitions before this one are done.
    pub(in crate::engine::background) fn passed(&self, next: usize) {
        if let Some(round) = &mut *self.0.lock() {
            round.next = round.next.max(next);
        }
    }
}

impl Round {
    /// Those of its files that a version still has and of which `may_go` holds.
    pub(in crate::engine::background) fn files_in(
        &self,
        version: &Version,
        may_go: impl Fn(FileNumber) -> bool,
    ) -> Vec<Arc<RecordFile>> {
        let numbers = self.files.iter().filter(|number| may_go(**number));
        let files = numbers.filter_map(|number| version.record_file(*number));
        files.cloned().collect()
    }
}
