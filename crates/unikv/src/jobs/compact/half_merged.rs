//! Tables that some of their partitions have merged and others have not.
//!
//! What a partition has merged of a shared table is its own no more: key tables point into the file
//! as into a value log. But the file is no victim of garbage collection while another partition
//! finds its keys through it, so what dies in it stays until the last of them has merged. One that
//! is seldom written to would keep as many tables as a generation may have.

use crate::base::keys::FileNumber;
use crate::jobs::space::garbage::record_bytes;
use crate::record::RecordFile;
use crate::version::{Generation, Version};
use std::collections::HashMap;

/// What has been merged of the tables that are in UnsortedStores still.
pub(crate) struct HalfMerged {
    of: HashMap<FileNumber, Merged>,
}

/// What has been merged of one table.
pub(crate) struct Merged {
    /// Bytes of records.
    pub(crate) record_bytes: u64,
    /// Bytes of them that key tables point to.
    pub(crate) live_bytes: u64,
    /// Bytes of the key section and the footer.
    pub(crate) section_bytes: u64,
    /// Partitions that have it in their UnsortedStores.
    holders: u64,
}

impl Merged {
    fn of(file: &RecordFile, unmerged_bytes: u64, holders: u64, live_bytes: u64) -> Merged {
        let meta = file.meta();
        let whole = meta.referenced_bytes();
        let merged = whole.saturating_sub(unmerged_bytes);
        let part = |bytes: u64| {
            let bytes = u128::from(bytes) * u128::from(merged) / u128::from(whole.max(1));
            bytes as u64
        };
        let of_records = part(record_bytes(file));
        Merged {
            record_bytes: of_records,
            live_bytes: live_bytes.min(of_records),
            section_bytes: part(meta.len).saturating_sub(of_records),
            holders,
        }
    }

    /// Bytes of records that nobody needs and that garbage collection cannot reclaim yet.
    fn dead_bytes(&self) -> u64 {
        self.record_bytes - self.live_bytes
    }
}

impl HalfMerged {
    pub(crate) fn of(version: &Version) -> HalfMerged {
        let mut unmerged: HashMap<FileNumber, (u64, u64)> = HashMap::new();
        let generations = version.partitions().iter().flat_map(|p| &p.generations);
        for (_, table) in generations.flat_map(Generation::shares) {
            let (bytes, holders) = unmerged.entry(table.file.meta().number).or_default();
            *bytes += table.share().bytes;
            *holders += 1;
        }
        let live = version.live();
        let files = version.record_files().iter();
        let of = files.filter_map(|file| {
            let number = file.meta().number;
            let (bytes, holders) = *unmerged.get(&number)?;
            let live_bytes = live.get(&number).map_or(0, |live| live.bytes);
            Some((number, Merged::of(file, bytes, holders, live_bytes)))
        });
        HalfMerged { of: of.collect() }
    }

    /// What has been merged of a file, if it is a table of an UnsortedStore.
    pub(crate) fn of_table(&self, number: FileNumber) -> Option<&Merged> {
        self.of.get(&number)
    }

    /// Bytes of dead records that cannot be reclaimed yet.
    pub(crate) fn dead_bytes(&self) -> u64 {
        self.of.values().map(Merged::dead_bytes).sum()
    }

    /// The part of them for which a generation answers: each holder of a table keeps an equal one.
    pub(crate) fn kept_by(&self, generation: &Generation) -> u64 {
        let merged = generation
            .tables()
            .filter_map(|(_, table)| self.of_table(table.meta().number));
        merged.map(|m| m.dead_bytes() / m.holders.max(1)).sum()
    }
}
