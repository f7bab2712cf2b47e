//! Where a record is: ⟨file, offset, length⟩.
//!
//! It is defined with the tables that store it and re-exported by `record`, whose frames it
//! names. See `docs/format.md`, "Pointer".

use crate::base::coding::put_varint;
use crate::base::keys::FileNumber;

/// Records of at least this many bytes are moved and checked piece by piece, and fetched one by
/// one.
pub(crate) const STREAMED_BYTES: u32 = 256 << 10;

/// What a frame takes beside key, value and expiry.
pub(crate) const FRAME_BYTES: u32 = 36;

/// The place of one frame in a record file.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct RecordPointer {
    pub(crate) file: FileNumber,
    /// Where the frame begins.
    pub(crate) offset: u64,
    /// The length of the whole frame in bytes.
    pub(crate) len: u32,
}

impl RecordPointer {
    /// The offset after the frame; `None` if it overflows.
    pub(crate) fn end(&self) -> Option<u64> {
        self.offset.checked_add(u64::from(self.len))
    }

    /// Appends the pointer's bytes.
    pub(crate) fn encode(&self, out: &mut Vec<u8>) {
        put_varint(out, self.file.0);
        put_varint(out, self.offset);
        put_varint(out, u64::from(self.len));
    }
}

impl AsRef<RecordPointer> for RecordPointer {
    fn as_ref(&self) -> &RecordPointer {
        self
    }
}
