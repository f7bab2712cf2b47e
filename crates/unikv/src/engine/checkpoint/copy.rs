//! Copies of files that do not change meanwhile, and their checksums.
//!
//! No locks.

use crate::base::checksum::Crc;
use crate::base::file_header::HEADER_LEN;
use crate::engine::core::Core;
use crate::error::{Error, Result};
use crate::vfs::file_store::DataFile;
use crate::vfs::{Access, Vfs, WriteMode};
use std::path::Path;

/// Bytes that are read at a time.
const CHUNK_BYTES: usize = 1 << 20;

/// Copies files.
#[derive(Clone, Copy)]
pub(crate) struct Copier<'a> {
    /// Where files are that are copied.
    pub(crate) from: &'a dyn Vfs,
    /// Where copies are made.
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
        let checksum = self.read((self.from, from), len, |bytes| {
            file.append(bytes).map_err(io)
        })?;
        file.finish().map_err(io)?;
        Ok(checksum)
    }

    /// As [`Copier::copy`], of a file that is open and may have lost its name.
    pub(crate) fn copy_open(&self, from: &DataFile, to: &Path, len: u64) -> Result<u32> {
        let io = |e| Error::io("write this copy", to, e);
        let mut file = self.vfs.create(to, WriteMode::Bulk, len).map_err(io)?;
        let read_at = |buf: &mut [u8], at| from.read_at(buf, at);
        let checksum = self.read_with(read_at, from.path(), len, |bytes| {
            file.append(bytes).map_err(io)
        })?;
        file.finish().map_err(io)?;
        Ok(checksum)
    }

    /// The CRC-32C of the first `len` bytes of a copy. Errors as [`Copier::copy`].
    pub(crate) fn checksum(&self, path: &Path, len: u64) -> Result<u32> {
        self.read((self.vfs, path), len, |_| Ok(()))
    }

    /// Whether the file at `path` is this open one: whether it begins alike, with the uid in its
    /// header, and has this length.
    pub(crate) fn is_same(&self, open: &DataFile, path: &Path, len: u64) -> Result<bool> {
        let io = |e| Error::io("look at", path, e);
        let file = self.vfs.open(path, Access::Random).map_err(io)?;
        let (mut own, mut found) = ([0; HEADER_LEN], [0; HEADER_LEN]);
        let got = (open.read_at(&mut own, 0)?, file.read_at(&mut found, 0));
        let got = (got.0, got.1.map_err(io)?);
        Ok(got == (HEADER_LEN, HEADER_LEN) && own == found && file.len().map_err(io)? == len)
    }

    pub(crate) fn check_open(&self) -> Result<()> {
        self.of.map_or(Ok(()), Core::check_open)
    }

    /// Reads the first `len` bytes of a file, and returns their CRC-32C.
    fn read(
        &self,
        (vfs, path): (&dyn Vfs, &Path),
        len: u64,
        chunk: impl FnMut(&[u8]) -> Result<()>,
    ) -> Result<u32> {
        let file = vfs.open(path, Access::Sequential);
        let file = file.map_err(|e| match e.kind() {
            std::io::ErrorKind::NotFound => Error::corruption(path, 0, "the file is missing"),
            _ => Error::io("open the file", path, e),
        })?;
        let read_at = |buf: &mut [u8], at| {
            let got = file.read_at(buf, at);
            got.map_err(|e| Error::io("read the file", path, e))
        };
        self.read_with(read_at, path, len, chunk)
    }

    fn read_with(
        &self,
        mut read_at: impl FnMut(&mut [u8], u64) -> Result<usize>,
        path: &Path,
        len: u64,
        mut chunk: impl FnMut(&[u8]) -> Result<()>,
    ) -> Result<u32> {
        let most = usize::try_from(len).unwrap_or(CHUNK_BYTES).min(CHUNK_BYTES);
        let (mut buf, mut at, mut crc) = (vec![0; most], 0, Crc::default());
        while at < len {
            self.check_open()?;
            let wanted = (len - at).min(most as u64) as usize;
            let buf = &mut buf[..wanted];
            let got = read_at(buf, at)?;
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
    let copier = Copier {
        from: vfs,
        vfs,
        of: None,
    };
    Ok((len, copier.checksum(path, len)?))
}
