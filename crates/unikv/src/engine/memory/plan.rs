//! How the budget is divided when a database is opened: what memtables, hash indexes and the
//! buffers of jobs may take, each of which works with less where the budget is small.
//!
//! No lock; nothing here changes.

use crate::key_table::ReadCache;
use crate::options::EffectiveOptions;
use std::sync::Arc;

/// Sealed memtables beyond which writers wait for a flush.
pub(crate) const MAX_SEALED: usize = 4;

/// All memtables there may be: the open one and the sealed ones.
pub(super) const MEMTABLES: u64 = MAX_SEALED as u64 + 1;
/// A memtable takes at most this part of the budget.
pub(super) const MEMTABLE_PART: u64 = 12;
/// What iterators fetch ahead takes this part of the budget, and so do the read buffers of merges.
pub(super) const READ_PART: u64 = 16;
/// A key table, which is built in memory, takes at most this part of the budget.
const KEY_TABLE_PART: u64 = 32;
/// A buffer in which a file's writes are gathered takes at most this part of the budget.
const WRITE_BUFFER_PART: u64 = 64;
/// While the cache has this part of the budget, nobody else has to give way.
pub(super) const ROOMY_CACHE_PART: u64 = 8;
/// What the cache keeps whatever the others take.
const LEAST_CACHE_PART: u64 = 32;
/// Files that a merge writes at a time, and the buffers that are kept idle for the next file.
const FILES_PER_MERGE: u64 = 3;
const IDLE_WRITE_BUFFERS: u64 = 4;
/// What an output file gathers before it goes to the file's own buffer.
const GATHERED_BYTES: u64 = 64 << 10;
/// A manifest that is longer than this part of the budget may be replaced by a shorter one.
const MANIFEST_PART: u64 = 16;
/// The longest group of writes that is copied into the log's buffer, and the shortest.
const GROUP_BYTES: std::ops::RangeInclusive<u64> = 4 << 10..=4 << 20;
/// Locks, threads, counters, queues; and which places of the files were read lately.
const FIXED_BYTES: u64 = 96 << 10;
/// What is left over of the budget for what is not charged to the byte.
const SLACK_PART: u64 = 64;

/// How the budget is divided.
#[derive(Clone, Debug)]
pub(crate) struct MemoryPlan {
    pub(crate) budget_bytes: u64,
    /// At which a memtable is sealed.
    pub(crate) memtable_bytes: u64,
    /// Up to which writers that wait share one append to the log.
    pub(crate) group_bytes: u64,
    /// Up to which a batch is copied for the queue of those who wait.
    pub(crate) queued_bytes: u64,
    /// At which a manifest may be replaced by a shorter one: opening keeps its edits in memory.
    pub(crate) manifest_bytes: u64,
    /// Of a key table.
    pub(crate) key_table_bytes: u64,
    /// For the read buffers of one merge.
    pub(crate) merge_read_bytes: u64,
    /// Of the buffer of a file being written.
    pub(crate) write_buffer_bytes: u64,
    pub(super) block_bytes: u64,
    merge_threads: u64,
    /// Whether anything is written: no job runs in a secondary, and no memtable grows by itself.
    pub(super) writes: bool,
}

impl MemoryPlan {
    pub(crate) fn of(options: &EffectiveOptions) -> MemoryPlan {
        let budget = options.memory_budget;
        let merge_threads = (options.background_threads as u64).saturating_sub(1).max(1);
        let memtable_bytes = options.memtable_bytes.min(budget / MEMTABLE_PART);
        let key_table_bytes = options.key_table_bytes;
        MemoryPlan {
            budget_bytes: budget,
            memtable_bytes,
            group_bytes: (memtable_bytes / 4).clamp(*GROUP_BYTES.start(), *GROUP_BYTES.end()),
            key_table_bytes: key_table_bytes.min(budget / KEY_TABLE_PART / merge_threads),
            queued_bytes: (memtable_bytes / 64).max(*GROUP_BYTES.start()),
            manifest_bytes: (budget / MANIFEST_PART).max(64 << 10),
            merge_read_bytes: budget / READ_PART / merge_threads,
            write_buffer_bytes: budget / WRITE_BUFFER_PART / merge_threads,
            block_bytes: u64::from(options.block_bytes),
            merge_threads,
            writes: true,
        }
    }

    /// The plan of a secondary, which writes nothing.
    pub(crate) fn of_reader(options: &EffectiveOptions) -> MemoryPlan {
        MemoryPlan {
            writes: false,
            ..MemoryPlan::of(options)
        }
    }

    /// Of all memtables together.
    pub(crate) fn memtables_bytes(&self) -> u64 {
        MEMTABLES * self.memtable_bytes
    }

    /// A cache made for what will mostly be left to it. It may hold little before anything is known
    /// of the others: while a database is opened, they have not made room for one another.
    pub(crate) fn new_cache(&self) -> Arc<ReadCache> {
        let cache =
            ReadCache::new(self.cache_beside(2 * self.memtable_bytes + self.standing_bytes()));
        cache.set_capacity(self.budget_bytes / ROOMY_CACHE_PART);
        cache
    }

    /// What merges that run on all threads take, and the buffers for the files of all jobs.
    pub(super) fn jobs_bytes(&self) -> u64 {
        if !self.writes {
            return 0;
        }
        // A key table is built in a buffer that grows by doubling.
        let tables = self.merge_threads * 2 * self.key_table_bytes;
        let buffers = self.files() * (self.buffer_bytes() + GATHERED_BYTES);
        tables + self.merge_threads * self.merge_read_bytes + buffers
    }

    /// What writers gather, and the buffers that are kept for later files.
    pub(super) fn standing_bytes(&self) -> u64 {
        if !self.writes {
            return 0;
        }
        2 * self.group_bytes + IDLE_WRITE_BUFFERS.min(self.files()) * self.buffer_bytes()
    }

    /// Files that all jobs write at a time.
    fn files(&self) -> u64 {
        self.merge_threads * FILES_PER_MERGE + 1
    }

    /// Whatever the part, a buffer has a few pages.
    fn buffer_bytes(&self) -> u64 {
        self.write_buffer_bytes.clamp(8 << 10, 1 << 20)
    }

    pub(super) fn cache_beside(&self, others: u64) -> u64 {
        let least = self.budget_bytes / LEAST_CACHE_PART;
        let slack = FIXED_BYTES + self.budget_bytes / SLACK_PART;
        self.budget_bytes.saturating_sub(others + slack).max(least)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::engine::memory::arbiter::INDEX_PART;
    use crate::options::{Options, StoredOptions};

    #[test]
    fn the_plan_leaves_something_to_the_cache_and_grants_what_is_asked_if_it_can() {
        let effective = |options: Options| options.resolve(&StoredOptions::default()).unwrap();
        for budget in [64 << 10, 1 << 20, 16 << 20, 64 << 20, 256 << 20, 4 << 30] {
            let plan = MemoryPlan::of(&effective(Options::default().memory_budget(budget)));
            let bounded = plan.memtables_bytes()
                + plan.jobs_bytes()
                + plan.standing_bytes()
                + budget / INDEX_PART;
            if budget >= 16 << 20 {
                assert!(bounded < budget, "{budget}: {plan:?}");
            }
            assert!(plan.cache_beside(2 * budget) > 0);
        }
        let options = effective(Options::default());
        let plan = MemoryPlan::of(&options);
        assert_eq!(plan.memtable_bytes, options.memtable_bytes);
        assert_eq!(plan.key_table_bytes, options.key_table_bytes);
    }
}
