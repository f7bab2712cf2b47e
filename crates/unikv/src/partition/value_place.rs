//! Where a value is, as far as that is known without reading it.

use crate::base::keys::SeqNo;
use crate::key_table::RecordPointer;
use crate::record::{Chunked, RecordFile};
use bytes::Bytes;

/// A value that was found.
pub(crate) struct Found<'v> {
    pub(crate) place: ValuePlace<'v>,
    pub(crate) seq: SeqNo,
    /// When it expires.
    pub(crate) expiry_ms: Option<u64>,
}

/// Where the value of a key is.
pub(crate) enum ValuePlace<'v> {
    /// In a memtable.
    Memory(&'v [u8]),
    /// Beside its key.
    Inline(Bytes),
    /// In the record that the pointer leads to.
    Record(&'v RecordFile, RecordPointer),
    /// Where the record says to which the pointer leads.
    Named(&'v RecordFile, RecordPointer),
    /// Where this says, which stands in the write-ahead log.
    External(&'v [u8]),
}

/// A value of which parts are wanted.
pub(crate) enum OpenValue {
    Memory(Bytes),
    Chunked(Chunked),
}
