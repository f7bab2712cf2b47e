//! Which partitions a job may be due in, found without a look at all of them.
//!
//! Invariant: each of these gives all partitions of which its condition holds, and maybe others. A
//! caller asks each of them what it would ask every partition otherwise. What is left out is known
//! from sums of chunks, so where nothing is due, next to nothing is looked at.

use super::sums::PartitionSums;
use super::{Partition, Version};
use std::sync::Arc;

impl Version {
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
}
