//! What recovery found, for the caller to read.

use crate::base::text::{Count, Size};
use crate::log::TailCut;
use std::fmt;
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

/// One line.
impl fmt::Display for RecoveryReport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (took, edits) = (self.elapsed.as_secs_f64() * 1e3, self.manifest_edits);
        let (ops, bytes, segments) = (Count(self.wal_ops), Size(self.wal_bytes), self.wal_segments);
        let (indexed, swept) = (Count(self.index_records), self.swept.len());
        write!(
            f,
            "opened in {took:.1} ms: {edits} manifest edits, {ops} operations ({bytes}) from \
             {segments} WAL segments, {indexed} records indexed, {swept} files swept"
        )?;
        for cut in self.wal_cut.iter().chain(&self.manifest_cut) {
            let (bytes, file, offset) = (Size(cut.bytes), cut.path.display(), cut.offset);
            write!(
                f,
                "; cut {bytes} of {file} at offset {offset}: {}",
                cut.reason
            )?;
        }
        Ok(())
    }
}
