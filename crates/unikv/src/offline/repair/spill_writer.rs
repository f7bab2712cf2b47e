//! Writing a sorted spill of claims.
//!
//! Each claim stands after its length and the checksum of both, which is bound to the offset: what
//! is read back decides what is saved, and damage in the spill must not pass for damage in the
//! database.

use crate::base::checksum;
use crate::base::keys::FileUid;
use crate::error::{Error, Result};
use std::path::PathBuf;

/// Bytes that are written at a time.
const WRITE_BYTES: usize = 256 << 10;
/// Before each claim: its length and a checksum.
pub(crate) const HEAD_BYTES: usize = 8;

/// A spill that was written.
pub(crate) struct Spill {
    pub(crate) path: PathBuf,
    pub(crate) len: u64,
}

/// A spill being written.
pub(crate) struct SpillWriter {
    file: Box<dyn crate::vfs::WriteFile>,
    path: PathBuf,
    buffer: Vec<u8>,
    offset: u64,
}

impl SpillWriter {
    pub(crate) fn new(file: Box<dyn crate::vfs::WriteFile>, path: PathBuf) -> SpillWriter {
        SpillWriter {
            file,
            path,
            buffer: Vec::new(),
            offset: 0,
        }
    }

    pub(crate) fn push(&mut self, claim: &[u8]) -> Result<()> {
        let len = (claim.len() as u32).to_le_bytes();
        let checksum = checksum_of(len, claim, self.offset).to_le_bytes();
        for part in [&len[..], &checksum[..], claim] {
            self.buffer.extend_from_slice(part);
            self.offset += part.len() as u64;
        }
        if self.buffer.len() >= WRITE_BYTES {
            self.write()?;
        }
        Ok(())
    }

    fn write(&mut self) -> Result<()> {
        let written = self.file.append(&self.buffer);
        self.buffer.clear();
        written.map_err(|e| Error::io("write this file", &self.path, e))
    }

    pub(crate) fn finish(mut self) -> Result<Spill> {
        self.write()?;
        Ok(Spill {
            path: self.path,
            len: self.offset,
        })
    }
}

/// The checksum of a claim whose length stands at `offset`.
pub(crate) fn checksum_of(len: [u8; 4], claim: &[u8], offset: u64) -> u32 {
    let of_both = checksum::Crc::default().update(&len).update(claim);
    of_both.bind(FileUid(0), offset)
}
