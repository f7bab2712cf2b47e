//! What a job does, as a value: which work, with its inputs.

use crate::base::keys::{GenerationId, PartitionId};
use crate::jobs::compact::parts::{MergePlan, partitions_of};

/// One piece of work.
pub(crate) enum Job {
    /// The oldest sealed memtable, and those after it that are short.
    Flush,
    Merge(Vec<MergePlan>),
    Collect(Vec<MergePlan>),
    /// Values are moved to where their neighbours are.
    Cluster(Vec<MergePlan>),
    /// The UnsortedStores of these partitions are to be merged before values move.
    FreezeToCluster(Vec<PartitionId>),
    Split(PartitionId),
    Join([PartitionId; 2]),
    /// Partitions of keyspaces that are gone.
    Clear(Vec<PartitionId>),
    /// Neighbours that list nothing and belong to nobody.
    JoinGone(Vec<PartitionId>),
    /// All open generations, as the disk is full.
    FreezeForSpace,
    /// The open generation of a partition, if much of it is tombstones.
    FreezeTombstones(PartitionId),
    /// A partition's newest generation when the job was found.
    ScanMerge(PartitionId, GenerationId),
    /// The pointer index of one table, or the key blocks.
    PointerIndex,
    KeyBlocks,
    /// The pointer indexes of all tables are asked for.
    PointerIndexes,
    /// Some of what was hot before the opening.
    Warm,
    NoteHints,
    NoteClock,
    #[cfg(test)]
    Chore(PartitionId, std::sync::Arc<Chores>),
}

impl Job {
    /// The partitions that it holds while it runs. A failure is one of the first.
    pub(crate) fn partitions(&self) -> Vec<PartitionId> {
        match self {
            Job::Merge(plans) | Job::Collect(plans) | Job::Cluster(plans) => partitions_of(plans),
            Job::Split(id) | Job::FreezeTombstones(id) | Job::ScanMerge(id, _) => vec![*id],
            Job::Join(sides) => sides.to_vec(),
            Job::Clear(ids) | Job::JoinGone(ids) => ids.clone(),
            #[cfg(test)]
            Job::Chore(id, _) => vec![*id],
            Job::Flush
            | Job::FreezeToCluster(_)
            | Job::FreezeForSpace
            | Job::PointerIndex
            | Job::KeyBlocks
            | Job::PointerIndexes
            | Job::Warm
            | Job::NoteHints
            | Job::NoteClock => Vec::new(),
        }
    }
}

/// Work of no use, to be done again and again.
#[cfg(test)]
#[derive(Default)]
pub(crate) struct Chores {
    pub(crate) due: std::sync::atomic::AtomicUsize,
    /// How many of the next runs fail.
    pub(crate) failing: std::sync::atomic::AtomicUsize,
    pub(crate) runs: std::sync::atomic::AtomicUsize,
}
