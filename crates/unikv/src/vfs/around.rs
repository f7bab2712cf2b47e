//! Reads around the page cache, several at a time.

use super::{BLOCK_BYTES, ReadFile};

/// How many more bytes than are wanted a buffer must have for a read around the page cache: that
/// moves whole blocks, into memory that begins where a block could.
pub const AROUND_BYTES: usize = 3 * BLOCK_BYTES;

/// One of the reads of [`Vfs::read_around`](super::Vfs::read_around).
pub struct AroundRead<'a> {
    /// A file of the same file system.
    pub file: &'a dyn ReadFile,
    /// The first byte that is wanted.
    pub offset: u64,
    /// How many are wanted.
    pub len: usize,
    /// Where they come: it has [`AROUND_BYTES`] more.
    pub buf: &'a mut [u8],
}
