//! What readers keep on disk.

use std::time::Duration;

/// What keeps old files and old versions of entries on disk.
#[derive(Clone, Debug, Default, serde::Serialize, serde::Deserialize)]
#[serde(default)]
#[non_exhaustive]
pub struct PinStats {
    /// Snapshots, each counted once with its clones and its iterators, and transactions.
    pub snapshots: usize,
    /// Iterators.
    pub iterators: usize,
    /// Iterators that hold a view, and with it files, at present.
    pub views: usize,
    /// The oldest moment that a snapshot or an iterator shows, as a sequence number. Of entries
    /// overwritten since, the versions seen there are kept.
    pub oldest_seq: Option<u64>,
    /// How many operations have been committed since then.
    pub oldest_behind: u64,
    /// How long ago the snapshot or iterator was made.
    pub oldest_age: Duration,
    /// Files that no longer belong to the database and that readers or ending jobs still hold.
    pub files: u64,
    /// Bytes of those files.
    pub bytes: u64,
    /// Bytes in files that do belong to the database, taken by overwritten and deleted versions
    /// that only snapshots and iterators need. Where there is none this is 0, though what was kept
    /// has still to be reclaimed. Left out is what no merge has met yet, which the allowance for
    /// `unsorted_bytes` covers, and what is too little in its key table to be worth writing that
    /// again.
    pub version_bytes: u64,
}
