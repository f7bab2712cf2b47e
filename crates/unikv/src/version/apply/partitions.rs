//! How an edit adds and drops partitions.

use super::{Dropped, Released};
use crate::base::account::Account;
use crate::version::edit::{PartitionMeta, VersionEdit};
use crate::version::generation::Generation;
use crate::version::state::{Partition, Version};
use std::sync::Arc;

impl Version {
    /// Returns where the partitions began that it has taken out.
    pub(super) fn apply_partitions(
        &mut self,
        edit: &VersionEdit,
        released: &mut Released,
        dropped: &mut Dropped,
    ) -> Result<Vec<Vec<u8>>, String> {
        let mut predecessors = Vec::new();
        for id in &edit.dropped_partitions {
            let partition = self.remove_partition(*id)?;
            for table in &partition.key_tables {
                self.files.key_table_removed(table);
                released.insert(table.meta().number, Arc::clone(table));
            }
            let tables = partition.generations.iter().flat_map(Generation::shares);
            tables.for_each(|(_, table)| self.files.place_removed(table));
            // Runs are of one partition's range: its successors merge their own.
            let runs = partition.generations.iter().filter_map(|g| g.run.as_ref());
            dropped.add_runs(runs);
            predecessors.push(partition);
        }
        for meta in &edit.partitions {
            let PartitionMeta { id, start, end } = meta.clone();
            if self.partition(id).is_some() {
                self.partition_mut(id)?.end_earlier(meta)?;
                continue;
            }
            let scan_cost = inherited_cost(&predecessors, meta);
            self.add_partition(Partition {
                id,
                scan_cost: Arc::new(Account::of(scan_cost)),
                start,
                end,
                generations: Vec::new(),
                key_tables: Vec::new(),
                sorted_bytes: 0,
                key_table_bytes: 0,
                ranges: None,
                of_key_tables: Arc::default(),
            })?;
        }
        let added = edit.partitions.iter().map(|meta| &meta.start);
        let removed = predecessors.iter().map(|partition| &partition.start);
        let mut changed = added.chain(removed.clone());
        if changed.all(|start| self.is_bordered(start)) {
            Ok(removed.cloned().collect())
        } else {
            Err("the partitions do not cover the key space, each key once".to_owned())
        }
    }

    /// Whether the partition with this key and its neighbours cover their keys without a gap and
    /// without an overlap. Where that held everywhere before an edit, it is enough to look where
    /// the edit has added or removed a partition.
    fn is_bordered(&self, key: &[u8]) -> bool {
        let at = self.partition_index(key);
        let Some(partition) = self.partitions.get(at) else {
            return false;
        };
        let before = at.checked_sub(1).and_then(|at| self.partitions.get(at));
        let begins = before.map_or(Some(&[][..]), |before| before.end.as_deref());
        let after = self.partitions.get(at + 1);
        let ends = after.map(|after| after.start.as_slice());
        begins == Some(partition.start.as_slice()) && partition.end.as_deref() == ends
    }
}

impl Partition {
    /// Gives up the end of the range, where there is no key.
    fn end_earlier(&mut self, meta: &PartitionMeta) -> Result<(), String> {
        let PartitionMeta { id, start, end } = meta;
        let Some(end) = end
            .clone()
            .filter(|end| *start == self.start && *end > *start && self.range().is_before_end(end))
        else {
            return Err(format!("partition {} is added twice", id.0));
        };
        let last_sorted = self.key_tables.last().map(|t| t.meta().max_key.as_slice());
        let tables = self.generations.iter().flat_map(Generation::tables);
        let last = tables.map(|(_, table)| table.meta().max_key.as_slice());
        if last.chain(last_sorted).any(|key| key >= end.as_slice()) {
            return Err(format!("partition {} has keys behind its new end", id.0));
        }
        self.end = Some(end);
        Ok(())
    }
}

/// What scans have lost so far in the range of a partition: all that they had where others are
/// joined to it, and half in each part of one that is split.
fn inherited_cost(predecessors: &[Arc<Partition>], new: &PartitionMeta) -> u64 {
    let part_of = |old: &Arc<Partition>| {
        let charged = old.scan_cost.charged();
        let is_whole = old.start >= new.start
            && match (&old.end, &new.end) {
                (_, None) => true,
                (None, Some(_)) => false,
                (Some(old), Some(new)) => old <= new,
            };
        if is_whole { charged } else { charged / 2 }
    };
    let overlapping = predecessors.iter().filter(|old| {
        old.range().is_before_end(&new.start) && new.end.as_ref().is_none_or(|end| old.start < *end)
    });
    overlapping.map(part_of).fold(0, u64::saturating_add)
}
