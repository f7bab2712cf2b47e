//! What the manifest knows of a record file.

use crate::base::file_header::HEADER_LEN;
use crate::base::keys::{FileNumber, FileUid, SeqNo};
use crate::codec::FileCompression;
use crate::key_table::builder::bounds;
use crate::key_table::range_section::RangeSection;
use crate::key_table::{FileFacts, RecordFileRefs};

/// In the place of the sequence number of a large value's frame, which is written before the number
/// is known; the number stands where the frame is pointed to. No write is given it.
pub(crate) const UNNUMBERED: SeqNo = SeqNo(0);

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
    /// Where the range tombstones stand, if there are any.
    pub(crate) ranges: Option<RangeSection>,
    /// Whether a key section stands after the frames.
    pub(crate) key_section: bool,
    /// What its external values keep alive in other record files, sorted by file.
    pub(crate) refs: Vec<RecordFileRefs>,
    /// The file was ingested: its records and keys, each key once, say 0 and have this sequence
    /// number, which was not known when they were written.
    pub(crate) ingest_seq: Option<SeqNo>,
    /// How its values are stored.
    pub(crate) compression: FileCompression,
}

impl RecordFileMeta {
    /// Bytes of the file and of the records that its external values name.
    pub(crate) fn referenced_bytes(&self) -> u64 {
        let refs = self.refs.iter().map(|refs| refs.bytes);
        refs.fold(self.len, u64::saturating_add)
    }

    /// Bytes of its records.
    pub(crate) fn record_bytes(&self) -> u64 {
        self.records_end.saturating_sub(HEADER_LEN as u64)
    }

    /// Where the records end that are no range tombstones.
    pub(crate) fn plain_end(&self) -> u64 {
        self.ranges
            .as_ref()
            .map_or(self.records_end, |ranges| ranges.offset)
    }

    /// Whether it has records that are no range tombstones.
    pub(crate) fn has_keys(&self) -> bool {
        self.plain_end() > HEADER_LEN as u64
    }

    /// Whether its values lie as a flush wrote them: merges and collections write no key section.
    pub(crate) fn is_flushed(&self) -> bool {
        self.key_section && self.ingest_seq.is_none()
    }

    /// Whether its records were written before their sequence numbers were known: large values.
    pub(crate) fn is_unnumbered(&self) -> bool {
        self.max_seq == UNNUMBERED
    }

    /// The same with bounds in place of long keys. Not for files of which the bounds must not meet.
    pub(crate) fn bounded(self) -> RecordFileMeta {
        RecordFileMeta {
            min_key: bounds::lower(&self.min_key, None),
            max_key: bounds::upper(&self.max_key, None),
            ..self
        }
    }

    /// The file, written for an ingest, once it is known at which number.
    pub(crate) fn ingested_at(self, seq: SeqNo) -> RecordFileMeta {
        RecordFileMeta {
            min_seq: seq,
            max_seq: seq,
            ingest_seq: Some(seq),
            ..self
        }
    }

    /// Whether the file says the same of itself.
    pub(crate) fn agrees_with(&self, facts: &FileFacts) -> bool {
        let found = &facts.properties;
        let written = |seq| self.ingest_seq.map_or(seq, |_| SeqNo(0));
        let seqs = (written(self.min_seq), written(self.max_seq));
        facts.has_key_section == self.key_section
            && facts.records_end == self.records_end
            && found.records == self.count
            && bounds::is_lower_of(&self.min_key, &found.min_key)
            && bounds::is_upper_of(&self.max_key, &found.max_key)
            && (found.min_seq(), found.max_seq()) == seqs
            && (found.expiry, found.has_range_deletes) == (self.expiry, self.has_range_deletes)
            && found.ranges == self.ranges
            && found.compression == self.compression
            && found
                .refs
                .iter()
                .filter(|refs| refs.file != self.number)
                .eq(&self.refs)
    }
}
