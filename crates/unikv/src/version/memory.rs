//! The memory that a version takes, for the engine's budget.

use super::generation::{Generation, Table};
use super::scan_run::ScanRun;
use super::state::{Live, Partition, Version};
use std::collections::HashSet;
use std::mem::size_of;
use std::sync::Arc;

/// What sharing a value takes, and a place in a list.
const HANDLE_BYTES: usize = 16 + size_of::<usize>();

impl Version {
    /// Memory of the version, its partitions and what is known of its files; without hash indexes
    /// and fences, which have budgets of their own.
    pub(crate) fn memory_bytes(&self) -> usize {
        let partitions: usize = self.partitions().iter().map(|p| p.memory_bytes()).sum();
        let of_files = self.record_files().iter().map(|f| f.memory_bytes());
        let files: usize = of_files.map(|bytes| HANDLE_BYTES + bytes).sum();
        let live = self.live().capacity() * (size_of::<Live>() + HANDLE_BYTES);
        size_of::<Version>() + partitions + files + live
    }

    /// Memory of the hash indexes of its generations.
    pub(crate) fn index_bytes(&self) -> u64 {
        let mut sum = 0;
        // After a split neighbours share their parent's indexes.
        let mut neighbours: &[Generation] = &[];
        for partition in self.partitions() {
            for generation in &partition.generations {
                let is_shared = |g: &Generation| Arc::ptr_eq(&g.index, &generation.index);
                if !neighbours.iter().any(is_shared) {
                    sum += generation.index.memory_bytes() as u64;
                }
            }
            neighbours = &partition.generations;
        }
        sum
    }

    /// Memory that this version, and not its successor `next`, takes.
    pub(crate) fn memory_bytes_beside(&self, next: &Version) -> usize {
        let shared: HashSet<_> = next.partitions().iter().map(Arc::as_ptr).collect();
        let own = self.partitions().iter();
        let own = own.filter(|p| !shared.contains(&Arc::as_ptr(p)));
        let own: usize = own.map(|p| p.own_bytes()).sum();
        let lists = self.partitions().len() + self.record_files().len();
        size_of::<Version>() + lists * size_of::<usize>() + own
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
    fn memory_bytes(&self) -> usize {
        let of_tables = self.key_tables.iter().map(|t| t.memory_bytes());
        self.own_bytes() + of_tables.sum::<usize>()
    }

    /// Without the tables, which successors share.
    fn own_bytes(&self) -> usize {
        let borders = self.start.len() + self.end.as_ref().map_or(0, Vec::len);
        let generation = |g: &Generation| {
            let run = g.run.as_ref().map_or(0, |run| run.memory_bytes());
            size_of::<Generation>() + g.tables.capacity() * size_of::<Option<Table>>() + run
        };
        let generations: usize = self.generations.iter().map(generation).sum();
        let tables = self.key_tables.len() * HANDLE_BYTES;
        let ranges = self
            .ranges
            .as_ref()
            .map_or(0, |ranges| ranges.memory_bytes());
        let lists = generations + tables + ranges;
        size_of::<Arc<Partition>>() + size_of::<Partition>() + borders + lists
    }
}
