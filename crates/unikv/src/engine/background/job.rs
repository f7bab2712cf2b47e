//! What a job does, as a value: which work, with its inputs. Rules find them
//! ([`JobKind::find`](super::JobKind::find)); here is what each of them runs.

use crate::base::keys::{GenerationId, PartitionId};
use crate::engine::background::Background;
use crate::engine::background::kinds::collect::Collections;
use crate::engine::background::kinds::join::Sides;
use crate::engine::background::kinds::merge::{MergePlan, Merges, partitions_of};
use crate::error::Result;

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
    Join(Sides),
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
    Chore(PartitionId, std::sync::Arc<super::kinds::tests::Chores>),
}

/// How a job ended that has not failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Ended {
    Done,
    /// There was nothing to do after all: less urgent work has its turn.
    Nothing,
    /// One partition of several has failed, which is noted, and nothing of the others is kept.
    Discarded,
    /// Others need what it needs: it is left alone for a while.
    GivenUp,
}

impl Ended {
    /// Done, if there was anything to do.
    pub(crate) fn done_if(any: bool) -> Ended {
        if any { Ended::Done } else { Ended::Nothing }
    }
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

impl Background {
    /// Does it. The leases of its partitions are held.
    pub(super) fn perform(&self, job: &Job) -> Result<Ended> {
        match job {
            Job::Flush => self.flush_oldest(),
            Job::Merge(plans) => self.run_plans(&Merges, plans),
            Job::Collect(plans) => self.run_plans(&Collections, plans),
            Job::Cluster(plans) => self.run_slice(plans),
            Job::FreezeToCluster(ids) => Ok(Ended::done_if(self.freeze_these(ids))),
            Job::Split(id) => self.split(*id),
            Job::Join(sides) => self.join_leased(*sides),
            Job::Clear(ids) => self.clear(ids),
            Job::JoinGone(ids) => self.join_gone(ids),
            Job::FreezeForSpace => {
                self.freeze_for_space();
                Ok(Ended::Done)
            }
            Job::FreezeTombstones(id) => self.freeze_tombstones(*id),
            Job::ScanMerge(id, generation) => self.scan_merge_in(*id, *generation),
            Job::PointerIndex => Ok(Ended::done_if(self.make_index())),
            Job::KeyBlocks => Ok(Ended::done_if(self.read_blocks())),
            Job::PointerIndexes => {
                self.want_indexes();
                Ok(Ended::Done)
            }
            Job::Warm => Ok(Ended::done_if(self.read_hints())),
            Job::NoteHints => Ok(Ended::done_if(self.note_hints())),
            Job::NoteClock => self.note_clock(),
            #[cfg(test)]
            Job::Chore(id, chores) => chores.run(self, *id),
        }
    }
}
