//! What readers of a log and of a manifest say of it.

use crate::log::TailCut;

/// What a replay of the log did.
pub struct ReplayFigures {
    /// Writes that were handed out.
    pub records: u64,
    /// Their operations.
    pub ops: u64,
    /// Bytes of the chain.
    pub bytes: u64,
    /// The last segment of the chain: its number, and where it ends.
    pub last: Option<(u64, u64)>,
    /// What was cut off.
    pub cut: Option<TailCut>,
}

/// What a manifest said.
pub struct ManifestFigures {
    /// Edits in it.
    pub edits: usize,
    /// Edits of the database.
    pub edit_count: u64,
    /// Where the last whole edit ends.
    pub end: u64,
    /// What was cut off.
    pub cut: Option<TailCut>,
    /// The edits' version, as one edit.
    pub snapshot: Vec<u8>,
}
