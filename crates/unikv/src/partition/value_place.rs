//! Where a value is, as far as that is known without reading it.

use crate::key_table::RecordPointer;
use crate::record::RecordFile;

/// A value that was found.
pub(crate) struct Found<'v> {
    pub(crate) place: ValuePlace<'v>,
    /// When it expires.
    pub(crate) expiry_ms: Option<u64>,
}

/// Where the value of a key is.
pub(crate) enum ValuePlace<'v> {
    /// Anywhere; this is its length.
    Known(usize),
    /// In the record that the pointer leads to.
    Record(&'v RecordFile, RecordPointer),
    /// Where the record says to which the pointer leads.
    Named(&'v RecordFile, RecordPointer),
    /// Where this says, which stands in the write-ahead log.
    External(&'v [u8]),
}
