//! What must hold of a record that a pointer leads to.

use crate::base::keys::{Kind, SeqNo};
use crate::error::{Error, Result};
use crate::key_table::RecordPointer;
use crate::record::frame::Record;
use crate::record::meta::UNNUMBERED;
use std::path::Path;

/// A pointer to a file that the version does not list.
pub(crate) fn dangling(path: &Path, pointer: RecordPointer) -> Error {
    let what = format!(
        "a pointer names record file {}, which is not listed",
        pointer.file.0
    );
    Error::corruption(path, 0, what)
}

/// Refuses a record that is not the one its pointer was made for, which has `key`, `seq` and
/// `kind`.
pub(crate) fn check_pointed(
    record: &Record,
    expected: (&[u8], SeqNo, Kind),
    path: &Path,
    pointer: RecordPointer,
) -> Result<()> {
    let found = (record.key(), record.seq(), record.kind());
    check_found(found, expected, path, pointer)
}

/// The same, of a record that is not in memory whole. The record of a large value has no sequence
/// number of its own.
pub(crate) fn check_found(
    (key, seq, kind): (&[u8], SeqNo, Kind),
    expected: (&[u8], SeqNo, Kind),
    path: &Path,
    pointer: RecordPointer,
) -> Result<()> {
    let is_numbered = seq == expected.1 || (seq == UNNUMBERED && kind == Kind::Put);
    if key == expected.0 && is_numbered && kind == expected.2 {
        return Ok(());
    }
    let what = "the record is not the one its pointer was made for";
    Err(Error::corruption(path, pointer.offset, what))
}
