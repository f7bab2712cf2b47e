//! The memory that a version takes, for the engine's budget.

use super::generation::{Generation, Table};
use super::scan_run::ScanRun;
use super::state::{Listed, Partition, Place, Version};
use std::collections::HashSet;
use std::mem::size_of;
use std::sync::Arc;

/// What sharing a value takes, and a place in a list.
const HANDLE_BYTES: usize = 16 + size_of::<usize>();

impl Version {
    /// Memory of the version, its partitions and what is known of its files; without hash indexes
    /// and fences, which have budgets of their own.
    pub(crate) fn memory_bytes(&self) -> usize {
        let partitions = self.partition_sums();
        // What is known of range tombstones is read when it is first needed.
        let ranges: usize = match partitions.with_ranges {
            0 => 0,
            _ => {
                let with_ranges = self.partitions().where_sums(|sum| sum.with_ranges > 0);
                with_ranges.map(|partition| partition.range_bytes()).sum()
            }
        };
        let files = self.file_sums().memory_bytes + self.record_files().len() * HANDLE_BYTES;
        size_of::<Version>() + partitions.memory_bytes + ranges + files
    }

    /// Memory that this version, and not its successor `next`, takes.
    pub(crate) fn memory_bytes_beside(&self, next: &Version) -> usize {
        let theirs = next.partitions().not_shared_with(self.partitions());
        let theirs: HashSet<_> = theirs.map(Arc::as_ptr).collect();
        let own = self.partitions().not_shared_with(next.partitions());
        let own = own.filter(|p| !theirs.contains(&Arc::as_ptr(p)));
        let own: usize = own.map(|p| p.own_bytes() + p.range_bytes()).sum();
        let changed = self.record_files().count_beside(next.record_files());
        let lists = self.partitions().list_bytes() + changed * size_of::<Listed>();
        size_of::<Version>() + lists + own
    }
}

impl ScanRun {
    fn memory_bytes(&self) -> usize {
        let of_tables = self.tables().iter().map(|t| t.memory_bytes());
        let tables: usize = of_tables.map(|bytes| HANDLE_BYTES + bytes).sum();
        HANDLE_BYTES + size_of::<ScanRun>() + tables
    }
}

impl Partition {
    /// Memory of the partition, without its tables and what is known of range tombstones, which
    /// successors share.
    pub(super) fn own_bytes(&self) -> usize {
        let borders = self.start.len() + self.end.as_ref().map_or(0, Vec::len);
        let generation = |g: &Generation| {
            let run = g.run.as_ref().map_or(0, |run| run.memory_bytes());
            size_of::<Generation>() + g.tables.capacity() * size_of::<Option<Table>>() + run
        };
        let generations: usize = self.generations.iter().map(generation).sum();
        let tables = self.key_tables.len() * HANDLE_BYTES;
        let places = size_of::<Arc<Partition>>() + size_of::<Place>() + self.start.len();
        size_of::<Partition>() + places + borders + generations + tables
    }

    fn range_bytes(&self) -> usize {
        let ranges = self.ranges.as_ref();
        ranges.map_or(0, |ranges| ranges.memory_bytes())
    }
}
