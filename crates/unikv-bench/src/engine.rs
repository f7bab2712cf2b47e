//! What a store has to offer to be measured.
//!
//! Runs are generic over [`Engine`], so that each engine's calls are compiled into the client's
//! loop: no dynamic call, no copy and no allocation stands between the clock and the engine. What
//! an engine reads is handed to the caller's closure where the engine has it.

use crate::failure::Failure;
use crate::measure::quiet::wait_until_quiet;
use crate::measure::space::SpaceLimits;
use std::path::Path;
use std::time::Duration;

/// One operation of a batch.
#[derive(Clone, Copy, Debug)]
pub enum BatchOp<'a> {
    /// Stores a value under a key.
    Put(&'a [u8], &'a [u8]),
    /// Removes a key.
    Delete(&'a [u8]),
}

/// Which way a scan goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Direction {
    /// Towards greater keys.
    Forwards,
    /// Towards lesser keys.
    Backwards,
}

/// A store under test, open on one directory.
pub trait Engine: Send + Sync + Sized {
    /// What opening takes beside the directory.
    type Setup: Clone + Send + Sync;

    /// Opens the store in `dir`; without `create` it must be there.
    fn open(dir: &Path, setup: &Self::Setup, create: bool) -> Result<Self, Failure>;

    /// Stores `value` under `key`, with the durability of the setup.
    fn put(&self, key: &[u8], value: &[u8]) -> Result<(), Failure>;

    /// Removes `key`.
    fn delete(&self, key: &[u8]) -> Result<(), Failure>;

    /// Does all of `batch`, or nothing.
    fn write(&self, batch: &[BatchOp<'_>]) -> Result<(), Failure>;

    /// Gives the value of `key` to `found` and returns what that returns; `None` if there is none.
    fn get<R>(&self, key: &[u8], found: impl FnOnce(&[u8]) -> R) -> Result<Option<R>, Failure>;

    /// Gives to `found` the value of each of `keys` by its place among them.
    fn multi_get(
        &self,
        keys: &[&[u8]],
        mut found: impl FnMut(usize, Option<&[u8]>) -> Result<(), Failure>,
    ) -> Result<(), Failure> {
        for (place, key) in keys.iter().enumerate() {
            match self.get(key, |value| found(place, Some(value)))? {
                Some(outcome) => outcome?,
                None => found(place, None)?,
            }
        }
        Ok(())
    }

    /// Gives at most `limit` entries to `visit`, in the order of their keys: from `from` on,
    /// inclusive, or from the end at which the direction begins.
    fn scan(
        &self,
        from: Option<&[u8]>,
        direction: Direction,
        limit: usize,
        visit: impl FnMut(&[u8], &[u8]) -> Result<(), Failure>,
    ) -> Result<(), Failure>;

    /// Writes what is only in memory and the log into tables, where there is such a thing.
    fn flush(&self) -> Result<(), Failure> {
        Ok(())
    }

    /// Merges everything, where there is such a thing.
    fn compact(&self) -> Result<(), Failure> {
        Ok(())
    }

    /// Waits until nothing runs in the background, and says how long something did.
    fn settle(&self) -> Result<Duration, Failure> {
        Ok(wait_until_quiet())
    }

    /// Closes the store.
    fn close(self) -> Result<(), Failure>;

    /// What the engine counts, if it says; everything else is taken from the process.
    fn figures(&self) -> Option<Figures> {
        None
    }

    /// What may hold writers up, in the order of [`Engine::held_up`].
    fn stall_causes() -> Vec<&'static str> {
        Vec::new()
    }

    /// For how long each cause has held writers up since the opening.
    fn held_up(&self) -> Vec<Duration> {
        Vec::new()
    }

    /// What the store promises of the space that it takes; `floor_bytes` replaces the part that
    /// does not depend on the data.
    fn space_limits(&self, floor_bytes: Option<u64>) -> Option<SpaceLimits> {
        let _ = floor_bytes;
        None
    }
}

/// What an engine has counted since it was opened. Bytes unless said.
#[derive(Clone, Debug, Default)]
pub struct Figures {
    /// Keys and values of committed operations.
    pub user_bytes_written: u64,
    /// All bytes written to files: the sum of what the writers below have written.
    pub written_bytes: u64,
    /// Appended to the write-ahead log.
    pub wal_bytes: u64,
    /// Of files for large values.
    pub large_bytes: u64,
    /// Written by flushes.
    pub flush_bytes: u64,
    /// Written by ingests.
    pub ingest_bytes: u64,
    /// Written by merges.
    pub merge_bytes: u64,
    /// Written by garbage collections that ran alone.
    pub gc_bytes: u64,
    /// Written by merges for scans.
    pub scan_merge_bytes: u64,
    /// Written to manifests.
    pub manifest_bytes: u64,
    /// Reads of files.
    pub reads: u64,
    /// Bytes read from files.
    pub read_bytes: u64,
    /// Flushes done.
    pub flushes: u64,
    /// Merges done.
    pub merges: u64,
    /// Garbage collections that ran alone.
    pub gcs: u64,
    /// Partitions split.
    pub splits: u64,
    /// Neighbouring partitions joined.
    pub joins: u64,
    /// Waits of writers.
    pub stalls: u64,
    /// How long they were in all.
    pub stall_time: Duration,
    /// The longest of them.
    pub longest_stall: Duration,
    /// Of each partition its id and its merges.
    pub partition_merges: Vec<(u64, u64)>,
    /// Bytes of all live files.
    pub disk_bytes: u64,
}
