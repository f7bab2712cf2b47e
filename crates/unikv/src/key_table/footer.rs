//! The fixed-size end of every record file and key table: where its parts are. See
//! `docs/format.md`, "Footer".
//!
//! ```text
//!  0  magic              8  "UniKVend"
//!  8  records end        8  = where the blocks begin
//! 16  blocks length      8
//! 24  index length       8  with its checksum; 0: the file has no key section
//! 32  properties length  8  with its checksum
//! 40  reserved           4  zero
//! 44  checksum           4  of bytes 0..44, bound to (uid, footer offset)
//! ```

use crate::base::checksum::bound;
use crate::base::coding::Decoder;
use crate::base::file_header::HEADER_LEN;
use crate::base::keys::FileUid;
use crate::error::{Error, Result};
use crate::vfs::file_store::DataFile;
use std::path::Path;

/// Length of the footer in bytes.
pub(crate) const FOOTER_LEN: usize = 48;

const MAGIC: [u8; 8] = *b"UniKVend";

/// The lengths of the parts of a file; each part begins where the one before it ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Footer {
    pub(crate) records_end: u64,
    pub(crate) blocks_len: u64,
    pub(crate) index_len: u64,
    pub(crate) properties_len: u64,
}

impl Footer {
    /// The footer's bytes for the file `uid`.
    pub(crate) fn encode(&self, uid: FileUid) -> [u8; FOOTER_LEN] {
        let mut out = [0; FOOTER_LEN];
        out[0..8].copy_from_slice(&MAGIC);
        out[8..16].copy_from_slice(&self.records_end.to_le_bytes());
        out[16..24].copy_from_slice(&self.blocks_len.to_le_bytes());
        out[24..32].copy_from_slice(&self.index_len.to_le_bytes());
        out[32..40].copy_from_slice(&self.properties_len.to_le_bytes());
        let offset = self.properties_end().unwrap_or(u64::MAX);
        let crc = bound(uid, offset, &out[..FOOTER_LEN - 4]);
        out[FOOTER_LEN - 4..].copy_from_slice(&crc.to_le_bytes());
        out
    }

    /// Reads the footer of a file of `file_len` bytes.
    pub(crate) fn read(file: &DataFile, file_len: u64) -> Result<Footer> {
        let offset = Footer::offset(file_len, file.path())?;
        let mut bytes = [0; FOOTER_LEN];
        file.read_exact_at(&mut bytes, offset)?;
        Footer::decode(&bytes, file.uid(), offset, file.path())
    }

    /// Where the footer of a file of `file_len` bytes stands.
    fn offset(file_len: u64, path: &Path) -> Result<u64> {
        let least = HEADER_LEN as u64;
        let offset = file_len
            .checked_sub(FOOTER_LEN as u64)
            .filter(|&offset| offset >= least);
        offset.ok_or_else(|| Error::corruption(path, 0, "the file is too short for its footer"))
    }

    /// Decodes and checks the footer that stands at `offset` of the file `uid`: its parts fill the
    /// file exactly.
    pub(crate) fn decode(
        bytes: &[u8; FOOTER_LEN],
        uid: FileUid,
        offset: u64,
        path: &Path,
    ) -> Result<Footer> {
        let bad = |what| Error::corruption(path, offset, what);
        let (body, crc) = bytes.split_at(FOOTER_LEN - 4);
        if crc != bound(uid, offset, body).to_le_bytes() {
            return Err(bad("the footer's checksum does not match"));
        }
        let malformed = || bad("the footer is malformed");
        let mut d = Decoder::new(body);
        let magic: [u8; 8] = d.array().ok_or_else(malformed)?;
        let footer = Footer {
            records_end: d.u64().ok_or_else(malformed)?,
            blocks_len: d.u64().ok_or_else(malformed)?,
            index_len: d.u64().ok_or_else(malformed)?,
            properties_len: d.u64().ok_or_else(malformed)?,
        };
        let reserved = d.u32().ok_or_else(malformed)?;
        let fills = footer.properties_end() == Some(offset);
        if magic != MAGIC || reserved != 0 || !fills || footer.records_end < HEADER_LEN as u64 {
            return Err(malformed());
        }
        Ok(footer)
    }

    /// Whether the file has a key section, be it an empty one.
    pub(crate) fn has_key_section(&self) -> bool {
        self.index_len != 0
    }

    /// Where the index begins.
    pub(crate) fn index_offset(&self) -> u64 {
        self.records_end + self.blocks_len
    }

    fn properties_end(&self) -> Option<u64> {
        let index = self.records_end.checked_add(self.blocks_len)?;
        index
            .checked_add(self.index_len)?
            .checked_add(self.properties_len)
    }
}
