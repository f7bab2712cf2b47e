//! How an edit adds and drops partitions.

use super::{Dropped, Released};
use crate::base::account::Account;
use crate::version::edit::{PartitionMeta, VersionEdit};
use crate::version::generation::Generation;
use crate::version::state::{Partition, Version};
use std::sync::Arc;

impl Version {
    pub(super) fn apply_partitions(
        &mut self,
        edit: &VersionEdit,
        released: &mut Released,
        dropped: &mut Dropped,
    ) -> Result<(), String> {
        let mut predecessors = Vec::new();
        for id in &edit.dropped_partitions {
            let at = self.partitions.iter().position(|p| p.id == *id);
            let at = at.ok_or_else(|| format!("partition {} is unknown", id.0))?;
            let partition = self.partitions.remove(at);
            let tables = partition.key_tables.iter().cloned();
            released.extend(tables.map(|t| (t.meta().number, t)));
            // Runs are of one partition's range: its successors merge their own.
            let runs = partition.generations.iter().filter_map(|g| g.run.as_ref());
            dropped.add_runs(runs);
            predecessors.push(partition);
        }
        for meta in &edit.partitions {
            let PartitionMeta { id, start, end } = meta.clone();
            if let Some(old) = self.partitions.iter_mut().find(|p| p.id == id) {
                Arc::make_mut(old).end_earlier(meta)?;
                continue;
            }
            let at = self.partitions.partition_point(|p| p.start < start);
            let scan_cost = inherited_cost(&predecessors, meta);
            let partition = Partition {
                id,
                scan_cost: Arc::new(Account::of(scan_cost)),
                start,
                end,
                generations: Vec::new(),
                key_tables: Vec::new(),
                sorted_bytes: 0,
                key_table_bytes: 0,
                ranges: None,
            };
            self.partitions.insert(at, Arc::new(partition));
        }
        if edit.partitions.is_empty() && edit.dropped_partitions.is_empty() {
            return Ok(());
        }
        self.check_ranges()
    }

    /// Partitions cover the key space without a gap and without an overlap.
    fn check_ranges(&self) -> Result<(), String> {
        let starts = self.partitions.iter().map(|p| Some(p.start.as_slice()));
        let ends = self.partitions.iter().map(|p| p.end.as_deref());
        let begin = std::iter::once(Some(&[][..]));
        let borders_meet = begin.chain(ends).eq(starts.chain(std::iter::once(None)));
        if borders_meet {
            Ok(())
        } else {
            Err("the partitions do not cover the key space, each key once".to_owned())
        }
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
