//! Arguments that several commands share: sizes, durations, the options of the engine, keyspaces,
//! and how keys and values are written on the command line.

use crate::exit::Failure;
use crate::{opening, text};
use clap::{Args, ValueEnum};
use serde_json::{Value, json};
use std::path::PathBuf;
use std::time::Duration;
use unikv::{Clustering, Compression, Db, Durability, Keyspace, Options, Tuning};
pub use unikv_bench::workload::quantity::{count, duration, size, small_size};

/// How often a command that has a database open publishes its figures, for `stats` and `top`
/// beside it. Short ones never come to it.
const PUBLISH_EVERY: Duration = Duration::from_secs(1);

fn durability(text: &str) -> Result<Durability, String> {
    match text.split_once(':') {
        None if text == "buffered" => Ok(Durability::Buffered),
        None if text == "sync" => Ok(Durability::Sync),
        Some(("periodic", every)) => duration(every).map(Durability::Periodic),
        _ => Err("write buffered, sync, or periodic:100ms".to_owned()),
    }
}

/// As [`durability`] reads it.
pub fn durability_name(durability: Durability) -> String {
    match durability {
        Durability::Buffered => "buffered".to_owned(),
        Durability::Sync => "sync".to_owned(),
        Durability::Periodic(every) => {
            format!("periodic:{}", span_in_words(every).replace(' ', ""))
        }
        other => format!("{other:?}"),
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum ClusteringArg {
    /// Values are copied in the order of their keys where scans have lost as much as that costs,
    /// and when nothing was written for a second
    Automatic,
    /// Values stay where the flush wrote them
    LeastWriting,
}

impl From<ClusteringArg> for Clustering {
    fn from(clustering: ClusteringArg) -> Clustering {
        match clustering {
            ClusteringArg::Automatic => Clustering::Automatic,
            ClusteringArg::LeastWriting => Clustering::LeastWriting,
        }
    }
}

/// As [`ClusteringArg`] is written.
pub fn clustering_name(clustering: Clustering) -> &'static str {
    match clustering {
        Clustering::LeastWriting => "least-writing",
        _ => "automatic",
    }
}

/// Every option of the engine. What is not given stays as the database has stored it, or else is
/// the engine's default.
#[derive(Args, Clone, Debug, Default)]
#[command(next_help_heading = "Engine options")]
pub struct EngineArgs {
    /// Bytes that the engine may allocate in all
    #[arg(long, value_name = "SIZE", value_parser = size)]
    pub memory_budget: Option<u64>,
    /// Bytes of a memtable before it is flushed
    #[arg(long, value_name = "SIZE", value_parser = size)]
    pub memtable_bytes: Option<u64>,
    /// Bytes of the UnsortedStore of a partition before it is merged
    #[arg(long, value_name = "SIZE", value_parser = size)]
    pub unsorted_bytes: Option<u64>,
    /// Bytes of a partition before it is split in two
    #[arg(long, value_name = "SIZE", value_parser = size)]
    pub partition_bytes: Option<u64>,
    /// Values below this size are kept beside their keys in the SortedStore
    #[arg(long, value_name = "SIZE", value_parser = small_size)]
    pub inline_value_bytes: Option<u32>,
    /// When values are copied into the order of their keys for scans
    #[arg(long, value_name = "WHEN")]
    pub clustering: Option<ClusteringArg>,
    /// Bytes of value logs and key tables over their live bytes, at most
    #[arg(long, value_name = "FACTOR")]
    pub max_space_amp: Option<f64>,
    /// Bytes of one key table
    #[arg(long, value_name = "SIZE", value_parser = size)]
    pub key_table_bytes: Option<u64>,
    /// Bytes of one block of a key table
    #[arg(long, value_name = "SIZE", value_parser = small_size)]
    pub block_bytes: Option<u32>,
    /// Tables of a partition's UnsortedStore whose keys a scan merges each time again, before they
    /// are merged for good
    #[arg(long, value_name = "COUNT")]
    pub scan_merge_limit: Option<u32>,
    /// How values and key blocks are compressed: none, lz4, zstd or zstd:LEVEL
    #[arg(long, value_name = "CODEC")]
    pub compression: Option<Compression>,
    /// Bytes of the log that are kept for those that follow the changes
    #[arg(long, value_name = "SIZE", value_parser = size)]
    pub change_window_bytes: Option<u64>,
    /// Values of the default keyspace expire after this, such as 12h, if they are written without
    /// saying it
    #[arg(long, value_name = "DURATION", value_parser = duration)]
    pub default_ttl: Option<Duration>,
    /// Forget what is stored of this option: its default holds from now on; can be given again
    #[arg(long, value_name = "NAME")]
    pub unset: Vec<String>,
    /// Threads for flushes and merges
    #[arg(long, value_name = "COUNT")]
    pub background_threads: Option<usize>,
    /// When writes are synced: buffered, sync, or periodic:INTERVAL such as periodic:100ms
    #[arg(long, value_name = "MODE", value_parser = durability)]
    pub durability: Option<Durability>,
}

impl EngineArgs {
    /// The engine's options with everything given set, and unset before.
    pub fn options(&self) -> Result<Options, Failure> {
        let mut options = Options::default().publish_stats(PUBLISH_EVERY);
        let mut tuning = Tuning::default();
        for name in &self.unset {
            // As the options of the command line are written, too.
            options = options.unset(name.replace('-', "_").parse()?);
        }
        if let Some(bytes) = self.memory_budget {
            options = options.memory_budget(bytes);
        }
        if let Some(bytes) = self.memtable_bytes {
            tuning = tuning.memtable_bytes(bytes);
        }
        if let Some(bytes) = self.unsorted_bytes {
            tuning = tuning.unsorted_bytes(bytes);
        }
        if let Some(bytes) = self.partition_bytes {
            tuning = tuning.partition_bytes(bytes);
        }
        if let Some(bytes) = self.inline_value_bytes {
            options = options.inline_value_bytes(bytes);
        }
        if let Some(clustering) = self.clustering {
            options = options.clustering(clustering.into());
        }
        if let Some(factor) = self.max_space_amp {
            options = options.max_space_amp(factor);
        }
        if let Some(bytes) = self.key_table_bytes {
            tuning = tuning.key_table_bytes(bytes);
        }
        if let Some(bytes) = self.block_bytes {
            tuning = tuning.block_bytes(bytes);
        }
        if let Some(tables) = self.scan_merge_limit {
            tuning = tuning.scan_merge_limit(tables);
        }
        if let Some(compression) = self.compression {
            options = options.compression(compression);
        }
        if let Some(bytes) = self.change_window_bytes {
            options = options.change_window_bytes(bytes);
        }
        if let Some(ttl) = self.default_ttl {
            options = options.default_ttl(ttl);
        }
        if let Some(threads) = self.background_threads {
            tuning = tuning.background_threads(threads);
        }
        if let Some(durability) = self.durability {
            options = options.durability(durability);
        }
        Ok(options.tuning(tuning))
    }

    /// The options given, for a report; null stands for what is stored, or else the default.
    pub fn to_json(&self) -> Value {
        json!({
            "memory_budget": self.memory_budget,
            "memtable_bytes": self.memtable_bytes,
            "unsorted_bytes": self.unsorted_bytes,
            "partition_bytes": self.partition_bytes,
            "inline_value_bytes": self.inline_value_bytes,
            "clustering": self.clustering.map(|when| clustering_name(when.into())),
            "max_space_amp": self.max_space_amp,
            "key_table_bytes": self.key_table_bytes,
            "block_bytes": self.block_bytes,
            "scan_merge_limit": self.scan_merge_limit,
            "compression": self.compression.map(|compression| compression.to_string()),
            "change_window_bytes": self.change_window_bytes,
            "default_ttl_ms": self.default_ttl.map(millis),
            "unset": (!self.unset.is_empty()).then_some(&self.unset),
            "background_threads": self.background_threads,
            "durability": self.durability.map(durability_name),
        })
    }
}

/// The directory of the database.
#[derive(Args, Clone, Debug)]
pub struct DirArg {
    /// The directory of the database
    pub dir: PathBuf,
}

impl DirArg {
    /// Opens the database that is there; never creates one.
    pub fn open_existing(&self) -> Result<Db, Failure> {
        let options = Options::default().publish_stats(PUBLISH_EVERY);
        opening::open_existing(&self.dir, options)
    }

    /// Opens the database for one change, which lasts when the command ends. `creates` makes one
    /// where there is none.
    pub fn open_to_change(&self, creates: bool) -> Result<Db, Failure> {
        let options = Options::default()
            .publish_stats(PUBLISH_EVERY)
            .durability(Durability::Sync);
        opening::open_or_create(&self.dir, options, creates)
    }
}

/// A time for a person.
pub fn span_in_words(time: Duration) -> String {
    humantime::format_duration(time).to_string()
}

/// A time in whole milliseconds.
pub fn millis(time: Duration) -> u64 {
    u64::try_from(time.as_millis()).unwrap_or(u64::MAX)
}

/// The keyspace that every database has.
pub const DEFAULT_KEYSPACE: &str = "default";

/// The keyspace of the keys that a command names, reads or writes.
#[derive(Args, Clone, Debug)]
pub struct KeyspaceArg {
    /// The keyspace of the keys, which must be there
    #[arg(long, value_name = "NAME", default_value = DEFAULT_KEYSPACE)]
    pub keyspace: String,
}

impl KeyspaceArg {
    /// Whether a new database has this keyspace: the others must be made first.
    pub fn is_default(&self) -> bool {
        self.keyspace == DEFAULT_KEYSPACE
    }

    /// The keyspace, which is not made if it is missing.
    pub fn find(&self, db: &Db) -> Result<Keyspace, Failure> {
        find_keyspace(db, &self.keyspace)
    }
}

/// The keyspace of this name, which is not made if it is missing.
pub fn find_keyspace(db: &Db, name: &str) -> Result<Keyspace, Failure> {
    let found = db.find_keyspace(name);
    found.ok_or_else(|| Failure::no_keyspace(name))
}

/// How keys and values stand on the command line and in the output.
#[derive(Args, Clone, Copy, Debug)]
pub struct Notation {
    /// Keys and values are written in hexadecimal
    #[arg(long)]
    pub hex: bool,
}

impl Notation {
    /// The bytes that an argument stands for.
    pub fn bytes(self, argument: &str) -> Result<Vec<u8>, Failure> {
        if self.hex {
            text::from_hex(argument).map_err(|what| Failure::invalid(what).at(argument))
        } else {
            Ok(argument.as_bytes().to_vec())
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durability_names() {
        assert_eq!(durability("sync"), Ok(Durability::Sync));
        let periodic = Durability::Periodic(Duration::from_millis(100));
        assert_eq!(durability("periodic:100ms"), Ok(periodic));
        assert!(durability("periodic").is_err());
        assert!(durability("sometimes").is_err());
    }

    #[test]
    fn durabilities_have_the_names_of_the_command_line() {
        let every = Durability::Periodic(Duration::from_millis(1500));
        assert_eq!(durability_name(every), "periodic:1s500ms");
        assert_eq!(durability_name(Durability::Sync), "sync");
    }
}
