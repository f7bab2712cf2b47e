//! The partitions of a version by their ids, which edits name, and changing them.

use super::chunked::{Item, Once};
use super::{Partition, Version};
use crate::base::keys::{KeyspaceId, PartitionId, border};
use std::sync::Arc;

/// Where the partition with an id begins.
#[derive(Clone)]
pub(in crate::version) struct Place {
    pub(super) id: PartitionId,
    pub(super) start: Arc<[u8]>,
}

impl Item for Place {
    type Key = PartitionId;
    type Sum = ();

    fn key(&self) -> &PartitionId {
        &self.id
    }

    fn add_to(&self, _: Option<&Place>, _: &mut ()) {}
}

impl Version {
    /// A partition by its id.
    pub(crate) fn partition(&self, id: PartitionId) -> Option<&Arc<Partition>> {
        self.partitions.find(&self.ids.find(&id)?.start)
    }

    /// The partition after one of this version, in key order.
    pub(crate) fn partition_after(&self, partition: &Partition) -> Option<&Arc<Partition>> {
        let end = partition.end.as_deref()?;
        self.partitions.find(end)
    }

    /// The partition before one of this version, in key order.
    pub(crate) fn partition_before(&self, partition: &Partition) -> Option<&Arc<Partition>> {
        self.partitions
            .last_of(|start| start < partition.start.as_slice())
    }

    /// The partitions whose ranges meet that of the keys with a data id.
    pub(crate) fn partitions_met_by(
        &self,
        data: KeyspaceId,
    ) -> impl Iterator<Item = &Arc<Partition>> {
        let (first, end) = (border(data), border(KeyspaceId(data.0.saturating_add(1))));
        let from = self.partition_index(&first);
        let to = self.partitions.partition_point(|start| *start < *end);
        self.partitions.range(from..to.max(from))
    }

    /// A partition by its id, to be changed.
    pub(in crate::version) fn partition_mut(
        &mut self,
        id: PartitionId,
    ) -> Result<&mut Partition, String> {
        self.sums = Once::default();
        let start = self.ids.find(&id).map(|place| Arc::clone(&place.start));
        let found = start.and_then(|start| self.partitions.find_mut(&start));
        let found = found.ok_or_else(|| format!("partition {} is unknown", id.0))?;
        Ok(Arc::make_mut(found))
    }

    /// Adds a partition, which its id and its start name alone.
    pub(in crate::version) fn add_partition(&mut self, partition: Partition) -> Result<(), String> {
        let place = Place {
            id: partition.id,
            start: partition.start.as_slice().into(),
        };
        let id = place.id.0;
        self.sums = Once::default();
        if self.ids.insert(place) && self.partitions.insert(Arc::new(partition)) {
            Ok(())
        } else {
            Err(format!("partition {id} is added twice"))
        }
    }

    /// Takes a partition out.
    pub(in crate::version) fn remove_partition(
        &mut self,
        id: PartitionId,
    ) -> Result<Arc<Partition>, String> {
        self.sums = Once::default();
        let place = self.ids.remove(&id);
        let found = place.and_then(|place| self.partitions.remove(&place.start));
        found.ok_or_else(|| format!("partition {} is unknown", id.0))
    }
}
