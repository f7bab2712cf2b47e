//! A choice of files, and the partitions out of which their values move one slice after the other.
//!
//! A choice looks at every pointer of the version. A slice moves the values that its partitions
//! have in the chosen files, and leaves those of other partitions where they are. So a choice
//! serves until none of its partitions is due, and each partition costs a look at its own pointers.
//!
//! Invariant: the live values in the files of a choice fit beside the present garbage. Where other
//! jobs or writers have made more garbage, files are chosen again.
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
pub(crate) struct Round {
    pub(crate) files: Arc<[FileNumber]>,
    /// The partitions that have values to move, most bytes first.
    pub(crate) partitions: Arc<[PartitionId]>,
    /// The partitions before this place are done.
    pub(crate) next: usize,
    /// Whether writers were idle, and whether only runs of values were to be joined.
    pub(crate) is_idle: bool,
    pub(crate) is_of_runs: bool,
}

impl Rounds {
    pub(crate) fn begin(&self, round: Round) {
        *self.0.lock() = Some(round);
    }

    pub(crate) fn end(&self) {
        *self.0.lock() = None;
    }

    /// The choice that was made while writers were idle, or were not.
    pub(crate) fn present(&self, is_idle: bool) -> Option<Round> {
        self.0
            .lock()
            .clone()
            .filter(|round| round.is_idle == is_idle)
    }

    /// The partitions before this one are done.
    pub(crate) fn passed(&self, next: usize) {
        if let Some(round) = &mut *self.0.lock() {
            round.next = round.next.max(next);
        }
    }
}

impl Round {
    /// Its files that a version still has and of which `may_go` holds.
    pub(crate) fn files_in(
        &self,
        version: &Version,
        may_go: impl Fn(FileNumber) -> bool,
    ) -> Vec<Arc<RecordFile>> {
        let numbers = self.files.iter().filter(|number| may_go(**number));
        let files = numbers.filter_map(|number| version.record_file(*number));
        files.cloned().collect()
    }
}
