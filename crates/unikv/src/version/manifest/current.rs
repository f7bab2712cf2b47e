//! The bytes of `CURRENT`. See `docs/format.md`, "CURRENT". And manifests that are complete when
//! they become current.

use super::{Manifest, replace_current};
use crate::base::checksum;
use crate::base::coding::Decoder;
use crate::base::file_header::{FileHeader, FileKind, HEADER_LEN};
use crate::base::keys::{DatabaseId, FileNumber, FileUid};
use crate::error::{Error, Result};
use crate::version::edit::VersionEdit;
use crate::vfs::file_store::FileStore;
use std::path::Path;

impl Manifest {
    /// Writes a manifest that holds `snapshot` and nothing else, ever, and makes it current: all
    /// its bytes are durable then.
    pub(crate) fn create_complete(
        store: &FileStore,
        number: FileNumber,
        snapshot: VersionEdit,
    ) -> Result<()> {
        drop(Manifest::write(store, number, snapshot)?);
        replace_current(store)
    }
}

/// Length of `CURRENT`: header, manifest number, manifest uid, checksum.
pub(super) const CURRENT_LEN: usize = HEADER_LEN + 8 + 8 + 4;

/// What `CURRENT` names.
pub(crate) struct Current {
    pub(crate) database: DatabaseId,
    pub(crate) number: FileNumber,
    pub(crate) uid: FileUid,
}

pub(super) fn encode_current(
    database: DatabaseId,
    number: FileNumber,
    uid: FileUid,
    own: FileUid,
) -> Vec<u8> {
    let header = FileHeader {
        kind: FileKind::Current,
        database,
        uid: own,
        number,
        required: 0,
    };
    let mut out = Vec::with_capacity(CURRENT_LEN);
    out.extend_from_slice(&header.encode());
    out.extend_from_slice(&number.0.to_le_bytes());
    out.extend_from_slice(&uid.0.to_le_bytes());
    let crc = checksum::bound(own, HEADER_LEN as u64, &out[HEADER_LEN..]);
    out.extend_from_slice(&crc.to_le_bytes());
    out
}

pub(crate) fn decode_current(bytes: &[u8], path: &Path) -> Result<Current> {
    let header = FileHeader::decode(bytes, FileKind::Current, None, path)?;
    let offset = HEADER_LEN as u64;
    let wrong = || Error::corruption(path, offset, "CURRENT has a wrong length");
    let body = bytes.get(HEADER_LEN..CURRENT_LEN).ok_or_else(wrong)?;
    if bytes.len() != CURRENT_LEN {
        return Err(wrong());
    }
    let mut d = Decoder::new(body);
    let number = FileNumber(d.u64().ok_or_else(wrong)?);
    let uid = FileUid(d.u64().ok_or_else(wrong)?);
    let crc = d.u32().ok_or_else(wrong)?;
    if crc != checksum::bound(header.uid, offset, &body[..16]) {
        return Err(Error::corruption(
            path,
            offset,
            "the checksum of CURRENT does not match",
        ));
    }
    Ok(Current {
        database: header.database,
        number,
        uid,
    })
}
