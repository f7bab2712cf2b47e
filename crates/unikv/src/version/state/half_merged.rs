//! Tables that some of their partitions have merged and others have not.
//!
//! What a partition has merged of a shared table is its own no more: key tables point into the file
//! as into a value log. But the file is no victim of garbage collection while another partition
//! finds its keys through it, so what dies in it stays until the last of them has merged. One that
//! is seldom written to would keep as many tables as a generation may have.

use crate::record::RecordFileMeta;
use crate::version::{Generation, Version};

/// What has been merged of one table.
pub(crate) struct Merged {
    /// Bytes of records.
    pub(crate) record_bytes: u64,
    /// Bytes of them that key tables point to.
    pub(crate) live_bytes: u64,
    /// Bytes of the key section and the footer.
    pub(crate) section_bytes: u64,
    /// Its places in UnsortedStores.
    places: u64,
}

impl Merged {
    pub(super) fn of(
        table: &RecordFileMeta,
        unmerged_bytes: u64,
        live_bytes: u64,
        places: u64,
    ) -> Merged {
        let whole = table.referenced_bytes();
        let merged = whole.saturating_sub(unmerged_bytes);
        let part = |bytes: u64| {
            let bytes = u128::from(bytes) * u128::from(merged) / u128::from(whole.max(1));
            bytes as u64
        };
        let of_records = part(table.record_bytes());
        Merged {
            record_bytes: of_records,
            live_bytes: live_bytes.min(of_records),
            section_bytes: part(table.len).saturating_sub(of_records),
            places,
        }
    }

    /// Bytes of records that nobody needs and that garbage collection cannot reclaim yet.
    pub(crate) fn dead_bytes(&self) -> u64 {
        self.record_bytes - self.live_bytes
    }
}

impl Version {
    /// Bytes of dead records in half-merged tables for which a generation answers: each place of a
    /// table keeps an equal part.
    pub(crate) fn kept_by(&self, generation: &Generation) -> u64 {
        let tables = generation.tables();
        let listed = tables.filter_map(|(_, table)| self.record_files().get(table.meta().number));
        let merged = listed.filter_map(|listed| listed.merged());
        merged.map(|m| m.dead_bytes() / m.places.max(1)).sum()
    }
}

/// The part of a file at which its key section makes it worth a pass.
const SECTION_PART: u64 = 16;

/// Bytes of a value log's key section and footer, if they are worth a pass that leaves them out.
/// Where keys are long beside their values the section takes as much as the garbage that is
/// allowed.
pub(crate) fn section_worth_a_pass(file: &RecordFileMeta) -> u64 {
    let bytes = file.len.saturating_sub(file.record_bytes());
    if file.key_section && bytes > file.len / SECTION_PART {
        bytes
    } else {
        0
    }
}
