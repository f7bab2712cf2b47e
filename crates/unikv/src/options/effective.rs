//! The options in effect, and which values of them are refused.

use super::{Clustering, Durability, LEAST_MEMTABLE_BYTES, MOST_INLINE_BYTES, StoredOption};
use crate::codec::Compression;
use crate::error::{Error, Result};
use crate::memtable::Lifetime;
use std::time::Duration;

/// More threads than any machine has processors for.
const MOST_THREADS: usize = 1024;

/// The figures are published no more often.
const LEAST_INTERVAL: Duration = Duration::from_millis(10);

/// The options in effect in an open database; see [`Options`](super::Options) for what each does.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct EffectiveOptions {
    /// See [`Options::durability`](super::Options::durability).
    pub durability: Durability,
    /// See [`Options::memory_budget`](super::Options::memory_budget).
    pub memory_budget: u64,
    /// See [`Tuning::memtable_bytes`](super::Tuning::memtable_bytes).
    pub memtable_bytes: u64,
    /// See [`Tuning::unsorted_bytes`](super::Tuning::unsorted_bytes).
    pub unsorted_bytes: u64,
    /// See [`Tuning::partition_bytes`](super::Tuning::partition_bytes).
    pub partition_bytes: u64,
    /// See [`Options::inline_value_bytes`](super::Options::inline_value_bytes).
    pub inline_value_bytes: u32,
    /// See [`Options::max_space_amp`](super::Options::max_space_amp).
    pub max_space_amp: f64,
    /// See [`Options::clustering`](super::Options::clustering).
    pub clustering: Clustering,
    /// See [`Tuning::key_table_bytes`](super::Tuning::key_table_bytes).
    pub key_table_bytes: u64,
    /// See [`Tuning::block_bytes`](super::Tuning::block_bytes).
    pub block_bytes: u32,
    /// See [`Tuning::background_threads`](super::Tuning::background_threads).
    pub background_threads: usize,
    /// See [`Tuning::scan_merge_limit`](super::Tuning::scan_merge_limit).
    pub scan_merge_limit: u32,
    /// See [`Options::compression`](super::Options::compression).
    pub compression: Compression,
    /// See [`Options::default_ttl`](super::Options::default_ttl); `None`: for ever.
    pub default_ttl: Option<Duration>,
    /// See [`Options::change_window_bytes`](super::Options::change_window_bytes).
    pub change_window_bytes: u64,
    /// See [`Options::latencies`](super::Options::latencies).
    pub latencies: bool,
    /// See [`Options::slow_after`](super::Options::slow_after).
    pub slow_after: Option<Duration>,
    /// See [`Options::publish_stats`](super::Options::publish_stats).
    pub publish_stats: Option<Duration>,
    /// See [`Db::in_memory`](crate::Db::in_memory).
    pub in_memory: bool,
    /// The stored options that were set, at this opening or an earlier one, and that
    /// [`Options::unset`](super::Options::unset) makes the defaults again. The other stored options
    /// are the defaults.
    pub set: Vec<StoredOption>,
}

impl EffectiveOptions {
    /// Refuses values out of range, naming the option.
    pub(super) fn validate(&self) -> Result<()> {
        fn at_least(name: &str, value: u64, least: u64) -> Result<()> {
            if value >= least {
                return Ok(());
            }
            let what = format!("option `{name}` is {value}, below its least value {least}");
            Err(Error::invalid(
                what,
                format!("set `{name}` to {least} or more"),
            ))
        }
        at_least("memory_budget", self.memory_budget, 64 << 10)?;
        at_least("memtable_bytes", self.memtable_bytes, LEAST_MEMTABLE_BYTES)?;
        at_least("unsorted_bytes", self.unsorted_bytes, 4 << 10)?;
        at_least("partition_bytes", self.partition_bytes, 4 << 10)?;
        at_least("key_table_bytes", self.key_table_bytes, 1 << 10)?;
        at_least("block_bytes", u64::from(self.block_bytes), 256)?;
        at_least("background_threads", self.background_threads as u64, 2)?;
        if self.background_threads > MOST_THREADS {
            let threads = self.background_threads;
            let what = format!(
                "option `background_threads` is {threads}, above its greatest value {MOST_THREADS}"
            );
            let remedy = "set `background_threads` to the number of processors or less";
            return Err(Error::invalid(what, remedy));
        }
        at_least("scan_merge_limit", u64::from(self.scan_merge_limit), 1)?;
        self.compression.check()?;
        self.default_ttl.map_or(Ok(Lifetime::Never), Lifetime::of)?;
        // NaN is out of range, too.
        if !(1.1..=100.0).contains(&self.max_space_amp) {
            let what = format!("option `max_space_amp` is {}", self.max_space_amp);
            return Err(Error::invalid(
                what,
                "set `max_space_amp` between 1.1 and 100",
            ));
        }
        if self.block_bytes > 1 << 20 {
            let what = "option `block_bytes` is above its greatest value 1 MiB";
            return Err(Error::invalid(what, "set `block_bytes` to 1 MiB or less"));
        }
        if self.inline_value_bytes > MOST_INLINE_BYTES {
            let what = format!(
                "option `inline_value_bytes` is {}, above its greatest value 64 KiB: a key block holds \
                 its values whole, and readers and merges keep many blocks in memory",
                self.inline_value_bytes
            );
            let remedy = "set `inline_value_bytes` to 64 KiB or less";
            return Err(Error::invalid(what, remedy));
        }
        if self
            .publish_stats
            .is_some_and(|every| every < LEAST_INTERVAL)
        {
            let what = "option `publish_stats` is below its least value, 10 ms";
            let remedy = "set `publish_stats` to a second or so";
            return Err(Error::invalid(what, remedy));
        }
        if let Durability::Periodic(every) = self.durability
            && every.is_zero()
        {
            let what = "option `durability` is periodic with a period of zero";
            return Err(Error::invalid(
                what,
                "sync each write, or set a longer period",
            ));
        }
        Ok(())
    }
}
