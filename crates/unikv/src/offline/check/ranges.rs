//! The range tombstones of a record file, and what the manifest says of them.

use super::summary::{Summary, disagree};
use crate::error::Result;
use crate::key_table::range_section::RangeSection;
use crate::record::RecordFile;
use std::sync::Arc;

/// Reads them, compares them with the manifest, and adds their numbers to what was found. How many
/// they are.
pub(super) fn compare(file: &Arc<RecordFile>, found: &mut Summary) -> Result<u64> {
    let tombstones = file.range_tombstones()?;
    let listed = &file.meta().ranges;
    let begun = listed.as_ref().map(|l| RangeSection::begin(l.offset));
    let section = begun.map(|mut section| {
        tombstones.iter().for_each(|t| section.add(t.as_ref()));
        section
    });
    disagree(section == *listed, file.path())?;
    tombstones.iter().for_each(|t| found.add_seq(t.seq));
    Ok(tombstones.len() as u64)
}
