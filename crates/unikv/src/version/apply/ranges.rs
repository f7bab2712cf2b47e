//! The range tombstones of the partitions that an edit has changed.

use crate::record::RecordFile;
use crate::version::generation::table_ranges::{are_same, tables_with_ranges};
use crate::version::generation::{Generation, TableRanges};
use crate::version::state::{Partition, Version};
use std::collections::BTreeSet;
use std::sync::Arc;

impl Version {
    /// Brings the range tombstones of all tables into memory, before anybody reads the version.
    pub(crate) fn read_ranges(&mut self) {
        let ranges = self.partitions.iter().map(|partition| &partition.ranges);
        let with_ranges = ranges.enumerate().filter_map(|(at, ranges)| {
            ranges.as_ref()?.read_tables();
            Some(at)
        });
        let with_ranges = with_ranges.collect();
        self.find_ranges(with_ranges);
    }

    /// Finds the tables with range tombstones of the partitions in these places. What is known of
    /// the same tables stays, and neighbours with the same tables share what is known.
    pub(super) fn find_ranges(&mut self, places: BTreeSet<usize>) {
        let mut found: Vec<(usize, Vec<Arc<RecordFile>>)> = Vec::new();
        for at in places {
            if let Some(partition) = self.partitions.get(at).filter(|p| p.may_have_ranges()) {
                let tables = tables_with_ranges(&partition.generations, partition.range());
                let is_known = match &partition.ranges {
                    Some(known) => known.is_of(&tables),
                    None => tables.is_empty(),
                };
                if !is_known {
                    found.push((at, tables));
                }
            }
        }
        for alike in found.chunk_by(|(_, some), (_, others)| are_same(some, others)) {
            let Some((first, tables)) = alike.first() else {
                continue;
            };
            let before = self.partitions.get(*first).and_then(|p| p.ranges.clone());
            let ranges = (!tables.is_empty())
                .then(|| TableRanges::new(tables.clone(), alike.len(), before.as_deref()))
                .map(Arc::new);
            for (at, _) in alike {
                if let Some(partition) = self.partitions.get_mut(*at) {
                    Arc::make_mut(partition).ranges.clone_from(&ranges);
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
