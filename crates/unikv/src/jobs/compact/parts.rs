//! What a merge takes in, what it keeps of a key, and what it makes.

use crate::base::keys::{FileNumber, Kind, PartitionId, SeqNo};
use crate::jobs::Slice;
use crate::key_table::{KeyTableMeta, RecordPointer};
use crate::record::RecordFile;
use crate::version::{Generation, Partition};
use std::sync::Arc;

/// What a pass over the key tables is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Purpose {
    /// Generations join the SortedStore; victims may ride along.
    Merge,
    /// Garbage is collected.
    Collect,
    /// Values are moved into key order.
    Cluster,
}

/// What a merge takes in.
pub(crate) struct MergeInputs {
    pub(crate) purpose: Purpose,
    /// The oldest generations of the partition, newest first.
    pub(crate) generations: Vec<Generation>,
    /// Value logs whose live records are to move.
    pub(crate) victims: Vec<Arc<RecordFile>>,
}

impl MergeInputs {
    /// To merge these generations, newest first.
    pub(crate) fn merge(generations: Vec<Generation>) -> MergeInputs {
        MergeInputs {
            purpose: Purpose::Merge,
            generations,
            victims: Vec::new(),
        }
    }

    /// To reclaim the garbage of these files.
    pub(crate) fn collect(victims: Vec<Arc<RecordFile>>) -> MergeInputs {
        MergeInputs {
            purpose: Purpose::Collect,
            victims,
            ..MergeInputs::merge(Vec::new())
        }
    }

    /// To move the values of these files into key order.
    pub(crate) fn cluster(victims: Vec<Arc<RecordFile>>) -> MergeInputs {
        MergeInputs {
            purpose: Purpose::Cluster,
            ..MergeInputs::collect(victims)
        }
    }
}

/// A merge, a collection or a pass that clusters.
pub(crate) struct MergePlan {
    pub(crate) partition: Arc<Partition>,
    pub(crate) inputs: MergeInputs,
}

/// The partitions in which plans work.
pub(crate) fn partitions_of(plans: &[MergePlan]) -> Vec<PartitionId> {
    plans.iter().map(|plan| plan.partition.id).collect()
}

/// How a merge goes about it.
#[derive(Clone, Copy)]
pub(crate) struct MergeRules<'a> {
    /// Values shorter than this are kept beside their keys.
    pub(crate) inline_value_bytes: usize,
    /// How far it goes if it may end before all is done.
    pub(crate) slice: Option<Slice<'a>>,
}

impl MergeRules<'_> {
    /// What the newest records of a key table may take, of the `usual`. What its values lie in
    /// shows how they are spread: in one file, if a slice has copied all of them.
    pub(crate) fn referenced_bytes(&self, usual: u64) -> u64 {
        self.slice
            .map_or(usual, |slice| usual.min(slice.most_bytes))
    }
}

/// What a merge made; the parts of its edit.
#[derive(Default)]
pub(crate) struct Merged {
    pub(crate) key_tables: Vec<KeyTableMeta>,
    pub(crate) dropped_key_tables: Vec<FileNumber>,
    /// Bytes of the records that were copied.
    pub(crate) copied_bytes: u64,
    /// Where records stood that the read cache has at their new places, too.
    pub(crate) moved: Vec<(FileNumber, u64)>,
}

/// A kept version of the key being merged.
pub(crate) struct Kept {
    pub(crate) seq: SeqNo,
    pub(crate) kind: Kind,
    pub(crate) expiry_ms: Option<u64>,
    pub(crate) value: KeptValue,
    /// Whether it comes from the UnsortedStore.
    pub(crate) unsorted: bool,
}

impl Kept {
    /// What the record of `key` must say.
    pub(crate) fn expected<'a>(&self, key: &'a [u8]) -> (&'a [u8], SeqNo, Kind) {
        (key, self.seq, self.kind)
    }
}

pub(crate) enum KeptValue {
    None,
    /// A range of the group's inline bytes.
    Inline(std::ops::Range<usize>),
    Pointer(RecordPointer),
}
