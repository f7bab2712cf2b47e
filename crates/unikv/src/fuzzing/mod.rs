//! The door by which the fuzz targets in `fuzz/` reach decoders and readers that are private.
//!
//! It is there only in builds with `--cfg fuzzing`, and no ordinary build has that. It decides
//! nothing, owns nothing and holds no lock: each function forwards to a decoder, and where there is
//! one to the encoder of the same bytes. [`Files`] does the same for readers of whole files.

mod codecs;
mod figures;
mod files;

pub use codecs::{decode, encode};
pub use figures::{ManifestFigures, ReplayFigures};
pub use files::{Cursor, Entry, Facts, Files, Frame, Go, Keys, Place, Records};

use crate::base::checksum;
use crate::base::file_header::{FileHeader, FileKind, RawHeader};
use crate::base::file_names;
use crate::base::keys::{DatabaseId, FileUid};
use crate::engine::open::stored_options;
use crate::engine::stats::lifetime::LifetimeStats;
use crate::error::{Error, Result};
use crate::key_table::hints::chunk;
use crate::log::WalWrite;
use crate::log::wal::{BadPayload, SegmentStart};
use crate::memtable::{Batch, OpsIter};
use crate::options::Options;
use crate::record::External;
use crate::version::edit::VersionEdit;
use crate::version::manifest;
use std::path::Path;

/// The path that errors name where bytes stand in no file.
pub const NO_FILE: &str = "/fuzzed";

/// The checksum of bytes at `offset` of the file `uid`.
pub fn checksum(uid: u64, offset: u64, bytes: &[u8]) -> u32 {
    checksum::bound(FileUid(uid), offset, bytes)
}

/// The CRC-32C that is bound to no place.
pub fn plain_checksum(bytes: &[u8]) -> u32 {
    checksum::Crc::default().update(bytes).raw()
}

/// A name of ours as it is spelled, and its number.
pub fn file_name(name: &str) -> Option<(String, Option<u64>)> {
    let parsed = file_names::parse(name)?;
    Some((parsed.to_string(), parsed.number().map(|n| n.0)))
}

/// Decodes a file header of the kind with this number and encodes it again.
pub fn file_header(bytes: &[u8], kind: u8, database: Option<[u8; 16]>) -> Result<[u8; 96]> {
    let kind = match kind {
        1 => FileKind::Current,
        2 => FileKind::Manifest,
        3 => FileKind::Wal,
        4 => FileKind::Record,
        5 => FileKind::KeyTable,
        6 => FileKind::CacheHints,
        7 => FileKind::Export,
        _ => FileKind::Visible,
    };
    let database = database.map(DatabaseId);
    FileHeader::decode(bytes, kind, database, Path::new(NO_FILE)).map(|header| header.encode())
}

/// Of a header that may be damaged: kind, uid, number, and whether magic and checksum are right.
pub fn raw_header(bytes: &[u8]) -> Option<(u8, u64, u64, bool)> {
    let raw = RawHeader::decode(bytes)?;
    let right = raw.has_magic && raw.checksum_fits;
    Some((raw.kind, raw.uid.0, raw.number.0, right))
}

/// Decodes a chunk of cache hints and encodes it again.
pub fn hints(bytes: &[u8]) -> Option<Vec<u8>> {
    chunk::decode(bytes).map(|hints| chunk::encode(&hints))
}

/// Decodes operations of a batch up to the first bad one and encodes them again. Behind them: how
/// many they are, and where the bad one begins.
pub fn operations(bytes: &[u8]) -> (Vec<u8>, usize, Option<usize>) {
    let mut batch = Batch::new();
    for op in OpsIter::new(bytes) {
        match op {
            Ok(op) => batch.push_op(&op),
            Err(bad) => return (batch.ops_bytes().to_vec(), batch.len(), Some(bad.offset)),
        }
    }
    (batch.ops_bytes().to_vec(), batch.len(), None)
}

/// The encoded operations of a batch.
pub fn batch_bytes(batch: &Batch) -> &[u8] {
    batch.ops_bytes()
}

/// Decodes the first record of a segment and encodes it again.
pub fn segment_start(payload: &[u8]) -> Result<Vec<u8>> {
    let start = SegmentStart::decode(payload).map_err(bad_payload)?;
    Ok(start.encode())
}

/// Decodes a write record and encodes it again; with the sequence number of its last operation.
pub fn wal_write(payload: &[u8]) -> Result<(Vec<u8>, u64)> {
    let write = WalWrite::decode(payload).map_err(bad_payload)?;
    Ok(([&write.prefix(), write.ops].concat(), write.last_seq().0))
}

fn bad_payload(bad: BadPayload) -> Error {
    bad.at(Path::new(NO_FILE), 0)
}

/// Decodes the place of a large value and encodes it again.
pub fn external(bytes: &[u8]) -> Option<[u8; 40]> {
    External::decode(bytes).map(|external| external.encode())
}

/// Decodes a version edit and encodes it again.
pub fn edit(bytes: &[u8]) -> Result<Vec<u8>> {
    VersionEdit::decode(bytes, Path::new(NO_FILE), 0).map(|edit| edit.encode())
}

/// Decodes stored options, resolves them and encodes them again.
pub fn options(bytes: &[u8]) -> Result<Vec<u8>> {
    let stored = stored_options::decode(bytes, Path::new(NO_FILE))?;
    let options = Options::default();
    options.resolve(&stored)?;
    Ok(stored_options::encode(&options.to_store(&stored)))
}

/// Decodes lifetime figures and encodes them again.
pub fn lifetime(bytes: &[u8]) -> Result<Vec<u8>> {
    LifetimeStats::decode(bytes, Path::new(NO_FILE)).map(|figures| figures.encode())
}

/// Decodes `CURRENT`: the database, and the number and uid of the manifest.
pub fn current(bytes: &[u8]) -> Result<([u8; 16], u64, u64)> {
    let current = manifest::decode_current(bytes, Path::new(NO_FILE))?;
    Ok((current.database.0, current.number.0, current.uid.0))
}
