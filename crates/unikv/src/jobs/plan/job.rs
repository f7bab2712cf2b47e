//! What a job does, as a value: which work, with its inputs.

use crate::base::keys::{FileNumber, PartitionId};

/// A pass over the key tables of some partitions, in key order, which moves the values that they
/// have in some files.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Pass {
    pub(crate) partitions: Vec<PartitionId>,
    pub(crate) files: Vec<FileNumber>,
}

/// What is done of the writes of writers that are idle.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Settling {
    /// The open memtable is sealed.
    pub(crate) seals: bool,
    /// Every open generation is frozen.
    pub(crate) freezes: bool,
}

/// One piece of work.
#[derive(Clone)]
pub(crate) enum Job {
    /// The full disk, or the ballast.
    LookAfterDisk,
    /// The oldest sealed memtable, and those after it that are short.
    Flush,
    Settle(Settling),
    /// The cache is lent the memory of jobs.
    LendMemory,
    /// The oldest frozen generations of some partitions, the most urgent first.
    Merge(Vec<PartitionId>),
    Collect(Pass),
    /// Values are moved to where their neighbours are.
    Cluster(Pass),
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
    /// The keys of a partition's newest generation.
    ScanMerge(PartitionId),
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
    Chore(PartitionId),
}

impl Job {
    /// The partitions that it holds while it runs. A failure is one of the first.
    pub(crate) fn partitions(&self) -> Vec<PartitionId> {
        match self {
            Job::Merge(ids) | Job::Clear(ids) | Job::JoinGone(ids) => ids.clone(),
            Job::Collect(pass) | Job::Cluster(pass) => pass.partitions.clone(),
            Job::Split(id) | Job::FreezeTombstones(id) | Job::ScanMerge(id) => vec![*id],
            Job::Join(sides) => sides.to_vec(),
            #[cfg(test)]
            Job::Chore(id) => vec![*id],
            Job::LookAfterDisk
            | Job::Flush
            | Job::Settle(_)
            | Job::LendMemory
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
