//! What recovery and a check found, for the caller to read.

use crate::log::TailCut;
use std::path::PathBuf;
use std::time::Duration;

/// What opening a database recovered, cut and swept.
#[derive(Clone, Debug, Default)]
#[non_exhaustive]
pub struct RecoveryReport {
    /// Whether the database was created by this opening.
    pub created: bool,
    /// Edits read from the manifest.
    pub manifest_edits: u64,
    /// An edit at the end of the manifest that never became durable.
    pub manifest_cut: Option<TailCut>,
    /// WAL segments replayed.
    pub wal_segments: u64,
    /// WAL records (batches) replayed.
    pub wal_records: u64,
    /// Puts and deletes replayed.
    pub wal_ops: u64,
    /// Bytes of the replayed records.
    pub wal_bytes: u64,
    /// The torn end of the WAL.
    pub wal_cut: Option<TailCut>,
    /// Keys entered into hash indexes.
    pub index_records: u64,
    /// Names of files that nothing listed and that were removed.
    pub swept: Vec<String>,
    /// How long opening took.
    pub elapsed: Duration,
}

/// One thing that is wrong with a database.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Problem {
    /// The file concerned.
    pub file: PathBuf,
    /// The byte offset in it, as near as it is known.
    pub offset: u64,
    /// What is wrong.
    pub what: String,
}

/// What [`Db::check`](crate::Db::check) found.
#[derive(Clone, Debug, Default)]
#[non_exhaustive]
pub struct CheckReport {
    /// Files read.
    pub files: u64,
    /// Bytes read.
    pub bytes: u64,
    /// Bytes of the file that is kept back for a full disk. It means nothing and is not read.
    pub ballast_bytes: u64,
    /// Records read from record files.
    pub records: u64,
    /// Entries read from key sections and key tables.
    pub keys: u64,
    /// Pointers followed.
    pub pointers: u64,
    /// What is wrong.
    pub problems: Vec<Problem>,
    /// What is worth knowing and not wrong.
    pub notes: Vec<String>,
}

impl CheckReport {
    /// Whether nothing is wrong.
    pub fn is_clean(&self) -> bool {
        self.problems.is_empty()
    }
}
