//! The 96-byte header before every data file. See `docs/format.md`, "File header".
//!
//! Invariants: its checksum is bound to (uid, 0). A reader refuses a file with a required feature
//! that it does not know, and ignores optional ones. A file whose first bytes are lost, zeroed or
//! damaged is damaged and not foreign: its checksum finds that.
//!
//! No locks.

use super::checksum;
use super::coding::Decoder;
use super::keys::{DatabaseId, FileNumber, FileUid};
use crate::error::{Error, Result};
use std::path::Path;

/// Length of the header in bytes.
pub(crate) const HEADER_LEN: usize = 96;
/// The format version this code writes and the newest it reads.
pub(crate) const FORMAT_VERSION: u16 = 1;

/// A required feature of a key table: some of its blocks are compressed.
pub(crate) const BLOCK_CODECS: u64 = 1;

/// A required feature of a record file: some of its values are stored in chunks.
pub(crate) const CHUNKED_VALUES: u64 = 2;

/// Where the uid stands, and the number.
const UID: std::ops::Range<usize> = 48..56;
const NUMBER: std::ops::Range<usize> = 56..64;
const MAGIC: [u8; 8] = *b"UniKV\r\n\x1a";
const UPGRADE: &str = "open it with the newer release that wrote it";

/// What a file holds. The numbers are in the files and never change.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub(crate) enum FileKind {
    /// The pointer to the current manifest.
    Current = 1,
    /// The log of version edits.
    Manifest = 2,
    /// A segment of the write-ahead log.
    Wal = 3,
    /// Whole records, possibly with a key section after them.
    Record = 4,
    /// Sorted keys with pointers into record files.
    KeyTable = 5,
    /// What the read cache held.
    CacheHints = 6,
    /// The newest versions of a range.
    Export = 7,
    /// The page in which a writer says what is visible.
    Visible = 8,
}

/// The decoded header of a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct FileHeader {
    pub(crate) kind: FileKind,
    pub(crate) database: DatabaseId,
    pub(crate) uid: FileUid,
    pub(crate) number: FileNumber,
    /// What a reader must know to read the file.
    pub(crate) required: u64,
}

/// The fields of a header as they stand there, for a look at a file that may be damaged.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct RawHeader {
    pub(crate) has_magic: bool,
    pub(crate) kind: u8,
    pub(crate) checksum_algorithm: u8,
    pub(crate) format_version: u16,
    pub(crate) required_features: u64,
    pub(crate) optional_features: u64,
    pub(crate) database: DatabaseId,
    pub(crate) uid: FileUid,
    pub(crate) number: FileNumber,
    pub(crate) checksum_fits: bool,
}

impl RawHeader {
    /// The header before `bytes`; `None` if they are too few for one.
    pub(crate) fn decode(bytes: &[u8]) -> Option<RawHeader> {
        let bytes = bytes.get(..HEADER_LEN)?;
        let mut d = Decoder::new(bytes);
        let has_magic = d.array()? == MAGIC;
        let [kind, checksum_algorithm] = d.array()?;
        let format_version = d.u16()?;
        let _header_len = d.u32()?;
        let (required_features, optional_features) = (d.u64()?, d.u64()?);
        let database = DatabaseId(d.array()?);
        let (uid, number) = (FileUid(d.u64()?), FileNumber(d.u64()?));
        let (body, crc) = bytes.split_last_chunk::<4>()?;
        Some(RawHeader {
            has_magic,
            kind,
            checksum_algorithm,
            format_version,
            required_features,
            optional_features,
            database,
            uid,
            number,
            checksum_fits: u32::from_le_bytes(*crc) == checksum::bound(uid, 0, body),
        })
    }
}

impl FileHeader {
    /// Whether a file that begins with `bytes` was never one of ours. A file of ours whose first
    /// bytes are damaged, lost or zeroed is not foreign: that is for its checksum to find.
    pub(crate) fn looks_foreign(bytes: &[u8]) -> bool {
        let alike = bytes.iter().zip(&MAGIC).filter(|(a, b)| a == b).count();
        bytes.iter().any(|&byte| byte != 0) && 2 * alike < bytes.len().min(MAGIC.len())
    }

    /// The uid with which the checksum of a header fits, if all that is wrong with the header is
    /// one byte of its uid. What the file holds cannot be verified without its uid, but it can be
    /// tried out.
    pub(crate) fn uid_before_damage(bytes: &[u8]) -> Option<FileUid> {
        let (body, crc) = bytes.get(..HEADER_LEN)?.split_last_chunk::<4>()?;
        let mut body = body.to_vec();
        for at in UID {
            let found = *body.get(at)?;
            for byte in 0..=u8::MAX {
                *body.get_mut(at)? = byte;
                let uid = body.get(UID)?.first_chunk::<8>()?;
                let uid = FileUid(u64::from_le_bytes(*uid));
                if byte != found && u32::from_le_bytes(*crc) == checksum::bound(uid, 0, &body) {
                    return Some(uid);
                }
            }
            *body.get_mut(at)? = found;
        }
        None
    }

    /// The uid in the header of file `number`, of which the number may be damaged and nothing else;
    /// a header that bears its number may be damaged elsewhere. `None`: it may be another file's.
    pub(crate) fn uid_of(bytes: &[u8], number: FileNumber) -> Option<FileUid> {
        let raw = RawHeader::decode(bytes)?;
        if raw.number == number {
            return Some(raw.uid);
        }
        let mut bytes = bytes.get(..HEADER_LEN)?.to_vec();
        let place = bytes.get_mut(NUMBER)?;
        place.copy_from_slice(&number.0.to_le_bytes());
        RawHeader::decode(&bytes)?.checksum_fits.then_some(raw.uid)
    }

    /// The bytes of the header.
    pub(crate) fn encode(&self) -> [u8; HEADER_LEN] {
        let mut out = [0; HEADER_LEN];
        out[0..8].copy_from_slice(&MAGIC);
        out[8] = self.kind as u8;
        out[9] = checksum::ALGORITHM_CRC32C;
        out[10..12].copy_from_slice(&FORMAT_VERSION.to_le_bytes());
        out[12..16].copy_from_slice(&(HEADER_LEN as u32).to_le_bytes());
        out[16..24].copy_from_slice(&self.required.to_le_bytes());
        out[32..48].copy_from_slice(&self.database.0);
        out[UID].copy_from_slice(&self.uid.0.to_le_bytes());
        out[NUMBER].copy_from_slice(&self.number.0.to_le_bytes());
        let crc = checksum::bound(self.uid, 0, &out[..HEADER_LEN - 4]);
        out[HEADER_LEN - 4..].copy_from_slice(&crc.to_le_bytes());
        out
    }

    /// Decodes and checks the header of `path`, which must be of `kind` and, where given, belong
    /// to `database`.
    pub(crate) fn decode(
        bytes: &[u8],
        kind: FileKind,
        database: Option<DatabaseId>,
        path: &Path,
    ) -> Result<FileHeader> {
        let cut = || Error::corruption(path, 0, "the file is too short for its header");
        let bytes = bytes.get(..HEADER_LEN).ok_or_else(cut)?;
        let mut d = Decoder::new(bytes);
        let magic: [u8; 8] = d.array().ok_or_else(cut)?;
        let [found_kind, algorithm] = d.array().ok_or_else(cut)?;
        let version = d.u16().ok_or_else(cut)?;
        let header_len = d.u32().ok_or_else(cut)?;
        let required = d.u64().ok_or_else(cut)?;
        let _optional = d.u64().ok_or_else(cut)?;
        let found_database = DatabaseId(d.array().ok_or_else(cut)?);
        let uid = FileUid(d.u64().ok_or_else(cut)?);
        let number = FileNumber(d.u64().ok_or_else(cut)?);
        let encryption_key: [u8; 16] = d.array().ok_or_else(cut)?;
        d.bytes(12).ok_or_else(cut)?;
        let crc = d.u32().ok_or_else(cut)?;

        if crc != checksum::bound(uid, 0, &bytes[..HEADER_LEN - 4]) {
            return Err(Error::corruption(
                path,
                0,
                "the file header's checksum does not match",
            ));
        }
        if magic != MAGIC {
            let what = "this is not a UniKV file";
            return Err(Error::incompatible(
                path,
                what,
                "remove it from the directory",
            ));
        }
        if version == 0 {
            return Err(Error::corruption(path, 10, "there is no format version 0"));
        }
        if version > FORMAT_VERSION || header_len as usize != HEADER_LEN {
            let what = format!("format version {version} is newer than {FORMAT_VERSION}");
            return Err(Error::incompatible(path, what, UPGRADE));
        }
        if algorithm != checksum::ALGORITHM_CRC32C {
            let what = format!("checksum algorithm {algorithm} is unknown");
            return Err(Error::incompatible(path, what, UPGRADE));
        }
        let known = match found_kind {
            kind if kind == FileKind::KeyTable as u8 => BLOCK_CODECS,
            kind if kind == FileKind::Record as u8 => CHUNKED_VALUES,
            _ => 0,
        };
        if required & !known != 0 {
            let unknown = required & !known;
            let what = format!("required feature bits {unknown:#x} are unknown");
            return Err(Error::incompatible(path, what, UPGRADE));
        }
        if encryption_key != [0; 16] {
            let what = "the file is encrypted, which this version does not read";
            return Err(Error::incompatible(path, what, UPGRADE));
        }
        if found_kind != kind as u8 {
            let what = format!("file kind {found_kind} where {} was expected", kind as u8);
            return Err(Error::corruption(path, 8, what));
        }
        if database.is_some_and(|expected| expected != found_database) {
            let what = "the file belongs to another database";
            return Err(Error::incompatible(
                path,
                what,
                "put back this database's own file",
            ));
        }
        Ok(FileHeader {
            kind,
            database: found_database,
            uid,
            number,
            required,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::error::ErrorKind;

    fn header() -> FileHeader {
        FileHeader {
            kind: FileKind::Record,
            database: DatabaseId([7; 16]),
            uid: FileUid(0x1122_3344_5566_7788),
            number: FileNumber(42),
            required: 0,
        }
    }

    #[test]
    fn every_flipped_bit_is_refused() {
        let path = Path::new("000042.rec");
        let good = header().encode();
        let read = FileHeader::decode(&good, FileKind::Record, None, path).unwrap();
        assert_eq!(read, header());
        for bit in 0..good.len() * 8 {
            let mut bad = good;
            bad[bit / 8] ^= 1 << (bit % 8);
            assert!(
                FileHeader::decode(&bad, FileKind::Record, None, path).is_err(),
                "bit {bit}"
            );
        }
        assert!(FileHeader::decode(&good[..95], FileKind::Record, None, path).is_err());
    }

    /// A header with another byte at `at`, and the checksum that belongs to it.
    fn changed(at: usize, byte: u8) -> [u8; HEADER_LEN] {
        let mut bytes = header().encode();
        assert_ne!(bytes[at], byte);
        bytes[at] = byte;
        let crc = checksum::bound(header().uid, 0, &bytes[..HEADER_LEN - 4]);
        bytes[HEADER_LEN - 4..].copy_from_slice(&crc.to_le_bytes());
        bytes
    }

    #[test]
    fn what_a_newer_release_wrote_is_refused_with_file_and_remedy() {
        let path = Path::new("000042.rec");
        for (at, byte, what) in [
            (9, 0, "checksum algorithm 0 "),
            (9, 2, "checksum algorithm 2 "),
            (10, 2, "format version 2 is newer"),
            (11, 1, "format version 257 is newer"),
            (12, 97, "is newer"),
            (16, 1, "feature bits 0x1 "),
            (23, 0x80, "feature bits 0x8000000000000000 "),
            (64, 1, "encrypted"),
            (79, 0xff, "encrypted"),
        ] {
            let bytes = changed(at, byte);
            let err = FileHeader::decode(&bytes, FileKind::Record, None, path).unwrap_err();
            assert_eq!(err.kind(), ErrorKind::Incompatible, "{err}");
            assert_eq!((err.file(), err.remedy()), (Some(path), UPGRADE));
            assert!(err.to_string().contains(what), "{err}");
        }
        let foreign = changed(0, b'u');
        let err = FileHeader::decode(&foreign, FileKind::Record, None, path).unwrap_err();
        assert_eq!(err.kind(), ErrorKind::Incompatible, "{err}");
        assert_eq!(err.file(), Some(path));
        assert!(err.remedy().contains("remove it"), "{err}");
        // What a reader may ignore.
        for at in [24, 31, 80, 91] {
            let read = FileHeader::decode(&changed(at, 0xff), FileKind::Record, None, path);
            assert_eq!(read.unwrap(), header());
        }
    }

    #[test]
    fn a_header_that_contradicts_itself_and_a_foreign_file_differ() {
        let path = Path::new("000042.rec");
        let err = FileHeader::decode(&changed(10, 0), FileKind::Record, None, path).unwrap_err();
        assert_eq!(
            (err.kind(), err.offset()),
            (ErrorKind::Corruption, Some(10))
        );

        let good = header().encode();
        let err = FileHeader::decode(&good, FileKind::KeyTable, None, path).unwrap_err();
        assert_eq!((err.kind(), err.offset()), (ErrorKind::Corruption, Some(8)));
        let other = Some(DatabaseId([8; 16]));
        let err = FileHeader::decode(&good, FileKind::Record, other, path).unwrap_err();
        assert_eq!(err.kind(), ErrorKind::Incompatible);
    }

    #[test]
    fn a_damaged_header_of_ours_is_not_foreign() {
        for ours in [&b""[..], b"Uni\0V\r\0\0", b"Un", &[0; 8]] {
            assert!(!FileHeader::looks_foreign(ours), "{ours:?}");
        }
        for foreign in [&b"MANIFEST"[..], b"{}", &[0xff; 8]] {
            assert!(FileHeader::looks_foreign(foreign), "{foreign:?}");
        }
    }
}
