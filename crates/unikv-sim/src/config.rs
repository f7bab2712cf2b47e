//! The options a history runs under, drawn from its seed.
//!
//! They are tiny on purpose: a history of some hundred writes must flush and merge again and
//! again, spread over many files, and meet every size class and threshold.

use rand::rngs::SmallRng;
use rand::seq::IndexedRandom;
use rand::{Rng, SeedableRng};
use std::time::Duration;
use unikv::{Clustering, Compression, Durability, Options, Tuning};

/// One choice of options.
#[derive(Clone, Debug)]
pub struct Config {
    /// When writes are synced.
    pub durability: Durability,
    /// Whether merges copy values.
    pub clustering: Clustering,
    /// Bytes of a memtable.
    pub memtable_bytes: u64,
    /// Bytes of the UnsortedStore before a merge.
    pub unsorted_bytes: u64,
    /// Bytes of a partition before it is split.
    pub partition_bytes: u64,
    /// Values below this stand in the key tables.
    pub inline_value_bytes: u32,
    /// Bytes on disk over live bytes.
    pub max_space_amp: f64,
    /// Bytes of a key table.
    pub key_table_bytes: u64,
    /// Bytes of a block of a key table.
    pub block_bytes: u32,
    /// Bytes of memory in all.
    pub memory_budget: u64,
    /// Background workers.
    pub background_threads: usize,
    /// Tables whose keys scans merge each time again.
    pub scan_merge_limit: u32,
    /// How values and blocks are compressed.
    pub compression: Compression,
    /// How long values live by default, in milliseconds; `None`: as was said before.
    pub default_ttl_ms: Option<u64>,
    /// Bytes of the log that are kept for those that follow the changes.
    pub change_window_bytes: u64,
}

fn pick<T: Copy>(rng: &mut SmallRng, from: &[T]) -> T {
    *from.choose(rng).expect("a choice")
}

impl Config {
    /// Draws all of it. A `busy` one flushes and merges after every few writes.
    pub fn draw(rng: &mut SmallRng, busy: bool) -> Config {
        let memtable_bytes = if busy {
            4 << 10
        } else {
            pick(rng, &[4 << 10, 4 << 10, 8 << 10, 16 << 10, 64 << 10])
        };
        // From generators beside the first, so that recorded seeds give the same stories as before.
        let mut aside = SmallRng::seed_from_u64(rng.clone().random::<u64>() ^ 0x5b11);
        let mut further = SmallRng::seed_from_u64(aside.clone().random::<u64>() ^ 0xc105);
        let mut codecs = SmallRng::seed_from_u64(further.clone().random::<u64>() ^ 0xc0de);
        let tables = if busy { &[1, 2] } else { &[1, 2, 2, 4, 16][..] };
        Config {
            durability: match rng.random_range(0..6) {
                0 => Durability::Sync,
                1 => Durability::Periodic(Duration::from_millis(pick(rng, &[1, 100]))),
                _ => Durability::Buffered,
            },
            clustering: match pick(rng, &[Clustering::LeastWriting, Clustering::Automatic]) {
                Clustering::LeastWriting => {
                    let both = [Clustering::LeastWriting, Clustering::Automatic];
                    pick(&mut further, &both)
                }
                clustering => clustering,
            },
            memtable_bytes,
            unsorted_bytes: memtable_bytes * pick(rng, tables),
            // The least splits whatever has two key tables; the greatest never splits.
            partition_bytes: pick(&mut aside, &[4 << 10, 4 << 10, 16 << 10, 64 << 10, 1 << 40]),
            inline_value_bytes: pick(rng, &[0, 16, 128, 128, 1000]),
            // From a copy of the generator, so that recorded seeds give the same stories as before.
            max_space_amp: pick(&mut rng.clone(), &[1.1, 1.1, 1.5, 3.0]),
            key_table_bytes: pick(rng, &[1 << 10, 1 << 10, 4 << 10, 2 << 20]),
            block_bytes: pick(rng, &[256, 512, 4096]),
            memory_budget: pick(rng, &[64 << 10, 1 << 20, 64 << 20]),
            background_threads: pick(rng, &[2, 2, 3, 5]),
            scan_merge_limit: pick(&mut aside, &[1, 1, 2, 8]),
            compression: pick(
                &mut codecs,
                &[
                    Compression::None,
                    Compression::None,
                    Compression::Lz4,
                    Compression::zstd(3),
                    Compression::Zstd { level: 9 },
                ],
            ),
            default_ttl_ms: None,
            change_window_bytes: 0,
        }
    }

    /// The same for a history in which hours pass: nothing happens every millisecond.
    #[must_use]
    pub fn for_hours(self) -> Config {
        let least = Duration::from_millis(100);
        let durability = match self.durability {
            Durability::Periodic(period) => Durability::Periodic(period.max(least)),
            durability => durability,
        };
        Config { durability, ..self }
    }

    /// Values live by default as under other options: all that answers depend on. As much of the
    /// log is kept.
    #[must_use]
    pub fn with_ttl_of(self, other: &Config) -> Config {
        Config {
            default_ttl_ms: other.default_ttl_ms,
            change_window_bytes: other.change_window_bytes,
            ..self
        }
    }

    /// Whether a plain write is synced when it returns.
    pub fn syncs_every_write(&self) -> bool {
        matches!(self.durability, Durability::Sync)
    }

    /// Options unlike these in everything that the engine answers the same with.
    #[must_use]
    pub fn contrast(&self) -> Config {
        fn other<T: PartialEq>(is: T, low: T, high: T) -> T {
            if is == low { high } else { low }
        }
        let memtable_bytes = other(self.memtable_bytes, 4 << 10, 64 << 10);
        Config {
            durability: match self.durability {
                Durability::Sync => Durability::Buffered,
                Durability::Buffered => Durability::Periodic(Duration::from_millis(1)),
                _ => Durability::Sync,
            },
            clustering: match self.clustering {
                Clustering::LeastWriting => Clustering::Automatic,
                _ => Clustering::LeastWriting,
            },
            memtable_bytes,
            unsorted_bytes: other(self.unsorted_bytes / self.memtable_bytes, 1, 4) * memtable_bytes,
            partition_bytes: other(self.partition_bytes, 4 << 10, 1 << 40),
            inline_value_bytes: other(self.inline_value_bytes, 0, 1000),
            max_space_amp: other(self.max_space_amp, 1.1, 3.0),
            key_table_bytes: other(self.key_table_bytes, 1 << 10, 2 << 20),
            block_bytes: other(self.block_bytes, 256, 4096),
            memory_budget: other(self.memory_budget, 1 << 20, 64 << 20),
            background_threads: other(self.background_threads, 2, 5),
            scan_merge_limit: other(self.scan_merge_limit, 1, 8),
            compression: other(self.compression, Compression::None, Compression::zstd(3)),
            default_ttl_ms: self.default_ttl_ms,
            change_window_bytes: other(self.change_window_bytes, 8 << 10, 64 << 20),
        }
    }

    /// The engine's options where the database has stored the rest of them.
    pub fn bare_options(&self) -> Options {
        Options::default()
            .durability(self.durability)
            .tuning(Tuning::default().background_threads(self.background_threads))
    }

    /// The engine's options.
    pub fn options(&self) -> Options {
        let options = match self.default_ttl_ms {
            Some(u64::MAX) => self.bare_options().default_ttl(Duration::MAX),
            Some(ms) => self.bare_options().default_ttl(Duration::from_millis(ms)),
            None => self.bare_options(),
        };
        options
            .clustering(self.clustering)
            .tuning(
                Tuning::default()
                    .memtable_bytes(self.memtable_bytes)
                    .unsorted_bytes(self.unsorted_bytes)
                    .partition_bytes(self.partition_bytes)
                    .key_table_bytes(self.key_table_bytes)
                    .block_bytes(self.block_bytes)
                    .scan_merge_limit(self.scan_merge_limit),
            )
            .inline_value_bytes(self.inline_value_bytes)
            .max_space_amp(self.max_space_amp)
            .memory_budget(self.memory_budget)
            .compression(self.compression)
            .change_window_bytes(self.change_window_bytes)
    }
}
