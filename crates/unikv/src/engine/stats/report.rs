//! What a check found, for the caller to read.

use std::path::PathBuf;

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
    /// Whether somebody had the database open, so that only what is visible was checked.
    pub is_open: bool,
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
