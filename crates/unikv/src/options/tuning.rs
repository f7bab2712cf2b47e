//! Sizes and numbers that serve as they are for most.

use super::StoredOptions;

/// Sizes of the engine's parts, which follow from the memory budget or serve as they are: for those
/// who have measured that another suits them. [`Options::tuning`](crate::Options::tuning) takes
/// what is set here. Sizes are in bytes.
///
/// ```
/// use unikv::{Options, Tuning};
///
/// let tuning = Tuning::default().memtable_bytes(32 << 20).block_bytes(8 << 10);
/// let options = Options::default().memory_budget(1 << 30).tuning(tuning);
/// ```
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Tuning {
    /// What is set of the options that are stored.
    pub(super) asked: StoredOptions,
    pub(super) background_threads: Option<usize>,
}

impl Tuning {
    /// Bytes at which the memtable is sealed and flushed, at most a twelfth of the memory budget.
    /// Default: a sixteenth of it, at most 64 MiB. Larger memtables absorb more overwrites, and
    /// their flushes give each partition a larger table, so that a large database merges no more
    /// often than a small one: from some hundred partitions on, a value above the default is
    /// worth it. Recovery replays up to five of them.
    ///
    /// Stored if it is set; else it follows the budget. May change.
    #[must_use]
    pub fn memtable_bytes(mut self, bytes: u64) -> Tuning {
        self.asked.memtable_bytes = Some(bytes);
        self
    }

    /// Bytes of a partition's UnsortedStore at which it is merged (the paper's `UnsortedLimit`).
    /// Default: a quarter of the memory budget, at least 16 MiB. Larger means fewer merges, a
    /// larger hash index (about 10 bytes a record) and scans over more tables.
    ///
    /// Stored if it is set; else it follows the budget. May change.
    #[must_use]
    pub fn unsorted_bytes(mut self, bytes: u64) -> Tuning {
        self.asked.unsorted_bytes = Some(bytes);
        self
    }

    /// Bytes of data at which a partition, a range of keys with its own UnsortedStore and
    /// SortedStore, becomes two (the paper's `partitionSizeLimit`). Default: two and a half times
    /// the memory budget, at least 160 MiB, ten times `unsorted_bytes` as in the paper. A split
    /// moves no data. Smaller means smaller merges, of which several run at a time, and more of
    /// them. Keys and small values, which a merge writes again, may be twice `unsorted_bytes` of
    /// it, or a sixteenth. Neighbours that together hold less than a quarter of both become one
    /// again.
    ///
    /// Stored if it is set; else it follows the budget. May change.
    #[must_use]
    pub fn partition_bytes(mut self, bytes: u64) -> Tuning {
        self.asked.partition_bytes = Some(bytes);
        self
    }

    /// Target size of a key table in bytes, at most a thirty-second of the memory budget for each
    /// thread that merges. Default: 2 MiB. Smaller tables let a merge leave more of the SortedStore
    /// untouched. A table also ends when it points to an eighth of `partition_bytes`.
    ///
    /// Stored; may change.
    #[must_use]
    pub fn key_table_bytes(mut self, bytes: u64) -> Tuning {
        self.asked.key_table_bytes = Some(bytes);
        self
    }

    /// Target size of a key block in bytes: what one lookup in the SortedStore reads. Default:
    /// 4096.
    ///
    /// Stored; may change.
    #[must_use]
    pub fn block_bytes(mut self, bytes: u32) -> Tuning {
        self.asked.block_bytes = Some(bytes);
        self
    }

    /// Tables of an UnsortedStore whose keys scans merge each time again, at most (the paper's
    /// `scanMergeLimit`). Default: 8. When a partition has more and scans have lost as much to
    /// them as it costs, the keys are merged in the background. Fewer make scans faster and merges
    /// more; a workload without scans never causes it.
    ///
    /// Stored; may change.
    #[must_use]
    pub fn scan_merge_limit(mut self, tables: u32) -> Tuning {
        self.asked.scan_merge_limit = Some(tables);
        self
    }

    /// Background threads: one flushes, the others merge. Default: 2, the least.
    ///
    /// Not stored.
    #[must_use]
    pub fn background_threads(mut self, threads: usize) -> Tuning {
        self.background_threads = Some(threads);
        self
    }
}
