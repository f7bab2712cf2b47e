//! UniKV: an embedded, ordered, persistent key-value store.
//!
//! The system of the UniKV paper (Zhang et al., ICDE 2020) as a library: freshly written records
//! sit in an *UnsortedStore* found through a light in-memory hash index, older ones in a fully
//! sorted *SortedStore* whose keys point into value logs. One directory holds one database.
//!
//! The folders are the layers; each may import only what stands above it in this list.

pub mod error;

pub(crate) mod base;

pub mod vfs;

pub(crate) mod hash_index;
pub(crate) mod key_table;
pub(crate) mod log;
pub(crate) mod memtable;
pub(crate) mod record;

pub(crate) mod version;

pub(crate) mod partition;

pub(crate) mod jobs;

pub(crate) mod db;
pub(crate) mod options;

#[cfg(test)]
mod testing;

pub use bytes::Bytes;
pub use db::Db;
pub use db::iter::Iter;
pub use db::report::{CheckReport, Problem, RecoveryReport};
pub use db::snapshot::Snapshot;
pub use db::stats::{PartitionStats, Stats};
pub use error::{Error, ErrorKind, Result};
pub use log::TailCut;
pub use memtable::Batch;
pub use options::{Clustering, Durability, Options};
