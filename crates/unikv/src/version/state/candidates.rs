//! Which partitions a job may be due in, found without a look at all of them.
//!
//! Invariant: each of these gives all partitions of which its condition holds, and maybe others. A
//! caller asks each of them what it would ask every partition otherwise. What is left out is known
//! from sums of chunks, so where nothing is due, next to nothing is looked at.

use super::sums::{PartitionSums, pair_bytes};
use super::{Partition, Version};
use crate::base::seeded::seeded;
use std::collections::BTreeSet;
use std::sync::Arc;

impl Version {
    /// Partitions that exceed one of these: [`Partition::data_bytes`],
    /// [`Partition::key_table_bytes`].
    pub(crate) fn perhaps_larger(
        &self,
        data_bytes: u64,
        key_table_bytes: u64,
    ) -> impl Iterator<Item = &Arc<Partition>> {
        self.partitions_where(move |sums| {
            sums.most_data_bytes > data_bytes || sums.most_key_table_bytes > key_table_bytes
        })
    }

    /// Partitions in the chunks of which this holds, which must be monotonous: what holds of a
    /// chunk holds of all partitions together.
    pub(crate) fn partitions_where<'a>(
        &'a self,
        holds: impl Fn(&PartitionSums) -> bool + 'a,
    ) -> impl Iterator<Item = &'a Arc<Partition>> {
        let any = holds(self.partition_sums());
        let found = any.then(|| self.partitions.where_sums(holds));
        found.into_iter().flatten()
    }

    /// Neighbours, each pair once and in key order, that may be of one keyspace at most, and that
    /// have no more than these bytes together or of which one is empty.
    pub(crate) fn perhaps_joined(
        &self,
        data_bytes: u64,
    ) -> impl Iterator<Item = (&Arc<Partition>, &Arc<Partition>)> {
        let are_few = move |bytes: Option<u64>| bytes.is_some_and(|bytes| bytes <= data_bytes);
        let mut lefts = BTreeSet::new();
        if are_few(self.partition_sums().least_pair) {
            for (places, sums) in self.partitions.places() {
                let last = places.end.saturating_sub(1);
                if are_few(sums.least_pair) {
                    lefts.extend(places);
                }
                let border = self.partitions.get(last).zip(self.partitions.get(last + 1));
                let meets = border.is_some_and(|(left, right)| are_few(pair_bytes(left, right)));
                if meets && !seeded!(JoinForgetsChunkBorder) {
                    lefts.insert(last);
                }
            }
        }
        for partition in self.gone_partitions() {
            let at = self.partition_index(&partition.start);
            lefts.extend(at.checked_sub(1));
            lefts.insert(at);
        }
        let pair = |left| self.partitions.get(left).zip(self.partitions.get(left + 1));
        lefts.into_iter().filter_map(pair)
    }
}
