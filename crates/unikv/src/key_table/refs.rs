//! What a key table points to in one record file.

use crate::base::keys::FileNumber;

/// What the pointers of a key table keep alive in one record file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct RecordFileRefs {
    pub(crate) file: FileNumber,
    /// How many frames.
    pub(crate) count: u64,
    /// The bytes of those frames.
    pub(crate) bytes: u64,
}
