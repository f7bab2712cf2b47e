//! What the manifest knows of a record file.

use crate::base::keys::{FileNumber, FileUid, SeqNo};

/// A listed record file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct RecordFileMeta {
    pub(crate) number: FileNumber,
    pub(crate) uid: FileUid,
    /// The length of the file in bytes.
    pub(crate) len: u64,
    /// Where the frames end.
    pub(crate) records_end: u64,
    /// How many frames it has.
    pub(crate) count: u64,
    pub(crate) min_key: Vec<u8>,
    pub(crate) max_key: Vec<u8>,
    pub(crate) min_seq: SeqNo,
    pub(crate) max_seq: SeqNo,
    /// The CRC-32C of the whole file.
    pub(crate) checksum: u32,
    /// The earliest and the latest expiry of its records.
    pub(crate) expiry: Option<(u64, u64)>,
    pub(crate) has_range_deletes: bool,
    /// Whether a key section stands behind the frames.
    pub(crate) key_section: bool,
}
