//! Point lookups in a partition's SortedStore (paper §III-C).
//!
//! One key block finds or refutes a key; its value is in the block or one record read away. What a
//! pointer leads to is compared with the key and the sequence number that pointed there, so that a
//! wrong pointer is an error and never foreign bytes.
//!
//! Of keys whose records are in the read cache, the cache also knows which record the block points to
//! (see `key_table::hints`). Then only the table that holds the key is sought.

use crate::base::keys::{Kind, SeqNo};
use crate::error::{Error, Result};
use crate::key_table::{KeyTable, OwnedValue, RecordPointer};
use crate::record::{Record, RecordFile, UNNUMBERED};
use crate::version::{Partition, Version};
use bytes::Bytes;
use std::path::Path;

/// The value of the newest version of `key`, which has this hash, at or below `snapshot`; `None` if that
/// is a tombstone.
pub(crate) fn get(
    version: &Version,
    partition: &Partition,
    key: &[u8],
    hash: u64,
    snapshot: SeqNo,
) -> Result<Option<Bytes>> {
    let Some(table) = partition.key_table_for(key) else {
        return Ok(None);
    };
    if let Some(record) = by_hint(version, table, key, hash, snapshot) {
        return Ok(Some(record.into_value()));
    }
    let Some(entry) = table.get(key, snapshot)? else {
        return Ok(None);
    };
    let value = match entry.value {
        OwnedValue::None => None,
        OwnedValue::Inline(value) => Some(value),
        OwnedValue::Pointer(pointer) => {
            let file = version.record_file(pointer.file);
            let file = file.ok_or_else(|| dangling(table.path(), pointer))?;
            let cached = file.get_cached(pointer);
            let is_cached = cached.is_some();
            let record = cached.map_or_else(|| file.read_and_keep(pointer), Ok)?;
            verify(&record, key, entry.seq, file.path(), pointer)?;
            // It is the newest version of its key in the table.
            if is_cached && snapshot >= table.meta().max_seq && record.seq() == entry.seq {
                table.section().note_hint(hash, pointer);
            }
            Some(record.into_value())
        }
    };
    debug_assert!(value.is_some() || entry.kind == Kind::Delete);
    Ok(value)
}

/// The newest record of `key` in `table`, if it is in the read cache and a hint says where.
fn by_hint(
    version: &Version,
    table: &KeyTable,
    key: &[u8],
    hash: u64,
    snapshot: SeqNo,
) -> Option<Record> {
    let (file, offset) = hinted(version, table, hash)?;
    let record = file.cached(offset)?;
    // A key of the same hash, or a version that is too new: the block tells.
    let answers = record.key() == key && record.seq() <= snapshot && record.kind() == Kind::Put;
    answers.then_some(record)
}

/// In which file and where the record of a key with this hash is, if a hint says so.
pub(super) fn hinted<'a>(
    version: &'a Version,
    table: &KeyTable,
    hash: u64,
) -> Option<(&'a RecordFile, u64)> {
    let (file, offset) = table.section().hint(hash)?;
    Some((version.record_file(file)?, offset))
}

/// A pointer to a file that the version does not list.
pub(crate) fn dangling(path: &Path, pointer: RecordPointer) -> Error {
    let what = format!(
        "a pointer names record file {}, which is not listed",
        pointer.file.0
    );
    Error::corruption(path, 0, what)
}

/// Refuses a record that is not the one its pointer was made for. That of a large value has no
/// sequence number of its own.
pub(crate) fn verify(
    record: &Record,
    key: &[u8],
    seq: SeqNo,
    path: &Path,
    pointer: RecordPointer,
) -> Result<()> {
    let numbered = record.seq() == seq || record.seq() == UNNUMBERED;
    if record.key() == key && numbered && record.kind() == Kind::Put {
        return Ok(());
    }
    let what = "the record is not the one its pointer was made for";
    Err(Error::corruption(path, pointer.offset, what))
}
