//! The range tombstones of the partitions that an edit has changed.

use crate::base::keys::PartitionId;
use crate::record::RecordFile;
use crate::version::generation::table_ranges::{are_same, tables_with_ranges};
use crate::version::generation::{Generation, TableRanges};
use crate::version::state::{Partition, Version};
use std::collections::HashSet;
use std::sync::Arc;

impl Version {
    /// Brings the range tombstones of all tables into memory, before anybody reads the version.
    pub(crate) fn read_ranges(&mut self) {
        let ranges = self.partitions.iter().map(|p| (p.id, &p.ranges));
        let with_ranges = ranges.filter_map(|(id, ranges)| {
            ranges.as_ref()?.read_tables();
            Some(id)
        });
        let with_ranges = with_ranges.collect();
        self.find_ranges(with_ranges);
    }

    /// Finds the tables with range tombstones of these partitions. What is known of the same tables
    /// stays, and neighbours with the same tables share what is known.
    pub(super) fn find_ranges(&mut self, ids: HashSet<PartitionId>) {
        let mut found: Vec<(Arc<Partition>, Vec<Arc<RecordFile>>)> = Vec::new();
        let changed = ids.into_iter().filter_map(|id| self.partition(id));
        for partition in changed.filter(|p| p.may_have_ranges()) {
            let tables = tables_with_ranges(&partition.generations, partition.range());
            let is_known = match &partition.ranges {
                Some(known) => known.is_of(&tables),
                None => tables.is_empty(),
            };
            if !is_known {
                found.push((Arc::clone(partition), tables));
            }
        }
        found.sort_unstable_by(|(a, _), (b, _)| a.start.cmp(&b.start));
        for alike in found.chunk_by(|(_, some), (_, others)| are_same(some, others)) {
            let Some((first, tables)) = alike.first() else {
                continue;
            };
            let before = first.ranges.as_deref();
            let ranges = (!tables.is_empty())
                .then(|| TableRanges::new(tables.clone(), alike.len(), before))
                .map(Arc::new);
            for (partition, _) in alike {
                if let Ok(partition) = self.partition_mut(partition.id) {
                    partition.ranges.clone_from(&ranges);
                }
            }
        }
    }
}

impl Partition {
    /// Whether it has range tombstones, or has had some before an edit.
    fn may_have_ranges(&self) -> bool {
        let mut tables = self.generations.iter().flat_map(Generation::tables);
        self.ranges.is_some() || tables.any(|(_, table)| table.meta().ranges.is_some())
    }
}
