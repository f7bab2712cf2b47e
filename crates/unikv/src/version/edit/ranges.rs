//! What an edit says of the range tombstones of a record file.

use super::super::tagged::{FieldWriter, Fields};
use super::compression;
use crate::error::Result;
use crate::key_table::range_section::RangeSection;

/// The tag within a record file.
pub(super) const RANGES: u16 = compression::LAST + 1;

pub(super) fn put(out: &mut FieldWriter, ranges: Option<&RangeSection>) {
    if let Some(ranges) = ranges {
        out.put(RANGES, &ranges.encode());
    }
}

pub(super) fn of(f: &Fields<'_>) -> Result<Option<RangeSection>> {
    let Some(bytes) = f.bytes(RANGES)? else {
        return Ok(None);
    };
    let ranges = RangeSection::decode(bytes);
    let ranges = ranges.ok_or_else(|| f.corrupt(RANGES, "is malformed"))?;
    Ok(Some(ranges))
}
