//! What holds when a database is opened: what is set, else what is stored, else the default.

use super::{DEFAULT_BUDGET, EffectiveOptions, LEAST_MEMTABLE_BYTES, MOST_INLINE_BYTES};
use super::{Opens, Options, StoredOptions};
use crate::error::Result;
use crate::memtable::Lifetime;
use std::time::Duration;

/// The least `unsorted_bytes` by default.
const LEAST_UNSORTED_BYTES: u64 = 16 << 20;

impl Options {
    /// What a database that has stored `stored` stores from now on: what is set, and else what it
    /// has, but for what is unset.
    pub(crate) fn to_store(&self, stored: &StoredOptions) -> StoredOptions {
        let mut kept = stored.without(&self.unset);
        // Earlier releases let more through.
        kept.inline_value_bytes = kept.inline_value_bytes.map(|b| b.min(MOST_INLINE_BYTES));
        self.asked.or(&kept)
    }

    /// What is in effect: what is set, else what is stored, else the default.
    ///
    /// # Errors
    /// `InvalidArgument`, naming the option, for a value out of range.
    pub(crate) fn resolve(&self, stored: &StoredOptions) -> Result<EffectiveOptions> {
        let set = self.to_store(stored);
        let in_memory = self.opens == Opens::InMemory;
        let memory_budget = set.memory_budget.unwrap_or(DEFAULT_BUDGET);
        let memtable_bytes = || default_memtable_bytes(memory_budget);
        let unsorted_bytes = || default_unsorted_bytes(memory_budget);
        let partition_bytes = || default_partition_bytes(memory_budget);
        let options = EffectiveOptions {
            durability: self.durability,
            background_threads: self.background_threads,
            memory_budget,
            memtable_bytes: set.memtable_bytes.unwrap_or_else(memtable_bytes),
            unsorted_bytes: set.unsorted_bytes.unwrap_or_else(unsorted_bytes),
            partition_bytes: set.partition_bytes.unwrap_or_else(partition_bytes),
            inline_value_bytes: set.inline_value_bytes.unwrap_or(128),
            max_space_amp: set.max_space_amp.unwrap_or(1.5),
            clustering: set.clustering.unwrap_or_default(),
            key_table_bytes: set.key_table_bytes.unwrap_or(2 << 20),
            block_bytes: set.block_bytes.unwrap_or(4096),
            scan_merge_limit: set.scan_merge_limit.unwrap_or(8),
            compression: set.compression.unwrap_or_default(),
            default_ttl: effective_ttl(set.default_ttl),
            change_window_bytes: set.change_window_bytes.unwrap_or(0),
            latencies: self.latencies,
            slow_after: self.slow_after,
            publish_stats: self.publish_stats.filter(|_| !in_memory),
            in_memory,
            set: set.set(),
        };
        options.validate()?;
        Ok(options)
    }
}

/// The option without what stands for no expiry.
fn effective_ttl(ttl: Option<Duration>) -> Option<Duration> {
    ttl.filter(|ttl| !matches!(Lifetime::of(*ttl), Ok(Lifetime::Never)))
}

/// A sixteenth of the budget, as the open memtable and the sealed ones shall not take most of it;
/// and at most what does not make a small database large: the log takes some memtables.
fn default_memtable_bytes(memory_budget: u64) -> u64 {
    (memory_budget / 16).clamp(LEAST_MEMTABLE_BYTES, 64 << 20)
}

/// The paper's ratios, of 4 GB and 40 GB beside 16 GB of memory, so that data larger than memory
/// have several partitions.
fn default_unsorted_bytes(memory_budget: u64) -> u64 {
    (memory_budget / 4).max(LEAST_UNSORTED_BYTES)
}

fn default_partition_bytes(memory_budget: u64) -> u64 {
    (memory_budget / 2)
        .saturating_mul(5)
        .max(10 * LEAST_UNSORTED_BYTES)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Tuning;

    #[test]
    fn values_that_would_make_blocks_huge_are_not_kept_inline() {
        let with = |bytes| Options::default().inline_value_bytes(bytes);
        let resolved = |bytes| with(bytes).resolve(&StoredOptions::default());
        assert!(resolved(64 << 10).is_ok());
        let error = resolved((64 << 10) + 1).unwrap_err();
        assert!(error.to_string().contains("a key block holds"), "{error}");
        // What an earlier release let through and stored.
        let stored = StoredOptions {
            inline_value_bytes: Some(100 << 10),
            ..StoredOptions::default()
        };
        let options = Options::default().resolve(&stored).unwrap();
        assert_eq!(options.inline_value_bytes, 64 << 10);
    }

    #[test]
    fn the_memtable_is_a_part_of_the_budget_unless_it_is_set() {
        let of = |options: Options| options.resolve(&StoredOptions::default()).unwrap();
        assert_eq!(of(Options::default()).memtable_bytes, 16 << 20);
        for (budget, memtable) in [
            (1 << 30, 64 << 20),
            (1 << 40, 64 << 20),
            (64 << 10, 4 << 10),
        ] {
            let options = Options::default().memory_budget(budget);
            assert_eq!(of(options.clone()).memtable_bytes, memtable);
            assert_eq!(
                of(options.tuning(Tuning::default().memtable_bytes(8 << 20))).memtable_bytes,
                8 << 20
            );
        }
    }

    #[test]
    fn an_unsorted_store_and_a_partition_are_in_proportion_to_the_budget() {
        let of = |budget| {
            let options = Options::default().memory_budget(budget);
            let options = options.resolve(&StoredOptions::default()).unwrap();
            (options.unsorted_bytes, options.partition_bytes)
        };
        assert_eq!(of(256 << 20), (64 << 20, 640 << 20));
        assert_eq!(of(16 << 30), (4 << 30, 40 << 30));
        assert_eq!(of(1 << 20), (16 << 20, 160 << 20));
        assert_eq!(of(u64::MAX), (u64::MAX / 4, u64::MAX));
    }
}
