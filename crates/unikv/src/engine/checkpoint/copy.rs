//! Copies of files that do not change meanwhile, and their checksums.
//!
//! No locks.

use crate::base::checksum::Crc;
use crate::engine::core::Core;
use crate::error::{Error, Result};
use crate::vfs::{Access, Vfs, WriteMode};
use std::path::Path;

/// Bytes that are read at a time.
const CHUNK_BYTES: usize = 1 << 20;

/// Copies files.
#[derive(Clone, Copy)]
pub(crate) struct Copier<'a> {
    pub(crate) vfs: &'a dyn Vfs,
    /// The copy ends early when this database is closed.
    pub(crate) of: Option<&'a Core>,
}

impl Copier<'_> {
    /// Copies the first `len` bytes of `from` to a new file, which is durable then but for its
    /// name. Returns their CRC-32C.
    ///
    /// # Errors
    /// `Corruption` if `from` is missing or shorter, `Io`, `DiskFull`.
    pub(crate) fn copy(&self, from: &Path, to: &Path, len: u64) -> Result<u32> {
        let io = |e| Error::io("write this copy", to, e);
        let mut file = self.vfs.create(to, WriteMode::Bulk, len).map_err(io)?;
        let checksum = self.read(from, len, |bytes| file.append(bytes).map_err(io))?;
        file.finish().map_err(io)?;
        Ok(checksum)
    }

    /// The CRC-32C of the first `len` bytes of a file. Errors as [`Copier::copy`].
    pub(crate) fn checksum(&self, path: &Path, len: u64) -> Result<u32> {
        self.read(path, len, |_| Ok(()))
    }

    pub(crate) fn check_open(&self) -> Result<()> {
        self.of.map_or(Ok(()), Core::check_open)
    }

    /// Reads the first `len` bytes of a file, and returns their CRC-32C.
    fn read(
        &self,
        path: &Path,
        len: u64,
        mut chunk: impl FnMut(&[u8]) -> Result<()>,
    ) -> Result<u32> {
        let file = self.vfs.open(path, Access::Sequential);
        let file = file.map_err(|e| match e.kind() {
            std::io::ErrorKind::NotFound => Error::corruption(path, 0, "the file is missing"),
            _ => Error::io("open the file", path, e),
        })?;
        let most = usize::try_from(len).unwrap_or(CHUNK_BYTES).min(CHUNK_BYTES);
        let (mut buf, mut at, mut crc) = (vec![0; most], 0, Crc::default());
        while at < len {
            self.check_open()?;
            let wanted = (len - at).min(most as u64) as usize;
            let buf = &mut buf[..wanted];
            let got = file.read_at(buf, at);
            let got = got.map_err(|e| Error::io("read the file", path, e))?;
            if got < wanted {
                let what = format!("the file has {} bytes, not {len}", at + got as u64);
                return Err(Error::corruption(path, at + got as u64, what));
            }
            crc = crc.update(buf);
            chunk(buf)?;
            at += wanted as u64;
        }
        Ok(crc.raw())
    }
}

/// The length of a file and the CRC-32C of all of it.
pub(crate) fn checksum_of(vfs: &dyn Vfs, path: &Path) -> Result<(u64, u32)> {
    let len = vfs.len(path);
    let len = len.map_err(|e| Error::io("look at", path, e))?;
    let copier = Copier { vfs, of: None };
    Ok((len, copier.checksum(path, len)?))
}
