//! UniKV: an embedded, ordered, persistent key-value store.
//!
//! One directory holds one database; keys and values are bytes, and keys are ordered bytewise. The
//! design is that of the UniKV paper (Zhang et al., ICDE 2020): recent records lie in an
//! *UnsortedStore* and are found through a light in-memory hash index (§III-B), older ones in a
//! fully sorted *SortedStore* whose keys point into record files (§III-C).
//!
//! ```
//! use unikv::{Batch, Db, Durability, Options};
//!
//! # fn main() -> unikv::Result<()> {
//! # let dir = std::env::temp_dir().join(format!("unikv-doc-{}", std::process::id()));
//! let db = Db::open(&dir, Options::default())?;
//! db.put("apple", "red")?;
//!
//! let mut batch = Batch::new();
//! batch.put("banana", "yellow").delete("apple");
//! db.write_with(&batch, Durability::Sync)?;
//!
//! assert_eq!(db.get("banana")?.as_deref(), Some(&b"yellow"[..]));
//! assert_eq!(db.get("apple")?, None);
//! for entry in db.iter() {
//!     let (key, value) = entry?;
//!     assert_eq!((&key[..], &value[..]), (&b"banana"[..], &b"yellow"[..]));
//! }
//! db.close()?;
//! # Db::destroy(&dir)
//! # }
//! ```
//!
//! - [`Db`] is the handle: cheap to clone, usable from any thread. A [`Keyspace`] is another space
//!   of keys in it. [`Snapshot`] is the database at one moment, and a [`Transaction`] takes place
//!   at one moment or not at all; [`Readable`] is what all of them have in common. [`Iter`] walks
//!   through it in key order from both ends, [`Keys`] without values, and a [`Cursor`] moves to and
//!   fro. [`Batch`] is a set of writes that are there all or not at all.
//! - [`Options`] configure a database when it is opened; sizes are in bytes. [`Durability`] says
//!   what an acknowledged write survives.
//! - Calls fail with an [`Error`], whose [`ErrorKind`] says what the caller can do. Damage on disk
//!   is always an error that names file and offset: it never reads as another value, or as none.
//! - [`Db::checkpoint`] makes a database of its own that is what this one is now, in milliseconds;
//!   [`backup`] keeps points in time on another disk.
//! - [`Db::open_secondary`] reads a database that another process writes: a [`Secondary`].
//!   [`Db::changes_since`] shows what changes, write by write, for caches and replicas.
//! - Values may expire ([`WriteOptions::ttl`]), and a range of keys goes in one write
//!   ([`Db::delete_range`]).
//! - [`Db::check`] verifies every byte of a closed database, [`Db::repair`] salvages what is
//!   intact of a damaged one, [`Db::stats`] shows the figures of an open one.
//! - The [`guide`] says how to run a database: what to set, how to come from LevelDB or RocksDB,
//!   and recipes.
//!
//! The engine's own threads do the flushing and merging. Files, threads and clocks are reached
//! through [`vfs`] only, where a simulated machine can stand in.
//!
//! # Limits
//! A key has up to 64 KiB, a value up to 1 GiB, a batch up to 3 GiB. One process at a time has a
//! database open for writing; any number follow it. [`Options::max_space_amp`] bounds what it
//! takes on disk, and [`Options::memory_budget`] what it takes of memory.
//!
//! # Cargo features
//! | feature | default | brings |
//! |---|---|---|
//! | `io-uring` | yes | reads that the device gets at once, where the kernel allows it |
//! | `lz4`, `zstd` | yes | [`Compression`]; a database that needs one that is missing is refused |
//! | `tracing` | no | a listener that passes events on to the crate `tracing` |

// Who embeds it decides what is printed.
#![warn(clippy::print_stdout, clippy::print_stderr)]

// The folders are the layers; each may import only what stands above it in this list.

pub(crate) mod error;

pub(crate) mod base;

pub(crate) mod codec;

pub mod vfs;

pub(crate) mod hash_index;
pub(crate) mod item_log;
pub(crate) mod key_table;
pub(crate) mod log;
pub(crate) mod memtable;
pub(crate) mod record;

pub(crate) mod version;

pub(crate) mod partition;

pub(crate) mod jobs;

pub(crate) mod events;

pub(crate) mod engine;

pub(crate) mod offline;
pub(crate) mod txn;

pub(crate) mod db;

pub mod backup;
pub(crate) mod export;
pub(crate) mod options;

/// Bytes of memory that did not come from the allocator, in all databases of the process, for tests
/// that count both.
#[doc(hidden)]
pub fn mapped_bytes() -> usize {
    base::mapped::mapped_bytes()
}

#[cfg(fuzzing)]
#[doc(hidden)]
pub mod fuzzing;
#[cfg(test)]
mod testing;

/// The example of the README, compiled and run as a test.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;

// Markdown takes the first definition of a link. The file ends with definitions for a checkout, so
// those here, for pages of documentation, come first.
/// [C library]: #in-the-repository
/// [Python package]: #in-the-repository
/// [backups]: crate::backup
/// [change feed]: crate::Db::changes_since
/// [operations]: #in-the-repository
/// [small values]: #in-the-repository
///
#[doc = include_str!("../guide.md")]
///
/// # In the repository
/// The repository has more documents: the C library in `docs/c.md`, the Python package in
/// `docs/python.md`, how to watch a database in `docs/operations.md`, the formats of its files in
/// `docs/format.md`, and measurements in `docs/benchmarks/`.
pub mod guide {}

pub use base::bounds::{KeyBounds, Prefix};
/// Mistakes to be made on demand, in the build that tests the tests.
#[cfg(unikv_seeded_bugs)]
pub use base::seeded::Seeded;
/// A value or key handed out: a slice of the buffer it was read into, cheap to clone.
pub use bytes::Bytes;
pub use codec::Compression;
pub use db::Db;
pub use db::ingest::Ingest;
pub use db::keyspace::Keyspace;
pub use db::readable::Readable;
pub use db::secondary::Secondary;
pub use db::snapshot::Snapshot;
pub use db::transaction::{Transaction, TransactionKeyspace};
pub use engine::background::ingest::entry::{Expiry, SortedEntry};
pub use engine::changes::{
    Change, ChangeKind, ChangeOp, ChangeToken, Changes, ChangesOptions, KeyspaceChange,
};
pub use engine::checkpoint::{Checkpoint, CheckpointFile};
pub use engine::health::JobError;
pub use engine::memory::MemoryStats;
pub use engine::read::cursor::{Cursor, Keys};
pub use engine::read::iter::Iter;
pub use engine::read::lifetimes::Ttl;
pub use engine::read::value_reader::ValueReader;
pub use engine::secondary::SecondaryStats;
pub use engine::space::garbage::{GarbageStats, RecordFileStats};
pub use engine::stats::holders::{
    ClosingReport, DueJob, HolderKind, HolderStats, RunningJob, StillOpen,
};
pub use engine::stats::lifetime::LifetimeStats;
pub use engine::stats::meter::LatencyStats;
pub use engine::stats::pins::PinStats;
pub use engine::stats::report::{CheckReport, Problem};
pub use engine::stats::stalls::StallStats;
pub use engine::stats::{PartitionStats, Stats};
pub use engine::stats_file::PublishedStats;
pub use error::{Error, ErrorKind, Result};
#[cfg(feature = "tracing")]
pub use events::TracingListener;
pub use events::{
    Event, EventListener, OpeningPhase, OpeningProgress, RecoveryReport, SlowOperation, StallCause,
    TimedOperation, Wait,
};
pub use export::{Export, ExportFile};
pub use log::TailCut;
pub use memtable::{Batch, Operation};
pub use offline::inspect;
pub use offline::repair::RepairOptions;
pub use offline::repair::report::{
    LogGap, LostKey, LostRange, RepairFault, RepairReport, RepairTrust, RepairedFile, RepairedLog,
    UncertainKey,
};
pub use options::{
    Clustering, Durability, EffectiveOptions, KeyspaceOptions, Options, ReadOptions,
    SecondaryOptions, StoredOption, Tuning, WriteOptions,
};
pub use txn::Isolation;
pub use txn::single::Mismatch;
