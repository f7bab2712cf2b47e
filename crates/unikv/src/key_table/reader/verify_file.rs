//! Verifying a listed file, of whatever kind, as a whole.

use crate::base::checksum::Crc;
use crate::error::{Error, Result};
use crate::vfs::file_store::DataFile;

/// How much is read at a time.
const VERIFY_BYTES: usize = 1 << 20;

/// Reads a listed file from front to back: it has `len` bytes whose CRC-32C is `checksum`.
pub(crate) fn verify_file(file: &DataFile, len: u64, checksum: u32) -> Result<()> {
    let mut buffer = vec![0; VERIFY_BYTES.min(usize::try_from(len).unwrap_or(VERIFY_BYTES))];
    let (mut crc, mut offset) = (Crc::default(), 0);
    while offset < len {
        let part = (len - offset).min(buffer.len() as u64) as usize;
        file.read_exact_at(&mut buffer[..part], offset)?;
        crc = crc.update(&buffer[..part]);
        offset += part as u64;
    }
    if crc.raw() != checksum {
        let what = "the checksum of the whole file does not match";
        return Err(Error::corruption(file.path(), 0, what));
    }
    if file.read_at(&mut [0; 1], len)? != 0 {
        return Err(Error::corruption(
            file.path(),
            len,
            "the file is longer than it was written",
        ));
    }
    Ok(())
}
