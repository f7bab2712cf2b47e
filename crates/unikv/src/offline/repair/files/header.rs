//! The headers of files that may be damaged, and the names of files in the report.
//!
//! No locks; nothing is written.

use crate::base::file_header::{FileHeader, FileKind, HEADER_LEN, RawHeader};
use crate::base::keys::{FileNumber, FileUid};
use crate::error::{Error, ErrorKind, Result};
use crate::vfs::{Access, Env};
use std::path::Path;

/// The header of a file as it stands there; `None` if it has none.
pub(crate) struct Header {
    pub(crate) raw: RawHeader,
    /// One bit of it was flipped, and is mended here.
    pub(crate) is_mended: bool,
    bytes: [u8; HEADER_LEN],
}

impl Header {
    /// The uid in it, if it is that of file `number`: see [`FileHeader::uid_of`].
    pub(crate) fn uid_of(&self, number: FileNumber) -> Option<FileUid> {
        FileHeader::uid_of(&self.bytes, number)
    }

    /// Whether it can be believed.
    pub(crate) fn is_whole(&self) -> bool {
        self.raw.has_magic && self.raw.checksum_fits
    }
}

/// The bytes of a file where its header stands, and how many of them there are.
pub(crate) fn beginning_of(env: &Env, path: &Path) -> Result<([u8; HEADER_LEN], usize)> {
    let io = |e| Error::io("read this file", path, e);
    let file = env.vfs.open(path, Access::Sequential).map_err(io)?;
    let mut bytes = [0; HEADER_LEN];
    let got = file.read_at(&mut bytes, 0).map_err(io)?;
    Ok((bytes, got))
}

/// Reads the header of a file. All checksums of the file hang on its uid, so where the header's own
/// does not fit, each of its bits is tried.
pub(crate) fn header_of(env: &Env, path: &Path) -> Result<Option<Header>> {
    let (bytes, got) = beginning_of(env, path)?;
    let Some(raw) = RawHeader::decode(bytes.get(..got).unwrap_or_default()) else {
        return Ok(None);
    };
    let is_mended = false;
    let header = Header {
        raw,
        is_mended,
        bytes,
    };
    if header.is_whole() {
        return Ok(Some(header));
    }
    for bit in 0..HEADER_LEN * 8 {
        let mut mended = bytes;
        mended[bit / 8] ^= 1 << (bit % 8);
        let raw = RawHeader::decode(&mended);
        let mended = raw.map(|raw| Header {
            raw,
            is_mended: true,
            bytes: mended,
        });
        if let Some(mended) = mended.filter(Header::is_whole) {
            return Ok(Some(mended));
        }
    }
    Ok(Some(header))
}

/// Refuses a file that a newer release has written: what it says must not be guessed.
pub(crate) fn refuse_newer(env: &Env, path: &Path, kind: FileKind) -> Result<()> {
    let (bytes, got) = beginning_of(env, path)?;
    let bytes = bytes.get(..got).unwrap_or_default();
    match FileHeader::decode(bytes, kind, None, path) {
        Err(error) if error.kind() == ErrorKind::Incompatible => Err(error),
        _ => Ok(()),
    }
}

/// The name of a file, for the report.
pub(crate) fn name_of(path: &Path) -> String {
    let name = path.file_name().map(|name| name.to_string_lossy());
    name.unwrap_or_default().into_owned()
}
