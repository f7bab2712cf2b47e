//! What the manifest knows of a key table.

use super::expiring::Expiring;
use super::outliers::OutlierSum;
use super::properties::FileFacts;
use crate::base::file_header::HEADER_LEN;
use crate::base::keys::{FileNumber, FileUid, SeqNo};
use crate::codec::FileCompression;
use crate::key_table::RecordFileRefs;
use crate::key_table::builder::bounds;
use crate::key_table::builder::newest::Newest;

/// A listed key table.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct KeyTableMeta {
    pub(crate) number: FileNumber,
    pub(crate) uid: FileUid,
    /// The length of the file in bytes.
    pub(crate) len: u64,
    /// How many entries it has.
    pub(crate) count: u64,
    /// Bounds of the keys: these themselves, or shorter ones ([`bounds`]).
    pub(crate) min_key: Vec<u8>,
    pub(crate) max_key: Vec<u8>,
    pub(crate) min_seq: SeqNo,
    pub(crate) max_seq: SeqNo,
    /// The CRC-32C of the whole file.
    pub(crate) checksum: u32,
    /// What its pointers keep alive, sorted by file.
    pub(crate) refs: Vec<RecordFileRefs>,
    /// Bytes of values that stand in the table itself.
    pub(crate) inline_bytes: u64,
    /// Bytes of records and inline values that only versions older than the newest of their key
    /// keep.
    pub(crate) older_bytes: u64,
    /// `None`: a release that did not count this has written the table, or listed it.
    pub(crate) newest: Option<Newest>,
    /// The earliest and the latest expiry of its entries.
    pub(crate) expiry: Option<(u64, u64)>,
    /// When how much of it expires.
    pub(crate) expiring: Expiring,
    pub(crate) has_range_deletes: bool,
    /// The range of keys it still serves, first included, last excluded; `None`: all of them.
    pub(crate) clip: Option<(Vec<u8>, Vec<u8>)>,
    /// How blocks are stored.
    pub(crate) compression: FileCompression,
}

impl KeyTableMeta {
    /// Bytes of the table and of the records it points to.
    pub(crate) fn referenced_bytes(&self) -> u64 {
        let refs = self.refs.iter().map(|refs| refs.bytes);
        refs.fold(self.len, u64::saturating_add)
    }

    /// The same without what only versions older than the newest of their key keep.
    pub(crate) fn newest_bytes(&self) -> u64 {
        self.referenced_bytes().saturating_sub(self.older_bytes)
    }

    /// What bytes of its inline values take in it.
    pub(crate) fn stored_part(&self, inline_bytes: u64) -> u64 {
        stored_part(inline_bytes, self.len, self.compression.saved_bytes)
    }

    /// Whether everything in it has expired at this time.
    pub(crate) fn has_expired(&self, time_ms: u64) -> bool {
        let is_past = |(_, latest_ms)| latest_ms <= time_ms;
        self.expiring.entries == self.count && self.expiry.is_some_and(is_past)
    }

    /// The newest records that are much longer than the others.
    pub(crate) fn outliers(&self) -> OutlierSum {
        self.newest
            .map(|newest| newest.outliers)
            .unwrap_or_default()
    }

    /// Whether the file says the same of itself.
    pub(crate) fn agrees_with(&self, facts: &FileFacts) -> bool {
        let found = &facts.properties;
        facts.has_key_section
            && facts.records_end == HEADER_LEN as u64
            && (found.records, found.entries) == (0, self.count)
            && bounds::is_lower_of(&self.min_key, &found.min_key)
            && bounds::is_upper_of(&self.max_key, &found.max_key)
            && (found.min_seq(), found.max_seq()) == (self.min_seq, self.max_seq)
            && (&found.refs, found.inline_bytes) == (&self.refs, self.inline_bytes)
            && found.older_bytes == self.older_bytes
            && found.compression == self.compression
            && (self.expiring.is_empty() || found.expiring == self.expiring)
            && (self.newest.is_none() || found.newest == self.newest)
            && (found.expiry, found.has_range_deletes) == (self.expiry, self.has_range_deletes)
    }
}

/// What bytes take, in proportion, of blocks of `stored_bytes` that would be longer by
/// `saved_bytes`.
pub(super) fn stored_part(bytes: u64, stored_bytes: u64, saved_bytes: u64) -> u64 {
    if saved_bytes == 0 {
        return bytes;
    }
    let part = u128::from(bytes) * u128::from(stored_bytes);
    (part / u128::from(stored_bytes + saved_bytes)) as u64
}
