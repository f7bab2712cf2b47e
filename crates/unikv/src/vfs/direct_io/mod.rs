//! Direct reads: past the page cache (`O_DIRECT`), several at once (`io_uring`).
//!
//! `policy` decides which reads are direct, `blocks` aligns them to blocks of the device and `ring`
//! submits them. A file system that refuses them is noticed at the first one. Direct writes are in
//! `os/bulk_file`.
//!
//! No lock but the one of `ring`.

pub(super) mod blocks;
pub(super) mod policy;
pub(super) mod ring;

use super::{BLOCK_BYTES, ReadFile};
use rustix::io::Errno;
use std::io;

/// How many more bytes than are wanted the buffer of a direct read must have: that moves whole
/// blocks, into memory that begins where a block could.
pub const DIRECT_EXTRA_BYTES: usize = 3 * BLOCK_BYTES;

/// One of the reads of [`Vfs::read_direct`](super::Vfs::read_direct).
#[derive(Debug)]
pub struct DirectRead<'a> {
    /// A file of the same file system.
    pub file: &'a dyn ReadFile,
    /// The first byte that is wanted.
    pub offset: u64,
    /// How many are wanted.
    pub len: usize,
    /// Where they come: it has [`DIRECT_EXTRA_BYTES`] more.
    pub buf: &'a mut [u8],
}

/// Whether a file system says with `error` that it has no direct I/O.
pub(super) fn is_refusal(error: &io::Error) -> bool {
    matches!(
        Errno::from_io_error(error),
        Some(Errno::INVAL | Errno::OPNOTSUPP)
    )
}
