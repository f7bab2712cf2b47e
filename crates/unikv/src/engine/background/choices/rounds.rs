//! A choice of files, and the partitions out of which their values move one slice after the other.
//!
//! A choice looks at every pointer of the version. A job moves the values that its partitions have
//! in the chosen files, and leaves those of other partitions where they are. So a choice serves
//! until none of its partitions is due, and each partition costs a look at its own pointers.
//!
//! Invariant: the live values in the files of a choice fit beside what is stored, when it is made
//! and when a job takes from it. Where other jobs or writers have left less room, files are chosen
//! again.
//!
//! Lock: the one inside, a leaf.

use crate::base::keys::{FileNumber, PartitionId};
use crate::base::sync::Mutex;
use crate::jobs::plan::MOST_TOGETHER;
use crate::record::RecordFile;
use crate::version::{Partition, Version};
use std::sync::Arc;

/// Bytes that one job reads, at most, of its partitions if they are several.
pub(crate) const MOST_TOGETHER_BYTES: u64 = 8 << 20;

/// What files are chosen for that are clustered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Choice {
    /// Whether writers were idle.
    pub(crate) is_idle: bool,
    /// Whether only stretches of values were to be joined.
    pub(crate) is_of_stretches: bool,
}

/// The present choice, made for a purpose `W`.
#[derive(Debug)]
pub(crate) struct Rounds<W>(Mutex<Option<Round<W>>>);

impl<W> Default for Rounds<W> {
    fn default() -> Rounds<W> {
        Rounds(Mutex::default())
    }
}

/// See the module.
#[derive(Clone, Debug)]
pub(crate) struct Round<W> {
    pub(crate) files: Arc<[FileNumber]>,
    /// The partitions that have values to move, most bytes first.
    partitions: Arc<[PartitionId]>,
    /// The partitions before this place are done.
    next: usize,
    /// What it was made for.
    pub(crate) purpose: W,
}

impl<W: Clone> Rounds<W> {
    pub(crate) fn begin(&self, round: Round<W>) {
        *self.0.lock() = Some(round);
    }

    pub(crate) fn end(&self) {
        *self.0.lock() = None;
    }

    /// The choice, if `is_still` holds of its purpose.
    pub(crate) fn present(&self, is_still: impl Fn(&W) -> bool) -> Option<Round<W>> {
        let round = self.0.lock().clone();
        round.filter(|round| is_still(&round.purpose))
    }

    /// The partitions of `round` that one job takes, in key order, since the values that it moves
    /// share a file: if they are several, they read no more than `most_bytes`. Of a small one, most
    /// is the cost that each job has. There are none while others work on what is left; `None`:
    /// none is due any more, and the choice ends here.
    pub(crate) fn next(
        &self,
        round: &Round<W>,
        most_bytes: u64,
        look: &Look<'_>,
    ) -> Option<Vec<PartitionId>> {
        let (mut all_done, mut is_at_work, mut left) = (true, false, most_bytes);
        let mut taken = Vec::new();
        for (nth, id) in round.partitions.iter().enumerate().skip(round.next) {
            let partition = look.version.partition(*id);
            let bytes = partition.map_or(0, |partition| (look.bytes_in)(partition));
            let due = partition.filter(|_| bytes > 0);
            let due = due.and_then(|p| Some((p, (look.cost_if_due)(bytes, p)?)));
            if let Some((partition, cost)) = due {
                let rest = left.checked_sub(cost);
                if taken.is_empty() || rest.is_some() {
                    taken.push(partition);
                }
                left = rest.unwrap_or(0);
                if left == 0 || taken.len() >= MOST_TOGETHER {
                    break;
                }
            }
            is_at_work |= bytes > 0 && !(look.is_free)(*id);
            all_done &= bytes == 0;
            if all_done {
                self.passed(nth + 1);
            }
        }
        if taken.is_empty() && !is_at_work {
            self.end();
            return None;
        }
        taken.sort_by(|a, b| a.start.cmp(&b.start));
        Some(taken.into_iter().map(|partition| partition.id).collect())
    }

    /// The partitions before this one are done.
    fn passed(&self, next: usize) {
        if let Some(round) = &mut *self.0.lock() {
            round.next = round.next.max(next);
        }
    }
}

/// How partitions of a choice are looked at.
pub(crate) struct Look<'a> {
    pub(crate) version: &'a Version,
    /// Whether the partition is free of a lease.
    pub(crate) is_free: &'a dyn Fn(PartitionId) -> bool,
    /// Bytes that are left to do in it.
    pub(crate) bytes_in: &'a dyn Fn(&Partition) -> u64,
    /// What a job reads for these bytes of it, if the job is due and may begin.
    pub(crate) cost_if_due: &'a dyn Fn(u64, &Partition) -> Option<u64>,
}

impl<W> Round<W> {
    /// A choice of these files, and of the partitions that have values in them, most bytes first.
    pub(crate) fn new(
        files: &[Arc<RecordFile>],
        partitions: impl IntoIterator<Item = PartitionId>,
        purpose: W,
    ) -> Round<W> {
        Round {
            files: files.iter().map(|file| file.meta().number).collect(),
            partitions: partitions.into_iter().collect(),
            next: 0,
            purpose,
        }
    }

    /// Whether any files were chosen.
    pub(crate) fn is_of_files(&self) -> bool {
        !self.files.is_empty()
    }

    /// The files that a version still has, if `may_go` allows them.
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
